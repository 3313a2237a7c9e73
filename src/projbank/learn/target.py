"""Which vectors belong together, and so what codes should be like.

The headed bank's target, `WalkTarget`: where walks on the graph of nearest neighbours meet, and labels where there are
any. The joint learner's, `SimilarityTarget`: T = 1/10 cosine + 9/10 diffusion, each standardised over the pairs of
different vectors. Cosines are those of the centred vectors. Diffusion is two steps on the graph of nearest neighbours
by cosine, where the r-th of k neighbours weighs exp(-6 r / k), the mean over both directions: two vectors are alike
where their neighbourhoods are.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from projbank.learn.neighbors import centered_rows, nearest_neighbors
from projbank.progress import say
from projbank.rows.source import RowSource
from projbank.rows.views import FoldedRows
from projbank.threads import faiss_threads, kmeans, run_each, split_rows

KEPT = 8_192
"""Samples up to which all cosines and the target are kept (half a GiB); above, those of a batch are computed anew."""

_COSINE_SHARE = np.float32(0.1)
_DECAY = 6.0
DIMENSIONS = 32_768
"""Longer vectors are folded to so many dimensions before cosines are taken: the error is .006, about."""
LARGE = 1 << 26
"""Multiplications from which a product is worth starting threads for."""

UNKNOWN = -1
"""Label of a row that has none."""
_LABEL_SHARE = np.float32(0.5)
"""Share of the labels in the target of two rows that both have one."""
_MOST_COSINES, _CLOSED, _CLOSED_AMONG, _ASKED = 0.5, (0.13, 0.16), 10, 4096
"""Most of the cosines in the target; of two steps to one of ten neighbours, shares that end at one of the ten, at which
there is so much of them and none; rows that are asked."""
_MORE_CLOSED = 1.04
"""Times as closed as with half its neighbours a graph must be, for clusters to be large: .98 to 1.03 on features of
Caltech-101, where a quarter finds more, and 1.045 to 1.18 on six other sets, where half finds more."""
_CANDIDATES = 4
"""Candidates that are compared exactly, in times the neighbours wanted."""
_CELLS, _LOOKED_AT = 4, 1 / 16
"""Cells of the coarse search, in times the root of the rows, and the share of them that is looked at."""
_KMEANS_ITER, _PER_CELL = 10, 64
_CHECKED = 200
"""Rows whose approximate neighbours are compared with the exact ones."""

Floats = NDArray[np.float32]
Ids = NDArray[np.int64]


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


class WalkTarget:
    """Two vectors are alike where walks of two steps from each of them meet: their neighbours' neighbours.

    Of two vectors whose labels are known, half of the target is whether these are the same; no step leads from one to
    the other where they are not.

    Parameters
    ----------
    walk : (n, n) symmetric, one step on the graph of neighbours
    n_threads : threads
    labels : (n,) classes, -1 where unknown; None if there are none
    directions : (n, c) vectors of length 1, whose cosines are a part of the target
    share : how much of it
    """

    def __init__(
        self,
        walk: sp.csr_array,
        n_threads: int = 1,
        labels: NDArray[np.int64] | None = None,
        directions: Floats | None = None,
        share: float = 0.0,
    ) -> None:
        self.walk = walk
        self._n_threads = n_threads
        self._labels = labels
        self._directions = directions
        self._share = np.float32(share)

    def of(self, ids: Ids, rows: Floats | None = None) -> Floats:
        """Target of the vectors `ids`: mean 0, deviation 1, diagonal 0; (b, b). Their values are not needed."""
        reached = np.empty((len(ids), self.walk.shape[0]), np.float32)

        def go(start: int, stop: int) -> None:
            reached[start:stop] = (self.walk[ids[start:stop]] @ self.walk).toarray()

        run_each(go, split_rows(len(ids), 64), self._n_threads)
        target = standardise(symmetric_product(reached, self._n_threads))
        if self._directions is not None and self._share > 0:
            cosines = standardise(symmetric_product(self._directions[ids], self._n_threads))
            target = standardise((1 - self._share) * target + self._share * cosines)
        if self._labels is None:
            return target
        labels = self._labels[ids]
        known = (labels != UNKNOWN)[:, None] & (labels != UNKNOWN)
        same = standardise(np.where(labels[:, None] == labels, np.float32(1), np.float32(0)))
        return standardise(np.where(known, _LABEL_SHARE * same + (1 - _LABEL_SHARE) * target, target))


def cosine_share(ids: Ids) -> float:
    """Share of cosines in the target: some where neighbours of neighbours (n, k) are rarely neighbours themselves.

    Then the graph has few clusters, and walks on it lead astray.
    """
    low, high = _CLOSED
    return _MOST_COSINES * min(1.0, max(0.0, (high - closed_share(ids[:, :_CLOSED_AMONG])) / (high - low)))


def near_enough(ids: Ids) -> Ids:
    """Return the nearer half of neighbours (n, k), or a quarter where clusters are small.

    Inside clusters, the more neighbours a graph has, the more closed it is. Where all do not make it more closed than
    half of them, clusters end before.
    """
    n_rows, k = ids.shape
    parts = ids[:, : k // 2], ids
    chances = [part.shape[1] / n_rows for part in parts]  # how closed random graphs are
    half, whole = ((closed_share(part) - by) / (1 - by) for part, by in zip(parts, chances, strict=True))
    return ids[:, : k // 2] if whole > _MORE_CLOSED * half else ids[:, : k // 4]


def closed_share(ids: Ids) -> float:
    """Of two steps on the graph of neighbours (n, k), the share that ends at a neighbour of where they began."""
    n_rows, k = ids.shape
    ends = np.arange(0, ids.size + 1, k)
    graph = sp.csr_array((np.ones(ids.size, np.float32), ids.ravel(), ends), shape=(n_rows, n_rows))
    some = graph[:: -(-n_rows // _ASKED)]
    two_steps = some @ graph
    return float(two_steps.multiply(some).sum() / two_steps.sum())


def neighbor_walk(ids: Ids, labels: NDArray[np.int64] | None = None) -> sp.csr_array:
    """One step on the graph of neighbours (n, k); none leads from one class to another."""
    walk = graded_walk(ids)
    if labels is None:
        return walk
    edges = walk.tocoo()
    ends = labels[edges.coords[0]], labels[edges.coords[1]]
    stays = (ends[0] == ends[1]) | (ends[0] == UNKNOWN) | (ends[1] == UNKNOWN)
    kept = sp.csr_array((edges.data[stays], tuple(axis[stays] for axis in edges.coords)), shape=walk.shape)
    roots = sp.diags_array(1 / np.sqrt(kept.sum(axis=1)))
    return sp.csr_array(roots @ kept @ roots, dtype=np.float32)


def exact_neighbors(rows: RowSource, n_neighbors: int, *, n_threads: int = 1, verbose: int = 0) -> Ids:
    """Nearest neighbours of every row by cosine of the centred rows, (n, k); long rows are folded."""
    center = rows.statistics().means
    if rows.shape[1] > DIMENSIONS:
        rows = folded = FoldedRows(rows, DIMENSIONS)
        center = folded.fold(center)
    return nearest_neighbors(rows, n_neighbors, center, directions=True, n_threads=n_threads, verbose=verbose)


def approximate_neighbors(
    sums: Floats, components: Floats, n_neighbors: int, *, seed: int = 0, n_threads: int = 1, verbose: int = 0
) -> Ids:
    """Nearest neighbours of every row by cosine of centred sums (n, m), nearly all of them, (n, k).

    Candidates come from the cells about a row in the space of a few `components` (m, c) of the sums.
    """
    import faiss

    n_rows = len(sums)
    directions = centered_rows(sums, sums.mean(axis=0, dtype=np.float64).astype(np.float32), True)[0]
    few = product(directions, np.ascontiguousarray(components), n_threads)
    few = centered_rows(few, np.zeros(few.shape[1], np.float32), True)[0]
    n_cells = max(1, int(_CELLS * np.sqrt(n_rows)))
    centers = kmeans(few[:: -(-n_rows // (n_cells * _PER_CELL))], n_cells, seed, _KMEANS_ITER)
    quantizer = faiss.IndexFlatIP(few.shape[1])
    quantizer.add(centers)
    index = faiss.IndexIVFFlat(quantizer, few.shape[1], n_cells, faiss.METRIC_INNER_PRODUCT)
    index.is_trained = True
    index.nprobe = max(1, int(_LOOKED_AT * n_cells))
    with faiss_threads(n_threads):
        index.add(few)
        candidates = index.search(few, min(n_rows, 1 + _CANDIDATES * n_neighbors))[1]
    found = np.empty((n_rows, n_neighbors), np.int64)

    def compare(start: int, stop: int) -> None:
        for i in range(start, stop):
            near = np.setdiff1d(candidates[i], (-1, i))
            if len(near) < n_neighbors:  # a cell that stands alone
                near = np.setdiff1d(np.arange(n_rows), i)
            found[i] = near[np.argsort(-(directions[near] @ directions[i]), kind="stable")[:n_neighbors]]

    run_each(compare, split_rows(n_rows, 64), n_threads)
    if verbose:
        some = np.unique(np.linspace(0, n_rows - 1, _CHECKED).astype(np.int64))
        cosines = product(directions[some], directions.T, n_threads)
        cosines[np.arange(len(some)), some] = -np.inf
        exact = np.argsort(-cosines, axis=1, kind="stable")[:, :n_neighbors]
        shared = [len(np.intersect1d(*both)) for both in zip(exact, found[some], strict=True)]
        say(f"graph of neighbours: recall {np.mean(shared) / n_neighbors:.3f} on {len(some)} rows", verbose)
    return found


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
