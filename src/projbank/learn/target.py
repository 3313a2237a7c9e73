"""What the joint learner wants codes to be like: similarities of the training vectors, without any label.

T = 1/10 cosine + 9/10 diffusion, each standardised over the pairs of different vectors. Cosines are those of the
centred vectors. Diffusion is two steps on the graph of nearest neighbours by cosine, where the r-th of k neighbours
weighs exp(-6 r / k), the mean over both directions: two vectors are alike where their neighbourhoods are.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from projbank.learn.neighbors import centered_rows, nearest_neighbors
from projbank.rows.source import RowSource
from projbank.rows.views import FoldedRows
from projbank.threads import run_each, split_rows

KEPT = 8_192
"""Samples up to which all cosines and the target are kept (half a GiB); above, those of a batch are computed anew."""

_COSINE_SHARE = np.float32(0.1)
_DECAY = 6.0
DIMENSIONS = 32_768
"""Longer vectors are folded to so many dimensions before cosines are taken: the error is .006, about."""
LARGE = 1 << 26
"""Multiplications from which a product is worth starting threads for."""

Floats = NDArray[np.float32]


class SimilarityTarget:
    """Similarities that codes should follow, for any subset of the training vectors.

    Parameters
    ----------
    rows : (n, D) training data
    means : (D,) their means
    n_neighbors : neighbours of a vector on the graph
    n_threads, verbose : threads; show a progress bar on a terminal
    """

    def __init__(
        self, rows: RowSource, means: NDArray[np.float64], n_neighbors: int, *, n_threads: int = 1, verbose: int = 0
    ) -> None:
        n_samples = rows.shape[0]
        cosines = np.empty((n_samples, n_samples), np.float32) if n_samples <= KEPT else None
        near, center = rows, means
        if rows.shape[1] > DIMENSIONS:
            near = folded = FoldedRows(rows, DIMENSIONS)
            center = folded.fold(means)
        ids = nearest_neighbors(
            near, n_neighbors, center, directions=True, gram=cosines, n_threads=n_threads, verbose=verbose
        )
        self.walk = graded_walk(ids)
        self._center = means.astype(np.float32)
        self._n_threads = n_threads
        self._cosines = cosines
        self._whole = None if cosines is None else mix(cosines.copy(), self.walk, n_threads)

    @property
    def kept(self) -> bool:
        """Whether similarities are in memory, so that no rows are needed to tell them."""
        return self._whole is not None

    def of(self, ids: NDArray[np.int64], rows: Floats | None) -> Floats:
        """Target of the vectors `ids`, whose values are `rows`: mean 0, deviation 1, diagonal 0; (b, b)."""
        if self._whole is not None:
            return standardise(self._whole[np.ix_(ids, ids)])
        return mix(self.cosines(ids, rows), self.walk[ids], self._n_threads)

    def cosines(self, ids: NDArray[np.int64], rows: Floats | None) -> Floats:
        """Cosines of the vectors `ids`, whose values are `rows`, about the mean; (b, b), to be changed at will."""
        if self._cosines is not None:
            return self._cosines[np.ix_(ids, ids)]
        assert rows is not None
        return symmetric_product(centered_rows(rows, self._center, True)[0], self._n_threads)


def graded_walk(ids: NDArray[np.int64]) -> sp.csr_array:
    """One step on the graph of neighbours: edges by rank, over the roots of both ends' degrees; (n, n) symmetric.

    ids (n, k): neighbours of every vector, nearest first. An edge weighs the mean of what its two ranks give (nothing
    where one end is no neighbour of the other), that from a vector to itself 1.
    """
    n_rows, k = ids.shape
    weights = np.tile(np.exp(-_DECAY * np.arange(k) / k).astype(np.float32), n_rows)
    graph = sp.csr_array((weights, ids.ravel(), np.arange(0, ids.size + 1, k)), shape=(n_rows, n_rows))
    graph = (graph + graph.T) * np.float32(0.5) + sp.eye_array(n_rows, dtype=np.float32)
    roots = sp.diags_array(1 / np.sqrt(graph.sum(axis=1)))
    return sp.csr_array(roots @ graph @ roots, dtype=np.float32)


def mix(cosines: Floats, walk: sp.csr_array, n_threads: int = 1) -> Floats:
    """The target of n vectors in place of their cosines (n, n); walk (n, N): their rows of the graph's step."""
    diffusion, transposed = np.empty_like(cosines), walk.T.tocsr()

    def diffuse(start: int, stop: int) -> None:
        diffusion[start:stop] = (walk[start:stop] @ transposed).toarray()

    run_each(diffuse, split_rows(len(cosines), 512), n_threads)
    target = standardise(cosines)
    target *= _COSINE_SHARE
    target += (1 - _COSINE_SHARE) * standardise(diffusion)
    return standardise(target)


def center_pairs(matrix: Floats) -> tuple[Floats, float]:
    """Centre the entries off the diagonal, set the diagonal to 0; returns the matrix, changed, and their deviation."""
    n_pairs = max(1, len(matrix) * (len(matrix) - 1))
    np.fill_diagonal(matrix, 0)
    matrix -= np.float32(matrix.sum(dtype=np.float64) / n_pairs)
    np.fill_diagonal(matrix, 0)
    return matrix, float(np.sqrt(np.einsum("ij,ij->", matrix, matrix, dtype=np.float64) / n_pairs))


def standardise(matrix: Floats) -> Floats:
    """Mean 0 and deviation 1 off the diagonal, which becomes 0; in place."""
    matrix, spread = center_pairs(matrix)
    if spread > 0:
        matrix /= np.float32(spread)
    return matrix


def symmetric_product(A: Floats, n_threads: int) -> Floats:
    """A @ A.T in fixed blocks, each on one BLAS thread: the same bits for any number of threads."""
    out = np.empty((len(A), len(A)), np.float32)

    def multiply(start: int, stop: int) -> None:
        out[start:stop, start:] = A[start:stop] @ A[start:].T
        out[stop:, start:stop] = out[start:stop, stop:].T

    run_each(multiply, split_rows(len(A), 128), n_threads if A.size * len(A) > LARGE else 1)
    return out


def product(A: Floats, B: Floats, n_threads: int) -> Floats:
    """A @ B, as `symmetric_product`."""
    out = np.empty((A.shape[0], B.shape[1]), np.float32)

    def multiply(start: int, stop: int) -> None:
        np.matmul(A[start:stop], B, out=out[start:stop])

    run_each(multiply, split_rows(len(A), 128), n_threads if A.size * B.shape[1] > LARGE else 1)
    return out
