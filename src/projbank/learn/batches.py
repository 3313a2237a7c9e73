"""Mini-batches of vectors that come with some of their neighbours.

Of many vectors a random few are rarely near each other: in a batch of 512 out of 5,000, a vector meets about one of its
ten nearest, which tell most about where codes should agree.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

NEIGHBORS = 3

Ids = NDArray[np.int64]


class NeighborBatches:
    """Draws batches: a quarter of the vectors at random, some neighbours of each, and others to fill up.

    Parameters
    ----------
    walk : (n, n) symmetric weights of the edges between neighbours
    free : ids of the vectors to draw from
    rng : draws
    """

    def __init__(self, walk: sp.csr_array, free: Ids, rng: np.random.Generator) -> None:
        self._walk, self._free, self._rng = walk, free, rng
        self._is_free = np.zeros(walk.shape[0], bool)
        self._is_free[free] = True

    def draw(self, size: int) -> Ids:
        """`size` ascending ids; an edge leads into the batch by its weight, among those of a vector."""
        first = self._rng.choice(self._free, size // (1 + NEIGHBORS), replace=False)
        chosen = np.union1d(first, self._neighbors(first))
        others = self._rng.choice(self._free, size, replace=False)
        others = others[~np.isin(others, chosen)]
        return np.sort(np.concatenate([chosen, others[: size - len(chosen)]]))

    def _neighbors(self, ids: Ids) -> Ids:
        """Some neighbours of each vector, no one twice: the first of exponential clocks as fast as edges weigh."""
        edges = self._walk[ids]
        own = np.repeat(np.arange(len(ids)), np.diff(edges.indptr))
        usable = self._is_free[edges.indices] & (edges.indices != ids[own])
        own, ends, weights = own[usable], edges.indices[usable], edges.data[usable]
        order = np.lexsort((self._rng.standard_exponential(len(own)) / weights, own))
        rank = np.arange(len(own)) - np.searchsorted(own, own)  # own ascends, before and after ordering
        return ends[order[rank < NEIGHBORS]]
