"""CBE: circulant projections by Fourier transforms, random or learnt (Yu, Kumar, Gong, Chang, ICML 2014)."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.fft
from numpy.typing import NDArray

from projbank.kernels.cbe import add_products, cut_pairs, split_pairs
from projbank.methods.base import Floats, Iterative, Method, centred_thresholds, learnt
from projbank.params import checks, positive, whole
from projbank.progress import progress
from projbank.rows.source import RowSource
from projbank.threads import run_ordered, thread_count

_local = threading.local()
_PRIME_WEIGHTS = {2: 1.0, 3: 1.1, 5: 1.15, 7: 1.35, 11: 1.6}


Complex = NDArray[np.complex128]


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

    _block_bytes = 2 << 20
    center: bool = True
    filter_: Floats = learnt("float32", "D")
    signs_: NDArray[np.uint8] = learnt("uint8", "D")
    thresholds_: Floats = learnt("float32", "d")

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


@dataclass(eq=False, repr=False, kw_only=True)
class CBE(Iterative, RandomCBE):
    """Bits are the signs of the first n_bits entries of R (s * x): R circulant with first column r, s random signs.

    Learning alternates between the bits B = sign(X R') and r, which minimises

        |B - X R'|^2 + lam |R R' - I|^2

    frequency by frequency. Entries of B past `n_bits` are 0 and the others are +-c, c the root mean square of X, so
    that both sides have one scale. The minimum over a frequency is the root of a cubic, so every step is exact.

    Parameters
    ----------
    n_bits : int or "auto"
        Bits per code, at most D; "auto" is about D / 16.
    lam : float
        Weight of the orthogonality of R; 1 in the source.
    max_iter : int
        Iterations.
    center : bool
        Subtract the mean of the training data.

    Attributes
    ----------
    filter_ : (D,) float32
        r, the first column of R.
    signs_ : (D,) uint8
        1 where the sign of a dimension is flipped.
    thresholds_ : (n_bits,) float32
    objective_curve_ : (max_iter + 1,) float64
        The objective per training vector, after each choice of B.
    n_iter_ : int
    """

    _checks = checks(lam=positive, max_iter=whole(1))
    lam: float = 1.0
    max_iter: int = 10

    def _improve_filter(self, X: RowSource, offset: NDArray[np.float64], n_bits: int) -> None:
        n_samples, n_features = X.shape
        problem = _Frequencies(X, offset, self.signs_, n_bits, thread_count(self.n_jobs))
        spectrum = scipy.fft.rfft(self.filter_.astype(np.float64))
        curve = []
        with progress("CBE", self.max_iter, self.verbose) as advance:
            for step in range(self.max_iter + 1):
                agreement = problem.agreement(spectrum)
                curve.append(problem.objective(spectrum, agreement, self.lam) / n_samples)
                if step < self.max_iter:
                    spectrum = best_spectrum(problem.power, agreement, self.lam)
                    advance(1)
        self.filter_ = scipy.fft.irfft(spectrum, n_features).astype(np.float32)
        self.objective_curve_ = np.array(curve)


class _Frequencies:
    """The learning problem in the frequency domain; training rows are read in blocks, twice transformed per step."""

    def __init__(
        self, X: RowSource, offset: NDArray[np.float64], signs: NDArray[np.uint8], n_bits: int, n_threads: int
    ) -> None:
        self._rows, self._n_bits, self._n_threads = X, n_bits, n_threads
        self._offset = offset
        self._flips = np.where(signs, -1.0, 1.0).astype(np.float32)
        self._size = X.shape[1]
        self._blocks = X.bounds()
        self.power, energy = self._measure()
        self._height = np.float32(np.sqrt(energy / (X.shape[0] * self._size)) or 1.0)
        self._weights = np.full(self._size // 2 + 1, 2.0)  # a frequency and its mirror image
        self._weights[0] = 1
        if self._size % 2 == 0:
            self._weights[-1] = 1

    def agreement(self, spectrum: Complex) -> Complex:
        """Sum over samples of F(x) conj(F(b)) / D, b the bits under the given filter."""
        narrow = spectrum.astype(np.complex64)

        def one(start: int, stop: int) -> Complex:
            transformed = scipy.fft.rfft(self._read(start, stop), axis=1)
            projected = scipy.fft.irfft(transformed * narrow, self._size, axis=1)
            bits = np.zeros((stop - start, self._size), np.float32)
            bits[:, : self._n_bits] = np.where(projected[:, : self._n_bits] > 0, self._height, -self._height)
            product = transformed * scipy.fft.rfft(bits, axis=1).conj()
            return product.sum(axis=0, dtype=np.complex128)

        parts = run_ordered(one, self._blocks, self._n_threads)
        return sum(parts, np.zeros(len(spectrum), np.complex128)) / self._size

    def objective(self, spectrum: Complex, agreement: Complex, lam: float) -> float:
        """|B - X R'|^2 + lam |R R' - I|^2 by Parseval's identity."""
        size = np.abs(spectrum) ** 2
        terms = self.power * size - 2 * (spectrum * agreement).real + lam * (size - 1) ** 2
        return float(self._weights @ terms) + self._rows.shape[0] * self._n_bits * float(self._height) ** 2

    def _measure(self) -> tuple[NDArray[np.float64], float]:
        """Sum over samples of |F(x)|^2 / D, and of |x|^2."""

        def one(start: int, stop: int) -> tuple[NDArray[np.float64], float]:
            rows = self._read(start, stop)
            transformed = scipy.fft.rfft(rows, axis=1)
            power = (transformed.real**2 + transformed.imag**2).sum(axis=0, dtype=np.float64)
            return power, float(np.einsum("ij,ij->", rows, rows, dtype=np.float64))

        powers, energies = zip(*run_ordered(one, self._blocks, self._n_threads), strict=True)
        return np.sum(powers, axis=0) / self._size, sum(energies)

    def _read(self, start: int, stop: int) -> Floats:
        rows = np.subtract(self._rows.block(start, stop), self._offset, dtype=np.float32)
        rows *= self._flips
        return rows


def best_spectrum(power: NDArray[np.float64], agreement: Complex, lam: float) -> Complex:
    """The a that minimises power |a|^2 - 2 Re(a agreement) + lam (|a|^2 - 1)^2 at each frequency.

    a has the phase of conj(agreement); its size s solves s^3 + p s = q with p = power / (2 lam) - 1 and
    q = |agreement| / (2 lam). That cubic is convex for s > 0, so Newton's steps from above fall to its one root.
    """
    p, q = power / (2 * lam) - 1, np.abs(agreement) / (2 * lam)
    size = np.cbrt(q) + np.sqrt(np.maximum(-p, 0))
    for _ in range(60):
        slope = 3 * size**2 + p
        size -= np.divide(size**3 + p * size - q, slope, out=np.zeros_like(size), where=slope > 0)
    phase = np.divide(agreement.conj(), np.abs(agreement), out=np.ones_like(agreement), where=agreement != 0)
    return size * phase
