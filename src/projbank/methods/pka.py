"""PKA: features that behave alike are merged (Liu and Wang, ICCV 2013)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from projbank.learn.grouping import group_dimensions
from projbank.methods.base import Floats, Method, check_indices, learnt
from projbank.models.bank import Bank
from projbank.models.file import ModelFileError
from projbank.params import checks, whole
from projbank.rows.source import ArrayRows, RowSource
from projbank.threads import thread_count


@dataclass(eq=False, repr=False, kw_only=True)
class PKA(Method):
    """y_c = sum of x_j over group c / sqrt(size of c), groups by k-means over dimensions.

    Parameters
    ----------
    n_bits : int or "auto"
        Real numbers per code, the groups, at most D; "auto" is about D / 16.
    kmeans_iter : int
        Iterations of k-means.

    Attributes
    ----------
    labels_ : (D,) int32
        Group of each dimension.
    """

    distance = "l2"
    _checks = checks(kmeans_iter=whole(1))
    kmeans_iter: int = 20
    labels_: NDArray[np.int32] = learnt("int32", "D")

    def _train(self, X: RowSource, means: NDArray[np.float64], n_bits: int, rng: np.random.Generator) -> int:
        self._limit_bits(n_bits, X.shape[1], "the number of features, since no group may be empty")
        self.labels_ = group_dimensions(
            "kmeans",
            X,
            n_bits,
            rng,
            kmeans_iter=self.kmeans_iter,
            n_threads=thread_count(self.n_jobs),
            verbose=self.verbose,
        )
        return n_bits

    def _check_arrays(self) -> None:
        if self.n_bits_ > self.n_features_in_:
            raise ModelFileError("there are more groups than dimensions")
        check_indices("labels_", self.labels_, self.n_bits_)

    def _derive(self) -> None:
        sizes = np.bincount(self.labels_, minlength=self.n_bits_)
        weights = (1 / np.sqrt(sizes[self.labels_])).astype(np.float32)
        self._bank = Bank(self.labels_, weights, np.zeros(self.n_bits_, np.float32))

    def _project(self, rows: Floats) -> Floats:
        return self._bank.margins(ArrayRows(rows))
