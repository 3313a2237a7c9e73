"""What codes are measured against: the exact neighbours of some rows among all rows, and a mean with its interval."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from projbank.progress import progress
from projbank.rows.source import RowSource, check_finite
from projbank.threads import blas_threads, run_each, split_rows

METRICS = ("l2", "cosine")
_GRAIN = 1e-11
"""Squared distances that differ by less than this share of the queries' mean square are ties."""
_NORMAL = 1.959963984540054

Floats = NDArray[np.float32]
Ids = NDArray[np.int64]


class Estimate(NamedTuple):
    """A mean over a sample of queries, and the interval that holds that over all of them in 95 of 100 cases."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, shares: NDArray[np.floating], population: int | None = None) -> Estimate:
        """Mean of shares in [0, 1], one of each query, with Wilson's interval.

        Its number of trials is that of coins whose mean would spread as that of the shares. Where the queries are the
        whole population there is nothing to guess.
        """
        n, mean, variance = len(shares), float(np.mean(shares)), float(np.var(shares, ddof=1)) if len(shares) > 1 else 0
        left = 1.0 if population is None or population <= 1 else (population - n) / (population - 1)
        if left <= 0:
            return cls(mean, mean, mean)
        trials = n / left * (mean * (1 - mean) / variance if variance > 0 else 1.0)
        z2 = _NORMAL**2 / trials
        middle = (mean + z2 / 2) / (1 + z2)
        half = np.sqrt(z2 * (mean * (1 - mean) + z2 / 4)) / (1 + z2)
        return cls(mean, float(max(0.0, middle - half)), float(min(1.0, middle + half)))


def exact_neighbors(
    rows: RowSource, queries: Ids, k: int, metric: str = "l2", *, n_threads: int = 1, verbose: int = 0
) -> Ids:
    """Ids of the k nearest other rows of each query row, nearest first, by products of float64 in one pass.

    Distances that are equal but for rounding are ties, which go to the smaller id.

    Parameters
    ----------
    rows : (n, D)
    queries : ascending ids of rows
    k : neighbours, at most n - 1
    metric : "l2" or "cosine"
    """
    points = _scaled(rows.read(queries, n_threads), metric)
    check_finite(points, ids=queries)
    grain = _GRAIN * (float(np.mean(np.einsum("ij,ij->i", points, points))) or 1.0)
    center = points.mean(axis=0)
    points -= center
    squares = np.einsum("ij,ij->i", points, points)
    near, ids = np.empty((len(queries), 0)), np.empty((len(queries), 0), np.int64)
    with progress("exact neighbours", rows.shape[0], verbose) as advance, blas_threads(1):
        for start, block in rows.blocks():
            check_finite(block, start)
            others = _scaled(block, metric) - center
            distances = np.empty((len(queries), len(block)))

            def multiply(first: int, last: int, out: Any = distances, others: Any = others) -> None:
                np.matmul(points[first:last], others.T, out=out[first:last])

            run_each(multiply, split_rows(len(queries), 64), n_threads)
            distances *= -2
            distances += np.einsum("ij,ij->i", others, others)
            distances += squares[:, None]
            np.rint(distances / grain, out=distances)
            own = (queries >= start) & (queries < start + len(block))
            distances[own, queries[own] - start] = np.inf
            near = np.hstack([near, distances])
            ids = np.hstack([ids, np.broadcast_to(np.arange(start, start + len(block)), distances.shape)])
            best = np.argsort(near, axis=1, kind="stable")[:, :k]  # ids ascend among equals
            near, ids = np.take_along_axis(near, best, axis=1), np.take_along_axis(ids, best, axis=1)
            advance(len(block))
    return ids


def row_distances(points: Floats, others: Floats, metric: str) -> NDArray[np.float64]:
    """Euclidean distances between rows, or between their directions, (n, m) float64."""
    a, b = _scaled(points, metric), _scaled(others, metric)
    center = a.mean(axis=0)
    a, b = a - center, b - center
    squares = np.einsum("ij,ij->i", a, a)[:, None] + np.einsum("ij,ij->i", b, b) - 2 * (a @ b.T)
    return np.sqrt(np.maximum(squares, 0))


def found_shares(found: Ids, true: Ids) -> NDArray[np.float64]:
    """Share of each query's true neighbours (n, k) that are among those found (n, m)."""
    return np.array([np.isin(wanted, row).mean() for row, wanted in zip(found, true, strict=True)])


def _scaled(rows: Floats, metric: str) -> NDArray[np.float64]:
    """Rows in float64 as they are, or of length 1 (rows of zeros stay)."""
    wide = rows.astype(np.float64)
    if metric == "cosine":
        lengths = np.sqrt(np.einsum("ij,ij->i", wide, wide))
        wide /= np.where(lengths > 0, lengths, 1)[:, None]
    return wide
