"""Sign, then the best bits: as many dimensions as bits, chosen without labels."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from projbank.kernels.pack import all_finite
from projbank.learn.neighbors import neighbor_graph
from projbank.methods.base import Floats, Method, check_indices
from projbank.metrics import pair_errors
from projbank.params import checks, one_of, whole
from projbank.rows.source import RowSource
from projbank.threads import run_each, split_rows, thread_count

COLUMNS = 1024


@dataclass(eq=False, repr=False, kw_only=True)
class SignSelect(Method):
    """Bit p is 1 iff x_j is above its threshold, j the p-th of the `n_bits` best dimensions.

    Parameters
    ----------
    n_bits : int or "auto"
        Bits per code, at most D; "auto" is about D / 16.
    criterion : {"pairs", "balance"}
        What makes a bit good. "pairs": it puts few pairs of training vectors on the wrong side, neighbours apart or
        others together (the error that the paper defines). "balance": its share of ones is near one half.
    n_neighbors : int
        Neighbours that count as similar ("pairs"); lowered to N - 1 if there are fewer.
    center : bool
        Compare with the mean of each dimension instead of 0.

    Attributes
    ----------
    dimensions_ : (n_bits,) int64
        Chosen dimensions, ascending.
    thresholds_ : (n_bits,) float32
    """

    _arrays = (("dimensions_", "int64", "d"), ("thresholds_", "float32", "d"))
    _checks = checks(criterion=one_of("pairs", "balance"), n_neighbors=whole(1))
    criterion: str = "pairs"
    n_neighbors: int = 100
    center: bool = True
    dimensions_: NDArray[np.int64] = field(init=False)

    def _train(self, X: RowSource, means: NDArray[np.float64], n_bits: int, rng: np.random.Generator) -> int:
        self._limit_bits(n_bits, X.shape[1], "the number of features")
        thresholds = means.astype(np.float32) if self.center else np.zeros(X.shape[1], np.float32)
        faults = self._faults(X, means, thresholds)
        best = np.lexsort((np.arange(len(faults)), faults))[:n_bits]  # ties go to the earlier dimension
        self.dimensions_ = np.sort(best)
        self.thresholds_ = thresholds[self.dimensions_]
        return n_bits

    def _faults(self, X: RowSource, means: NDArray[np.float64], thresholds: Floats) -> NDArray[np.float64]:
        """How bad each dimension's bit is, (D,)."""
        n_samples, n_features = X.shape
        bits = np.empty((n_samples, n_features), bool)
        for start, stop in X.bounds():
            bits[start:stop] = X.block(start, stop) > thresholds
        if self.criterion == "balance":
            return np.abs(bits.mean(axis=0) - 0.5)
        n_threads = thread_count(self.n_jobs)
        k = min(self.n_neighbors, n_samples - 1)
        graph = neighbor_graph(X, k, means, n_threads=n_threads, verbose=self.verbose)
        faults = np.empty(n_features)

        def judge(first: int, last: int) -> None:
            faults[first:last] = pair_errors(bits[:, first:last], graph)

        run_each(judge, split_rows(n_features, COLUMNS), n_threads)
        return faults

    def _check_arrays(self) -> None:
        check_indices("dimensions_", self.dimensions_, self.n_features_in_)

    def _project(self, rows: Floats) -> Floats:
        return rows.take(self.dimensions_, axis=1)

    def _code(self, rows: Floats, out: NDArray[Any]) -> bool:
        return super()._code(rows, out) and bool(all_finite(rows))  # a bad value may stand where no bit looks
