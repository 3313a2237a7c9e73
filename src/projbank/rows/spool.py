"""Rows of storage that is read in whole chunks: those that learning needs are read once and kept at hand."""

from __future__ import annotations

import shutil
import tempfile

import numpy as np
from numpy.typing import NDArray

from projbank.progress import progress
from projbank.rows.source import ALL, BLOCK_BYTES, ArrayRows, Floats, RowSource

_PART_BYTES = 256 << 20
"""Bytes of chunks that are asked for at a time."""


class SpooledRows(RowSource):
    """Rows of which some are kept in a temporary file; others are read where they stand.

    Parameters
    ----------
    rows : where they stand; read in one pass
    ids : (k,) ascending ids of the rows that are kept
    """

    def __init__(self, rows: RowSource, ids: NDArray[np.int64], verbose: int = 0) -> None:
        self.shape, self.dtype, self.made_by, self.first = rows.shape, rows.dtype, rows.made_by, rows.first
        self._rows, self._ids = rows, ids
        size, free = 4 * len(ids) * rows.shape[1], shutil.disk_usage(tempfile.gettempdir()).free
        if size > free:
            raise OSError(
                f"learning keeps {size:,} bytes of rows in {tempfile.gettempdir()}, where {free:,} are free; set "
                "TMPDIR to a folder with more room, or learn from fewer rows."
            )
        with tempfile.TemporaryFile() as file, progress("reading", rows.shape[0], verbose) as advance:
            for start, stop in rows.bounds(_PART_BYTES):
                rows.read(ids[slice(*np.searchsorted(ids, [start, stop]))]).tofile(file)
                advance(stop - start)
            file.flush()
            self._kept = ArrayRows(np.memmap(file, np.float32, "r", shape=(len(ids), rows.shape[1])))

    def bounds(self, budget: int = BLOCK_BYTES) -> list[tuple[int, int]]:
        return self._rows.bounds(budget)

    def block(self, start: int, stop: int, columns: slice = ALL) -> Floats:
        low, high = np.searchsorted(self._ids, [start, stop]).tolist()
        if high - low == stop - start:
            return self._kept.block(low, high, columns)
        return self._rows.block(start, stop, columns)

    def take(self, ids: NDArray[np.integer], out: Floats, n_threads: int = 1) -> None:
        places = np.searchsorted(self._ids, ids)
        are_kept = self._ids[np.minimum(places, len(self._ids) - 1)] == ids
        if are_kept.all():
            self._kept.take(places, out, n_threads)
            return
        out[are_kept] = self._kept.read(places[are_kept], n_threads)
        out[~are_kept] = self._rows.read(np.asarray(ids)[~are_kept], n_threads)
