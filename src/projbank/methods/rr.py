"""RR: projection by a Gaussian random matrix, real-valued."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from projbank.methods.base import Floats, Method, check_memory
from projbank.methods.linear import DENSE_ROWS, gaussian_matrix, matrix_bytes
from projbank.rows.source import RowSource


@dataclass(eq=False, repr=False, kw_only=True)
class RandomRotation(Method):
    """y = x' W with independent W_jp ~ N(0, 1 / n_bits): distances are kept on average (Johnson-Lindenstrauss).

    Parameters
    ----------
    n_bits : int or "auto"
        Real numbers per code; "auto" is about D / 16.
    max_memory : float
        GiB above which fitting refuses to start.

    Attributes
    ----------
    projection_ : (D, n_bits) float32
    """

    distance = "l2"
    _block_rows = DENSE_ROWS
    _arrays = (("projection_", "float32", "D d"),)
    max_memory: float = 8.0
    projection_: Floats = field(init=False)

    def _train(self, X: RowSource, means: NDArray[np.float64], n_bits: int, rng: np.random.Generator) -> int:
        n_features = X.shape[1]
        check_memory(self, matrix_bytes(n_features, n_bits), f"{n_features} x {n_bits} weights", self.max_memory)
        self.projection_ = gaussian_matrix(n_features, n_bits, rng)
        self.projection_ *= np.float32(1 / np.sqrt(n_bits))
        return n_bits

    def _project(self, rows: Floats) -> Floats:
        return rows @ self.projection_
