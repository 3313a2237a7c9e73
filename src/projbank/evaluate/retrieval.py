"""Retrieval: fit a method on part of the gallery, code the gallery, search it with the queries, judge by labels."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from projbank.evaluate.data import DataSet, Split, draw_split, split_sizes
from projbank.evaluate.results import Record, ResultFile
from projbank.evaluate.runner import SLOW_SECONDS, Experiment, Rules, run
from projbank.learn.memo import Memo
from projbank.methods import METHODS, search
from projbank.methods.faiss_threads import faiss_threads
from projbank.methods.search import nearest_vectors
from projbank.metrics import precision_at_k
from projbank.params import check_int
from projbank.rows.source import check_finite, row_blocks, take_rows

ORIGINAL = "original"
"""Name of the row of the uncompressed floats."""
CHUNK_BYTES = 512 << 20

Cell = tuple[str, int | None, Mapping[str, Any]]
"""Method ("original" too), length in bits or None where it follows from the data, further parameters."""


class Retrieval(Experiment):
    """Semantic precision after k results, of codes and of the uncompressed floats.

    Parameters
    ----------
    data : vectors and labels
    cells : methods, lengths and parameters
    results : where records go
    seeds : each draws its own queries, gallery and training set, and seeds the method
    n_queries, n_train : sizes; by default 1,000 but at most a tenth, and two thirds of the gallery
    ks : precision is taken after so many results
    asymmetric : also search with real-valued queries where codes are binary
    n_jobs : threads
    name : what the cells are measured for; the precision of some stands in more than one table
    """

    def __init__(
        self,
        data: DataSet,
        cells: Iterable[Cell],
        results: ResultFile,
        *,
        seeds: Iterable[int] = range(5),
        n_queries: int | None = None,
        n_train: int | None = None,
        ks: Sequence[int] = (50, 100),
        asymmetric: bool = False,
        n_jobs: int | None = None,
        name: str = "retrieval",
    ) -> None:
        self.name = name
        n_rows = data.vectors.shape[0]
        n_queries, n_train = split_sizes(n_rows, n_queries, n_train)
        ks = sorted({check_int("evaluate", "k", k, 1, n_rows - n_queries) for k in ks})
        protocol = {"queries": n_queries, "training": n_train, "k": ks}
        super().__init__(plan_keys(data, protocol, cells, seeds), results)
        self._rows = Rows(data, n_queries, n_train)
        self._asymmetric, self._n_jobs = asymmetric, n_jobs

    def measure(self, key: Record) -> Record:
        """Precision, bytes, and seconds of training and coding."""
        self._rows.load(key["seed"])
        if key["method"] == ORIGINAL:
            return _measure_original(key, self._rows, self._n_jobs)
        return _measure_method(key, self._rows, self._asymmetric, self._n_jobs)

    def is_complete(self, record: Record) -> bool:
        """Whether asymmetric scores are there, if they were asked for."""
        return not (self._asymmetric and record["distance"] == "hamming" and "asymmetric" not in record)

    def headline(self, record: Record) -> str:
        """Precision after the fewest results."""
        k, value = next(iter(record["precision"].items()))
        return f"P@{k} {value:.4f}"

    def close(self) -> None:
        """Let go of queries and training vectors."""
        self._rows.forget()


def plan_keys(data: DataSet, protocol: Record, cells: Iterable[Cell], seeds: Iterable[int]) -> list[Record]:
    """Keys of all cells, seed by seed, so that the rows of a seed are read once."""
    identity, cells = data.identity, list(cells)
    return [
        {
            "dataset": identity,
            "protocol": protocol,
            "method": method,
            "n_bits": n_bits,
            "params": dict(params),
            "seed": int(seed),
        }
        for seed in seeds
        for method, n_bits, params in cells
    ]


def evaluate(
    data: DataSet,
    methods: Sequence[str],
    bits: Sequence[int],
    results: ResultFile,
    *,
    seeds: Iterable[int] = range(5),
    n_queries: int | None = None,
    n_train: int | None = None,
    ks: Sequence[int] = (50, 100),
    asymmetric: bool = False,
    params: Mapping[str, Mapping[str, Any]] | None = None,
    slow_seconds: float | None = SLOW_SECONDS,
    retry_failed: bool = False,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> list[Record]:
    """Measure every method at every length and seed, and keep each result as soon as there is one.

    Cells that `results` already has are not measured again. A method that fails becomes a record that says why.

    Parameters
    ----------
    data : vectors and labels
    methods : names of `METHODS`, or "original"
    bits : code lengths; methods whose length follows from the data run once
    results : where records go, and where a run goes on
    seeds : each draws its own queries, gallery and training set, and seeds the method
    n_queries, n_train : sizes; by default 1,000 but at most a tenth, and two thirds of the gallery
    ks : precision is taken after so many results
    asymmetric : also search with real-valued queries where codes are binary
    params : further parameters of a method, by its name
    slow_seconds : a method that needs longer for one cell is measured for its first seed only; None for all seeds
    retry_failed : measure cells again that failed before
    n_jobs : threads
    verbose : 1 shows a bar over the whole plan on a terminal, 2 also a line per cell

    Returns
    -------
    The records of this plan, in its order.
    """
    names = _check_methods(methods)
    lengths = [check_int("evaluate", "bits", n, 1) for n in bits]
    experiment = Retrieval(
        data,
        list_cells(names, lengths, params or {}),
        results,
        seeds=seeds,
        n_queries=n_queries,
        n_train=n_train,
        ks=ks,
        asymmetric=asymmetric,
        n_jobs=n_jobs,
    )
    run([experiment], Rules(slow_seconds, retry_failed), verbose)
    return experiment.records()


def _check_methods(methods: Sequence[str]) -> list[str]:
    known = [ORIGINAL, *METHODS]
    for name in methods:
        if name not in known:
            raise ValueError(f"methods must be names out of {', '.join(known)}. Got {name!r}.")
    return list(dict.fromkeys(methods))


def list_cells(names: Iterable[str], bits: Sequence[int], params: Mapping[str, Mapping[str, Any]]) -> list[Cell]:
    """All methods at all lengths; those whose length follows from the data come once, and first."""
    names = list(names)
    free = {name: name != ORIGINAL and METHODS[name].free_length for name in names}
    fixed: list[Cell] = [(name, None, params.get(name, {})) for name in names if not free[name]]
    return fixed + [(name, n, params.get(name, {})) for n in bits for name in names if free[name]]


class Rows:
    """Rows of the last seed that was asked for, so that all its methods share them."""

    def __init__(self, data: DataSet, n_queries: int, n_train: int) -> None:
        self.data, self._sizes = data, (n_queries, n_train)
        self._seed: int | None = None
        self.split: Split
        self.queries: NDArray[np.float32]
        self.training: NDArray[np.float32]
        self.memo: Memo

    def load(self, seed: int) -> None:
        """Draw the split of a seed and read its queries and training rows."""
        if seed == self._seed:
            return
        self.split = draw_split(self.data.vectors.shape[0], *self._sizes, seed)
        self.queries = take(self.data.vectors, self.split.queries)
        self.training = take(self.data.vectors, self.split.training)
        self.memo = Memo(self.training)
        self._seed = seed

    def forget(self) -> None:
        """Free the memory of the rows."""
        self._seed = None
        self.queries = self.training = np.empty((0, 0), np.float32)
        self.memo = Memo(self.training)

    def gallery(self) -> Iterator[NDArray[np.float32]]:
        """The gallery in chunks of bounded size."""
        ids = self.split.gallery
        for start, stop in row_blocks(len(ids), self.data.vectors.shape[1], CHUNK_BYTES):
            yield take(self.data.vectors, ids[start:stop])

    def precision(self, ids: NDArray[np.int64], ks: Sequence[int]) -> dict[str, float]:
        """Precision after each k, by k as text (as JSON has it)."""
        labels = self.data.labels
        return {str(k): precision_at_k(ids, labels[self.split.gallery], labels[self.split.queries], k) for k in ks}


class SplitExperiment(Experiment):
    """An experiment on queries, gallery and training set of each seed, whose protocol is their sizes."""

    def __init__(
        self,
        data: DataSet,
        cells: Iterable[Cell],
        results: ResultFile,
        *,
        seeds: Iterable[int],
        n_queries: int | None = None,
        n_train: int | None = None,
        n_jobs: int | None = None,
    ) -> None:
        n_queries, n_train = split_sizes(data.vectors.shape[0], n_queries, n_train)
        protocol = {"experiment": self.name, "queries": n_queries, "training": n_train}
        super().__init__(plan_keys(data, protocol, cells, seeds), results)
        self._rows, self._n_jobs = Rows(data, n_queries, n_train), n_jobs


def take(vectors: Any, ids: NDArray[np.int64]) -> NDArray[np.float32]:
    """Rows of ascending ids as one float32 array; raises for the first NaN or infinity."""
    rows = np.empty((len(ids), vectors.shape[1]), np.float32)
    take_rows(vectors, ids, rows)
    check_finite(rows, name="vectors", ids=ids)
    return rows


def build_method(key: Record, n_jobs: int | None) -> Any:
    """Make the estimator of a cell."""
    length = {} if key["n_bits"] is None else {"n_bits": key["n_bits"]}
    return METHODS[key["method"]](**length, **({"random_state": key["seed"], "n_jobs": n_jobs} | key["params"]))


def fit_method(key: Record, rows: Rows, n_jobs: int | None) -> tuple[Any, float]:
    """Fit the estimator of a cell on the training rows; returns it and the seconds that this takes alone.

    Neighbours and groups that an earlier cell computed are not computed again; the seconds they took then are added.
    """
    method = build_method(key, n_jobs)
    with rows.memo.use() as memo:
        start = time.perf_counter()
        method.fit(rows.training)
        return method, time.perf_counter() - start + memo.spared


def code_gallery(method: Any, rows: Rows) -> tuple[NDArray[Any], float]:
    """Codes of the whole gallery, and the seconds that one vector took."""
    method.transform(rows.queries[:8])  # the first call compiles
    seconds, parts = 0.0, []
    for chunk in rows.gallery():
        start = time.perf_counter()
        parts.append(method.transform(chunk))
        seconds += time.perf_counter() - start
    codes = np.concatenate(parts)
    return codes, seconds / len(codes)


def rank_floats(rows: Rows, k: int, n_jobs: int | None) -> NDArray[np.int64]:
    """Nearest k of the gallery by Euclidean distance of the uncompressed vectors, (queries, k)."""
    distances = np.empty((len(rows.queries), 0), np.float32)
    ids = np.empty((len(rows.queries), 0), np.int64)
    first = 0
    for chunk in rows.gallery():
        with faiss_threads(n_jobs):
            near, found = nearest_vectors(rows.queries, chunk, min(k, len(chunk)))
        distances, ids = np.hstack([distances, near]), np.hstack([ids, found + first])
        order = np.argsort(distances, axis=1, kind="stable")[:, :k]
        distances, ids = np.take_along_axis(distances, order, axis=1), np.take_along_axis(ids, order, axis=1)
        first += len(chunk)
    return ids


def _measure_method(key: Record, rows: Rows, asymmetric: bool, n_jobs: int | None) -> Record:
    method, training = fit_method(key, rows, n_jobs)
    codes, coding = code_gallery(method, rows)
    ks = key["protocol"]["k"]
    record: Record = {
        "distance": method.distance,
        "bits": int(method.n_bits_),
        "code_bytes": int(method.code_bytes),
        "model_bytes": int(method.model_bytes),
        "training_seconds": training,
        "coding_seconds": coding,
        "precision": rows.precision(search(method, rows.queries, codes, max(ks), n_jobs=n_jobs)[1], ks),
    }
    if asymmetric and method.distance == "hamming":
        _, ids = search(method, rows.queries, codes, max(ks), asymmetric=True, n_jobs=n_jobs)
        record["asymmetric"] = rows.precision(ids, ks)
    return record


def _measure_original(key: Record, rows: Rows, n_jobs: int | None) -> Record:
    ks = key["protocol"]["k"]
    dimensions = rows.queries.shape[1]
    return {
        "distance": "l2",
        "bits": 32 * dimensions,
        "code_bytes": 4 * dimensions,
        "model_bytes": 0,
        "training_seconds": 0.0,
        "coding_seconds": 0.0,
        "precision": rows.precision(rank_floats(rows, max(ks), n_jobs), ks),
    }
