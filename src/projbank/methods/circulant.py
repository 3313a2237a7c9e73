"""Circulant projections by Fourier transforms: the first entries of R (s * x), without computing the others."""

from __future__ import annotations

import numpy as np
import scipy.fft
from numpy.typing import NDArray

from projbank.kernels.cbe import add_products, cut_signed
from projbank.methods.base import Floats


class CirculantProjection:
    """(R (s * x))_p for p < n_bits, R circulant with first column r.

    Only n_bits of the D entries are wanted, so x is cut into pieces. Each is convolved with the part of r that reaches
    the wanted entries; the products of the spectra are added up, and one short transform leads back. That costs less
    than two transforms of length D: see `plan`.

    Parameters
    ----------
    filter : (D,) float32, r
    signs : (D,) uint8, 1 where the sign of a dimension is flipped
    n_bits : entries wanted
    """

    def __init__(self, filter: Floats, signs: NDArray[np.uint8], n_bits: int) -> None:  # noqa: A002
        n_features = len(filter)
        self._n_bits = n_bits
        self._signs = np.where(signs, -1, 1).astype(np.float32)
        n_pieces, self._length, self._size = plan(n_features, n_bits)
        wide = filter.astype(np.float64)
        if self._size == n_features:  # one cyclic convolution
            segments, self._first = wide[None], 0
        else:
            reach = np.arange(self._length + n_bits - 1) - (self._length - 1)
            segments = wide[(reach - self._length * np.arange(n_pieces)[:, None]) % n_features]
            self._first = self._length - 1
        self._spectra = scipy.fft.rfft(segments, self._size, axis=1).astype(np.complex64)

    def __call__(self, rows: Floats) -> Floats:
        """Entries of each row, (n, n_bits), a view with adjacent columns."""
        n_rows, (n_pieces, n_frequencies) = len(rows), self._spectra.shape
        pieces = np.empty((n_rows, n_pieces, self._size), np.float32)
        cut_signed(rows, self._signs, self._length, pieces)
        product = np.empty((n_rows, n_frequencies), np.complex64)
        add_products(scipy.fft.rfft(pieces, axis=2, overwrite_x=True), self._spectra, product)
        values = scipy.fft.irfft(product, self._size, axis=1, overwrite_x=True)
        return values[:, self._first : self._first + self._n_bits]


def plan(n_features: int, n_bits: int) -> tuple[int, int, int]:
    """Number of pieces, their length, and the length of the transforms, for the least expected work.

    A piece of length L needs a transform of at least L + n_bits - 1; B + 1 of them are computed. The alternative is
    one cyclic convolution of length D: two transforms, if D has small prime factors.
    """
    choices = []
    for n_pieces in range(1, 65):
        length = -(-n_features // n_pieces)
        size = scipy.fft.next_fast_len(length + n_bits - 1, real=True)
        choices.append(((n_pieces + 1) * _cost(size), n_pieces, length, size))
    if scipy.fft.next_fast_len(n_features, real=True) == n_features:
        choices.append((2 * _cost(n_features), 1, n_features, n_features))
    _, n_pieces, length, size = min(choices)
    return n_pieces, length, size


def _cost(size: int) -> float:
    return size * np.log2(size + 1)
