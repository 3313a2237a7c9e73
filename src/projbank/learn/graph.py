"""Which vectors belong together: walks on the graph of nearest neighbours, and labels where there are any."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from projbank.learn.neighbors import nearest_neighbors
from projbank.learn.target import DIMENSIONS, graded_walk, standardise, symmetric_product
from projbank.rows.source import RowSource
from projbank.rows.views import FoldedRows
from projbank.threads import run_each, split_rows

Floats = NDArray[np.float32]
Ids = NDArray[np.int64]


class WalkTarget:
    """Two vectors are alike where walks of two steps from each of them meet: their neighbours' neighbours.

    Parameters
    ----------
    walk : (n, n) symmetric, one step on the graph of neighbours
    n_threads : threads
    """

    def __init__(self, walk: sp.csr_array, n_threads: int = 1) -> None:
        self.walk = walk
        self._n_threads = n_threads

    def of(self, ids: Ids, rows: Floats | None = None) -> Floats:
        """Target of the vectors `ids`: mean 0, deviation 1, diagonal 0; (b, b). Their values are not needed."""
        reached = np.empty((len(ids), self.walk.shape[0]), np.float32)

        def go(start: int, stop: int) -> None:
            reached[start:stop] = (self.walk[ids[start:stop]] @ self.walk).toarray()

        run_each(go, split_rows(len(ids), 64), self._n_threads)
        return standardise(symmetric_product(reached, self._n_threads))


def neighbor_walk(rows: RowSource, n_neighbors: int, *, n_threads: int = 1, verbose: int = 0) -> sp.csr_array:
    """One step on the exact graph of neighbours by cosine of the centred rows; long ones are folded."""
    center = rows.statistics().means
    if rows.shape[1] > DIMENSIONS:
        rows = folded = FoldedRows(rows, DIMENSIONS)
        center = folded.fold(center)
    ids = nearest_neighbors(rows, n_neighbors, center, directions=True, n_threads=n_threads, verbose=verbose)
    return graded_walk(ids)
