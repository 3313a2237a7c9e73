"""Rows that are computed from other rows as they are read: chosen, scaled, normalised, stacked, folded, repeated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from projbank.rows.source import ALL, BLOCK_BYTES, Floats, RowSource, Statistics, as_rows, check_finite
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


class LogCounts(RowSource):
    """Counts scaled to the same sum in every row, then log(1 + x): what is usual for gene expression.

    Parameters
    ----------
    counts : (n, D), anything that can be read as rows; rows of zeros stay as they are
    target_sum : what a row's counts are scaled to
    """

    def __init__(self, counts: Any, target_sum: float = 1e4) -> None:
        self._rows = as_rows(counts)
        self._target_sum = target_sum
        self.shape, self.in_chunks = self._rows.shape, self._rows.in_chunks
        if self._rows.made_by is not None:
            self.made_by = f"log1p({target_sum:g}) of {self._rows.made_by}"

    def bounds(self, budget: int = BLOCK_BYTES) -> list[tuple[int, int]]:
        return self._rows.bounds(budget)

    def block(self, start: int, stop: int, columns: slice = ALL) -> Floats:
        return self._normalized(self._rows.block(start, stop), np.arange(start, stop))[:, columns]

    def take(self, ids: NDArray[np.integer], out: Floats, n_threads: int = 1) -> None:
        self._rows.take(ids, out, n_threads)
        for start, stop in split_rows(len(ids), 64):
            out[start:stop] = self._normalized(out[start:stop], ids[start:stop])

    def _normalized(self, counts: Floats, ids: NDArray[np.integer]) -> Floats:
        check_finite(counts, ids=np.asarray(ids, np.int64))
        if counts.size and counts.min() < 0:
            row = ids[np.argmax((counts < 0).any(axis=1))]
            raise ValueError(f"X has a negative value at row {row}: only counts can be normalised.")
        sums = counts.sum(axis=1, dtype=np.float64, keepdims=True)
        factors = np.divide(self._target_sum, sums, out=np.zeros_like(sums), where=sums > 0)
        scaled = counts * factors.astype(np.float32)
        return np.log1p(scaled, out=scaled)


class RowRange(RowSource):
    """Some consecutive rows; what is wrong with one is told with its number among all."""

    def __init__(self, rows: RowSource, start: int, stop: int) -> None:
        self._rows = rows
        self._start = start
        self.first, self.in_chunks = rows.first + start, rows.in_chunks
        self.shape = stop - start, rows.shape[1]

    def bounds(self, budget: int = BLOCK_BYTES) -> list[tuple[int, int]]:
        stop = self._start + self.shape[0]
        inside = [one for one in self._rows.bounds(budget) if one[0] < stop and self._start < one[1]]
        return [(max(0, low - self._start), min(stop, high) - self._start) for low, high in inside]

    def block(self, start: int, stop: int, columns: slice = ALL) -> Floats:
        return self._rows.block(self._start + start, self._start + stop, columns)

    def take(self, ids: NDArray[np.integer], out: Floats, n_threads: int = 1) -> None:
        self._rows.take(np.asarray(ids) + self._start, out, n_threads)


class ColumnRange(RowSource):
    """Some consecutive columns."""

    def __init__(self, rows: RowSource, first: int, last: int) -> None:
        self._rows = rows
        self._first = first
        self.shape = rows.shape[0], last - first

    def bounds(self, budget: int = BLOCK_BYTES) -> list[tuple[int, int]]:
        return self._rows.bounds(budget)

    def block(self, start: int, stop: int, columns: slice = ALL) -> Floats:
        first, last, _ = columns.indices(self.shape[1])
        return self._rows.block(start, stop, slice(self._first + first, self._first + last))


class StackedRows(RowSource):
    """Rows of several sources, one below the other: several files as one."""

    def __init__(self, parts: Sequence[Any], names: Sequence[str] | None = None) -> None:
        self._parts = [as_rows(part) for part in parts]
        names = names or [f"part {i}" for i in range(len(parts))]
        for part, name in zip(self._parts, names, strict=True):
            if part.shape[1] != self._parts[0].shape[1]:
                raise ValueError(
                    f"{name}: vectors have {part.shape[1]} dimensions, but those of {names[0]} have "
                    f"{self._parts[0].shape[1]}."
                )
        self._edges = np.cumsum([0, *(part.shape[0] for part in self._parts)]).tolist()
        self.in_chunks = any(part.in_chunks for part in self._parts)
        self.shape = self._edges[-1], self._parts[0].shape[1]

    def bounds(self, budget: int = BLOCK_BYTES) -> list[tuple[int, int]]:
        pieces = zip(self._parts, self._edges[:-1], strict=True)
        return [(edge + start, edge + stop) for part, edge in pieces for start, stop in part.bounds(budget)]

    def block(self, start: int, stop: int, columns: slice = ALL) -> Floats:
        blocks = [
            part.block(max(0, start - edge), min(part.shape[0], stop - edge), columns)
            for part, edge in zip(self._parts, self._edges[:-1], strict=True)
            if edge < stop and start < edge + part.shape[0]
        ]
        return blocks[0] if len(blocks) == 1 else np.concatenate(blocks)

    def take(self, ids: NDArray[np.integer], out: Floats, n_threads: int = 1) -> None:
        places = np.searchsorted(ids, self._edges).tolist()
        for part, edge, first, last in zip(self._parts, self._edges[:-1], places[:-1], places[1:], strict=True):
            if first < last:
                part.take(np.asarray(ids[first:last]) - edge, out[first:last], n_threads)


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


def standardised(rows: RowSource, standardize: bool) -> tuple[RowSource, Floats]:
    """Rows divided by the deviations of their dimensions, if asked for, and what they are divided by, (D,)."""
    deviations = rows.statistics().deviations
    if not standardize:
        return rows, np.ones(len(deviations), np.float32)
    scale = np.where(deviations > 0, deviations, 1.0).astype(np.float32)
    return ScaledRows(rows, scale), scale
