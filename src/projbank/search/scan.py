"""Codes in blocks, and the k nearest of them to a batch of queries, or all within a distance, on any number of threads.

A block is what was added at a time or lies in one stretch of a file, with ids, texts and payload beside. Threads share
the scan of it out; the result never depends on how.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from projbank.threads import run_all, run_each, split_rows

if TYPE_CHECKING:
    from projbank.search.lists import Lists
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


class Texts:
    """Texts that lie one after another as UTF-8; text i is the bytes from offsets[i] to offsets[i + 1]."""

    def __init__(self, offsets: NDArray[np.int64], letters: NDArray[np.uint8]) -> None:
        self.offsets, self.letters = offsets, letters

    @classmethod
    def of(cls, texts: list[str] | Texts) -> Texts:
        """Lay texts out; those that already are stay where they are."""
        if isinstance(texts, Texts):
            return texts
        encoded = [text.encode("utf-8", "surrogateescape") for text in texts]
        offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
        return cls(offsets, np.frombuffer(b"".join(encoded), np.uint8))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> str:
        start, stop = int(self.offsets[row]), int(self.offsets[row + 1])
        return self.letters[start:stop].tobytes().decode("utf-8", "surrogateescape")

    def __iter__(self) -> Iterator[str]:
        return (self[row] for row in range(len(self)))


Column = list[str] | Texts
"""One text per code."""


class NewCodes(NamedTuple):
    """Checked codes, one id for each, and perhaps a text and a payload for each."""

    codes: NDArray[np.uint8]
    ids: NDArray[np.int64]
    names: Column | None = None
    payload: Column | None = None


class Part(NamedTuple):
    """Codes that lie together, one id for each (negative: does not count), and the rows to visit (None: all)."""

    codes: NDArray[np.uint8]
    ids: NDArray[np.int64]
    rows: NDArray[np.int64] | None = None

    @property
    def n_rows(self) -> int:
        """How many rows there are to visit."""
        return len(self.codes) if self.rows is None else len(self.rows)


class Block:
    """Codes with what belongs to them; rows that were removed stay in place and do not count.

    Parameters
    ----------
    content : NewCodes
        Used where it is, never written to.
    """

    def __init__(self, content: NewCodes) -> None:
        self._codes, self._ids, self.names, self.payload = content
        self._live = self._ids
        self._count = self.n_live = len(self._ids)
        self._owned = False
        self._order: NDArray[np.int64] | None = None
        self._consecutive: bool | None = None
        self.lists: Lists | None = None

    def __len__(self) -> int:
        return self._count

    @property
    def part(self) -> Part:
        """All codes as the scans take them, with ids of -1 for those that were removed."""
        return Part(self._codes[: self._count], self._live[: self._count])

    def live_rows(self) -> NDArray[np.int64]:
        """Rows that were not removed."""
        return np.flatnonzero(self._live[: self._count] >= 0)

    def content(self) -> NewCodes:
        """What was not removed; the arrays themselves where nothing was."""
        if self.n_live == self._count:
            return NewCodes(self._codes[: self._count], self._ids[: self._count], self.names, self.payload)
        rows = self.live_rows()
        return NewCodes(self._codes[rows], self._ids[rows], chosen(self.names, rows), chosen(self.payload, rows))

    def rows_of(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Row of each id, -1 where there is none."""
        live = self._live[: self._count]
        if self._count == 0:
            return np.full(len(ids), -1)
        if self._consecutive is None:
            self._consecutive = bool(live[0] >= 0 and np.all(live[1:] == live[:-1] + 1))
        if self._consecutive:
            rows = ids - live[0]
            return np.where((rows >= 0) & (rows < self._count), rows, -1)
        if self._order is None:
            self._order = np.argsort(live, kind="stable")
        places = np.minimum(np.searchsorted(live, ids, sorter=self._order), self._count - 1)
        rows = self._order[places]
        return np.where((live[rows] == ids) & (ids >= 0), rows, -1)

    def remove(self, rows: NDArray[np.int64]) -> None:
        """Let the given rows, which count until now, count no more."""
        if self._live is self._ids:
            self._live = self._ids.copy()
        self._live[rows] = -1
        self._order, self._consecutive = None, False
        self.n_live -= len(rows)

    def append(self, new: NewCodes) -> None:
        """Add codes to a block in memory; its buffers grow by half, so that many small adds stay cheap."""
        count, total = self._count, self._count + len(new.ids)
        if not self._owned or total > len(self._codes):
            room, removed = max(total, 3 * count // 2), self._live is not self._ids
            self._codes, self._ids = _grown(self._codes[:count], room), _grown(self._ids[:count], room)
            self._live = _grown(self._live[:count], room) if removed else self._ids
            self._owned = True
        self._codes[count:total] = new.codes
        self._ids[count:total] = self._live[count:total] = new.ids
        self.names = _joined(self.names, count, new.names, len(new.ids), "")
        self.payload = _joined(self.payload, count, new.payload, len(new.ids), "null")
        self._count, self._order, self._consecutive = total, None, None
        self.n_live += len(new.ids)


def chosen(column: Column | None, rows: NDArray[np.int64]) -> Column | None:
    """Texts of some rows, where there are texts."""
    return None if column is None else [column[row] for row in rows.tolist()]


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

    def one(*stretch: int) -> Any:
        room = 1024
        while True:
            found = np.empty(room, np.int64), np.empty(room, np.int32), np.empty(room, np.int64)
            count = hamming.scan_within(*stretch, points.ctypes.data, n_queries, n_bytes, most, *found)
            if count <= room:
                return [column[:count] for column in found]
            room = count

    rows = max(1, BLOCK_BYTES // n_bytes)
    calls = [call for part in parts for cut in split_rows(part.n_rows, rows) for call in _stretches([part], *cut)]
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
        signs, planes = queries.signs[q], queries.planes[q]
        for (codes, _, _), start, stop in zip(parts, starts[:-1], starts[1:], strict=True):
            places = np.flatnonzero((rows[q] >= start) & (rows[q] < stop))
            own = np.empty(len(places), dtype=np.int32)
            hamming.weighted_distances(
                codes.ctypes.data, codes.strides[0], rows[q, places] - start, signs.ctypes.data, planes.ctypes.data,
                *planes.shape, own,
            )  # fmt: skip
            distances[q, places] = own

    run_each(one, [(q,) for q in range(len(rows))], n_threads)
    return distances


def sort_pairs(distances: NDArray, ids: NDArray[np.int64], k: int) -> tuple[NDArray, NDArray[np.int64]]:
    """Keep the k smallest (distance, id) of each row, in order."""
    order = np.lexsort((ids, distances), axis=1)[:, :k]
    return np.take_along_axis(distances, order, axis=1), np.take_along_axis(ids, order, axis=1)


def without_empty(distances: NDArray[np.int32], ids: NDArray[np.int64], k: int) -> Nearest:
    """As `sort_pairs`, of heaps whose places without a code are marked as such."""
    best, found = sort_pairs(distances, ids, k)
    return np.where(found == _NO_ID, NOTHING, best), np.where(found == _NO_ID, -1, found)


def empty_heaps(n_queries: int, k: int, most: int) -> Nearest:
    """Heaps (n_queries, k) for the kernels, which put codes at a distance of at most `most` there."""
    return np.full((n_queries, k), most, np.int32), np.full((n_queries, k), _NO_ID, np.int64)


def _scan(
    parts: Sequence[Part], queries: NDArray[np.uint8], planes: NDArray[np.uint8], k: int, n_threads: int, most: int
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
        heaps = empty_heaps(len(points), min(kept, stop - start), most)
        addresses = points.ctypes.data, weights.ctypes.data
        for stretch in _stretches(parts, start, stop):
            hamming.scan(*stretch, *addresses, weights.shape[1], n_bytes, max(1, BLOCK_BYTES // n_bytes), *heaps)
        return heaps

    for first, last in split_rows(len(queries), max(1, HEAP_BYTES // (12 * kept * n_threads))):
        points, weights = np.ascontiguousarray(queries[first:last]), np.ascontiguousarray(planes[first:last])
        n_shares = max(1, min(n_threads, n_rows, n_rows * n_bytes * len(points) // BYTES_PER_THREAD))
        shares = split_rows(n_rows, -(-n_rows // n_shares))
        heaps = run_all(one_share, [(points, weights, *share) for share in shares], n_threads)
        best, ids = (np.concatenate(column, axis=1) for column in zip(*heaps, strict=True))
        distances[first:last, :kept], found[first:last, :kept] = without_empty(best, ids, kept)
    return distances, found


def _stretches(parts: Sequence[Part], start: int, stop: int) -> Iterator[tuple[int, int, int, int, int]]:
    """Rows start:stop of all parts one after another, as the kernels take consecutive rows of one part.

    Address of codes, bytes from row to row, addresses of ids and of the rows to visit (0: all), and their number.
    """
    for codes, ids, rows in parts:
        n_rows = len(codes) if rows is None else len(rows)
        first, last = max(0, start), min(stop, n_rows)
        if first < last and rows is not None:
            yield codes.ctypes.data, codes.strides[0], ids.ctypes.data, rows[first:].ctypes.data, last - first
        elif first < last:
            yield codes[first:].ctypes.data, codes.strides[0], ids[first:].ctypes.data, 0, last - first
        start, stop = start - n_rows, stop - n_rows


def _grown(array: NDArray[Any], length: int) -> NDArray[Any]:
    """The same rows in a longer buffer."""
    buffer = np.empty((length, *array.shape[1:]), array.dtype)
    buffer[: len(array)] = array
    return buffer


def _joined(old: Column | None, n_old: int, new: Column | None, n_new: int, default: str) -> Column | None:
    """Texts of old and new rows; a list is extended where it is."""
    if old is None and new is None:
        return None
    texts = old if isinstance(old, list) else ([default] * n_old if old is None else list(old))
    texts.extend([default] * n_new if new is None else new)
    return texts
