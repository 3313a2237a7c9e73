"""Dense random projections: RR (real numbers) and LSH (signs; Charikar, STOC 2002), and what such methods share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from projbank.methods.base import Floats, Method, centred_thresholds, check_memory, learnt
from projbank.rows.source import RowSource

DENSE_ROWS = 256
"""Rows that a dense projection takes at a time: all weights are read for each block, and few rows halve the speed."""


def gaussian_matrix(owner: Any, n_features: int, n_columns: int, rng: np.random.Generator) -> Floats:
    """Independent standard normal numbers, (D, d) float32; MemoryError where they would take too much memory."""
    check_memory(owner, matrix_bytes(n_features, n_columns), f"{n_features} x {n_columns} weights")
    return rng.standard_normal((n_features, n_columns), dtype=np.float32)


def matrix_bytes(n_features: int, n_columns: int) -> int:
    """Bytes of a float32 matrix of this shape."""
    return 4 * n_features * n_columns


@dataclass(eq=False, repr=False, kw_only=True)
class DenseBits(Method):
    """Bits of one dense projection: bit p is 1 iff x' w_p is above its threshold."""

    _block_rows = DENSE_ROWS
    projection_: Floats = learnt("float32", "D d")
    thresholds_: Floats = learnt("float32", "d")

    def _project(self, rows: Floats) -> Floats:
        return rows @ self.projection_


@dataclass(eq=False, repr=False, kw_only=True)
class RandomRotation(Method):
    """y = x' W with independent W_jp ~ N(0, 1 / n_bits): distances are kept on average (Johnson-Lindenstrauss).

    Attributes
    ----------
    projection_ : (D, n_bits) float32
    """

    distance = "l2"
    _block_rows = DENSE_ROWS
    max_memory: float = 8.0
    projection_: Floats = learnt("float32", "D d")

    def _train(self, X: RowSource, means: NDArray[np.float64], n_bits: int, rng: np.random.Generator) -> int:
        self.projection_ = gaussian_matrix(self, X.shape[1], n_bits, rng)
        self.projection_ *= np.float32(1 / np.sqrt(n_bits))
        return n_bits

    def _project(self, rows: Floats) -> Floats:
        return rows @ self.projection_


@dataclass(eq=False, repr=False, kw_only=True)
class LSH(DenseBits):
    """Bit p is 1 iff x lies on the positive side of a random hyperplane.

    Parameters
    ----------
    center : bool
        Hyperplanes pass through the mean of the training data; otherwise through 0.

    Attributes
    ----------
    projection_ : (D, n_bits) float32
    thresholds_ : (n_bits,) float32
    """

    center: bool = True
    max_memory: float = 8.0

    def _train(self, X: RowSource, means: NDArray[np.float64], n_bits: int, rng: np.random.Generator) -> int:
        self.projection_ = gaussian_matrix(self, X.shape[1], n_bits, rng)
        self.thresholds_ = centred_thresholds(self._project, means, self.center, n_bits)
        return n_bits
