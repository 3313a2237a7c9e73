"""Sign: one bit per dimension, its sign."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from projbank.methods.base import AnyLength, Floats
from projbank.rows.source import RowSource


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
    _arrays = (("thresholds_", "float32", "d"),)
    center: bool = False

    def _train(self, X: RowSource, means: NDArray[np.float64], n_bits: int, rng: np.random.Generator) -> int:
        self.thresholds_ = means.astype(np.float32) if self.center else np.zeros(len(means), np.float32)
        return len(means)

    def _project(self, rows: Floats) -> Floats:
        return rows

    @property
    def model_bytes(self) -> int:
        """Bytes of the thresholds; none where all are 0."""
        return super().model_bytes if self.center else 0
