"""LSH: signs of Gaussian projections (Charikar, STOC 2002)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from projbank.methods.base import centred_thresholds, check_memory
from projbank.methods.linear import DenseBits, gaussian_matrix, matrix_bytes
from projbank.rows.source import RowSource


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
    random_state : int, RandomState or None
    n_jobs : int or None
    verbose : int

    Attributes
    ----------
    projection_ : (D, n_bits) float32
    thresholds_ : (n_bits,) float32
    """

    def __init__(
        self,
        n_bits: int | str = "auto",
        *,
        center: bool = True,
        max_memory: float = 8.0,
        random_state: int | np.random.RandomState | None = 0,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(n_bits, random_state=random_state, n_jobs=n_jobs, verbose=verbose)
        self.center = center
        self.max_memory = max_memory

    def _train(self, X: RowSource, means: NDArray[np.float64], n_bits: int, rng: np.random.Generator) -> int:
        n_features = X.shape[1]
        check_memory(self, matrix_bytes(n_features, n_bits), f"{n_features} x {n_bits} weights", self.max_memory)
        self.projection_ = gaussian_matrix(n_features, n_bits, rng)
        self.thresholds_ = centred_thresholds(self._project, means, self.center, n_bits)
        return n_bits
