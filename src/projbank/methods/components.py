"""Methods on principal components, which are computed exactly from blocks of rows, without a D x D matrix: PCA and SpH.

Scikit-learn's PCA copies the data, and for 1,000 rows of 64,000 numbers took 89 s (full) or 33 s (randomised, 500
components) where the Gram matrix took 6 s; it is the peer that the tests compare with.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from projbank.methods.base import Floats, Method, check_indices, check_memory, learnt
from projbank.methods.dense import DENSE_ROWS, matrix_bytes
from projbank.models.file import ModelFileError
from projbank.rows.source import RowSource
from projbank.threads import run_each, split_rows, thread_count

RANK_TOLERANCE = 1e-6
"""Share of the largest variance below which a direction is rounding error of float32."""
COLUMNS = 4096
_BLOCK_BYTES = 96 << 20


class Components(NamedTuple):
    """Directions (D, k) float32, orthonormal columns, and coordinates of the centred rows (n, k) float32."""

    directions: Floats
    coordinates: Floats


def principal_components(X: RowSource, means: NDArray[np.float64], n_components: int, n_threads: int = 1) -> Components:
    """At most `n_components` principal components, by falling variance; those without variance are left out.

    With fewer rows than dimensions the n x n Gram matrix of the centred rows has the eigenvalues of the covariance, and
    its eigenvectors give the directions. Otherwise the covariance itself is small. Signs are such that the largest
    entry of a direction is positive. At least one component comes back; it is 0 where nothing varies.
    """
    n_rows, n_features = X.shape
    dual = n_rows <= n_features
    matrix = _gram(X, means, n_threads) if dual else _covariance(X, means)
    k = min(n_components, len(matrix))
    values, vectors = scipy.linalg.eigh(
        matrix, subset_by_index=(len(matrix) - k, len(matrix) - 1), overwrite_a=True, check_finite=False
    )
    values, vectors = values[::-1], vectors[:, ::-1]
    kept = values > RANK_TOLERANCE * values[0]
    kept[0] = True
    vectors = np.ascontiguousarray(vectors[:, kept], np.float32)
    directions = _back(X, means, vectors, n_threads) if dual else vectors
    lengths = np.sqrt(np.einsum("ij,ij->j", directions, directions, dtype=np.float64))
    largest = np.abs(directions).argmax(axis=0)
    flips = np.where(directions[largest, np.arange(len(largest))] < 0, -1, 1)
    directions *= (flips / np.where(lengths > 0, lengths, 1)).astype(np.float32)
    if dual:
        return Components(directions, (vectors * (lengths * flips)).astype(np.float32))
    coordinates = np.empty((n_rows, directions.shape[1]), np.float32)
    for start, stop in X.bounds(_BLOCK_BYTES):
        coordinates[start:stop] = _centred(X, means, start, stop) @ directions
    return Components(directions, coordinates)


def _centred(X: RowSource, means: NDArray[np.float64], start: int, stop: int) -> Floats:
    return np.subtract(X.block(start, stop), means, dtype=np.float32)


def _gram(X: RowSource, means: NDArray[np.float64], n_threads: int) -> NDArray[np.float64]:
    """Inner products of the centred rows, (n, n); each pair of blocks is multiplied once."""
    gram = np.empty((X.shape[0], X.shape[0]))
    blocks = X.bounds(_BLOCK_BYTES)

    def multiply(a: int, b: int) -> None:
        left = _centred(X, means, *blocks[a])
        right = left if a == b else _centred(X, means, *blocks[b])
        product = left @ right.T
        gram[slice(*blocks[a]), slice(*blocks[b])] = product
        gram[slice(*blocks[b]), slice(*blocks[a])] = product.T

    pairs = [(a, b) for a in range(len(blocks)) for b in range(a, len(blocks))]
    run_each(multiply, pairs, n_threads)
    return gram


def _covariance(X: RowSource, means: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sum of the products of the centred columns, (D, D)."""
    total = np.zeros((X.shape[1], X.shape[1]))
    for start, stop in X.bounds(_BLOCK_BYTES):
        rows = _centred(X, means, start, stop)
        total += rows.T @ rows
    return total


def _back(X: RowSource, means: NDArray[np.float64], vectors: Floats, n_threads: int) -> Floats:
    """X' V for the centred rows, (D, k); ranges of columns are independent."""
    directions = np.empty((X.shape[1], vectors.shape[1]), np.float32)

    def multiply(first: int, last: int) -> None:
        columns = np.empty((X.shape[0], last - first), np.float32)
        for start, stop in X.bounds():
            np.subtract(X.block(start, stop)[:, first:last], means[first:last], out=columns[start:stop])
        directions[first:last] = columns.T @ vectors

    run_each(multiply, split_rows(X.shape[1], COLUMNS), n_threads)
    return directions


@dataclass(eq=False, repr=False, kw_only=True)
class PCA(Method):
    """y = W' (x - mean), W the directions of largest variance of the training data.

    Parameters
    ----------
    n_bits : int or "auto"
        Real numbers per code; "auto" is about D / 16. No more exist than training vectors less one and than D: then
        there are fewer (`n_bits_`), with a warning.

    Attributes
    ----------
    directions_ : (D, n_bits_) float32
    offsets_ : (n_bits_,) float32
        The projected mean.
    """

    distance = "l2"
    _block_rows = DENSE_ROWS
    max_memory: float = 8.0
    directions_: Floats = learnt("float32", "D d")
    offsets_: Floats = learnt("float32", "d")

    def _train(self, X: RowSource, means: NDArray[np.float64], n_bits: int, rng: np.random.Generator) -> int:
        check_memory(self, components_bytes(X.shape, n_bits), f"{n_bits} components")
        self.directions_ = principal_components(X, means, n_bits, thread_count(self.n_jobs)).directions
        found = self.directions_.shape[1]
        if found < n_bits:
            message = f"n_bits={n_bits} is lowered to {found}: the training data have no more components."
            warnings.warn(message, UserWarning, stacklevel=3)
        self.offsets_ = means.astype(np.float32) @ self.directions_
        return found

    def _project(self, rows: Floats) -> Floats:
        values = rows @ self.directions_
        values -= self.offsets_
        return values


def components_bytes(shape: tuple[int, int], n_components: int) -> int:
    """Bytes that `principal_components` needs at most: directions, and the matrix and its eigenvectors."""
    smaller = min(shape)
    return matrix_bytes(shape[1], min(n_components, smaller)) + 2 * 8 * smaller**2


@dataclass(eq=False, repr=False, kw_only=True)
class SpectralHashing(Method):
    """Bit p is 1 iff cos(m pi (v - a) / (b - a)) is above 0: v a principal component with the range [a, b], m a mode.

    Of all components and modes the `n_bits` pairs with the smallest m / (b - a) are taken. Only components that a pair
    uses are kept.

    Attributes
    ----------
    directions_ : (D, components) float32
    starts_ : (components,) float32
        a, as a projection of vectors that are not centred.
    ranges_ : (components,) float32
        b - a.
    modes_ : (n_bits, 2) int64
        Component and mode m of each bit.
    thresholds_ : (n_bits,) float32
        Zeros.
    """

    _block_rows = DENSE_ROWS
    _not_for_coding = ("thresholds_",)
    max_memory: float = 8.0
    directions_: Floats = learnt("float32", "D *")
    starts_: Floats = learnt("float32", "*")
    ranges_: Floats = learnt("float32", "*")
    modes_: NDArray[np.int64] = learnt("int64", "d *")
    thresholds_: Floats = learnt("float32", "d")

    def _train(self, X: RowSource, means: NDArray[np.float64], n_bits: int, rng: np.random.Generator) -> int:
        check_memory(self, components_bytes(X.shape, n_bits), f"{n_bits} components")
        directions, coordinates = principal_components(X, means, n_bits, thread_count(self.n_jobs))
        low, high = coordinates.min(axis=0), coordinates.max(axis=0)
        ranges = np.where(high > low, high - low, np.float32(1))
        modes = smallest_modes(ranges, n_bits)
        used, modes[:, 0] = np.unique(modes[:, 0], return_inverse=True)
        self.directions_ = np.ascontiguousarray(directions[:, used])
        self.starts_ = means.astype(np.float32) @ self.directions_ + low[used]
        self.ranges_ = ranges[used]
        self.modes_ = modes
        self.thresholds_ = np.zeros(n_bits, np.float32)
        return n_bits

    def _check_arrays(self) -> None:
        if self.modes_.shape[1] != 2 or not self.starts_.shape == self.ranges_.shape == self.directions_.shape[1:]:
            raise ModelFileError("directions, ranges and modes do not fit each other")
        check_indices("modes_", self.modes_[:, 0], len(self.ranges_))

    def _derive(self) -> None:
        self._rates = (np.pi * self.modes_[:, 1] / self.ranges_[self.modes_[:, 0]]).astype(np.float32)

    def _project(self, rows: Floats) -> Floats:
        components = rows @ self.directions_
        components -= self.starts_
        values = components.take(self.modes_[:, 0], axis=1)
        values *= self._rates
        with np.errstate(invalid="ignore"):  # bad values are told later
            return np.cos(values, out=values)


def smallest_modes(ranges: Floats, n_bits: int) -> NDArray[np.int64]:
    """Pairs (component, mode), (n_bits, 2), of the smallest eigenvalues (mode / range)^2; ties to earlier components.

    The widest component alone has `n_bits` modes up to n_bits / max(ranges), so none above that is looked at.
    """
    widths = ranges.astype(np.float64)
    counts = np.ceil(n_bits * widths / widths.max()).astype(np.int64)
    components = np.repeat(np.arange(len(widths)), counts)
    modes = np.arange(len(components)) - np.repeat(np.cumsum(counts) - counts, counts) + 1
    order = np.argsort(modes / widths[components], kind="stable")[:n_bits]
    return np.column_stack([components[order], modes[order]])
