"""Rows of storage that is read in whole chunks of rows: a pass reads each chunk once, a sample too."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from projbank.rows.source import BLOCK_BYTES, Floats, RowSource

_TALLEST = 8
"""Blocks, of the bytes asked for, up to which a chunk is read whole."""


class ChunkedRows(RowSource):
    """Rows that stand in chunks; a kind of storage implements `block`, and `_pick` where it can do better.

    Parameters
    ----------
    shape : (n, D)
    edges : (n_chunks + 1,) ascending ints from 0 to n: where chunks begin and end
    """

    in_chunks = True

    def __init__(self, shape: tuple[int, ...], edges: NDArray[np.integer]) -> None:
        self.shape = check_shape(shape, type(self).__name__)
        self._edges = np.unique(np.asarray(edges, np.int64))

    def bounds(self, budget: int = BLOCK_BYTES) -> list[tuple[int, int]]:
        """(start, stop) of blocks of whole chunks, each of at most `budget` bytes, or one chunk where it is larger.

        Chunks that are much larger are cut, for memory is dearer than to read them several times.
        """
        most = max(1, budget // (4 * max(1, self.shape[1])))
        found, start = [], 0
        while start < self.shape[0]:
            place = int(np.searchsorted(self._edges, start + most, side="right")) - 1
            stop = int(self._edges[place])
            if stop <= start:
                stop = int(self._edges[place + 1])
                if stop - start > _TALLEST * most:
                    stop = start + most
            found.append((start, stop))
            start = stop
        return found

    def take(self, ids: NDArray[np.integer], out: Floats, n_threads: int = 1) -> None:
        for first, last in self._runs(np.asarray(ids, np.int64)):
            out[first:last] = self._pick(np.asarray(ids[first:last], np.int64))

    def _runs(self, ids: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
        """(first, last) places of ids that stand in the same chunk."""
        places = np.searchsorted(ids, self._edges)
        for first, last in zip(places[:-1].tolist(), places[1:].tolist(), strict=True):
            if first < last:
                yield first, last

    def _pick(self, ids: NDArray[np.int64]) -> Floats:
        """Rows of ascending ids of one chunk."""
        out = np.empty((len(ids), self.shape[1]), np.float32)
        most = _TALLEST * max(1, BLOCK_BYTES // (4 * max(1, self.shape[1])))
        for window in np.split(ids, np.flatnonzero(np.diff((ids - ids[0]) // most)) + 1):
            places = slice(*np.searchsorted(ids, [window[0], window[-1] + 1]))
            out[places] = self.block(int(window[0]), int(window[-1]) + 1)[window - window[0]]
        return out


def chunk_edges(n_rows: int, rows_per_chunk: int) -> NDArray[np.int64]:
    """Edges of chunks of equal height; the last may be lower."""
    return np.append(np.arange(0, n_rows, max(1, rows_per_chunk)), n_rows)


def check_shape(shape: tuple[int, ...], what: str) -> tuple[int, int]:
    """Raise where rows are not those of a 2-D array."""
    if len(shape) != 2:
        raise ValueError(f"X must be 2-D, one vector per row. Got {what} of shape {tuple(shape)}.")
    return int(shape[0]), int(shape[1])
