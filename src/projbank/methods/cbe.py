"""CBE: a circulant projection by Fourier transforms, learnt (Yu, Kumar, Gong, Chang, ICML 2014)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import scipy.fft
from numpy.typing import NDArray

from projbank.methods.base import Floats
from projbank.methods.cbe_rand import RandomCBE
from projbank.params import checks, positive, whole
from projbank.progress import progress
from projbank.rows.source import RowSource
from projbank.threads import run_all, thread_count

Complex = NDArray[np.complex128]


@dataclass(eq=False, repr=False, kw_only=True)
class CBE(RandomCBE):
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

    _arrays = (*RandomCBE._arrays, ("objective_curve_", "float64", "*"))
    _checks = checks(lam=positive, max_iter=whole(1))
    lam: float = 1.0
    max_iter: int = 10
    objective_curve_: NDArray[np.float64] = field(init=False)

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

    def _derive(self) -> None:
        super()._derive()
        self.n_iter_ = len(self.objective_curve_) - 1


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

        def one(start: int, stop: int) -> tuple[int, Complex]:
            transformed = scipy.fft.rfft(self._read(start, stop), axis=1)
            projected = scipy.fft.irfft(transformed * narrow, self._size, axis=1)
            bits = np.zeros((stop - start, self._size), np.float32)
            bits[:, : self._n_bits] = np.where(projected[:, : self._n_bits] > 0, self._height, -self._height)
            product = transformed * scipy.fft.rfft(bits, axis=1).conj()
            return start, product.sum(axis=0, dtype=np.complex128)

        parts = dict(run_all(one, self._blocks, self._n_threads))
        return sum((parts[start] for start, _ in self._blocks), np.zeros(len(spectrum), np.complex128)) / self._size

    def objective(self, spectrum: Complex, agreement: Complex, lam: float) -> float:
        """|B - X R'|^2 + lam |R R' - I|^2 by Parseval's identity."""
        size = np.abs(spectrum) ** 2
        terms = self.power * size - 2 * (spectrum * agreement).real + lam * (size - 1) ** 2
        return float(self._weights @ terms) + self._rows.shape[0] * self._n_bits * float(self._height) ** 2

    def _measure(self) -> tuple[NDArray[np.float64], float]:
        """Sum over samples of |F(x)|^2 / D, and of |x|^2."""

        def one(start: int, stop: int) -> tuple[int, NDArray[np.float64], float]:
            rows = self._read(start, stop)
            transformed = scipy.fft.rfft(rows, axis=1)
            power = (transformed.real**2 + transformed.imag**2).sum(axis=0, dtype=np.float64)
            return start, power, float(np.einsum("ij,ij->", rows, rows, dtype=np.float64))

        parts = {start: (power, energy) for start, power, energy in run_all(one, self._blocks, self._n_threads)}
        ordered = [parts[start] for start, _ in self._blocks]
        return np.sum([power for power, _ in ordered], axis=0) / self._size, sum(energy for _, energy in ordered)

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
