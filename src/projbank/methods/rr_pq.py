"""RR+PQ: a Gaussian random projection evens out the variances, then product quantisation."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from projbank.methods.base import Floats, check_memory
from projbank.methods.linear import DENSE_ROWS, gaussian_matrix, matrix_bytes
from projbank.methods.pq import PQ


@dataclass(eq=False, repr=False, kw_only=True)
class RandomRotationPQ(PQ):
    """PQ of x' W with independent W_jp ~ N(0, 1 / n_bits): n_bits numbers in parts of 8.

    Parameters
    ----------
    n_bits : int or "auto"
        Bits per code, and numbers after the projection (no more than D); "auto" is about D / 16.
    max_iter : int
        Iterations of k-means.
    max_memory : float
        GiB above which fitting refuses to start.

    Attributes
    ----------
    projection_ : (D, numbers) float32
    centroids_ : (parts, centres, numbers of a part) float32
    """

    _block_rows = DENSE_ROWS
    _arrays = (("projection_", "float32", "D *"), *PQ._arrays)
    max_memory: float = 8.0
    projection_: Floats = field(init=False)

    def _prepare(self, n_features: int, n_bits: int, rng: np.random.Generator) -> int:
        n_columns = min(n_bits, n_features)
        check_memory(self, matrix_bytes(n_features, n_columns), f"{n_features} x {n_columns} weights", self.max_memory)
        self.projection_ = gaussian_matrix(n_features, n_columns, rng)
        self.projection_ *= np.float32(1 / np.sqrt(n_columns))
        return n_columns

    @property
    def _n_inputs(self) -> int:
        return self.projection_.shape[1]

    def _reduce(self, rows: Floats) -> Floats:
        return rows @ self.projection_
