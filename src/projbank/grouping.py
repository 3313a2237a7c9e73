"""Which dimensions share a bit: k-means over dimensions, random, contiguous, or labels that the user gives."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from threadpoolctl import threadpool_limits

from projbank.threads import run_all
from projbank.vectors import read_rows, row_blocks

SKETCH = 512
"""Numbers that stand for a dimension in k-means where there are more samples than that."""

GROUPINGS = ("kmeans", "random", "contiguous")


def group_dimensions(
    grouping: str | ArrayLike,
    X: Any,
    n_bits: int,
    rng: np.random.Generator,
    *,
    kmeans_iter: int = 20,
    n_threads: int = 1,
    verbose: int = 0,
) -> NDArray[np.int32]:
    """Assign every dimension to one of `n_bits` groups, none of them empty.

    Parameters
    ----------
    grouping : one of `GROUPINGS`, or a label array of shape (D,)
    X : (n, D) training data; only k-means looks at it
    n_bits : number of groups, at most D
    rng : source of randomness
    kmeans_iter : iterations of k-means
    n_threads, verbose : threads of k-means; 2 or more prints its course

    Returns
    -------
    labels : (D,) int32
    """
    n_features = X.shape[1]
    if not isinstance(grouping, str):
        return check_labels(grouping, n_features, n_bits)
    if grouping == "contiguous":
        return (np.arange(n_features, dtype=np.int64) * n_bits // n_features).astype(np.int32)
    if grouping == "random":
        return rng.permutation(np.arange(n_features) % n_bits).astype(np.int32)
    if n_bits == n_features:
        return np.arange(n_features, dtype=np.int32)
    points = sketch_dimensions(X, rng, n_threads=n_threads)
    return kmeans_labels(points, n_bits, rng, n_iter=kmeans_iter, n_threads=n_threads, verbose=verbose)


def check_labels(labels: ArrayLike, n_features: int, n_bits: int) -> NDArray[np.int32]:
    """Return given labels as (D,) int32 if they are the groups 0 .. n_bits - 1, each with a dimension."""
    array = np.asarray(labels)
    if array.shape != (n_features,) or array.dtype.kind not in "iu":
        raise ValueError(
            f"The 'grouping' array must hold one integer label per feature, shape ({n_features},). "
            f"Got shape {array.shape}, dtype {array.dtype}."
        )
    if array.min() < 0 or array.max() >= n_bits:
        raise ValueError(
            f"The 'grouping' array must hold labels from 0 to n_bits - 1 = {n_bits - 1}. "
            f"Got labels from {array.min()} to {array.max()}."
        )
    sizes = np.bincount(array, minlength=n_bits)
    if not sizes.all():
        raise ValueError(
            f"The 'grouping' array must leave no group empty. Group {int(np.argmin(sizes))} has no dimension."
        )
    return array.astype(np.int32)


def sketch_dimensions(X: Any, rng: np.random.Generator, *, n_threads: int = 1) -> NDArray[np.float32]:
    """Describe every dimension by its values over the samples, (D, n), or by a random projection of them, (D, 512).

    A Gaussian projection to 512 numbers keeps the distances between dimensions to a few per cent (Johnson-
    Lindenstrauss). Blocks are added in a fixed order, whatever the number of threads.
    """
    n_rows, n_features = X.shape
    blocks = row_blocks(n_rows, n_features)
    if n_rows <= SKETCH:
        points = np.empty((n_features, n_rows), np.float32)
        for start, stop in blocks:
            points[:, start:stop] = read_rows(X, start, stop).T
        return points
    projection = rng.standard_normal((n_rows, SKETCH), dtype=np.float32) / np.float32(np.sqrt(SKETCH))
    points = np.zeros((n_features, SKETCH), np.float32)
    columns = [(start, min(start + 4096, n_features)) for start in range(0, n_features, 4096)]
    with threadpool_limits(1, user_api="blas"):
        for start, stop in blocks:
            rows = read_rows(X, start, stop)

            def add(first: int, last: int, rows: NDArray = rows, weights: NDArray = projection[start:stop]) -> None:
                points[first:last] += rows[:, first:last].T @ weights

            for _ in run_all(add, columns, n_threads):
                pass
    return points


def kmeans_labels(
    points: NDArray[np.float32],
    n_groups: int,
    rng: np.random.Generator,
    *,
    n_iter: int = 20,
    n_threads: int = 1,
    verbose: int = 0,
) -> NDArray[np.int32]:
    """Cluster the rows of `points` by FAISS's k-means from randomly drawn rows; empty clusters are filled."""
    import faiss

    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(n_threads)
    try:
        kmeans = faiss.Kmeans(
            points.shape[1],
            n_groups,
            niter=n_iter,
            seed=int(rng.integers(1, 2**31)),
            min_points_per_centroid=1,
            max_points_per_centroid=len(points),
            verbose=verbose >= 2,
        )
        kmeans.train(points)
        _, nearest = kmeans.index.search(points, 1)
    finally:
        faiss.omp_set_num_threads(threads)
    return fill_empty_groups(nearest[:, 0].astype(np.int32), n_groups, points)


def fill_empty_groups(labels: NDArray[np.int32], n_groups: int, points: NDArray[np.float32]) -> NDArray[np.int32]:
    """Give every empty group half of the largest one: those of its members that lie farthest from their mean."""
    labels = labels.copy()
    sizes = np.bincount(labels, minlength=n_groups)
    for empty in np.flatnonzero(sizes == 0):
        members = np.flatnonzero(labels == np.argmax(sizes))
        offsets = points[members] - points[members].mean(axis=0)
        order = np.argsort(np.einsum("ij,ij->i", offsets, offsets), kind="stable")
        moved = members[order[(len(members) + 1) // 2 :]]
        sizes[labels[moved[0]]] -= len(moved)
        sizes[empty] = len(moved)
        labels[moved] = empty
    return labels
