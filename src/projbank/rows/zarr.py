"""Rows of a zarr array, read chunk by chunk, and what is read of a zarr store."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from projbank.extras import install
from projbank.integrity import DamageError, told
from projbank.rows.archives import LARGE
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
from projbank.rows.source import ALL, Floats, RowSource, as_floats

_BLOSC_HEAD = 16


class ZarrRows(ChunkedRows):
    """Rows of a zarr array, which is never turned into an array."""

    def __init__(self, array: Any) -> None:
        n_rows, _ = check_shape(array.shape, "a zarr array")
        super().__init__(array.shape, chunk_edges(n_rows, array.chunks[0]))
        self.dtype = array.dtype
        self._array = array

    def block(self, start: int, stop: int, columns: slice = ALL) -> Floats:
        with told(str(self._array.store_path), "zarr store"):
            return as_floats(self._array[start:stop, columns])


class BloscArray:
    """A zarr array of a folder whose chunks are looked at before Blosc, which follows damaged sizes, unpacks them."""

    def __init__(self, array: Any, folder: Path) -> None:
        self.shape, self.chunks, self.dtype, self.attrs = array.shape, array.chunks, array.dtype, array.attrs
        self.store_path = array.store_path
        self._array, self._folder = array, folder / array.path

    def __getitem__(self, key: Any) -> Any:
        slices = key if isinstance(key, tuple) else (key,)
        slices += (ALL,) * (len(self.shape) - len(slices))
        ranges = []
        for one, length, chunk in zip(slices, self.shape, self.chunks, strict=True):
            start, stop, _ = one.indices(length)
            ranges.append(range(start // chunk, -(-stop // chunk)))
        for place in itertools.product(*ranges):
            self._check(self._folder / self._array.metadata.encode_chunk_key(place))
        return self._array[key]

    def _check(self, path: Path) -> None:
        if not path.exists():  # a chunk of fill values
            return
        with open(path, "rb") as file:
            head, size = file.read(_BLOSC_HEAD), file.seek(0, 2)
        unpacked, block, packed = (int.from_bytes(head[at : at + 4], "little") for at in (4, 8, 12))
        if packed != size or block > unpacked or unpacked > LARGEST_CHUNK:
            raise DamageError(f"{path}: damaged chunk (its sizes are not those of the file).")


def zarr_rows(X: Any) -> RowSource:
    """Rows of an open array, sparse matrix or AnnData store."""
    return ZarrRows(X) if hasattr(X, "chunks") else group_rows(X, "a zarr group")


def is_zarr(path: Path) -> bool:
    """Whether a folder is a zarr store."""
    return any((path / name).exists() for name in ("zarr.json", ".zgroup", ".zarray"))


def open_zarr(
    path: Path, dataset: str | None, place: Place, choose: Callable[[list[str], dict[str, tuple[int, ...]]], str]
) -> RowSource:
    """Open an array or a sparse matrix of a zarr store, or the rows of an AnnData store; see `open_hdf5`."""
    try:
        import zarr
    except ImportError as error:
        raise ImportError(f"{path}: reading zarr needs zarr: {install('zarr')}.") from error

    def opened(name: str) -> Any:
        with told(path, "zarr store"):
            array = root[name]
            chunk = math.prod(array.chunks) * array.dtype.itemsize
        return _checked(path, array, chunk, name)

    with told(path, "zarr store"):
        root: Any = zarr.open(path, mode="r")
    if hasattr(root, "chunks"):
        place.refuse(path)
        return _checked(path, root, math.prod(root.chunks) * root.dtype.itemsize, path.name)
    if dataset is None and is_cells(root):
        return open_cells(root, path, place, opened)
    place.refuse(path)
    with told(path, "zarr store"):
        shapes: dict[str, tuple[int, ...]] = {}
        for name, item in root.members(max_depth=None):
            if hasattr(item, "chunks"):
                shapes[name] = item.shape
            elif sparse_kind(item):
                shapes[name] = tuple(item.attrs.get("shape", ()))
    return open_matrix(root, path, choose(list(shapes), shapes), opened)


def _checked(path: Path, array: Any, chunk: int, name: str) -> Any:
    if chunk > LARGEST_CHUNK:
        raise ValueError(f"{path}: {name!r} has chunks of {chunk:,} bytes; at most {LARGEST_CHUNK:,} are read.")
    folder = array.path
    if any(type(codec).__name__.startswith("Blosc") for codec in array.compressors):
        array = BloscArray(array, path)
    if len(array.shape) != 2:
        return array
    if math.prod(array.shape) * array.dtype.itemsize > LARGE:
        stored = sum(file.stat().st_size for file in (path / folder).rglob("*") if file.is_file())
        check_growth(path, name, math.prod(array.shape) * array.dtype.itemsize, stored)
    return ZarrRows(array)
