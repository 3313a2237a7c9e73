"""Gaussian mixtures with diagonal covariances, fitted by EM written as matrix products, from a k-means start."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from projbank.features.encoder import nearest
from projbank.kernels import features as kernels
from projbank.threads import blas_threads, run_ordered, split_rows

BLOCK_ROWS = 512
"""Rows whose posteriors are held at a time: they stay in the second-level cache."""
TASK_ROWS = 8192
"""Rows of one task of an EM step; sums of tasks are added in order, in float64."""


class Statistics(NamedTuple):
    """Sums over descriptors x, relative to a centre c, weighted by the posteriors of each Gaussian."""

    mass: NDArray[np.floating]  # (K,)       sum of posteriors
    first: NDArray[np.floating]  # (K, k)    sum of posterior * (x - c)
    second: NDArray[np.floating]  # (K, k)   sum of posterior * (x - c)^2
    log_likelihood: float  # sum of log p(x)


_Block = tuple[NDArray[np.float32], NDArray[np.float32], float]
"""Sum of posteriors (K,), of posteriors times descriptors and their squares (K, 2k), and the log-likelihood."""


class DiagonalMixture:
    """A mixture of K Gaussians with diagonal covariances in k dimensions, ready to be applied.

    Descriptors are taken relative to the mixture's centre, which keeps float32 products accurate.

    Parameters
    ----------
    weights : (K,); means, variances : (K, k)
    """

    def __init__(
        self, weights: NDArray[np.floating], means: NDArray[np.floating], variances: NDArray[np.floating]
    ) -> None:
        self.weights = np.asarray(weights, dtype=np.float64)
        self.variances = np.asarray(variances, dtype=np.float64)
        exact_means = np.asarray(means, dtype=np.float64)
        self.centre = (self.weights @ exact_means).astype(np.float32)
        self.means = exact_means - self.centre  # relative to the centre
        precisions = 1 / self.variances
        self._products = np.ascontiguousarray(
            np.concatenate([self.means * precisions, -0.5 * precisions], axis=1).T, dtype=np.float32
        )
        with np.errstate(divide="ignore"):
            log_weights = np.log(self.weights)
        constant = (self.means**2 * precisions + np.log(2 * np.pi * self.variances)).sum(axis=1)
        self._constant = (log_weights - 0.5 * constant).astype(np.float32)

    def statistics(self, X: NDArray[np.float32], n_threads: int = 1) -> Statistics:
        """Sums over the rows of X (n, k) float32; two matrix products per block of rows.

        Blocks are added in order, so that the number of threads does not change the sums.
        """
        k = self.means.shape[1]
        rows = split_rows(len(X), BLOCK_ROWS)
        n_threads = max(1, min(n_threads, len(rows)))
        cuts = [i * len(rows) // n_threads for i in range(n_threads + 1)]
        blocks: Iterable[_Block] = self._blocks(X, rows)  # one thread adds each block as soon as it is there
        if n_threads > 1:
            shares = [(rows[start:stop],) for start, stop in itertools.pairwise(cuts)]
            blocks = itertools.chain(*run_ordered(lambda share: list(self._blocks(X, share)), shares, n_threads))
        mass = np.zeros(len(self.means), dtype=np.float32)
        sums = np.zeros((len(self.means), 2 * k), dtype=np.float32)
        log_likelihood = 0.0
        for block_mass, block_sums, block_likelihood in blocks:
            mass += block_mass
            sums += block_sums
            log_likelihood += block_likelihood
        return Statistics(mass, sums[:, :k], sums[:, k:], log_likelihood)

    def _blocks(self, X: NDArray[np.float32], rows: list[tuple[int, int]]) -> Iterator[_Block]:
        """Yield the sums of each block of rows, in order."""
        n_components, k = self.means.shape
        pairs = np.empty((min(BLOCK_ROWS, len(X)), 2 * k), dtype=np.float32)
        scores = np.empty((len(pairs), n_components), dtype=np.float32)
        for start, stop in rows:
            both, posteriors = pairs[: stop - start], scores[: stop - start]
            mass = np.zeros(n_components, dtype=np.float32)
            kernels.with_squares(X[start:stop], self.centre, both)
            with np.errstate(all="ignore"):  # values that overflow are refused when the sums are normalised
                np.matmul(both, self._products, out=posteriors)
                posteriors += self._constant
                log_likelihood = _normalise(posteriors, mass)
            yield mass, posteriors.T @ both, log_likelihood


def _normalise(scores: NDArray[np.float32], mass: NDArray[np.float32]) -> float:
    """Turn log joint densities into posteriors in place, add their sums to `mass`, return the log-likelihood."""
    largest = scores.max(axis=1)
    kernels.shifted_exp(scores, largest)
    totals = scores @ np.ones(scores.shape[1], dtype=np.float32)
    kernels.scale_rows(scores, totals, mass)
    return float(largest.sum(dtype=np.float64) + np.log(totals, dtype=np.float64).sum())


class FittedMixture(NamedTuple):
    """What EM found: (K,) weights, (K, k) means and variances, and the mean log-likelihood before each step."""

    weights: NDArray[np.float64]
    means: NDArray[np.float64]
    variances: NDArray[np.float64]
    log_likelihoods: list[float]


def fit_mixture(
    X: NDArray[np.float32],
    centres: NDArray[np.floating],
    *,
    max_iter: int = 30,
    tol: float = 1e-4,
    min_variance: float = 1e-3,
    n_threads: int = 1,
) -> FittedMixture:
    """Fit a mixture by EM, starting from the clusters around `centres`.

    The log-likelihood rises at every step (variances have a fixed lower bound, within which EM is still a maximiser).

    Parameters
    ----------
    X : (n, k) float32
        Sample of descriptors.
    centres : (K, k)
        Where the Gaussians start, e.g. from k-means.
    max_iter : int
        Steps of EM at most.
    tol : float
        Stop when the mean log-likelihood per descriptor rises by less, as a share of k.
    min_variance : float
        Lower bound of variances, as a share of the variance of the whole sample in each dimension.
    n_threads : int
        Threads; the result does not depend on it.
    """
    n, k = X.shape
    spread = X.var(axis=0, dtype=np.float64)
    floor = np.maximum(min_variance * spread, 1e-9 * max(float(spread.max()), 1e-30))
    with blas_threads(1):
        mixture = _maximise(_hard_statistics(X, centres), X.mean(axis=0, dtype=np.float64), floor)
        history: list[float] = []
        for _ in range(max_iter):
            applied = DiagonalMixture(*mixture)
            total = _sum_statistics(applied, X, n_threads)
            history.append(total.log_likelihood / n)
            mixture = _maximise(total, applied.centre, floor)
            if len(history) > 1 and history[-1] - history[-2] < tol * k:
                break
    return FittedMixture(*mixture, history)


def _hard_statistics(X: NDArray[np.float32], centres: NDArray[np.floating]) -> Statistics:
    """Sums with each row given wholly to its nearest centre."""
    labels = nearest(X, centres)
    centre = X.mean(axis=0, dtype=np.float64)
    mass = np.bincount(labels, minlength=len(centres)).astype(np.float64)
    first, second = np.zeros((2, len(centres), X.shape[1]))
    for label in range(len(centres)):
        rows = X[labels == label] - centre
        first[label], second[label] = rows.sum(axis=0), (rows**2).sum(axis=0)
    return Statistics(mass, first, second, 0.0)


def _sum_statistics(mixture: DiagonalMixture, X: NDArray[np.float32], n_threads: int) -> Statistics:
    parts = run_ordered(lambda start, stop: mixture.statistics(X[start:stop]), split_rows(len(X), TASK_ROWS), n_threads)
    *sums, log_likelihoods = zip(*parts, strict=True)
    mass, first, second = (np.asarray(np.sum(some, axis=0, dtype=np.float64)) for some in sums)
    return Statistics(mass, first, second, sum(log_likelihoods))


def _maximise(
    total: Statistics, centre: NDArray[np.floating], floor: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Weights, means and variances of the most likely mixture given the posteriors."""
    mass = np.maximum(total.mass, 1e-12)[:, None]
    means = total.first / mass
    variances = np.maximum(total.second / mass - means**2, floor)
    return np.maximum(total.mass, 1e-12) / max(total.mass.sum(), 1e-12), means + centre, variances
