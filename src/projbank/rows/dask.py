"""Rows of a Dask array: read block by block, and coded lazily."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from projbank.rows.chunked import ChunkedRows, check_shape
from projbank.rows.source import ALL, ArrayRows, Floats, RowSource, as_floats

_TAKEN_BYTES = 256 << 20
"""Bytes of chunks that rows are taken from at a time."""


class DaskRows(ChunkedRows):
    """Rows of a Dask array, whose blocks may be dense or scipy.sparse; they are computed as they are read."""

    is_lazy = True

    def __init__(self, array: Any) -> None:
        if np.isnan(array.shape).any():
            raise ValueError("X is a Dask array of unknown shape: call X.compute_chunk_sizes() first.")
        check_shape(array.shape, "a Dask array")
        super().__init__(array.shape, np.cumsum([0, *array.chunks[0]]))
        self._array = array

    def block(self, start: int, stop: int, columns: slice = ALL) -> Floats:
        return _dense(self._array[start:stop, columns].compute())

    def lazily(self, code: Callable[[RowSource], NDArray[Any]], width: int, dtype: DTypeLike, token: str) -> Any:
        """Return ``code`` of every block as a lazy Dask array (n, width); nothing is computed yet."""
        whole = self._array.rechunk({1: -1})
        return whole.map_blocks(
            _code_block,
            code,
            (width, dtype),
            dtype=dtype,
            chunks=(whole.chunks[0], (width,)),
            meta=np.empty((0, width), dtype),
            name=f"projbank-{token}-{whole.name}",
        )

    def take(self, ids: NDArray[np.integer], out: Floats, n_threads: int = 1) -> None:
        wanted = np.asarray(ids, np.int64)
        for start, stop in self.bounds(_TAKEN_BYTES):  # chunks that are asked for together are computed side by side
            first, last = np.searchsorted(wanted, [start, stop])
            if first < last:
                out[first:last] = _dense(self._array[wanted[first:last]].compute())


def dask_rows(X: Any) -> RowSource:
    """Rows of a Dask array; a Dask frame is refused."""
    if not hasattr(X, "map_blocks"):
        raise TypeError(
            f"X must be a Dask array. Got {type(X).__name__} of Dask; for a frame give X.to_dask_array(lengths=True)."
        )
    return DaskRows(X)


def _code_block(
    block: Any,
    code: Callable[[RowSource], NDArray[Any]],
    result: tuple[int, DTypeLike],
    block_info: dict[Any, Any] | None = None,
) -> NDArray[Any]:
    if not block.shape[0]:
        return np.empty((0, result[0]), result[1])
    first = block_info[0]["array-location"][0][0] if block_info else 0
    return code(ArrayRows(_dense(block), int(first)))


def _dense(block: Any) -> Floats:
    return as_floats(block.toarray() if sp.issparse(block) else block)
