"""Random signs, thresholds at the mean: where the joint learner starts; to see what learning is worth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from projbank.learn.grouping import group_rows, resolve_grouping
from projbank.learn.joint import LearntBank, groups_for_sparse, random_signs
from projbank.learn.run import FromParameters, Run
from projbank.models.bank import Bank
from projbank.rows.source import RowSource
from projbank.rows.views import ScaledRows, unit_scale


@dataclass(frozen=True)
class RandomLearner(FromParameters):
    """Draws a bank; parameters as those of `ProjectionBank`."""

    grouping: str | ArrayLike
    n_assign: int | str
    standardize: bool
    kmeans_iter: int

    def learn(self, rows: RowSource, n_bits: int, run: Run) -> Bank:
        """Group the dimensions, and draw signs."""
        n_features = rows.shape[1]
        grouping, n_assign = resolve_grouping(self.grouping, self.n_assign, "random", n_bits, n_features, run)
        scale = unit_scale(rows, self.standardize)
        rows = ScaledRows(rows, scale) if self.standardize else rows
        if isinstance(self.grouping, str) and self.grouping == "auto" and self.n_assign == "auto":
            n_assign = groups_for_sparse(rows.nonzeros_per_row(), n_bits, n_features)
        labels = group_rows(grouping, rows, n_bits, n_assign, self.kmeans_iter, np.random.default_rng(run.seed), run)
        signs = random_signs(labels, np.random.default_rng([run.seed, 1]))
        bank = LearntBank(labels, signs, rows.statistics(), n_bits, run.n_threads)
        return Bank(labels, np.divide(bank.unit * bank.weights, scale, dtype=np.float32), bank.biases())
