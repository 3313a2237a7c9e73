"""Principal components of rows that are read in blocks, exactly, without a D x D matrix.

Scikit-learn's PCA copies the data, and for 1,000 rows of 64,000 numbers took 89 s (full) or 33 s (randomised, 500
components) where the Gram matrix took 6 s; it is the peer that the tests compare with.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from projbank.methods.base import Floats
from projbank.rows.source import RowSource
from projbank.threads import run_each, split_rows

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
