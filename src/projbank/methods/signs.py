"""Signs of single dimensions: all of them, the best of them, and those of Fisher vectors (alpha = 0)."""

from __future__ import annotations

import numbers
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from projbank.kernels.pack import all_finite
from projbank.learn.neighbors import neighbor_graph
from projbank.methods.base import AnyLength, Floats, Method, check_indices, learnt
from projbank.metrics import pair_errors
from projbank.models.file import ModelFileError
from projbank.params import auto, checks, one_of, reject, whole
from projbank.rows.source import RowSource
from projbank.threads import run_each, split_rows, thread_count

COLUMNS = 1024


@dataclass(eq=False, repr=False, kw_only=True)
class Sign(AnyLength):
    """Bit j is 1 iff x_j is above 0; the length is that of the vectors.

    Parameters
    ----------
    center : bool
        Compare with the mean of each dimension instead of 0.

    Attributes
    ----------
    thresholds_ : (D,) float32
    """

    free_length = False
    center: bool = False
    thresholds_: Floats = learnt("float32", "d")

    def _train(self, X: RowSource, means: NDArray[np.float64], n_bits: int, rng: np.random.Generator) -> int:
        self.thresholds_ = means.astype(np.float32) if self.center else np.zeros(len(means), np.float32)
        return len(means)

    def _project(self, rows: Floats) -> Floats:
        return rows

    @property
    def model_bytes(self) -> int:
        """Bytes of the thresholds; none where all are 0."""
        return super().model_bytes if self.center else 0


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

    _checks = checks(criterion=one_of("pairs", "balance"), n_neighbors=whole(1))
    criterion: str = "pairs"
    n_neighbors: int = 100
    center: bool = True
    dimensions_: NDArray[np.int64] = learnt("int64", "d")
    thresholds_: Floats = learnt("float32", "d")

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


@dataclass(eq=False, repr=False, kw_only=True)
class AlphaZero(AnyLength):
    """For each Gaussian a bit that it was visited, then the signs of its mean gradients: (1 + k) K bits.

    A vector is taken as a Fisher vector of K Gaussians over descriptors of k numbers, 2 K k numbers, means before
    variances, as `projbank.features.FisherVector` writes them. A Gaussian counts as visited if any of its gradients is
    not 0. Where D is odd it can't be one: then all D = K k numbers are taken as mean gradients.

    Parameters
    ----------
    descriptor_size : int or "auto"
        k. "auto": 128 (SIFT) where it divides the number of mean gradients, else its largest divisor below.

    Attributes
    ----------
    thresholds_ : (n_bits,) float32
        Zeros.
    """

    free_length = False
    _checks = checks(descriptor_size=auto(whole(1)))
    descriptor_size: int | str = "auto"
    layout_: NDArray[np.int64] = learnt("int64", "*")
    thresholds_: Floats = learnt("float32", "d")

    def _train(self, X: RowSource, means: NDArray[np.float64], n_bits: int, rng: np.random.Generator) -> int:
        n_features = X.shape[1]
        n_means = n_features // 2 if n_features % 2 == 0 else n_features
        if isinstance(self.descriptor_size, numbers.Integral):
            size = int(self.descriptor_size)
            if n_means % size:
                reject(self, "descriptor_size", f"a divisor of the {n_means} mean gradients", size)
        else:
            size = next(k for k in range(min(128, n_means), 0, -1) if n_means % k == 0)
        self.layout_ = np.array([n_means // size, size], np.int64)
        self.thresholds_ = np.zeros((1 + size) * (n_means // size), np.float32)
        return len(self.thresholds_)

    def _check_arrays(self) -> None:
        if self.layout_.shape != (2,) or self.layout_.min() < 1:
            raise ModelFileError("layout_ must be two numbers above 0")
        n_gaussians, size = (int(n) for n in self.layout_)
        if self.n_features_in_ % (n_gaussians * size) or self.n_bits_ != (1 + size) * n_gaussians:
            raise ModelFileError("layout_ does not fit the vectors and the code")

    def _project(self, rows: Floats) -> Floats:
        n_gaussians, size = (int(n) for n in self.layout_)
        gradients = rows.reshape(len(rows), -1, n_gaussians, size)  # means, and variances but for odd D
        values = np.empty((len(rows), n_gaussians, 1 + size), np.float32)
        values[:, :, 0] = np.abs(gradients).mean(axis=(1, 3))  # above 0 if visited, and no larger than the others
        values[:, :, 1:] = gradients[:, 0]
        return values.reshape(len(rows), -1)

    @property
    def model_bytes(self) -> int:
        """Nothing is learnt: 0."""
        return 0
