"""Rows that are computed from other rows as they are read: chosen, scaled, folded, repeated."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from projbank.rows.source import ALL, Floats, RowSource, Statistics
from projbank.threads import split_rows


class ChosenRows(RowSource):
    """Some of the rows, by their ascending ids."""

    def __init__(self, rows: RowSource, ids: NDArray[np.int64]) -> None:
        self.shape = len(ids), rows.shape[1]
        self._rows = rows
        self._ids = ids

    def block(self, start: int, stop: int, columns: slice = ALL) -> Floats:
        return self._rows.read(self._ids[start:stop])[:, columns]

    def take(self, ids: NDArray[np.integer], out: Floats, n_threads: int = 1) -> None:
        self._rows.take(self._ids[ids], out, n_threads)


class ScaledRows(RowSource):
    """Rows divided by a scale per column."""

    def __init__(self, rows: RowSource, scale: NDArray[np.floating]) -> None:
        self.shape = rows.shape
        self._rows = rows
        self._scale = scale.astype(np.float32)

    def block(self, start: int, stop: int, columns: slice = ALL) -> Floats:
        return self._rows.block(start, stop, columns) / self._scale[columns]

    def take(self, ids: NDArray[np.integer], out: Floats, n_threads: int = 1) -> None:
        self._rows.take(ids, out, n_threads)
        out /= self._scale

    def statistics(self, name: str = "X") -> Statistics:
        return Statistics(*(part / self._scale for part in self._rows.statistics(name)))


class FoldedRows(RowSource):
    """Rows with several dimensions added up to one, under random signs.

    Inner products of such rows are those of the rows on average, and differ from them by about
    |x| |y| / sqrt(dimensions). Dimensions that are added stand far from each other; the signs are the same every time.

    Parameters
    ----------
    rows : (n, D)
    most : dimensions to come down to, at most
    """

    def __init__(self, rows: RowSource, most: int) -> None:
        self._rows = rows
        self._times = -(-rows.shape[1] // most)
        self.shape = rows.shape[0], -(-rows.shape[1] // self._times)
        signs = np.random.default_rng(0).choice(np.array([-1, 1], np.float32), self._times * self.shape[1])
        self._signs = signs.reshape(self._times, -1)

    def block(self, start: int, stop: int, columns: slice = ALL) -> Floats:
        first, last, _ = columns.indices(self.shape[1])
        n_features = self._rows.shape[1]
        sums = np.zeros((len(range(self.shape[0])[start:stop]), last - first), np.float32)
        for signs, plane in zip(self._signs, range(0, n_features, self.shape[1]), strict=True):
            block = self._rows.block(start, stop, slice(plane + first, min(plane + last, n_features)))
            sums[:, : block.shape[1]] += block * signs[first : first + block.shape[1]]
        return sums

    def fold(self, vector: NDArray[np.float64]) -> NDArray[np.float64]:
        """Fold a vector (D,) alike."""
        longer = np.zeros(self._signs.shape)
        longer.reshape(-1)[: len(vector)] = vector
        return (longer * self._signs).sum(axis=0)


class RepeatedRows(RowSource):
    """Rows written several times, one copy behind the other.

    A soft bank, in which a dimension serves r groups, is a hard bank of the vectors written r times.
    """

    def __init__(self, rows: RowSource, times: int) -> None:
        self.shape = rows.shape[0], times * rows.shape[1]
        self._rows = rows
        self._times = times

    def block(self, start: int, stop: int, columns: slice = ALL) -> Floats:
        return np.tile(self._rows.block(start, stop), (1, self._times))[:, columns]

    def take(self, ids: NDArray[np.integer], out: Floats, n_threads: int = 1) -> None:
        for start, stop in split_rows(len(ids), 8):
            out[start:stop] = np.tile(self._rows.read(ids[start:stop]), (1, self._times))


def unit_scale(rows: RowSource, standardize: bool) -> Floats:
    """What every dimension is divided by before learning, (D,): its deviation, or 1."""
    deviations = rows.statistics().deviations
    if not standardize:
        return np.ones(len(deviations), np.float32)
    return np.where(deviations > 0, deviations, 1.0).astype(np.float32)
