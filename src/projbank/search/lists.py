"""Lists: codes sorted by the nearest of many centres, so that a search looks only where neighbours may be."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from projbank.bits import pack
from projbank.kernels import hamming_lists
from projbank.search.scan import NOTHING, Nearest, Part, empty_heaps, without_empty
from projbank.threads import run_each, split_rows

WORDS = 24
"""Words of a code that are compared first, eight codes at a time."""
CODES_PER_LIST, MOST_LISTS = 250, 65_536
SAMPLES_PER_LIST, ROUNDS = 30, 6
"""Codes that the centres are learnt from, and how often they move."""
EVERYTHING = 1 << 30
"""Larger than any distance."""
QUERIES_PER_CALL, TABLE_BYTES = 512, 64 << 20
"""Queries that visit the lists together, and the bound of the table of their distances to all centres."""


class Reach(NamedTuple):
    """How far a search looks.

    Attributes
    ----------
    lists : how much farther than the nearest centre another one may be
    slacks : how much farther the first words of a code may be than their share of the k-th distance, in each stage
    """

    lists: int
    slacks: tuple[float, ...]


class Lists:
    """Codes in the order of their lists, beside the block that holds them in the same order.

    Parameters
    ----------
    centres : uint8 (n_lists, n_bytes)
    row_starts : int64 (n_lists + 1,), rows of each list
    words : uint64 (n_groups, n_words, 8), the first words of the codes in groups of eight; lists begin with a new group
    reaches : dict
        How far to look for k neighbours, for some k.
    """

    def __init__(
        self,
        centres: NDArray[np.uint8],
        row_starts: NDArray[np.int64],
        words: NDArray[np.uint64],
        reaches: dict[int, Reach] | None = None,
    ) -> None:
        self.centres, self.row_starts, self.words = centres, row_starts, words
        self.reaches = reaches or {}

    @cached_property
    def group_starts(self) -> NDArray[np.int64]:
        """Groups of each list, (n_lists + 1,)."""
        return _group_starts(self.row_starts)

    @cached_property
    def centre_groups(self) -> NDArray[np.uint64]:
        """Whole centres in groups of eight."""
        return _one_list(self.centres)

    def reach_for(self, k: int) -> Reach | None:
        """How far to look for k neighbours; None if all codes must be looked at."""
        return next((self.reaches[size] for size in sorted(self.reaches) if size >= k), None)

    def labels(self, order: NDArray[np.int64]) -> NDArray[np.int64]:
        """List of each code, as they stood before they were put in `order`."""
        labels = np.empty_like(order)
        labels[order] = np.repeat(np.arange(len(self.centres)), np.diff(self.row_starts))
        return labels

    def apart(self, queries: NDArray[np.uint8]) -> NDArray[np.int32]:
        """Distances of all centres to queries that are padded to whole words, (n_lists, n_queries)."""
        groups = self.centre_groups
        distances = np.empty((len(self.centres), len(queries)), np.int32)
        hamming_lists.all_distances(
            groups.ctypes.data, len(self.centres), groups.shape[1], queries.ctypes.data, queries.strides[0],
            len(queries), distances, np.empty(8, np.int64),
        )  # fmt: skip
        return distances


def learn_centres(
    codes: NDArray[np.uint8], without: NDArray[np.int64], n_bits: int, seed: int, n_threads: int
) -> NDArray[np.uint8]:
    """Centres of codes, `without` some rows, by k-majority: a bit of a centre is the one most codes of its list have.

    A list that is left empty begins anew with a code of the sample.
    """
    rng = np.random.default_rng(seed)
    n_lists = min(MOST_LISTS, max(1, len(codes) // CODES_PER_LIST))
    rows = np.delete(np.arange(len(codes)), without)
    rows = np.sort(rng.choice(rows, min(len(rows), SAMPLES_PER_LIST * n_lists), replace=False))
    sample = np.ascontiguousarray(codes[rows])
    centres = sample[np.sort(rng.choice(len(sample), n_lists, replace=False))]
    for _ in range(ROUNDS):
        labels = nearest_centres(sample, centres, n_threads)
        sizes = np.bincount(labels, minlength=n_lists)
        counts = np.zeros((n_lists, n_bits), np.int32)
        hamming_lists.count_bits(sample, n_bits, labels, counts)
        majority, even = pack(2 * counts > sizes[:, None]), pack(2 * counts == sizes[:, None])
        centres = majority | (centres & even)
        empty = np.flatnonzero(sizes == 0)
        centres[empty] = sample[rng.choice(len(sample), len(empty), replace=False)]
    return centres


def nearest_centres(codes: NDArray[np.uint8], centres: NDArray[np.uint8], n_threads: int) -> NDArray[np.int32]:
    """Place of the nearest centre of each code, the first of equals."""
    groups = _one_list(centres)
    labels = np.empty(len(codes), np.int32)

    def one(start: int, stop: int) -> None:
        points = padded(codes[start:stop])
        hamming_lists.nearest_code(
            groups.ctypes.data, len(centres), groups.shape[1], points.ctypes.data, points.strides[0], len(points),
            labels[start:stop], np.empty(8, np.int64),
        )  # fmt: skip

    run_each(one, split_rows(len(codes), 4096), n_threads)
    return labels


def in_lists(codes: NDArray[np.uint8], centres: NDArray[np.uint8], n_threads: int) -> tuple[NDArray[np.int64], Lists]:
    """Return the order of the codes by list, and the lists of the codes once they are in that order."""
    labels = nearest_centres(codes, centres, n_threads)
    order = np.argsort(labels, kind="stable")
    starts = np.zeros(len(centres) + 1, np.int64)
    np.cumsum(np.bincount(labels, minlength=len(centres)), out=starts[1:])
    return order, Lists(centres, starts, _in_groups(codes, starts, order, WORDS))


def nearest_in_lists(
    part: Part, lists: Lists, queries: NDArray[np.uint8], k: int, reach: Reach, n_threads: int, most: int = NOTHING
) -> Nearest:
    """As `scan.nearest`, among the codes that the search visits; a query's result depends on nothing but itself."""
    distances, found = empty_heaps(len(queries), k, most)
    n_lists, n_bytes = lists.centres.shape
    stops = stages(n_bytes)
    slacks = np.array([*reach.slacks, 0.0])
    turns = np.array([[-EVERYTHING], [reach.lists // 4], [reach.lists]])  # near lists first: they tell what is far

    def one(start: int, stop: int) -> None:
        points = padded(queries[start:stop])
        apart = lists.apart(points)
        hamming_lists.scan_lists(
            lists.words.ctypes.data, lists.group_starts, lists.row_starts, lists.words.shape[1],
            part.codes.ctypes.data, part.codes.strides[0], part.ids.ctypes.data, points.ctypes.data,
            points.strides[0], stops, stops / n_bytes, slacks, apart, (apart.min(axis=0) + turns).astype(np.int32),
            distances[start:stop], found[start:stop],
        )  # fmt: skip

    at_once = min(QUERIES_PER_CALL, max(8, TABLE_BYTES // (4 * n_lists)), -(-len(queries) // n_threads))
    run_each(one, split_rows(len(queries), max(1, at_once)), n_threads)
    return without_empty(distances, found, k)


def stages(n_bytes: int) -> NDArray[np.int64]:
    """Bytes of a code that are compared by the end of each stage: the first words, then twice as many, at last all."""
    stops = [min(8 * WORDS, n_bytes)]
    while stops[-1] < n_bytes:
        stops.append(min(2 * stops[-1], n_bytes))
    return np.array(stops, np.int64)


def padded(codes: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Codes with zeros to whole words."""
    width = -(-codes.shape[1] // 8) * 8
    if codes.shape[1] == width:
        return np.ascontiguousarray(codes)
    wide = np.zeros((len(codes), width), np.uint8)
    wide[:, : codes.shape[1]] = codes
    return wide


def _group_starts(row_starts: NDArray[np.int64]) -> NDArray[np.int64]:
    starts = np.zeros(len(row_starts), np.int64)
    np.cumsum((np.diff(row_starts) + 7) // 8, out=starts[1:])
    return starts


def _one_list(codes: NDArray[np.uint8]) -> NDArray[np.uint64]:
    return _in_groups(codes, np.array([0, len(codes)]), np.arange(len(codes)), -(-codes.shape[1] // 8))


def _in_groups(
    codes: NDArray[np.uint8], row_starts: NDArray[np.int64], order: NDArray[np.int64], most_words: int
) -> NDArray[np.uint64]:
    """Put the first words of codes[order] in groups of eight, a list beginning at each of `row_starts`."""
    n_words = min(-(-codes.shape[1] // 8), most_words)
    starts = _group_starts(row_starts)
    places = np.repeat(8 * starts[:-1] - row_starts[:-1], np.diff(row_starts)) + np.arange(row_starts[-1])
    groups = np.zeros((int(starts[-1]), n_words, 8), np.uint64)
    for start, stop in split_rows(len(places), 65_536):
        words = padded(codes[order[start:stop], : 8 * n_words]).view(np.uint64)
        groups[places[start:stop] // 8, :, places[start:stop] % 8] = words
    return groups
