"""Retrieval: fit a method on part of the gallery, code the gallery, search it with the queries, judge the results."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from projbank.evaluate.data import MAX_TRAINING, DataSet, Split, draw_split, split_sizes
from projbank.evaluate.results import Record, ResultFile
from projbank.evaluate.runner import Experiment, Rules, run
from projbank.learn.run import Memo
from projbank.methods import METHODS
from projbank.methods.nearest import nearest_vectors, search
from projbank.metrics import mean_average_precision, precision_at_k, precision_recall, recall_at_k
from projbank.params import check_int
from projbank.rows.source import row_blocks
from projbank.threads import faiss_threads

ORIGINAL = "original"
"""Name of the row of the uncompressed floats."""
KS, KS_WITHOUT_LABELS = (50, 100), (10, 50)
CHUNK_BYTES = 512 << 20

Cell = tuple[str, int | None, Mapping[str, Any]]
"""Method ("original" too), length in bits or None where it follows from the data, further parameters."""


class SplitExperiment(Experiment):
    """An experiment on queries, gallery and training set of each seed; the rows of a seed are read once.

    Parameters
    ----------
    data : vectors and labels
    cells : methods, lengths and parameters
    results : where records go
    seeds : each draws its own queries, gallery and training set, and seeds the method
    n_queries, n_train : sizes; by default 1,000 but at most a tenth, and two thirds of the gallery
    n_jobs : threads
    """

    max_training = MAX_TRAINING

    split: Split
    _seed: int | None

    def __init__(
        self,
        data: DataSet,
        cells: Iterable[Cell],
        results: ResultFile,
        *,
        seeds: Iterable[int] = range(5),
        n_queries: int | None = None,
        n_train: int | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.data, self.n_jobs = data, n_jobs
        self.sizes = split_sizes(data.vectors.shape[0], n_queries, n_train, self.max_training)
        super().__init__(plan_keys(data, self.protocol(), cells, seeds), results)
        self.close()

    def protocol(self) -> Record:
        """What the results depend on, apart from data, method and seed."""
        return {"experiment": self.name, "queries": self.sizes[0], "training": self.sizes[1]}

    def load(self, seed: int) -> None:
        """Draw the split of a seed and read its queries and training rows."""
        if seed != self._seed:
            self.close()
            self.split = draw_split(self.data.vectors.shape[0], *self.sizes, seed)
            self.queries, self.training = self.data.take(self.split.queries), self.data.take(self.split.training)
            self.memo, self._seed = Memo(self.training), seed

    def close(self) -> None:
        """Let go of queries and training vectors."""
        self.queries = self.training = np.empty((0, 0), np.float32)
        self.memo, self._seed = Memo(self.training), None
        self._nearest = np.empty((0, 0), np.int64)

    def fit(self, key: Record) -> tuple[Any, float]:
        """Fit the estimator of a cell on the training rows; returns it and the seconds that this takes alone.

        Neighbours and groups that an earlier cell computed are not computed again; their seconds are added.
        """
        method = build_method(key, self.n_jobs)
        with self.memo.use() as memo:
            start = time.perf_counter()
            method.fit(self.training, self.labels_for(method))
            return method, time.perf_counter() - start + memo.spared

    def labels_for(self, method: Any) -> NDArray[Any] | None:
        """Labels of the training rows, for a method that is nothing without them; others never see labels."""
        wanted = getattr(method, "learns_labels", False) and self.data.labels is not None
        return np.asarray(self.data.labels)[self.split.training] if wanted else None

    def gallery(self) -> Iterator[NDArray[np.float32]]:
        """The gallery in chunks of bounded size."""
        ids = self.split.gallery
        for start, stop in row_blocks(len(ids), self.data.vectors.shape[1], CHUNK_BYTES):
            yield self.data.take(ids[start:stop])

    def code_gallery(self, method: Any) -> tuple[NDArray[Any], float]:
        """Codes of the whole gallery, and the seconds that one vector took."""
        method.transform(self.queries[:8])  # the first call compiles
        seconds, parts = 0.0, []
        for chunk in self.gallery():
            start = time.perf_counter()
            parts.append(method.transform(chunk))
            seconds += time.perf_counter() - start
        codes = np.concatenate(parts)
        return codes, seconds / len(codes)

    def rank_floats(self, k: int) -> NDArray[np.int64]:
        """Nearest k of the gallery by Euclidean distance of the uncompressed vectors, (queries, k)."""
        if self._nearest.shape[1] < k:
            distances, ids = np.empty((len(self.queries), 0), np.float32), np.empty((len(self.queries), 0), np.int64)
            first = 0
            for chunk in self.gallery():
                with faiss_threads(self.n_jobs):
                    near, found = nearest_vectors(self.queries, chunk, min(k, len(chunk)))
                distances, ids = np.hstack([distances, near]), np.hstack([ids, found + first])
                order = np.argsort(distances, axis=1, kind="stable")[:, :k]
                distances, ids = np.take_along_axis(distances, order, axis=1), np.take_along_axis(ids, order, axis=1)
                first += len(chunk)
            self._nearest = ids
        return self._nearest[:, :k]


class Retrieval(SplitExperiment):
    """Quality of the first k results, of codes and of the uncompressed floats.

    With labels, that is the share of results that have the query's label (precision). Without, it is the share of the
    floats' own k nearest neighbours that are among the k results (recall).

    Parameters
    ----------
    ks : results that count; by default 50 and 100 with labels, 10 and 50 without
    asymmetric : also search with real-valued queries where codes are binary
    whole : also rank the whole gallery by labels: mean average precision, and the area under precision against recall
    name : what the cells are measured for; others are as in `SplitExperiment`
    """

    def __init__(
        self,
        *args: Any,
        ks: Sequence[int] = (),
        asymmetric: bool = False,
        whole: bool = False,
        name: str = "retrieval",
        **settings: Any,
    ) -> None:
        self.name, self.asymmetric, self.whole, self.ks = name, asymmetric, whole, ks
        super().__init__(*args, **settings)

    def protocol(self) -> Record:
        """Sizes and numbers of results."""
        labelled = self.data.labels is not None
        self.headline = "precision" if labelled else "recall"
        n_gallery = self.data.vectors.shape[0] - self.sizes[0]
        ks = self.ks or [min(k, n_gallery) for k in (KS if labelled else KS_WITHOUT_LABELS)]
        self.ks = sorted({check_int("evaluate", "k", k, 1, n_gallery) for k in ks})
        sizes = {"queries": self.sizes[0], "training": self.sizes[1], "k": self.ks}
        return sizes if labelled else sizes | {"truth": "nearest floats"}

    def measure(self, key: Record) -> Record:
        """Precision or recall, bytes, and seconds of training and coding."""
        self.load(key["seed"])
        if key["method"] == ORIGINAL:
            width = self.queries.shape[1]
            sizes = {"distance": "l2", "bits": 32 * width, "code_bytes": 4 * width, "model_bytes": 0}
            ids = self.rank_floats(self._depth)
            times = {"training_seconds": 0.0, "coding_seconds": 0.0}
            return sizes | times | {self.headline: self._judge(ids)} | self._judge_whole(ids)
        method, training = self.fit(key)
        codes, coding = self.code_gallery(method)
        record = sizes_of(method) | {"training_seconds": training, "coding_seconds": coding}
        found = search(method, self.queries, codes, self._depth, n_jobs=self.n_jobs)
        record |= {self.headline: self._judge(found[1])} | self._judge_whole(found[1], found[0])
        if self.asymmetric and method.distance == "hamming":
            found = search(method, self.queries, codes, max(self.ks), asymmetric=True, n_jobs=self.n_jobs)
            record["asymmetric"] = self._judge(found[1])
        return record

    def is_complete(self, record: Record) -> bool:
        """Whether asymmetric scores are there, if they were asked for; cells of `evaluate` count without the whole."""
        return not (self.asymmetric and record["distance"] == "hamming" and "asymmetric" not in record)

    @property
    def _depth(self) -> int:
        return len(self.split.gallery) if self.whole else max(self.ks)

    def _judge_whole(self, ids: NDArray[np.int64], distances: NDArray[Any] | None = None) -> Record:
        """Mean average precision, where equal distances count as one place, and area under the curve."""
        if not self.whole:
            return {}
        labels = np.asarray(self.data.labels)
        gallery, queries = labels[self.split.gallery], labels[self.split.queries]
        area = precision_recall(ids, gallery, queries).area
        return {"map": mean_average_precision(ids, gallery, queries, distances), "area": area}

    def _judge(self, ids: NDArray[np.int64]) -> dict[str, float]:
        """Score after each k, by k as text (as JSON has it)."""
        labels = self.data.labels
        if labels is None:
            nearest = self.rank_floats(max(self.ks))
            return {str(k): recall_at_k(ids, nearest, k) for k in self.ks}
        gallery, queries = labels[self.split.gallery], labels[self.split.queries]
        return {str(k): precision_at_k(ids, gallery, queries, k) for k in self.ks}


def evaluate(
    data: DataSet,
    methods: Sequence[str],
    bits: Sequence[int],
    results: ResultFile,
    *,
    params: Mapping[str, Mapping[str, Any]] | None = None,
    rules: Rules | None = None,
    verbose: int = 0,
    **settings: Any,
) -> list[Record]:
    """Measure every method at every length and seed; returns the records, those of failures too, in their order.

    Cells that `results` already has are not measured again. A method that fails becomes a record that says why.

    Parameters
    ----------
    data : vectors, and labels if there are any
    methods : names of `METHODS`, or "original"
    bits : code lengths; methods whose length follows from the data run once
    results : where records go, and where a run goes on
    params : further parameters of a method, by its name
    rules : which cells are measured
    verbose : 1 shows a bar over the whole plan on a terminal, 2 also a line per cell
    settings : of `Retrieval`: seeds, n_queries, n_train, ks, asymmetric, n_jobs
    """
    for name in methods:
        if name not in (ORIGINAL, *METHODS):
            raise ValueError(f"methods must be names out of {', '.join([ORIGINAL, *METHODS])}. Got {name!r}.")
    lengths = [check_int("evaluate", "bits", n, 1) for n in bits]
    cells = list_cells(list(dict.fromkeys(methods)), lengths, params or {})
    experiment = Retrieval(data, cells, results, **settings)
    run([experiment], rules or Rules(), verbose)
    return experiment.records()


def list_cells(names: Sequence[str], bits: Sequence[int], params: Mapping[str, Mapping[str, Any]]) -> list[Cell]:
    """All methods at all lengths; those whose length follows from the data come once, and first."""
    free = {name: name != ORIGINAL and METHODS[name].free_length for name in names}
    fixed: list[Cell] = [(name, None, params.get(name, {})) for name in names if not free[name]]
    return fixed + [(name, n, params.get(name, {})) for n in bits for name in names if free[name]]


def plan_keys(data: DataSet, protocol: Record, cells: Iterable[Cell], seeds: Iterable[int]) -> list[Record]:
    """Keys of all cells, seed by seed, so that the rows of a seed are read once."""
    common, cells = {"dataset": data.identity, "protocol": protocol}, list(cells)
    return [
        common | {"method": method, "n_bits": n_bits, "params": dict(params), "seed": int(seed)}
        for seed in seeds
        for method, n_bits, params in cells
    ]


def build_method(key: Record, n_jobs: int | None) -> Any:
    """Make the estimator of a cell."""
    length = {} if key["n_bits"] is None else {"n_bits": key["n_bits"]}
    return METHODS[key["method"]](**length, **({"random_state": key["seed"], "n_jobs": n_jobs} | key["params"]))


def sizes_of(method: Any) -> Record:
    """Distance, bits and bytes of a fitted method."""
    return {
        "distance": method.distance,
        "bits": int(method.n_bits_),
        "code_bytes": int(method.code_bytes),
        "model_bytes": int(method.model_bytes),
    }
