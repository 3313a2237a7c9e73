"""Choosing parameters by retrieval on held-out vectors: a scorer for scikit-learn, and a search over a grid."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid

from projbank.evaluate.data import DataSet, draw_split
from projbank.learn.neighbors import nearest_neighbors
from projbank.methods.nearest import query_values, search
from projbank.metrics import precision_at_k, recall_at_k
from projbank.params import check_int
from projbank.progress import progress, say
from projbank.rows.source import as_rows
from projbank.search import HammingIndex
from projbank.threads import thread_count

MAX_TRAINING = 10_000
MAX_HELD_OUT = 2_000


@dataclass(frozen=True)
class retrieval_scorer:  # noqa: N801 - it is used like scikit-learn's functions that make scorers
    """A scorer for `GridSearchCV` and its kin: a callable (estimator, X, y=None) -> float.

    The held-out vectors are coded, and each of them (or `n_queries` of them, evenly spread) is searched for among the
    others. With labels the score is the share of the first `k` results that have the query's label. Without, it is the
    share of them that are among the `k` nearest of the uncompressed vectors.

    Parameters
    ----------
    k : results that count; lowered where fewer vectors are held out
    n_queries : at most so many of the held-out vectors are searched for
    asymmetric : compare the queries' margins with the others' bits

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.model_selection import GridSearchCV
    >>> from projbank import ProjectionBank
    >>> from projbank.evaluate.tuning import retrieval_scorer
    >>> X = np.random.default_rng(0).standard_normal((200, 64), dtype=np.float32)
    >>> bank = ProjectionBank(n_bits=16, solver="paper", n_neighbors=10)
    >>> search = GridSearchCV(bank, {"lam": [0.1, 10.0]}, scoring=retrieval_scorer(k=10), cv=3).fit(X)
    >>> sorted(search.best_params_)
    ['lam']
    """

    k: int = 50
    n_queries: int = field(default=1000, kw_only=True)
    asymmetric: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        check_int("retrieval_scorer", "k", self.k, 1)
        check_int("retrieval_scorer", "n_queries", self.n_queries, 1)

    def __call__(self, estimator: Any, X: Any, y: ArrayLike | None = None) -> float:
        """Score a fitted estimator on vectors X (n, D) that it has not seen, with labels y (n,) or none."""
        X = X if hasattr(X, "shape") else np.asarray(X)
        n_rows, n_jobs = X.shape[0], getattr(estimator, "n_jobs", None)
        if n_rows < 2:
            raise ValueError(f"retrieval_scorer needs at least 2 held-out vectors. Got {n_rows}.")
        k = min(self.k, n_rows - 1)
        queries = np.unique(np.linspace(0, n_rows - 1, min(self.n_queries, n_rows)).astype(np.int64))
        found = without_self(self._search(estimator, X, queries, k + 1, n_jobs), queries)
        if y is None:
            rows = X.to_numpy() if hasattr(X, "to_numpy") else X
            return recall_at_k(found, nearest_neighbors(as_rows(rows), k, n_threads=thread_count(n_jobs))[queries], k)
        labels = np.asarray(y)
        return precision_at_k(found, labels, labels[queries], k)

    def _search(self, estimator: Any, X: Any, queries: NDArray[np.int64], k: int, n_jobs: Any) -> NDArray[np.int64]:
        codes = estimator.transform(X)
        if getattr(estimator, "distance", "hamming") != "hamming":
            return search(estimator, _rows(X, queries), codes, k, n_jobs=n_jobs)[1]
        if self.asymmetric:
            margins = query_values(estimator, _rows(X, queries))
            return HammingIndex(codes, n_bits=margins.shape[1]).search(margins, k, n_jobs=n_jobs)[1]
        return HammingIndex(codes).search(codes[queries], k, n_jobs=n_jobs)[1]


def without_self(ids: NDArray[np.int64], own: NDArray[np.int64]) -> NDArray[np.int64]:
    """Results (n, k + 1) without each query's own id, or without the last where it is not among them: (n, k)."""
    others = ids != own[:, None]
    others[others.all(axis=1), -1] = False
    return ids[others].reshape(len(ids), -1)


@dataclass(frozen=True)
class Trial:
    """One point of a grid, its score and the seconds that it took."""

    params: dict[str, Any]
    score: float
    seconds: float


def tune(
    estimator: Any,
    X: Any,
    grid: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]],
    *,
    y: ArrayLike | None = None,
    scorer: Callable[..., float] | None = None,
    n_train: int | None = None,
    n_held_out: int | None = None,
    seed: int = 0,
    verbose: int = 0,
) -> list[Trial]:
    """Fit every point of a grid to a random part of X and score it on another: the paper's cross-validation set.

    `GridSearchCV` with `retrieval_scorer` does the same over several folds; here only the drawn rows are ever copied,
    so that X may be a file. Parameters that the estimator refuses raise before the first fit.

    Parameters
    ----------
    estimator : unfitted estimator; it is cloned
    X : (n, D) array, memory map, scipy.sparse matrix or h5py data set
    grid : name of a parameter to the values to try, or a list of such grids (as `ParameterGrid`)
    y : (n,) labels, for the scorer only; learning never sees them
    scorer : by default `retrieval_scorer()`
    n_train, n_held_out : rows drawn; by default a fifth but at most 2,000 held out, at most 10,000 of the rest to learn
    seed : seed of the draw
    verbose : 1 shows a progress bar on a terminal, 2 a line per point

    Returns
    -------
    trials : in the order of the grid; `best_trial` chooses among them
    """
    points = list(ParameterGrid(grid))
    candidates = [_candidate(estimator, point) for point in points]
    n_rows = X.shape[0]
    if n_rows < 4:
        raise ValueError(f"tuning needs at least 4 vectors, 2 to learn from and 2 held out. Got {n_rows}.")
    if n_held_out is None:
        n_held_out = max(2, min(MAX_HELD_OUT, n_rows // 5))
    n_held_out = check_int("tune", "n_held_out", n_held_out, 2, n_rows - 2)
    if n_train is None:
        n_train = min(MAX_TRAINING, n_rows - n_held_out)
    n_train = check_int("tune", "n_train", n_train, 2, n_rows - n_held_out)
    data = DataSet("tuning", X, None if y is None else np.asarray(y))
    held_out, _, train = draw_split(n_rows, n_held_out, n_train, seed)
    rows, others = (X[ids] if sp.issparse(X) else data.take(ids) for ids in (train, held_out))
    labels = () if data.labels is None else (data.labels[held_out],)
    score, trials = scorer or retrieval_scorer(), []
    with progress("tuning", len(points), verbose) as advance:
        for point, candidate in zip(points, candidates, strict=True):
            start = time.perf_counter()
            value = float(score(candidate.fit(rows), others, *labels))
            trials.append(Trial(point, value, time.perf_counter() - start))
            words = ", ".join(f"{name}={setting}" for name, setting in point.items())
            say(f"{words}: {value:.4f}", max(0, verbose - 1))
            advance(1)
    return trials


def best_trial(trials: Sequence[Trial]) -> Trial:
    """The trial with the highest score; of equal ones the first."""
    return max(trials, key=lambda trial: trial.score)


def _candidate(estimator: Any, point: Mapping[str, Any]) -> Any:
    """A clone with the parameters of a point; unknown names and bad values raise."""
    candidate = clone(estimator)
    known, owner = candidate.get_params(), type(estimator).__name__
    for name in point:
        if name not in known:
            raise ValueError(f"The grid names no parameter of {owner}: {name!r}. Known: {', '.join(known)}.")
    candidate.set_params(**point)
    if hasattr(candidate, "_check_parameters"):
        candidate._check_parameters()
    return candidate


def _rows(X: Any, ids: NDArray[np.int64]) -> Any:
    return X.iloc[ids] if hasattr(X, "iloc") else X[ids]
