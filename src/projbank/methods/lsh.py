"""LSH: signs of Gaussian projections (Charikar, STOC 2002)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from projbank.methods.base import centred_thresholds, check_memory
from projbank.methods.linear import DenseBits, gaussian_matrix, matrix_bytes
from projbank.rows.source import RowSource


@dataclass(eq=False, repr=False, kw_only=True)
class LSH(DenseBits):
    """Bit p is 1 iff x lies on the positive side of a random hyperplane.

    Parameters
    ----------
    n_bits : int or "auto"
        Bits per code; "auto" is about D / 16.
    center : bool
        Hyperplanes pass through the mean of the training data; otherwise through 0.
    max_memory : float
        GiB above which fitting refuses to start.

    Attributes
    ----------
    projection_ : (D, n_bits) float32
    thresholds_ : (n_bits,) float32
    """

    center: bool = True
    max_memory: float = 8.0

    def _train(self, X: RowSource, means: NDArray[np.float64], n_bits: int, rng: np.random.Generator) -> int:
        n_features = X.shape[1]
        check_memory(self, matrix_bytes(n_features, n_bits), f"{n_features} x {n_bits} weights", self.max_memory)
        self.projection_ = gaussian_matrix(n_features, n_bits, rng)
        self.thresholds_ = centred_thresholds(self._project, means, self.center, n_bits)
        return n_bits
