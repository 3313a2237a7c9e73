"""alpha = 0: Fisher vectors as signs of the mean gradients and one visited bit per Gaussian (Perronnin et al. 2010)."""

from __future__ import annotations

import numbers
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from projbank.methods.base import AnyLength, Floats
from projbank.models.file import ModelFileError
from projbank.params import auto, checks, reject, whole
from projbank.rows.source import RowSource


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
    _arrays = (("thresholds_", "float32", "d"), ("layout_", "int64", "*"))
    _checks = checks(descriptor_size=auto(whole(1)))
    descriptor_size: int | str = "auto"
    layout_: NDArray[np.int64] = field(init=False)

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
