"""SRHT + sign: a random rotation by one Hadamard transform, a random choice of its coefficients, their signs."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from projbank.kernels.hadamard import hadamard_sample
from projbank.methods.base import Floats, Method, centred_thresholds, check_indices
from projbank.rows.source import RowSource


class SubsampledHadamard:
    """H (signs * x), padded to a power of 2, at `n_bits` random places, scaled so that distances are kept on average.

    Parameters
    ----------
    signs : (D,) uint8
        1 where the sign of a dimension is flipped.
    chosen : (n_bits,) int64
        Coefficients that are kept.
    """

    def __init__(self, signs: NDArray[np.uint8], chosen: NDArray[np.int64]) -> None:
        self.size = padded_size(len(signs))
        self._chosen = chosen
        scale = 1 / np.sqrt(len(chosen))  # H x is sqrt(P) times a rotation, of which n of P coefficients are kept
        self._signs = np.where(signs, -scale, scale).astype(np.float32)

    def __call__(self, rows: Floats) -> Floats:
        """Coefficients of each row, (n, n_bits)."""
        values = np.empty((len(rows), len(self._chosen)), np.float32)
        hadamard_sample(rows, self._signs, self._chosen, self.size, values)
        return values


def padded_size(n_features: int) -> int:
    """Smallest power of 2 that holds so many dimensions, at least 64."""
    return max(64, 1 << (n_features - 1).bit_length())


def draw_hadamard(
    n_features: int, n_bits: int, rng: np.random.Generator
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Random signs (D,) and places (n_bits,), ascending."""
    signs = rng.integers(0, 2, n_features, dtype=np.uint8)
    return signs, np.sort(rng.choice(padded_size(n_features), n_bits, replace=False))


@dataclass(eq=False, repr=False, kw_only=True)
class SRHT(Method):
    """Bit p is 1 iff coefficient p of a subsampled randomised Hadamard transform is above its threshold.

    Parameters
    ----------
    n_bits : int or "auto"
        Bits per code, at most the power of 2 that holds D; "auto" is about D / 16.
    center : bool
        Hyperplanes pass through the mean of the training data; otherwise through 0.

    Attributes
    ----------
    signs_ : (D,) uint8
        1 where the sign of a dimension is flipped.
    chosen_ : (n_bits,) int64
        Coefficients that give bits.
    thresholds_ : (n_bits,) float32
    """

    _arrays = (("signs_", "uint8", "D"), ("chosen_", "int64", "d"), ("thresholds_", "float32", "d"))
    center: bool = True
    signs_: NDArray[np.uint8] = field(init=False)
    chosen_: NDArray[np.int64] = field(init=False)

    def _train(self, X: RowSource, means: NDArray[np.float64], n_bits: int, rng: np.random.Generator) -> int:
        self._limit_bits(n_bits, padded_size(X.shape[1]), "the power of 2 that holds the features")
        self.signs_, self.chosen_ = draw_hadamard(X.shape[1], n_bits, rng)
        self._derive()
        self.thresholds_ = centred_thresholds(self._project, means, self.center, n_bits)
        return n_bits

    def _check_arrays(self) -> None:
        check_indices("chosen_", self.chosen_, padded_size(self.n_features_in_))

    def _derive(self) -> None:
        self._transform = SubsampledHadamard(self.signs_, self.chosen_)

    def _project(self, rows: Floats) -> Floats:
        return self._transform(rows)
