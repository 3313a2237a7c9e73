"""The k nearest codes of a batch of queries, or all within a distance, spread over threads: never dependent on how."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from projbank.threads import run_all, run_each, split_rows

if TYPE_CHECKING:
    from projbank.search.margins import WeightedQueries

BLOCK_BYTES = 128 << 10
"""Codes visited for all queries before the next ones: they stay in the second-level cache."""
HEAP_BYTES = 128 << 20
"""Bound of the memory for the heaps of all threads; larger batches of queries are cut."""
BYTES_PER_THREAD = 1 << 20
"""Bytes of codes to be compared that pay for one more thread."""
NOTHING = np.iinfo(np.int32).max
"""Distance in the places for which no code was found; the id there is -1."""
_NO_ID = np.iinfo(np.int64).max

Nearest = tuple[NDArray[np.int32], NDArray[np.int64]]
Within = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]


class Part(NamedTuple):
    """Codes that lie together, one id for each (negative: does not count), and the rows to visit (None: all)."""

    codes: NDArray[np.uint8]
    ids: NDArray[np.int64]
    rows: NDArray[np.int64] | None = None

    @property
    def n_rows(self) -> int:
        """How many rows there are to visit."""
        return len(self.codes) if self.rows is None else len(self.rows)


class _Stretch(NamedTuple):
    """Consecutive rows to visit of one part, as the kernels take them."""

    codes: int
    row_stride: int
    ids: int
    rows: int
    n_rows: int


def nearest(parts: Sequence[Part], queries: NDArray[np.uint8], k: int, n_threads: int, most: int = NOTHING) -> Nearest:
    """Hamming distances int32 and ids int64, both (n_queries, k), in the order of (distance, id).

    Where fewer than k codes are within distance `most`, the last places have id -1 and distance `NOTHING`.
    """
    no_planes = np.empty((len(queries), 0, queries.shape[1]), dtype=np.uint8)
    return _scan(parts, queries, no_planes, k, n_threads, most)


def nearest_weighted(parts: Sequence[Part], queries: WeightedQueries, k: int, n_threads: int) -> Nearest:
    """As `nearest`, by the sum of the weights of the bits that differ."""
    return _scan(parts, queries.signs, queries.planes, k, n_threads, NOTHING)


def within(parts: Sequence[Part], queries: NDArray[np.uint8], most: int, n_threads: int) -> Within:
    """All codes at a distance of at most `most`.

    Returns limits (n_queries + 1,), distances and ids: those of query q stand at limits[q]:limits[q + 1], in the order
    of (distance, id).
    """
    from projbank.kernels import hamming

    points = np.ascontiguousarray(queries)
    n_queries, n_bytes = points.shape

    def one(stretch: _Stretch) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]:
        room = 1024
        while True:
            found = np.empty(room, np.int64), np.empty(room, np.int32), np.empty(room, np.int64)
            count = hamming.scan_within(*stretch, points.ctypes.data, n_queries, n_bytes, most, *found)
            if count <= room:
                return found[0][:count], found[1][:count], found[2][:count]
            room = count

    rows = max(1, BLOCK_BYTES // n_bytes)
    calls = [
        (piece,) for part in parts for start, stop in split_rows(part.n_rows, rows) for piece in _cut(part, start, stop)
    ]
    pieces = list(run_all(one, calls, n_threads)) if n_queries else []
    if not pieces:
        return np.zeros(n_queries + 1, np.int64), np.empty(0, np.int32), np.empty(0, np.int64)
    numbers, distances, ids = (np.concatenate(column) for column in zip(*pieces, strict=True))
    order = np.lexsort((ids, distances, numbers))
    limits = np.searchsorted(numbers[order], np.arange(n_queries + 1))
    return limits.astype(np.int64), distances[order], ids[order]


def weighted_distances(
    parts: Sequence[Part], rows: NDArray[np.int64], queries: WeightedQueries, n_threads: int
) -> NDArray[np.int32]:
    """Weighted distances (n_queries, s) of each query to its own `rows` (n_queries, s), counted through all parts.

    Negative rows get the distance `NOTHING`.
    """
    from projbank.kernels import hamming

    distances = np.full(rows.shape, NOTHING, dtype=np.int32)
    starts = np.cumsum([0, *(len(part.codes) for part in parts)])

    def one(q: int) -> None:
        n_planes, n_bytes = queries.planes.shape[1:]
        signs, planes = queries.signs[q], queries.planes[q]
        for (codes, _, _), start, stop in zip(parts, starts[:-1], starts[1:], strict=True):
            places = np.flatnonzero((rows[q] >= start) & (rows[q] < stop))
            own = np.empty(len(places), dtype=np.int32)
            hamming.weighted_distances(
                codes.ctypes.data,
                codes.strides[0],
                rows[q, places] - start,
                signs.ctypes.data,
                planes.ctypes.data,
                n_planes,
                n_bytes,
                own,
            )
            distances[q, places] = own

    run_each(one, [(q,) for q in range(len(rows))], n_threads)
    return distances


def sort_pairs(distances: NDArray, ids: NDArray[np.int64], k: int) -> tuple[NDArray, NDArray[np.int64]]:
    """Keep the k smallest (distance, id) of each row, in order."""
    order = np.lexsort((ids, distances), axis=1)[:, :k]
    return np.take_along_axis(distances, order, axis=1), np.take_along_axis(ids, order, axis=1)


def _scan(
    parts: Sequence[Part],
    queries: NDArray[np.uint8],
    planes: NDArray[np.uint8],
    k: int,
    n_threads: int,
    most: int,
) -> Nearest:
    """Each thread fills heaps from its own share of the codes; the best of all heaps are the best of all codes."""
    from projbank.kernels import hamming

    n_rows, n_bytes = sum(part.n_rows for part in parts), queries.shape[1]
    kept = min(k, n_rows)
    distances = np.full((len(queries), k), NOTHING, dtype=np.int32)
    found = np.full((len(queries), k), -1, dtype=np.int64)
    if kept == 0:
        return distances, found

    def one_share(points: NDArray[np.uint8], weights: NDArray[np.uint8], start: int, stop: int) -> Nearest:
        best = np.full((len(points), min(kept, stop - start)), most, dtype=np.int32)
        ids = np.full(best.shape, _NO_ID, dtype=np.int64)
        for stretch in _stretches(parts, start, stop):
            hamming.scan(
                *stretch,
                points.ctypes.data,
                weights.ctypes.data,
                weights.shape[1],
                n_bytes,
                max(1, BLOCK_BYTES // n_bytes),
                best,
                ids,
            )
        return best, ids

    for first, last in split_rows(len(queries), max(1, HEAP_BYTES // (12 * kept * n_threads))):
        points, weights = np.ascontiguousarray(queries[first:last]), np.ascontiguousarray(planes[first:last])
        n_shares = max(1, min(n_threads, n_rows, n_rows * n_bytes * len(points) // BYTES_PER_THREAD))
        shares = split_rows(n_rows, -(-n_rows // n_shares))
        heaps = run_all(one_share, [(points, weights, *share) for share in shares], n_threads)
        best, ids = (np.concatenate(column, axis=1) for column in zip(*heaps, strict=True))
        best, ids = sort_pairs(best, ids, kept)
        distances[first:last, :kept] = np.where(ids == _NO_ID, NOTHING, best)
        found[first:last, :kept] = np.where(ids == _NO_ID, -1, ids)
    return distances, found


def _stretches(parts: Sequence[Part], start: int, stop: int) -> Iterator[_Stretch]:
    """Rows start:stop of all parts one after another, as stretches of single parts."""
    for part in parts:
        yield from _cut(part, max(0, start), min(stop, part.n_rows))
        start, stop = start - part.n_rows, stop - part.n_rows


def _cut(part: Part, start: int, stop: int) -> Iterator[_Stretch]:
    if start >= stop:
        return
    codes, ids, rows = part
    if rows is not None:
        yield _Stretch(codes.ctypes.data, codes.strides[0], ids.ctypes.data, rows[start:].ctypes.data, stop - start)
    else:
        yield _Stretch(codes[start:].ctypes.data, codes.strides[0], ids[start:].ctypes.data, 0, stop - start)
