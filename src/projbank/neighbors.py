"""HammingNeighbors: a neighbour graph of very long vectors by way of their codes, for scikit-learn, scanpy and UMAP."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from projbank.base import RowCoder, auto_bits, checked_rows
from projbank.kernels.nearest import dense_dots, sparse_dots
from projbank.params import check_choice, check_int, reject
from projbank.progress import progress
from projbank.rows.source import Floats, RowSource, SparseRows, check_finite
from projbank.search import HammingIndex
from projbank.threads import run_each, split_rows, thread_count

_BITS = 512
"""Bits of a code, at most, unless told otherwise."""
_CANDIDATES = 10
"""Candidates per neighbour whose vectors are compared."""
_BATCH = 2048
"""Queries that are searched for at a time."""


class HammingNeighbors(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """A graph of nearest neighbours, found by binary codes: for vectors of tens of thousands of numbers as they are.

    It does what `sklearn.neighbors.KNeighborsTransformer` does, and goes where that goes: before Isomap, DBSCAN and
    others with ``metric="precomputed"``, into UMAP, and as ``scanpy.pp.neighbors(adata, use_rep="X",
    transformer=HammingNeighbors(n_neighbors=15))``: all genes, no principal components. Distances are compared among
    codes, in a few hundred bits per vector, and the best candidates then by their vectors.

    Parameters
    ----------
    n_neighbors : int
        Neighbours of each vector beside itself.
    n_bits : int or "auto"
        Bits per code of the bank that is learnt. "auto": about D / 16, at least 64 and at most 512.
    n_components : int or "all"
        Leading principal components of at most 20,000 vectors, by whose neighbours the bank learns which vectors belong
        together: noise in single numbers counts less there. "all": by neighbours of the vectors themselves.
    rerank : bool
        Compare the vectors of ten candidates per neighbour: neighbours and distances are those of the vectors, as far
        as the codes find them. False: neighbours are those of the codes and distances the share of bits that differ.
        Codes learn which vectors belong together, so their own neighbours often agree better with kinds, and vectors
        on disk need not be read again.
    metric : {"l2", "cosine"}
        Distance between vectors, for `rerank`.
    mode : {"distance", "connectivity"}
        What the graph holds: distances, each vector itself first at 0, or ones, where it counts as a neighbour of its
        own as in scikit-learn.
    bank : estimator of binary codes, optional
        A fitted one is used as it is, another is fitted to X. By default a `ProjectionBank` learns from at most 20,000
        of the vectors.
    recall : float in (0, 1) or None
        Part of the nearest codes that a search must find, as in `HammingIndex`; counts from 20,000 vectors on. None:
        all of them.
    random_state : int, RandomState or None
        Same seed and data give the same graph, whatever the number of threads.
    n_jobs : int or None
        Threads; None and -1 are all cores.
    verbose : int
        1 shows progress bars on a terminal.

    Attributes
    ----------
    bank_ : what made the codes
    index_ : HammingIndex of the codes
    n_samples_fit_ : int
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from projbank import HammingNeighbors
    >>> X = np.random.default_rng(0).standard_normal((200, 1024), dtype=np.float32)
    >>> graph = HammingNeighbors(n_neighbors=5).fit_transform(X)
    >>> graph.shape, graph.nnz
    ((200, 200), 1200)
    """

    def __init__(
        self,
        n_neighbors: int = 15,
        *,
        n_bits: int | str = "auto",
        n_components: int | str = 50,
        rerank: bool = True,
        metric: str = "l2",
        mode: str = "distance",
        bank: Any = None,
        recall: float | None = 0.99,
        random_state: int | np.random.RandomState | None = 0,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.n_bits = n_bits
        self.n_components = n_components
        self.rerank = rerank
        self.metric = metric
        self.mode = mode
        self.bank = bank
        self.recall = recall
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn a bank, and code the vectors.

        Parameters
        ----------
        X : (n, D), anything that `projbank.rows` reads
            With `rerank` it is read again as neighbours are searched for, and is kept, not copied.
        y : ignored
        """
        self._check_parameters()
        rows = checked_rows(self, X, reset=True)
        n_rows = rows.shape[0]
        if self.n_neighbors >= n_rows:
            reject(type(self).__name__, "n_neighbors", f"less than the {n_rows} vectors", self.n_neighbors)
        self.bank_ = self._fitted_bank(rows)
        if self.bank_.distance != "hamming":
            raise ValueError(f"The 'bank' parameter must make binary codes. Got {type(self.bank_).__name__} instead.")
        codes = np.asarray(self.bank_.transform(rows))
        self.index_ = HammingIndex(codes, n_bits=self.bank_.n_bits_, recall=self.recall, n_jobs=self.n_jobs)
        self.n_samples_fit_ = n_rows
        self._codes = codes
        self._rows = rows if self.rerank else None
        self._squares = _squares(rows, thread_count(self.n_jobs)) if self.rerank else None
        return self

    def transform(self, X: Any) -> sp.csr_matrix:
        """Graph of the neighbours of X among the vectors that were fitted.

        Returns
        -------
        (n, n_samples_fit_) CSR matrix, each row's values ascending
            `n_neighbors` + 1 values per row for distances, `n_neighbors` for connectivity.
        """
        check_is_fitted(self)
        rows = checked_rows(self, X, reset=False)
        return self._graph(rows, np.asarray(self.bank_.transform(rows)), own=False)

    def fit_transform(self, X: Any, y: Any = None) -> sp.csr_matrix:
        """Fit, and return the graph of the vectors: each vector itself comes first, then its neighbours."""
        self.fit(X)
        return self._graph(checked_rows(self, X, reset=False), self._codes, own=True)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = []
        return tags

    @property
    def _n_features_out(self) -> int:
        return self.n_samples_fit_

    def _check_parameters(self) -> None:
        check_int(self, "n_neighbors", self.n_neighbors, 1)
        if not (isinstance(self.n_bits, str) and self.n_bits == "auto"):
            check_int(self, "n_bits", self.n_bits, 1)
        if self.n_components != "all":
            check_int(self, "n_components", self.n_components, 1)
        check_choice(self, "metric", self.metric, ("l2", "cosine"))
        check_choice(self, "mode", self.mode, ("distance", "connectivity"))
        thread_count(self.n_jobs)

    def _fitted_bank(self, rows: RowSource) -> RowCoder:
        from projbank.bank import ProjectionBank

        if self.bank is not None:
            if hasattr(self.bank, "n_bits_"):
                return self.bank
            return clone(self.bank).fit(rows)
        n_features = rows.shape[1]
        n_bits = min(_BITS, max(min(64, n_features), auto_bits(n_features))) if self.n_bits == "auto" else self.n_bits
        settings: dict[str, Any] = {"random_state": self.random_state, "n_jobs": self.n_jobs, "verbose": self.verbose}
        return ProjectionBank(n_bits, n_components=self.n_components, **settings).fit(rows)

    def _graph(self, rows: RowSource, codes: NDArray[np.uint8], *, own: bool) -> sp.csr_matrix:
        """Search batch by batch; `own`: these are the vectors that were fitted."""
        n_found = self.n_neighbors + (self.mode == "distance" or own)
        distances = np.empty((len(codes), n_found), np.float32)
        ids = np.empty((len(codes), n_found), np.int64)
        with progress("neighbours", len(codes), self.verbose) as advance:
            for start, stop in split_rows(len(codes), _BATCH):
                found = self._nearest(rows, codes, start, stop, n_found)
                distances[start:stop], ids[start:stop] = _own_first(*found, start) if own else found
                advance(stop - start)
        if own and self.mode == "connectivity":
            distances, ids = distances[:, :-1], ids[:, :-1]
        values = np.ones_like(distances) if self.mode == "connectivity" else distances
        starts = np.arange(0, ids.size + 1, ids.shape[1])
        return sp.csr_matrix((values.ravel(), ids.ravel(), starts), shape=(len(codes), self.n_samples_fit_))

    def _nearest(
        self, rows: RowSource, codes: NDArray[np.uint8], start: int, stop: int, k: int
    ) -> tuple[Floats, NDArray[np.int64]]:
        """Distances and ids of the k nearest of some queries, ascending by (distance, id)."""
        n_threads = thread_count(self.n_jobs)
        size = min(self.n_samples_fit_, _CANDIDATES * k if self.rerank else k)
        differing, ids = self.index_.search(codes[start:stop], size, n_jobs=self.n_jobs)
        if self._rows is None or self._squares is None:
            return (differing / np.float32(self.index_.n_bits)).astype(np.float32), ids
        points = np.ascontiguousarray(rows.block(start, stop))
        check_finite(points, rows.first + start)
        squares = np.einsum("ij,ij->i", points, points, dtype=np.float64)[:, None]
        dots = _dots(self._rows, points, ids, n_threads)
        others = self._squares[ids]
        if self.metric == "cosine":
            lengths = np.sqrt(squares * others)
            distances = 1 - np.divide(dots, lengths, out=np.zeros_like(dots), where=lengths > 0)
        else:
            distances = np.sqrt(np.maximum(squares + others - 2 * dots, 0))
        order = np.lexsort((ids, distances), axis=1)[:, :k]
        return np.take_along_axis(distances, order, 1).astype(np.float32), np.take_along_axis(ids, order, 1)


def _own_first(distances: Floats, ids: NDArray[np.int64], start: int) -> tuple[Floats, NDArray[np.int64]]:
    """Put each vector itself first, at distance 0, whether it was found or not; the others keep their order."""
    own = np.arange(start, start + len(ids))[:, None]
    order = np.argsort(ids != own, axis=1, kind="stable")
    distances, ids = np.take_along_axis(distances, order, 1), np.take_along_axis(ids, order, 1)
    missing = ids[:, :1] != own  # more vectors are equal to it than were asked for
    distances = np.where(missing, np.roll(distances, 1, axis=1), distances)
    ids = np.where(missing, np.roll(ids, 1, axis=1), ids)
    distances[:, 0], ids[:, 0] = 0, own[:, 0]
    return distances, ids


def _squares(rows: RowSource, n_threads: int) -> NDArray[np.float64]:
    """Squared length of every row."""
    out = np.empty(rows.shape[0])

    def measure(start: int, stop: int) -> None:
        block = rows.block(start, stop)
        np.einsum("ij,ij->i", block, block, dtype=np.float64, out=out[start:stop])

    run_each(measure, rows.bounds(), n_threads)
    return out


def _dots(rows: RowSource, points: Floats, ids: NDArray[np.int64], n_threads: int) -> NDArray[np.float64]:
    """Inner products of points with some rows each."""
    out = np.empty(ids.shape)
    matrix = rows.matrix if isinstance(rows, SparseRows) else None
    array = rows.array if rows.array is not None and rows.array.dtype == np.float32 else None
    if matrix is not None:
        parts = matrix.data.astype(np.float32, copy=False), matrix.indices, matrix.indptr.astype(np.int64, copy=False)

    def multiply(start: int, stop: int) -> None:
        part = slice(start, stop)
        if matrix is not None:
            sparse_dots(*parts, points[part], ids[part], out[part])
        elif array is not None:
            dense_dots(array, points[part], ids[part], out[part])
        else:
            for i in range(start, stop):
                order = np.argsort(ids[i])
                places = np.argsort(order)[None].astype(np.int64)
                dense_dots(rows.read(ids[i, order]), points[i : i + 1], places, out[i : i + 1])

    run_each(multiply, split_rows(len(ids), 64), n_threads)
    return out
