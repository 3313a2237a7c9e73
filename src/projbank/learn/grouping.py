"""Which dimensions share a bit: k-means over dimensions, random, contiguous, or labels that the user gives.

A hard grouping is a label per dimension, (D,). In a soft one every dimension serves r different groups, (r, D).
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from threadpoolctl import threadpool_limits

from projbank.learn.memo import remembered
from projbank.params import check_choice, check_int, reject
from projbank.rows.source import read_rows, row_blocks
from projbank.threads import run_all

SKETCH = 512
"""Numbers that stand for a dimension in k-means where there are more samples than that."""

GROUPINGS = ("kmeans", "random", "contiguous")
SOFT_GROUPINGS = ("soft-kmeans", "soft-random")
LEARNT_GROUPINGS = ("learnt", "soft-learnt")
"""Groupings that come from the joint solver's target (`projbank.learn.learnt_groups`)."""
NAMES = (*GROUPINGS, "soft", *SOFT_GROUPINGS)
"""Values of every estimator's `grouping`, beside "auto" and arrays."""


def check_grouping(estimator: Any, learnt: bool) -> None:
    """Check the parameters `grouping`, which may be learnt or not, and `n_assign` of an estimator."""
    if isinstance(estimator.grouping, str):
        check_choice(estimator, "grouping", estimator.grouping, ("auto", *(LEARNT_GROUPINGS if learnt else ()), *NAMES))
    check_int(estimator, "n_assign", estimator.n_assign, 1)


def resolve_grouping(grouping: str | ArrayLike, auto: str) -> str | ArrayLike:
    """What `group_dimensions` takes: "auto" is the given one, and "soft" its soft form."""
    if not isinstance(grouping, str):
        return grouping
    return {"auto": auto, "soft": f"soft-{auto}"}.get(grouping, grouping)


def groups_per_dimension(estimator: Any, n_bits: int, n_features: int) -> int:
    """Groups that a dimension serves: 1, the rows of a given array, or `n_assign`, lowered where there are few groups.

    Raises where `n_bits` is so large that groups would be empty.
    """
    grouping, n_assign = estimator.grouping, 1
    if not isinstance(grouping, str):
        n_assign = len(np.atleast_2d(np.asarray(grouping)))
    elif grouping.startswith("soft"):
        n_assign = min(estimator.n_assign, max(1, n_bits - 1))
        if n_assign < estimator.n_assign:
            message = f"n_assign={estimator.n_assign} is lowered to {n_assign}: there are {n_bits} groups."
            warnings.warn(message, UserWarning, stacklevel=4)
    if n_bits > n_assign * n_features:
        times = f" times n_assign = {n_assign}" if n_assign > 1 else ""
        allowed = f"at most the number of features, {n_features}{times}, since no group may be empty"
        reject(estimator, "n_bits", allowed, n_bits)
    return n_assign


@remembered
def group_dimensions(
    grouping: str | ArrayLike,
    X: Any,
    n_bits: int,
    rng: np.random.Generator,
    *,
    n_assign: int = 1,
    kmeans_iter: int = 20,
    n_threads: int = 1,
    verbose: int = 0,
) -> NDArray[np.int32]:
    """Assign every dimension to one of `n_bits` groups, or to `n_assign` different ones; no group is empty.

    Parameters
    ----------
    grouping : one of `GROUPINGS` or `SOFT_GROUPINGS`, or an array of labels, (D,) or (r, D)
    X : (n, D) training data; only k-means looks at it
    n_bits : number of groups, at most D for hard groupings and `n_assign` * D for soft ones
    rng : source of randomness
    n_assign : groups of a dimension in a soft grouping, at most `n_bits`
    kmeans_iter : iterations of k-means
    n_threads, verbose : threads of k-means; 2 or more prints its course

    Returns
    -------
    labels : (D,) int32, or (n_assign, D) int32 for soft groupings; the labels of a column differ
    """
    n_features = X.shape[1]
    if not isinstance(grouping, str):
        return check_labels(grouping, n_features, n_bits)
    if grouping == "contiguous":
        return (np.arange(n_features, dtype=np.int64) * n_bits // n_features).astype(np.int32)
    if grouping == "random":
        return rng.permutation(np.arange(n_features) % n_bits).astype(np.int32)
    if grouping == "soft-random" or (grouping == "soft-kmeans" and n_assign > n_features):
        return overlaid_labels(n_features, n_bits, n_assign, rng)
    if grouping == "kmeans" and n_bits == n_features:
        return np.arange(n_features, dtype=np.int32)
    points = sketch_dimensions(X, rng, n_threads=n_threads)
    labels = kmeans_labels(
        points,
        n_bits,
        rng,
        n_assign=n_assign if grouping == "soft-kmeans" else 1,
        n_iter=kmeans_iter,
        n_threads=n_threads,
        verbose=verbose,
    )
    return labels if grouping == "soft-kmeans" else labels[0]


def group_columns(labels: NDArray[np.int32], n_bits: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """List the dimensions of every group: those of group p are ``columns[indptr[p]:indptr[p + 1]]``, ascending.

    Parameters
    ----------
    labels : (D,) or, for soft groupings, (r, D)
    n_bits : number of groups

    Returns
    -------
    indptr : (n_bits + 1,) int64
    columns : (D,) or (r * D,) int64
    """
    n_assign = 1 if labels.ndim == 1 else len(labels)
    flat = labels.T.ravel()  # dimension after dimension
    indptr = np.zeros(n_bits + 1, np.int64)
    np.cumsum(np.bincount(flat, minlength=n_bits), out=indptr[1:])
    return indptr, np.argsort(flat, kind="stable") // n_assign


def check_labels(labels: ArrayLike, n_features: int, n_bits: int) -> NDArray[np.int32]:
    """Return given labels as int32 if they are the groups 0 .. n_bits - 1, each with a dimension.

    (D,) for a hard grouping, (r, D) for a soft one, whose columns must hold r different groups.
    """
    array = np.asarray(labels)
    if array.ndim not in (1, 2) or array.shape[-1] != n_features or array.size == 0 or array.dtype.kind not in "iu":
        raise ValueError(
            f"The 'grouping' array must hold one integer label per feature, shape ({n_features},), "
            f"or r of them, shape (r, {n_features}). Got shape {array.shape}, dtype {array.dtype}."
        )
    if array.min() < 0 or array.max() >= n_bits:
        raise ValueError(
            f"The 'grouping' array must hold labels from 0 to n_bits - 1 = {n_bits - 1}. "
            f"Got labels from {array.min()} to {array.max()}."
        )
    sizes = np.bincount(array.ravel(), minlength=n_bits)
    if not sizes.all():
        raise ValueError(
            f"The 'grouping' array must leave no group empty. Group {int(np.argmin(sizes))} has no dimension."
        )
    if array.ndim == 2:
        ordered = np.sort(array, axis=0)
        twice = (ordered[1:] == ordered[:-1]).any(axis=0)
        if twice.any():
            raise ValueError(
                f"The 'grouping' array must give every feature different groups. "
                f"Feature {int(np.argmax(twice))} is twice in one."
            )
    return np.ascontiguousarray(array, np.int32)


def overlaid_labels(n_features: int, n_bits: int, n_assign: int, rng: np.random.Generator) -> NDArray[np.int32]:
    """Random groups laid over each other, (n_assign, D), every dimension in `n_assign` different ones."""
    entries = np.arange(n_assign * n_features).reshape(n_assign, n_features) % n_bits
    return separate_labels(np.stack([rng.permutation(plane) for plane in entries]).astype(np.int32), n_bits)


def separate_labels(labels: NDArray[np.int32], n_bits: int) -> NDArray[np.int32]:
    """Make the labels of a column differ, (r, D): who stands twice in a group goes to the smallest of the others."""
    n_assign, n_features = labels.shape
    sizes = np.bincount(labels.ravel(), minlength=n_bits)
    for s in range(1, n_assign):
        for j in np.flatnonzero((labels[:s] == labels[s]).any(axis=0)):
            sizes[labels[s, j]] -= 1
            own = labels[:s, j]
            taken = sizes[own]
            sizes[own] = n_assign * n_features + 1
            labels[s, j] = np.argmin(sizes)
            sizes[own] = taken
            sizes[labels[s, j]] += 1
    return labels


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
    n_assign: int = 1,
    n_iter: int = 20,
    n_threads: int = 1,
    verbose: int = 0,
) -> NDArray[np.int32]:
    """Nearest `n_assign` centres of each row of `points`, (n_assign, n), by FAISS's k-means from randomly drawn rows.

    Where there are at least as many groups as points, the points themselves are the centres. Empty groups are filled.
    """
    import faiss

    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(n_threads)
    try:
        if n_groups >= len(points):
            _, nearest = faiss.knn(points, points, n_assign)
        else:
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
            _, nearest = kmeans.index.search(points, n_assign)
    finally:
        faiss.omp_set_num_threads(threads)
    return fill_empty_groups(np.ascontiguousarray(nearest.T, np.int32), n_groups, points)


def fill_empty_groups(labels: NDArray[np.int32], n_groups: int, points: NDArray[np.float32]) -> NDArray[np.int32]:
    """Give every empty group half of the largest one: those of its members that lie farthest from their mean.

    labels (n,) or (r, n): the group, or r different groups, of each of the n points.
    """
    flat = labels.ravel().copy()
    sizes = np.bincount(flat, minlength=n_groups)
    for empty in np.flatnonzero(sizes == 0):
        places = np.flatnonzero(flat == np.argmax(sizes))
        members = points[places % len(points)]
        offsets = members - members.mean(axis=0)
        order = np.argsort(np.einsum("ij,ij->i", offsets, offsets), kind="stable")
        moved = places[order[(len(places) + 1) // 2 :]]
        sizes[flat[moved[0]]] -= len(moved)
        sizes[empty] = len(moved)
        flat[moved] = empty
    return flat.reshape(labels.shape)
