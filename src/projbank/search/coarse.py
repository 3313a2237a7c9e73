"""Less than a scan: blocks of codes in lists, and searches that look into the lists near a query."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from projbank.search.blocks import Block, Column, NewCodes
from projbank.search.lists import in_lists, learn_centres, nearest_in_lists
from projbank.search.recall import draw_players, measure_reach
from projbank.search.scan import NOTHING, Nearest, nearest, sort_pairs

SEED = 0


def organised(content: NewCodes, n_bits: int, recall: float, n_threads: int) -> Block:
    """Return a block of the same codes in the order of lists, with what a search must visit to keep the recall."""
    codes, ids, names, payload = content
    players = draw_players(codes, SEED, n_threads)
    centres = learn_centres(codes, players.unseen(len(codes)), n_bits, SEED, n_threads)
    order, lists = in_lists(codes, centres, n_threads)
    lists.reaches = measure_reach(codes, lists, lists.labels(order), players, recall)
    codes = np.ascontiguousarray(codes[order])
    block = Block(NewCodes(codes, ids[order], _reordered(names, order), _reordered(payload, order)))
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


def _reordered(column: Column | None, order: NDArray[np.int64]) -> Column | None:
    return None if column is None else [column[row] for row in order.tolist()]
