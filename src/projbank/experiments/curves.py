"""Precision-recall curves over the whole gallery, and the area under them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from projbank.experiments.data import DataSet, split_sizes
from projbank.experiments.results import Record, ResultFile
from projbank.experiments.retrieval import ORIGINAL, Cell, Rows, code_gallery, fit_method, plan_keys, rank_floats
from projbank.experiments.runner import Experiment
from projbank.methods import search
from projbank.metrics import precision_recall

N_POINTS = 60


class PrecisionRecallCurves(Experiment):
    """Rank the whole gallery for every query; a record keeps the curve at some 60 ranks, close together at first."""

    name = "pr-curves"

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

    def measure(self, key: Record) -> Record:
        """Ranks, and precision and recall after them; area under the whole curve."""
        rows = self._rows
        rows.load(key["seed"])
        n_gallery = len(rows.split.gallery)
        if key["method"] == ORIGINAL:
            ids = rank_floats(rows, n_gallery, self._n_jobs)
        else:
            method, _ = fit_method(key, rows, self._n_jobs)
            codes, _ = code_gallery(method, rows)
            _, ids = search(method, rows.queries, codes, n_gallery, n_jobs=self._n_jobs)
        labels = rows.data.labels
        curve = precision_recall(ids, labels[rows.split.gallery], labels[rows.split.queries])
        ranks = np.unique(np.geomspace(1, n_gallery, N_POINTS).round().astype(int))
        return {
            "ranks": ranks.tolist(),
            "precision": curve.precision[ranks - 1].round(5).tolist(),
            "recall": curve.recall[ranks - 1].round(5).tolist(),
            "area": curve.area,
        }

    def headline(self, record: Record) -> str:
        """Area under the curve."""
        return f"area {record['area']:.4f}"

    def close(self) -> None:
        """Let go of queries and training vectors."""
        self._rows.forget()
