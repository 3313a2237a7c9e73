"""CBE-rand: a circulant projection with a random filter, nothing learnt (Yu, Kumar, Gong, Chang, ICML 2014)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from projbank.methods.base import Arrays, Floats, Method, centred_thresholds
from projbank.methods.circulant import CirculantProjection
from projbank.rows.source import RowSource


@dataclass(eq=False, repr=False, kw_only=True)
class RandomCBE(Method):
    """Bits are the signs of the first n_bits entries of R (s * x): R circulant, its first column Gaussian, s random.

    Parameters
    ----------
    n_bits : int or "auto"
        Bits per code, at most D; "auto" is about D / 16.
    center : bool
        Subtract the mean of the training data.

    Attributes
    ----------
    filter_ : (D,) float32
        First column of R.
    signs_ : (D,) uint8
        1 where the sign of a dimension is flipped.
    thresholds_ : (n_bits,) float32
    """

    _arrays: ClassVar[Arrays] = (
        ("filter_", "float32", "D"),
        ("signs_", "uint8", "D"),
        ("thresholds_", "float32", "d"),
    )
    _block_bytes = 2 << 20
    center: bool = True
    filter_: Floats = field(init=False)
    signs_: NDArray[np.uint8] = field(init=False)

    def _train(self, X: RowSource, means: NDArray[np.float64], n_bits: int, rng: np.random.Generator) -> int:
        n_features = X.shape[1]
        self._limit_bits(n_bits, n_features, "the number of features")
        self.signs_ = rng.integers(0, 2, n_features, dtype=np.uint8)
        self.filter_ = rng.standard_normal(n_features, dtype=np.float32) / np.float32(np.sqrt(n_features))
        self._improve_filter(X, means if self.center else np.zeros(n_features), n_bits)
        self._transform = CirculantProjection(self.filter_, self.signs_, n_bits)
        self.thresholds_ = centred_thresholds(self._project, means, self.center, n_bits)
        return n_bits

    def _improve_filter(self, X: RowSource, offset: NDArray[np.float64], n_bits: int) -> None:
        """Learn the filter from X - offset; here it stays as it was drawn."""

    def _derive(self) -> None:
        self._transform = CirculantProjection(self.filter_, self.signs_, self.n_bits_)

    def _project(self, rows: Floats) -> Floats:
        return self._transform(rows)
