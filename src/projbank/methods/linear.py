"""Dense projections: what methods with one D x d matrix share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from projbank.methods.base import Arrays, Floats, Method

DENSE_ROWS = 256
"""Rows that a dense projection takes at a time: all weights are read for each block, and few rows halve the speed."""


def gaussian_matrix(n_features: int, n_columns: int, rng: np.random.Generator) -> Floats:
    """Independent standard normal numbers, (D, d) float32."""
    return rng.standard_normal((n_features, n_columns), dtype=np.float32)


def matrix_bytes(n_features: int, n_columns: int) -> int:
    """Bytes of a float32 matrix of this shape."""
    return 4 * n_features * n_columns


@dataclass(eq=False, repr=False, kw_only=True)
class DenseBits(Method):
    """Bits of one dense projection: bit p is 1 iff x' w_p is above its threshold."""

    _block_rows = DENSE_ROWS
    _arrays: ClassVar[Arrays] = (("projection_", "float32", "D d"), ("thresholds_", "float32", "d"))
    projection_: Floats = field(init=False)

    def _project(self, rows: Floats) -> Floats:
        return rows @ self.projection_
