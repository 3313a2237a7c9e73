"""How far a search must look to keep a recall, measured on the index's own codes."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from projbank.search.lists import Lists, Reach, padded, stages
from projbank.search.scan import Part, nearest

SAMPLE = 300
"""Codes that play the queries."""
SIZES = (1, 10, 100, 1000)
"""Numbers of neighbours for which the reach is measured; a search uses that of the next larger one."""
FOR_LISTS, FOR_WORDS = 0.3, 0.25
"""Parts of the permitted loss that go to lists not visited and to codes given up early; the rest is held back."""
WIDER = 1.1
"""Lists are visited so much farther than the codes themselves ask for: the centres were learnt from them."""
COPIES, JUMP = 600, 1 / 20
"""A jump of the distance by so much of the bits within so many neighbours marks what comes before as copies."""


def measure_reach(part: Part, lists: Lists, recall: float, seed: int, n_threads: int) -> dict[int, Reach]:
    """Return for each of `SIZES` how far to look so that `recall` of the neighbours are found.

    Some codes play the queries, and their neighbours are found by a full scan. A query itself does not count, and
    neither do copies of it, nor the lists that they are in: a new query has none.

    Parameters
    ----------
    part : Part
        Codes in the order of the lists; their ids are their rows.
    """
    rng = np.random.default_rng(seed)
    rows = np.sort(rng.choice(len(part.codes), min(SAMPLE, len(part.codes)), replace=False))
    points = part.codes[rows]
    deepest = min(SIZES[-1] + COPIES + 1, len(part.codes))
    distances, found = nearest([part], points, deepest, n_threads)
    homes = np.searchsorted(lists.row_starts, found, side="right") - 1
    firsts = [_first_other(one, part.codes.shape[1]) for one in distances]
    farther = [
        _farther(apart, home, first)
        for apart, home, first in zip(lists.apart(padded(points)).T, homes, firsts, strict=True)
    ]
    stops = stages(part.codes.shape[1])
    reaches = {}
    for k in SIZES:
        if k >= deepest - 1:
            break
        ranks = [slice(first, first + k) for first in firsts]
        needed = np.concatenate([one[:k] for one in farther])
        slacks = []
        for stop in stops[:-1].tolist():
            excess = [
                np.bitwise_count(part.codes[found[q, own], :stop] ^ points[q, :stop]).sum(axis=1, dtype=np.int64)
                - distances[q, own][-1] * (stop / stops[-1])
                for q, own in enumerate(ranks)
            ]
            lost = FOR_WORDS * (1 - recall) / (len(stops) - 1)
            slacks.append(float(np.quantile(np.concatenate(excess), 1 - lost, method="higher")))
        needed_reach = float(np.quantile(needed, 1 - FOR_LISTS * (1 - recall), method="higher"))
        reaches[k] = Reach(math.ceil(WIDER * needed_reach), tuple(slacks))
    return reaches


def _first_other(distances: NDArray[np.int32], n_bytes: int) -> int:
    """Rank of the first neighbour that is neither the query itself nor a copy of it."""
    jumps = np.diff(distances[1 : COPIES + 2])
    if len(jumps) and jumps.max() >= JUMP * 8 * n_bytes:
        return int(np.argmax(jumps)) + 2
    return 1


def _farther(apart: NDArray[np.int32], homes: NDArray[np.intp], first: int) -> NDArray[np.int64]:
    """How much farther than the nearest centre those are in whose lists the neighbours from rank `first` on stand."""
    own = np.unique(homes[:first]) if first > 1 else np.empty(0, np.intp)
    others = np.delete(apart, own)
    least = int(others.min()) if len(others) else 0
    return np.where(np.isin(homes[first:], own), 0, np.maximum(apart[homes[first:]].astype(np.int64) - least, 0))
