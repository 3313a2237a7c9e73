"""Plain banks as they are learnt: random signs and thresholds at the mean, where learning starts, and their gradient.

The random learner stops there, to see what learning is worth.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from projbank.kernels.encode import transposed_product, transposed_rows
from projbank.learn.grouping import GroupLearner
from projbank.learn.run import Run
from projbank.models.bank import Bank, write_bank
from projbank.rows.source import ArrayRows, RowSource, Statistics
from projbank.rows.views import standardised
from projbank.threads import run_each, split_rows

_VALUES_PER_BIT = 16
"""Values other than 0 of an average vector that a bit should see where most values are 0."""

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class RandomLearner(GroupLearner):
    """Draws a bank; parameters as those of `ProjectionBank`."""

    named_auto: ClassVar[str] = "random"

    standardize: bool

    def learn(self, rows: RowSource, n_bits: int, run: Run) -> Bank:
        """Group the dimensions, and draw signs."""
        n_features = rows.shape[1]
        grouping, n_assign = self.resolved(n_bits, n_features, run)
        rows, scale = standardised(rows, self.standardize)
        if self.is_auto:
            n_assign = groups_for_sparse(rows.nonzeros_per_row(), n_bits, n_features)
        labels = self.group_rows(grouping, rows, n_bits, n_assign, run)
        signs = random_signs(labels, np.random.default_rng([run.seed, 1]))
        return LearntBank(labels, signs, rows.statistics(), n_bits, run.n_threads).model(scale)


def random_signs(labels: NDArray[np.int32], rng: np.random.Generator) -> Floats:
    """Signs for every weight, shaped as labels."""
    return rng.choice(np.array([-1, 1], np.float32), labels.shape)


def groups_for_sparse(nonzeros: float, n_bits: int, n_features: int) -> int:
    """Groups that a dimension should serve where 7 of 8 values of a vector are 0; 1 for other data.

    So many that a bit sees some values other than 0 of an average vector, but never more multiply-adds than dense data
    of the same length cost, `n_features`.
    """
    if 8 * nonzeros >= n_features:
        return 1
    nonzeros = max(nonzeros, 1.0)
    return int(max(1, min(np.ceil(_VALUES_PER_BIT * n_bits / nonzeros), n_features // nonzeros, n_bits - 1)))


class LearntBank:
    """The weights under way: margins of rows, and the gradient from slopes in the margins."""

    def __init__(
        self, labels: NDArray[np.int32], signs: Floats, statistics: Statistics, n_bits: int, n_threads: int
    ) -> None:
        self.weights = signs.copy()
        self.offsets = np.zeros(n_bits, np.float32)
        self.unit = np.float32(1.0 / statistics.spread) if statistics.spread > 0 else np.float32(1)
        self._center = statistics.means.astype(np.float32)
        self.labels = labels
        self._n_threads = n_threads
        self._rows = np.empty((0, len(self._center)), np.float32)

    @property
    def labels(self) -> NDArray[np.int32]:
        """Groups of the dimensions; another array may be set, but none may be written to."""
        return self._labels

    @labels.setter
    def labels(self, labels: NDArray[np.int32]) -> None:
        self._labels = labels
        self._flat_labels = labels.T.ravel().view(np.uint32)  # dimension after dimension, as the kernels want them

    def state(self) -> tuple[Floats, Floats, NDArray[np.int32]]:
        return self.weights.copy(), self.offsets.copy(), self._labels

    def restore(self, state: tuple[Floats, Floats, NDArray[np.int32]]) -> None:
        self.weights[:], self.offsets[:], self.labels = state

    def biases(self) -> Floats:
        """Offsets from the margins of the mean vector."""
        at_mean = self.unit * self.weights * self._center
        sums = np.bincount(self._labels.ravel(), at_mean.ravel(), minlength=len(self.offsets))
        return self.offsets + sums.astype(np.float32)

    def model(self, scale: Floats, curve: NDArray[np.float64] | None = None) -> Bank:
        """The bank of rows that were divided by a scale, (D,); with a curve it was learnt."""
        weights = np.divide(self.unit * self.weights, scale, dtype=np.float32)
        if curve is None:
            return Bank(self.labels, weights, self.biases())
        return Bank(self.labels, weights, self.biases(), curve, bends=True)

    def margins(self, rows: Floats) -> Floats:
        self._rows = rows
        out = np.empty((len(rows), len(self.offsets)), np.float32)
        weights = (self.unit * self.weights).T.ravel()
        write_bank(ArrayRows(rows), self._flat_labels, weights, self.biases(), out, n_threads=self._n_threads)
        return out

    def divide_margins(self, by: Floats) -> None:
        self.weights /= by[self._labels]
        self.offsets /= by

    def gradient(self, slopes: Floats) -> tuple[Floats, Floats]:
        totals = slopes.sum(axis=0, dtype=np.float64).astype(np.float32)
        return self.unit * (self._transposed(self._rows, slopes) - self._center * totals[self._labels]), -totals

    def _transposed(self, rows: Floats, slopes: Floats) -> Floats:
        """X^T G of the bank, ranges of columns in parallel."""
        planes = np.atleast_2d(self._labels)
        n_assign, n_features = planes.shape
        mostly_zero = n_assign > 1 and 8 * np.count_nonzero(rows[0]) < n_features
        out = np.empty((n_features, n_assign) if mostly_zero else planes.shape, np.float32)

        def multiply(first: int, last: int) -> None:
            if mostly_zero:
                transposed_rows(rows, self._flat_labels, slopes, first, last, out.reshape(-1))
                return
            for plane, sums in zip(planes, out, strict=True):
                transposed_product(rows, plane.view(np.uint32), slopes, first, last, sums)

        width = 8 * -(-n_features // (8 * 2 * self._n_threads))
        run_each(multiply, split_rows(n_features, width), self._n_threads)
        return (out.T if mostly_zero else out).reshape(self._labels.shape)
