"""Rows of an HDF5 data set."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from projbank.integrity import DamageError
from projbank.rows.source import ALL, Floats, RowSource, as_floats
from projbank.threads import split_rows

LARGEST_CHUNK = 256 << 20
"""Bytes of a chunk, which is unpacked whole for a single row of it."""
_DAMAGE = (OSError, RuntimeError, KeyError, ValueError, TypeError, AttributeError, MemoryError, OverflowError)
"""What h5py raises where a file is not what it should be."""


class Hdf5Rows(RowSource):
    """Rows of an h5py data set, which is never turned into an array."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        self._name = str(dataset.file.filename)
        self.shape = dataset.shape

    def block(self, start: int, stop: int, columns: slice = ALL) -> Floats:
        with _told(self._name):
            return as_floats(self._dataset[start:stop, columns])

    def take(self, ids: NDArray[np.integer], out: Floats, n_threads: int = 1) -> None:
        for start, stop in split_rows(len(ids), 8):
            with np.errstate(over="ignore"), _told(self._name):
                out[start:stop] = self._dataset[ids[start:stop]]


def open_hdf5(path: Path, choose: Callable[[list[str], dict[str, tuple[int, ...]]], str]) -> Any:
    """Open a data set of an HDF5 file.

    Links to other files are not followed, and numbers that stand in other files are not read.

    Parameters
    ----------
    path : the file
    choose : gets the names and shapes of all data sets, and returns the name of the one to open
    """
    try:
        import h5py
    except ImportError as error:
        raise ImportError(f"{path}: reading HDF5 needs h5py: pip install projbank[hdf5]") from error
    shapes: dict[str, tuple[int, ...]] = {}

    def note(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and item.shape is not None:
            shapes[name] = item.shape

    with _told(str(path)):
        file = h5py.File(path, "r")
        file.visititems(note)
    name = choose(list(shapes), shapes)
    with _told(str(path)):
        dataset = file[name]
        is_outside = bool(dataset.external) or dataset.is_virtual
        chunk = math.prod(dataset.chunks or ()) * dataset.dtype.itemsize
    if is_outside:
        raise ValueError(f"{path}: {name!r} stands in other files, which are not read.")
    if chunk > LARGEST_CHUNK:
        raise ValueError(f"{path}: {name!r} has chunks of {chunk:,} bytes; at most {LARGEST_CHUNK:,} are read.")
    return dataset


@contextmanager
def _told(path: str) -> Iterator[None]:
    """Say in one line what h5py can't read."""
    try:
        yield
    except _DAMAGE as error:
        text = " ".join(str(error).split()) or type(error).__name__
        raise DamageError(f"{path}: damaged HDF5 file ({text:.200}).") from error
