"""Rows of an HDF5 data set, and what is read of an HDF5 file."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from projbank.extras import install
from projbank.integrity import told
from projbank.rows.cells import (
    LARGEST_CHUNK,
    Place,
    check_growth,
    group_rows,
    is_cells,
    open_cells,
    open_matrix,
    sparse_kind,
)
from projbank.rows.chunked import ChunkedRows, check_shape, chunk_edges
from projbank.rows.source import ALL, BLOCK_BYTES, Floats, RowSource, as_floats
from projbank.threads import split_rows

_HEAP = b"GCOL\1\0\0\0"
_LOOKED_AT = 64 << 20
"""Bytes in which heaps are looked at; those of attributes stand near the beginning."""


class Hdf5Rows(ChunkedRows):
    """Rows of an h5py data set, which is never turned into an array; one in chunks is read chunk by chunk."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        self._name = str(dataset.file.filename)
        self.in_chunks = dataset.chunks is not None
        n_rows, _ = check_shape(dataset.shape, "an HDF5 data set")
        super().__init__(dataset.shape, chunk_edges(n_rows, dataset.chunks[0] if self.in_chunks else max(1, n_rows)))
        self.dtype = dataset.dtype

    def bounds(self, budget: int = BLOCK_BYTES) -> list[tuple[int, int]]:
        return (ChunkedRows if self.in_chunks else RowSource).bounds(self, budget)

    def block(self, start: int, stop: int, columns: slice = ALL) -> Floats:
        with told(self._name, "HDF5 file"):
            return as_floats(self._dataset[start:stop, columns])

    def take(self, ids: NDArray[np.integer], out: Floats, n_threads: int = 1) -> None:
        if self.in_chunks:
            super().take(ids, out, n_threads)
            return
        for start, stop in split_rows(len(ids), 8):
            with np.errstate(over="ignore"), told(self._name, "HDF5 file"):
                out[start:stop] = self._dataset[ids[start:stop]]


def hdf5_rows(X: Any) -> RowSource:
    """Rows of an open data set, sparse matrix or AnnData file."""
    return Hdf5Rows(X) if hasattr(X, "chunks") else group_rows(X, "an HDF5 group")


def open_hdf5(
    path: Path, dataset: str | None, place: Place, choose: Callable[[list[str], dict[str, tuple[int, ...]]], str]
) -> Any:
    """Open a data set or a sparse matrix of an HDF5 file, or the rows of an AnnData file.

    Links to other files are not followed, and numbers that stand in other files are not read.

    Parameters
    ----------
    path : the file
    dataset : name of what is opened; None: X of an AnnData file, or what `choose` says
    place : what is read of an AnnData file instead of X
    choose : gets the names and shapes of all matrices and data sets, and returns the name of the one to open
    """
    try:
        import h5py
    except ImportError as error:
        raise ImportError(f"{path}: reading HDF5 needs h5py: {install('hdf5')}.") from error
    shapes: dict[str, tuple[int, ...]] = {}

    def note(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and item.shape is not None:
            shapes[name] = item.shape
        elif isinstance(item, h5py.Group) and sparse_kind(item):
            shapes[name] = tuple(item.attrs.get("shape", item.attrs.get("h5sparse_shape", ())))

    def opened(name: str) -> Any:
        array = _checked(path, file, name)
        return Hdf5Rows(array) if len(array.shape) == 2 else array

    with told(path, "HDF5 file"):
        _check_heaps(path)
        file = h5py.File(path, "r")
        file.visititems(note)
        cells = dataset is None and is_cells(file)
    if cells:
        return open_cells(file, path, place, opened)
    place.refuse(path)
    name = choose(list(shapes), shapes)
    with told(path, "HDF5 file"):
        is_group = isinstance(file[name], h5py.Group)
    return open_matrix(file, path, name, opened) if is_group else _checked(path, file, name)


def _check_heaps(path: Path) -> None:
    """Raise where an object of a heap of texts has no end: HDF5's library would look for it for ever."""
    with open(path, "rb") as file:
        data = file.read(_LOOKED_AT)
        file_size = file.seek(0, 2)
    place = data.find(_HEAP)
    while place >= 0:
        size, at = int.from_bytes(data[place + 8 : place + 16], "little"), place + 16
        stop = min(place + size, len(data)) if size <= file_size else 0  # otherwise the letters are part of numbers
        while at + 16 <= stop:
            number, length = (int.from_bytes(data[at + a : at + b], "little") for a, b in ((0, 2), (8, 16)))
            if number == 0:  # what is free, up to the end
                if length == 0:
                    raise ValueError("a heap without end")
                break
            at += 16 + -(-length // 8) * 8
        place = data.find(_HEAP, place + 1)


def _checked(path: Path, file: Any, name: str) -> Any:
    """A data set that stands in this file, in chunks that fit into memory."""
    with told(path, "HDF5 file"):
        dataset = file[name]
        is_outside = bool(dataset.external) or dataset.is_virtual or dataset.file.filename != file.filename
        chunk = math.prod(dataset.chunks or ()) * dataset.dtype.itemsize
        size, stored = math.prod(dataset.shape) * dataset.dtype.itemsize, dataset.id.get_storage_size()
    if is_outside:
        raise ValueError(f"{path}: {name!r} stands in other files, which are not read.")
    if chunk > LARGEST_CHUNK:
        raise ValueError(f"{path}: {name!r} has chunks of {chunk:,} bytes; at most {LARGEST_CHUNK:,} are read.")
    if len(dataset.shape) == 2:
        check_growth(path, name, size, stored)
    return dataset
