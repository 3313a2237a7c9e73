"""Precision-recall curves over the whole gallery, and the area under them."""

from __future__ import annotations

import numpy as np

from projbank.evaluate.results import Record
from projbank.evaluate.retrieval import ORIGINAL, SplitExperiment, code_gallery, fit_method, rank_floats
from projbank.methods import search
from projbank.metrics import precision_recall

N_POINTS = 60


class PrecisionRecallCurves(SplitExperiment):
    """Rank the whole gallery for every query; a record keeps the curve at some 60 ranks, close together at first."""

    name = "pr-curves"

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
