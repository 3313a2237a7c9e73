"""Circulant projections by Fourier transforms: the first entries of R (s * x), without computing the others."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import scipy.fft
from numpy.typing import NDArray

from projbank.kernels.cbe import add_products, cut_pairs, split_pairs
from projbank.methods.base import Floats

_local = threading.local()
_PRIME_WEIGHTS = {2: 1.0, 3: 1.1, 5: 1.15, 7: 1.35, 11: 1.6}


class CirculantProjection:
    """(R (s * x))_p for p < n_bits, R circulant with first column r.

    Only n_bits of the D entries are wanted, so x is cut into pieces. Each is convolved with the part of r that reaches
    the wanted entries; the products of the spectra are added up, and one short transform leads back. That costs less
    than two transforms of length D: see `plan`. Rows go in pairs, as real and imaginary part, so that the transforms
    work in place: fresh memory for their results would cost as much as the transforms.

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
        self._spectra = scipy.fft.fft(segments, self._size, axis=1).astype(np.complex64)

    def __call__(self, rows: Floats) -> Floats:
        """Entries of each row, (n, n_bits)."""
        n_pairs, n_pieces = (len(rows) + 1) // 2, len(self._spectra)
        pieces = _workspace("pieces", (n_pairs, n_pieces, self._size))
        cut_pairs(np.ascontiguousarray(rows), self._signs, self._length, pieces.view(np.float32))
        pieces = scipy.fft.fft(pieces, axis=2, overwrite_x=True)
        pairs = _workspace("pairs", (n_pairs, self._size))
        add_products(pieces.view(np.float32), self._spectra.view(np.float32), pairs.view(np.float32))
        pairs = scipy.fft.ifft(pairs, axis=1, overwrite_x=True)
        values = np.empty((len(rows), self._n_bits), np.float32)
        split_pairs(pairs.view(np.float32), self._first, values)
        return values


def _workspace(name: str, shape: tuple[int, ...]) -> NDArray[np.complex64]:
    """Give this thread's memory of the given shape, which the last call may have used."""
    array: Any = getattr(_local, name, None)
    if array is None or array.shape[1:] != shape[1:] or len(array) < shape[0]:
        array = np.empty(shape, np.complex64)
        setattr(_local, name, array)
    return array[: shape[0]]


def plan(n_features: int, n_bits: int) -> tuple[int, int, int]:
    """Number of pieces, their length, and the length of the transforms, for the least expected work.

    A piece of length L needs a transform of at least L + n_bits - 1; B + 1 of them are computed. The alternative is
    one cyclic convolution of length D: two transforms, if D has small prime factors.
    """
    choices = []
    for n_pieces in range(1, 65):
        length = -(-n_features // n_pieces)
        size = scipy.fft.next_fast_len(length + n_bits - 1)
        choices.append(((n_pieces + 1) * _cost(size), n_pieces, length, size))
    if scipy.fft.next_fast_len(n_features) == n_features:
        choices.append((2 * _cost(n_features), 1, n_features, n_features))
    _, n_pieces, length, size = min(choices)
    return n_pieces, length, size


def _cost(size: int) -> float:
    """Work of a transform whose length has the prime factors 2 to 11; large factors cost more than their logarithm."""
    steps, rest = 1.0, size
    for prime, weight in _PRIME_WEIGHTS.items():
        while rest % prime == 0:
            steps += weight * np.log2(prime)
            rest //= prime
    return size * steps
