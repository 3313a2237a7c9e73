"""Rows of a zarr array, read chunk by chunk."""

from __future__ import annotations

from typing import Any

from projbank.rows.chunked import ChunkedRows, check_shape, chunk_edges
from projbank.rows.source import ALL, Floats, RowSource, as_floats


class ZarrRows(ChunkedRows):
    """Rows of a zarr array, which is never turned into an array."""

    def __init__(self, array: Any) -> None:
        n_rows, _ = check_shape(array.shape, "a zarr array")
        super().__init__(array.shape, chunk_edges(n_rows, array.chunks[0]))
        self._array = array

    def block(self, start: int, stop: int, columns: slice = ALL) -> Floats:
        return as_floats(self._array[start:stop, columns])


def zarr_rows(X: Any) -> RowSource:
    """Rows of a zarr array; a group is refused."""
    if not hasattr(X, "chunks"):
        names = ", ".join(name for name, _ in X.arrays()) if hasattr(X, "arrays") else "unknown content"
        raise TypeError(f"X must be an array. Got a zarr group; give one of its arrays: {names or 'it has none'}.")
    return ZarrRows(X)
