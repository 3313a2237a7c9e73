"""Retrieval: fit a method on part of the gallery, code the gallery, search it with the queries, judge by labels."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from projbank.experiments.data import DataSet, Split, draw_split, split_sizes
from projbank.experiments.results import Record, ResultFile, stamp
from projbank.methods import METHODS, search
from projbank.methods.faiss_threads import faiss_threads
from projbank.methods.search import nearest_vectors
from projbank.metrics import precision_at_k
from projbank.params import check_int
from projbank.progress import progress, say
from projbank.vectors import row_blocks, take_rows

ORIGINAL = "original"
"""Name of the row of the uncompressed floats."""
CHUNK_BYTES = 512 << 20
SLOW_SECONDS = 600.0


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
    n_rows = data.vectors.shape[0]
    n_queries, n_train = split_sizes(n_rows, n_queries, n_train)
    ks = sorted({check_int("evaluate", "k", k, 1, n_rows - n_queries) for k in ks})
    bits = [check_int("evaluate", "bits", n, 1) for n in bits]
    protocol = {"queries": n_queries, "training": n_train, "k": ks}
    plan = list(_plan(data.identity, protocol, names, bits, list(seeds), params or {}))
    cache = _Rows(data, n_queries, n_train)
    with progress("evaluating", len(plan), verbose) as advance:
        for key in plan:
            known = results.find(key)
            if _is_done(known, asymmetric, retry_failed) or _is_slow(key, results.records, slow_seconds):
                advance(1)
                continue
            record = key | _measured(key, cache, asymmetric, n_jobs) | stamp()
            results.put(record)
            outcome = record["error"] if "error" in record else f"P@{ks[0]} {record['precision'][str(ks[0])]:.4f}"
            say(f"{key['method']}, {key['n_bits'] or 'all'} bits, seed {key['seed']}: {outcome}", max(0, verbose - 1))
            advance(1)
    return [record for record in map(results.find, plan) if record is not None]


def _check_methods(methods: Sequence[str]) -> list[str]:
    known = [ORIGINAL, *METHODS]
    for name in methods:
        if name not in known:
            raise ValueError(f"methods must be names out of {', '.join(known)}. Got {name!r}.")
    return list(dict.fromkeys(methods))


def _plan(
    identity: Record,
    protocol: Record,
    names: list[str],
    bits: Sequence[int],
    seeds: list[int],
    params: Mapping[str, Mapping[str, Any]],
) -> Iterator[Record]:
    """Keys of all cells, seed by seed, so that the rows of a seed are read once."""
    for seed in seeds:
        for n_bits in (None, *bits):
            for name in names:
                free = name != ORIGINAL and METHODS[name].free_length
                if free == (n_bits is not None):
                    yield {
                        "dataset": identity,
                        "protocol": protocol,
                        "method": name,
                        "n_bits": n_bits,
                        "params": dict(params.get(name, {})),
                        "seed": int(seed),
                    }


def _is_done(record: Record | None, asymmetric: bool, retry_failed: bool) -> bool:
    if record is None:
        return False
    if "error" in record:
        return not retry_failed
    return not (asymmetric and record["distance"] == "hamming" and "asymmetric" not in record)


def _is_slow(key: Record, records: list[Record], limit: float | None) -> bool:
    """Whether another seed of the same cell is known to take longer than `limit`."""
    if limit is None:
        return False
    same = [name for name in key if name != "seed"]
    return any(
        record.get("seconds", 0) > limit and record["seed"] != key["seed"] and all(record[n] == key[n] for n in same)
        for record in records
    )


class _Rows:
    """Rows of the last seed that was asked for, so that all its methods share them."""

    def __init__(self, data: DataSet, n_queries: int, n_train: int) -> None:
        self.data, self._sizes = data, (n_queries, n_train)
        self._seed: int | None = None
        self.split: Split
        self.queries: NDArray[np.float32]
        self.training: NDArray[np.float32]

    def load(self, seed: int) -> None:
        if seed == self._seed:
            return
        self.split = draw_split(self.data.vectors.shape[0], *self._sizes, seed)
        self.queries = _take(self.data.vectors, self.split.queries)
        self.training = _take(self.data.vectors, self.split.training)
        self._seed = seed

    def gallery(self) -> Iterator[NDArray[np.float32]]:
        """The gallery in chunks of bounded size."""
        ids = self.split.gallery
        for start, stop in row_blocks(len(ids), self.data.vectors.shape[1], CHUNK_BYTES):
            yield _take(self.data.vectors, ids[start:stop])

    def precision(self, ids: NDArray[np.int64], ks: Sequence[int]) -> dict[str, float]:
        """Precision after each k, by k as text (as JSON has it)."""
        labels = self.data.labels
        return {str(k): precision_at_k(ids, labels[self.split.gallery], labels[self.split.queries], k) for k in ks}


def _take(vectors: Any, ids: NDArray[np.int64]) -> NDArray[np.float32]:
    rows = np.empty((len(ids), vectors.shape[1]), np.float32)
    take_rows(vectors, ids, rows)
    return rows


def _measured(key: Record, rows: _Rows, asymmetric: bool, n_jobs: int | None) -> Record:
    rows.load(key["seed"])
    start = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # lowered lengths and neighbours stand in the record
            if key["method"] == ORIGINAL:
                found = _measure_original(key, rows, n_jobs)
            else:
                found = _measure_method(key, rows, asymmetric, n_jobs)
    except Exception as error:  # any method may fail in its own way: the others go on
        text = " ".join(str(error).split())
        return {"error": f"{type(error).__name__}: {text}", "seconds": time.perf_counter() - start}
    return found | {"seconds": time.perf_counter() - start}


def _measure_method(key: Record, rows: _Rows, asymmetric: bool, n_jobs: int | None) -> Record:
    cls = METHODS[key["method"]]
    length = {} if key["n_bits"] is None else {"n_bits": key["n_bits"]}
    method = cls(**length, **({"random_state": key["seed"], "n_jobs": n_jobs} | key["params"]))
    start = time.perf_counter()
    method.fit(rows.training)
    training = time.perf_counter() - start
    method.transform(rows.queries[:8])  # the first call compiles
    coding, parts = 0.0, []
    for chunk in rows.gallery():
        start = time.perf_counter()
        parts.append(method.transform(chunk))
        coding += time.perf_counter() - start
    codes = np.concatenate(parts)
    ks = key["protocol"]["k"]
    record: Record = {
        "distance": method.distance,
        "bits": int(method.n_bits_),
        "code_bytes": int(method.code_bytes),
        "model_bytes": int(method.model_bytes),
        "training_seconds": training,
        "coding_seconds": coding / len(codes),
        "precision": rows.precision(search(method, rows.queries, codes, max(ks), n_jobs=n_jobs)[1], ks),
    }
    if asymmetric and method.distance == "hamming":
        _, ids = search(method, rows.queries, codes, max(ks), asymmetric=True, n_jobs=n_jobs)
        record["asymmetric"] = rows.precision(ids, ks)
    return record


def _measure_original(key: Record, rows: _Rows, n_jobs: int | None) -> Record:
    ks = key["protocol"]["k"]
    distances = np.empty((len(rows.queries), 0), np.float32)
    ids = np.empty((len(rows.queries), 0), np.int64)
    first = 0
    for chunk in rows.gallery():
        with faiss_threads(n_jobs):
            near, found = nearest_vectors(rows.queries, chunk, min(max(ks), len(chunk)))
        distances, ids = np.hstack([distances, near]), np.hstack([ids, found + first])
        order = np.argsort(distances, axis=1, kind="stable")[:, : max(ks)]
        distances, ids = np.take_along_axis(distances, order, axis=1), np.take_along_axis(ids, order, axis=1)
        first += len(chunk)
    dimensions = rows.queries.shape[1]
    return {
        "distance": "l2",
        "bits": 32 * dimensions,
        "code_bytes": 4 * dimensions,
        "model_bytes": 0,
        "training_seconds": 0.0,
        "coding_seconds": 0.0,
        "precision": rows.precision(ids, ks),
    }
