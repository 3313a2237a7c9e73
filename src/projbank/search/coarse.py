"""Less than a scan: blocks of codes in lists, and searches that look into the lists near a query.

How far a search must look to keep a recall is measured on the index's own codes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from projbank.search.lists import Lists, Reach, in_lists, learn_centres, nearest_in_lists, padded, stages
from projbank.search.scan import NOTHING, Block, Nearest, NewCodes, Part, chosen, nearest, sort_pairs

SEED = 0
SAMPLE = 1000
"""Codes that play the queries, at most a tenth of all."""
SIZES = (1, 10, 100, 1000)
"""Numbers of neighbours for which the reach is measured; a search uses that of the next larger one."""
SPENT, FOR_WORDS = 0.5, 0.25
"""Part of the permitted loss that is used; and the part of that for codes given up early, the rest being for lists that
are not visited."""
WIDER = 1.1
"""Lists are visited so much farther than the players need: queries may be less like the codes than codes each other."""
COPIES, JUMP = 600, 1 / 20
"""A jump of the distance by so much of the bits within so many neighbours marks what comes before as copies."""


def organised(content: NewCodes, n_bits: int, recall: float, n_threads: int) -> Block:
    """Return a block of the same codes in the order of lists, with what a search must visit to keep the recall."""
    codes, ids, names, payload = content
    players = draw_players(codes, SEED, n_threads)
    centres = learn_centres(codes, players.unseen(len(codes)), n_bits, SEED, n_threads)
    order, lists = in_lists(codes, centres, n_threads)
    lists.reaches = measure_reach(codes, lists, lists.labels(order), players, recall)
    codes = np.ascontiguousarray(codes[order])
    block = Block(NewCodes(codes, ids[order], chosen(names, order), chosen(payload, order)))
    block.lists = lists
    return block


def nearest_coarse(
    blocks: Sequence[Block], queries: NDArray[np.uint8], k: int, n_threads: int, most: int = NOTHING
) -> Nearest:
    """As `scan.nearest` over all blocks; those in lists are searched where neighbours may be.

    Queries for which that finds fewer than k codes are searched by a scan.
    """
    results, scanned = [], []
    for block in blocks:
        reach = None if block.lists is None else block.lists.reach_for(k)
        if block.lists is None or reach is None:
            scanned.append(block.part)
        else:
            results.append(nearest_in_lists(block.part, block.lists, queries, k, reach, n_threads, most))
    if scanned:
        results.append(nearest(scanned, queries, k, n_threads, most))
    distances, ids = (np.concatenate(columns, axis=1) for columns in zip(*results, strict=True))
    distances, ids = sort_pairs(distances, ids, k)
    lacking = np.flatnonzero(ids[:, -1] < 0) if most == NOTHING else np.empty(0, np.intp)
    if len(lacking):
        parts = [block.part for block in blocks]
        distances[lacking], ids[lacking] = nearest(parts, queries[lacking], k, n_threads)
    return distances, ids


class Players(NamedTuple):
    """Codes that play the queries, with their neighbours: distances and rows, (n_players, n_neighbours).

    A query itself does not count as its neighbour, and neither do copies of it: a new query has none. `firsts` are the
    ranks of the first neighbours that count.
    """

    points: NDArray[np.uint8]
    distances: NDArray[np.int32]
    rows: NDArray[np.int64]
    firsts: list[int]

    def unseen(self, n_codes: int) -> NDArray[np.int64]:
        """Rows that centres are learnt without: those of the players and their copies, if that leaves half of all."""
        copies = np.unique(np.concatenate([own[:first] for own, first in zip(self.rows, self.firsts, strict=True)]))
        return copies if 2 * len(copies) <= n_codes else np.unique(self.rows[:, 0])


def draw_players(codes: NDArray[np.uint8], seed: int, n_threads: int) -> Players:
    """Let some codes play the queries, and find their neighbours by a full scan."""
    rng = np.random.default_rng(seed)
    rows = np.sort(rng.choice(len(codes), max(1, min(SAMPLE, len(codes) // 10)), replace=False))
    deepest = min(SIZES[-1] + COPIES + 1, len(codes))
    distances, found = nearest([Part(codes, np.arange(len(codes)))], codes[rows], deepest, n_threads)
    return Players(codes[rows], distances, found, [_first_other(one, codes.shape[1]) for one in distances])


def measure_reach(
    codes: NDArray[np.uint8], lists: Lists, labels: NDArray[np.int64], players: Players, recall: float
) -> dict[int, Reach]:
    """Return how far to look for each of `SIZES` to find `recall` of the neighbours; labels[row]: its list."""
    points, distances, rows, firsts = players
    apart = lists.apart(padded(points)).T
    farther = np.take_along_axis(apart, labels[rows], axis=1) - apart.min(axis=1, keepdims=True)
    stops = stages(codes.shape[1])
    lost = SPENT * (1 - recall)
    lost_by_words = FOR_WORDS * lost if len(stops) > 1 else 0.0
    reaches = {}
    for k in SIZES:
        if k >= distances.shape[1] - 1:
            break
        ranks = [slice(first, first + k) for first in firsts]
        needed = np.concatenate([one[own] for one, own in zip(farther, ranks, strict=True)])
        slacks = []
        for stop in stops[:-1].tolist():
            excess = [
                np.bitwise_count(codes[rows[q, own], :stop] ^ points[q, :stop]).sum(axis=1, dtype=np.int64)
                - distances[q, own][-1] * (stop / stops[-1])
                for q, own in enumerate(ranks)
            ]
            share = 1 - lost_by_words / (len(stops) - 1)
            slacks.append(float(np.quantile(np.concatenate(excess), share, method="higher")))
        enough = np.quantile(needed, 1 - lost + lost_by_words, method="higher")
        reaches[k] = Reach(math.ceil(WIDER * enough), tuple(slacks))
    return reaches


def _first_other(distances: NDArray[np.int32], n_bytes: int) -> int:
    """Rank of the first neighbour that is neither the query itself nor a copy of it."""
    jumps = np.diff(distances[1 : COPIES + 2])
    if len(jumps) and jumps.max() >= JUMP * 8 * n_bytes:
        return int(np.argmax(jumps)) + 2
    return 1
