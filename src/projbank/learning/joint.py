"""The joint learner: all weights together, so that the similarities of whole codes follow those of the data.

For a mini-batch, h = tanh(f / std f) relaxes the bits and S = h h' / d are the similarities of the codes. The target
T is the cosine of the centred vectors plus their two-step diffusion on the neighbour graph, each standardised over
pairs. Minimised is

    1 - corr(S, T) + mean over bits of (mean of h)^2

over the pairs of the batch, by Adam, with hand-written gradients on the coding kernels: coding stays one pass over x.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from projbank.coding import Bank
from projbank.kernels.encode import transposed_product
from projbank.progress import progress
from projbank.threads import run_all, split_rows
from projbank.vectors import take_rows

BATCH = 1024
STEPS_PER_ITERATION = 4
GRAM_LIMIT = 12_000
"""Samples up to which the whole target is kept in memory (half a GiB); above, that of each batch is computed anew."""

_RATE = 0.03
_DECAYS = (0.9, 0.999)

Floats = NDArray[np.float32]


def learn(
    X: Any,
    labels: NDArray[np.int32],
    positives: sp.csr_array,
    means: NDArray[np.float64],
    *,
    gram: Floats | None,
    deviation: float,
    n_bits: int,
    max_iter: int,
    seed: int,
    n_threads: int = 1,
    verbose: int = 0,
) -> tuple[Floats, Floats, NDArray[np.float64]]:
    """Learn all weights and biases of a bank together.

    Parameters
    ----------
    X : (n, D) training data; mini-batches of rows are read as they are needed
    labels : (D,) group of each dimension
    positives : (n, n) CSR of the positive pairs (`projbank.neighbors.positive_pairs`)
    means : (D,) means of the data
    gram : (n, n) inner products of the centred rows, changed in place, or None to compute those of each batch
    deviation : root mean square of the centred data: the unit of the weights' first value and of their steps
    n_bits, max_iter, seed : see `ProjectionBank`

    Returns
    -------
    weights : (D,) float32
    biases : (n_bits,) float32
    curve : (max_iter + 1,) loss of the first batch, then the mean loss of each iteration's batches
    """
    n_samples, n_features = X.shape
    rng = np.random.default_rng(seed)
    walk = _symmetric_walk(positives)
    whole_target = None if gram is None else similarity_target(gram, walk)
    center = means.astype(np.float32)
    unit = np.float32(1.0 / deviation) if deviation > 0 else np.float32(1)
    weights, offsets = np.ones(n_features, np.float32), np.zeros(n_bits, np.float32)
    adam = _Adam(weights, offsets)
    rows = np.empty((min(BATCH, n_samples), n_features), np.float32)
    curve = np.empty(max_iter + 1)
    with threadpool_limits(1, user_api="blas"), progress("learning together", max_iter, verbose) as advance:
        for t in range(max_iter):
            losses = []
            for _ in range(STEPS_PER_ITERATION):
                ids = np.sort(rng.choice(n_samples, len(rows), replace=False))
                take_rows(X, ids, rows)
                if whole_target is None:
                    target = similarity_target(_gram(rows - center, n_threads), walk[ids])
                else:
                    target = whole_target[np.ix_(ids, ids)]
                biases = offsets + _group_sums(unit * weights * center, labels, n_bits)
                F = Bank(labels.view(np.uint32), unit * weights, biases).margins(rows, n_threads=n_threads)
                loss, slopes = code_loss(F, target, n_threads)
                totals = slopes.sum(axis=0, dtype=np.float64).astype(np.float32)
                weight_slopes = unit * (_transposed(rows, labels, slopes, n_threads) - center * totals[labels])
                adam.step(weight_slopes, -totals)
                losses.append(loss)
            if t == 0:
                curve[0] = losses[0]
            curve[t + 1] = np.mean(losses)
            advance(1)
    biases = offsets + _group_sums(unit * weights * center, labels, n_bits)
    return unit * weights, biases, curve


def code_loss(F: Floats, target: Floats, n_threads: int = 1) -> tuple[float, Floats]:
    """1 - corr(S, target) + mean squared mean of the relaxed bits, and its gradient in the margins F.

    F (n, d) margins; target (n, n) symmetric with zero diagonal, mean 0 and deviation 1 off the diagonal. The
    deviations of the margins, which set the temperature of tanh, are taken as constants.
    """
    n, d = F.shape
    sharpness = 1 / np.maximum(F.std(axis=0), np.finfo(np.float32).tiny)
    H = np.tanh(F * sharpness)
    S, spread = _center_pairs(_gram(H, n_threads) / np.float32(d))
    spread = max(spread, 1e-12)
    n_pairs = n * (n - 1)
    correlation = np.einsum("ij,ij->", S, target, dtype=np.float64) / (n_pairs * spread)
    balance = H.mean(axis=0, dtype=np.float64)
    pull = (S * np.float32(correlation / spread) - target) * np.float32(1 / (n_pairs * spread))
    slopes = _matmul(pull, H, n_threads) * np.float32(2 / d) + (balance * (2 / (n * d))).astype(np.float32)
    slopes *= (1 - H * H) * sharpness
    return float(1 - correlation + np.mean(balance**2)), slopes


def similarity_target(dots: Floats, walk: sp.csr_array) -> Floats:
    """Cosines plus two-step diffusion, each standardised over the pairs, in place of the inner products `dots`.

    dots (n, n) of centred rows; walk (n, N): their rows of the symmetric walk on the neighbour graph.
    """
    norms = np.sqrt(np.maximum(np.diagonal(dots), 0))
    norms = np.where(norms > 0, norms, 1)
    dots /= norms
    dots /= norms[:, None]
    diffusion = np.empty_like(dots)
    for start, stop in split_rows(len(dots), BATCH):
        diffusion[start:stop] = (walk[start:stop] @ walk.T).toarray()
    return _standardise(_standardise(dots) + _standardise(diffusion))


def _center_pairs(matrix: Floats) -> tuple[Floats, float]:
    """Centre the entries off the diagonal, set the diagonal to 0; returns the matrix, changed, and their deviation."""
    n_pairs = max(1, len(matrix) * (len(matrix) - 1))
    np.fill_diagonal(matrix, 0)
    matrix -= np.float32(matrix.sum(dtype=np.float64) / n_pairs)
    np.fill_diagonal(matrix, 0)
    return matrix, float(np.sqrt(np.einsum("ij,ij->", matrix, matrix, dtype=np.float64) / n_pairs))


def _standardise(matrix: Floats) -> Floats:
    matrix, spread = _center_pairs(matrix)
    if spread > 0:
        matrix /= np.float32(spread)
    return matrix


def _symmetric_walk(positives: sp.csr_array) -> sp.csr_array:
    """The graph with every edge divided by the root of its ends' degrees, so that two steps are its square."""
    roots = 1 / np.sqrt(positives.sum(axis=1))
    return sp.csr_array(sp.diags_array(roots) @ positives @ sp.diags_array(roots), dtype=np.float32)


def _group_sums(values: Floats, labels: NDArray[np.int32], n_bits: int) -> Floats:
    return np.bincount(labels, values, minlength=n_bits).astype(np.float32)


def _matmul(A: Floats, B: Floats, n_threads: int) -> Floats:
    """A @ B in fixed blocks of rows, each on one BLAS thread: the same bits for any number of threads."""
    out = np.empty((A.shape[0], B.shape[1]), np.float32)

    def multiply(start: int, stop: int) -> None:
        np.matmul(A[start:stop], B, out=out[start:stop])

    for _ in run_all(multiply, split_rows(len(A), 256), n_threads):
        pass
    return out


def _gram(A: Floats, n_threads: int) -> Floats:
    """A @ A.T, as `_matmul`; each pair of rows is multiplied once."""
    out = np.empty((len(A), len(A)), np.float32)

    def multiply(start: int, stop: int) -> None:
        out[start:stop, start:] = A[start:stop] @ A[start:].T
        out[stop:, start:stop] = out[start:stop, stop:].T

    for _ in run_all(multiply, split_rows(len(A), 128), n_threads):
        pass
    return out


def _transposed(rows: Floats, labels: NDArray[np.int32], slopes: Floats, n_threads: int) -> Floats:
    """X^T G of a bank, ranges of columns in parallel."""
    out = np.empty(len(labels), np.float32)

    def multiply(first: int, last: int) -> None:
        transposed_product(rows, labels.view(np.uint32), slopes, first, last, out)

    for _ in run_all(multiply, split_rows(len(labels), 8 * -(-len(labels) // (8 * 2 * n_threads))), n_threads):
        pass
    return out


class _Adam:
    """Adam (Kingma and Ba 2015) on arrays that it changes in place."""

    def __init__(self, *arrays: Floats) -> None:
        self._arrays = arrays
        self._moments = [(np.zeros_like(array), np.zeros_like(array)) for array in arrays]
        self._time = 0

    def step(self, *slopes: Floats) -> None:
        self._time += 1
        for array, (first, second), slope in zip(self._arrays, self._moments, slopes, strict=True):
            first += (1 - _DECAYS[0]) * (slope - first)
            second += (1 - _DECAYS[1]) * (slope * slope - second)
            scale = _RATE / (1 - _DECAYS[0] ** self._time)
            array -= scale * first / (np.sqrt(second / (1 - _DECAYS[1] ** self._time)) + 1e-12)
