"""Three of the paper's protocols: what a method costs, precision against recall, and the pairwise error of bits."""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np

from projbank.bits import unpack
from projbank.evaluate.data import DataSet
from projbank.evaluate.results import Record
from projbank.evaluate.retrieval import ORIGINAL, SplitExperiment, build_method, sizes_of
from projbank.learn.neighbors import neighbor_graph
from projbank.methods.nearest import search
from projbank.metrics import pair_errors, precision_recall
from projbank.rows.source import as_rows
from projbank.threads import thread_count

N_CODED, TURNS = 128, 3
"""Cost: vectors in the batch that is coded, and how often; the fastest turn counts."""
N_POINTS = 60
N_NEIGHBORS = 100


class Cost(SplitExperiment):
    """Train on few vectors and code a batch of others, best of three turns, on one thread.

    Training uses `n_jobs` threads. The record says how busy the machine was: times of a busy machine are no measure.
    """

    name, headline = "cost", "coding_seconds"
    max_training = 2000

    def __init__(self, data: DataSet, *args: Any, n_queries: int | None = None, **settings: Any) -> None:
        n_coded = max(1, min(N_CODED, data.vectors.shape[0] // 2))
        super().__init__(data, *args, n_queries=n_coded, **settings)

    def protocol(self) -> Record:
        """Sizes; the coded vectors take the place of queries."""
        return {"experiment": self.name, "coded": self.sizes[0], "training": self.sizes[1], "coding_threads": 1}

    def measure(self, key: Record) -> Record:
        """Bytes and seconds."""
        self.load(key["seed"])
        method = build_method(key, self.n_jobs)
        start = time.perf_counter()
        method.fit(self.training)
        training = time.perf_counter() - start
        method.set_params(n_jobs=1)
        method.transform(self.queries[:8])  # the first call compiles
        turns = []
        for _ in range(TURNS):
            start = time.perf_counter()
            method.transform(self.queries)
            turns.append(time.perf_counter() - start)
        load = round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None
        seconds = {"training_seconds": training, "coding_seconds": min(turns) / len(self.queries), "load": load}
        return sizes_of(method) | seconds


class PrecisionRecallCurves(SplitExperiment):
    """Rank the whole gallery for every query; a record keeps the curve at some 60 ranks, close together at first."""

    name, headline = "pr-curves", "area"

    def measure(self, key: Record) -> Record:
        """Ranks, and precision and recall after them; area under the whole curve."""
        self.load(key["seed"])
        n_gallery, labels = len(self.split.gallery), np.asarray(self.data.labels)
        if key["method"] == ORIGINAL:
            ids = self.rank_floats(n_gallery)
        else:
            method, _ = self.fit(key)
            _, ids = search(method, self.queries, self.code_gallery(method)[0], n_gallery, n_jobs=self.n_jobs)
        curve = precision_recall(ids, labels[self.split.gallery], labels[self.split.queries])
        ranks = np.unique(np.geomspace(1, n_gallery, N_POINTS).round().astype(int))
        return {
            "ranks": ranks.tolist(),
            "precision": curve.precision[ranks - 1].round(5).tolist(),
            "recall": curve.recall[ranks - 1].round(5).tolist(),
            "area": curve.area,
        }


class PairError(SplitExperiment):
    """Share of the N^2 pairs of training vectors that a bit puts on the wrong side, averaged over bits.

    The method "original" is E_org: one bit, learnt from all dimensions by the paper's solver. Records also say what
    share of pairs is positive: a bit that splits the data into halves is wrong on about half of all pairs at least,
    for most pairs are negative and half of the pairs must fall on one side.
    """

    name, headline = "pair-error", "pair_error"
    max_training = 2000

    def protocol(self) -> Record:
        """Sizes and the number of neighbours that make a pair positive."""
        return super().protocol() | {"neighbors": min(N_NEIGHBORS, self.sizes[1] - 1)}

    def measure(self, key: Record) -> Record:
        """Mean and spread of the error over bits, and the share of positive pairs."""
        self.load(key["seed"])
        X, n_neighbors = self.training, key["protocol"]["neighbors"]
        one_bit = {"method": "bpb", "n_bits": 1, "params": {}} if key["method"] == ORIGINAL else {}
        method = build_method(key | one_bit, self.n_jobs)
        with self.memo.use():
            bits = unpack(method.fit(X).transform(X), method.n_bits_)
            rows = as_rows(X)
            graph = neighbor_graph(rows, n_neighbors, rows.statistics().means, n_threads=thread_count(self.n_jobs))
        errors = pair_errors(bits, graph)
        return {
            "bits": int(method.n_bits_),
            "pair_error": float(errors.mean()),
            "spread_over_bits": float(errors.std()),
            "least": float(errors.min()),
            "positive_share": graph.nnz / len(X) ** 2,
        }
