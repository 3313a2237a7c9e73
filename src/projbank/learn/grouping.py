"""Which dimensions share a bit: k-means over dimensions, random, contiguous, or labels that the user gives.

A grouping is a label per dimension, (D,), or r different ones where every dimension serves r groups, (r, D).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from projbank.learn.run import Learner, Run, chosen, lowered, remembered
from projbank.params import reject
from projbank.progress import say
from projbank.rows.source import RowSource
from projbank.threads import blas_threads, faiss_threads, kmeans, run_each, split_rows

_CANDIDATES = 32
"""Nearest centres with room that a dimension asks in one round of filling equal groups."""
_ROUNDS = 4
"""Times that centres move to the means of equal groups and these are filled again."""

SKETCH = 512
"""Numbers that stand for a dimension in k-means where there are more samples than that."""

GROUPINGS = ("kmeans", "kmeans-equal", "random", "contiguous")
"""Names that every learner knows, beside "auto"; "soft-" before one is 0.1.0's name for `n_assign` 2."""

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class GroupLearner(Learner):
    """A learner that groups dimensions; parameters as those of the estimators."""

    named_auto: ClassVar[str] = "kmeans"
    """The grouping that "auto" stands for."""

    grouping: str | ArrayLike
    n_assign: int | str
    kmeans_iter: int

    @property
    def is_auto(self) -> bool:
        """Whether the learner may choose how many groups a dimension serves."""
        return isinstance(self.grouping, str) and self.grouping == "auto" and self.n_assign == "auto"

    def resolved(self, n_bits: int, n_features: int, run: Run) -> tuple[str | NDArray[np.int32], int]:
        """Return the grouping without "auto" and old names, and how many bits a dimension serves.

        Raises where `n_bits` is so large that groups would be empty.
        """
        name: str | NDArray[np.int32]
        if isinstance(self.grouping, str):
            auto = self.named_auto
            name = {"auto": auto, "soft": auto}.get(self.grouping, self.grouping.removeprefix("soft-"))
            planes = chosen(self.n_assign, 2 if self.grouping.startswith("soft") else 1)
            planes = lowered("n_assign", planes, max(1, n_bits - 1), f"there are {n_bits} groups")
            if planes > 1 and name == "contiguous":
                reject(run.owner, "n_assign", '1 or "auto" for contiguous groups', self.n_assign)
        else:
            name, planes = np.asarray(self.grouping), len(np.atleast_2d(np.asarray(self.grouping)))
        if n_bits > planes * n_features:
            times = f" times n_assign = {planes}" if planes > 1 else ""
            allowed = f"at most the number of features, {n_features}{times}, since no group may be empty"
            reject(run.owner, "n_bits", allowed, n_bits)
        return (name if isinstance(name, str) else check_labels(name, n_features, n_bits)), planes

    def group_rows(
        self, grouping: str | NDArray[np.int32], rows: RowSource, n_bits: int, n_assign: int, run: Run, rng: Any = None
    ) -> NDArray[np.int32]:
        """Groups of the dimensions, told if the run is verbose."""
        labels = group_dimensions(
            grouping,
            rows,
            n_bits,
            np.random.default_rng(run.seed) if rng is None else rng,
            n_assign=n_assign,
            kmeans_iter=self.kmeans_iter,
            n_threads=run.n_threads,
            verbose=run.verbose,
        )
        say_groups(labels, n_bits, run.verbose)
        return labels


def say_groups(labels: NDArray[np.int32], n_bits: int, verbose: int) -> None:
    """Tell how large the groups are."""
    sizes = np.bincount(labels.ravel())
    shared = "" if labels.ndim == 1 else f", every dimension in {len(labels)} of them"
    say(f"{n_bits} groups of {sizes.min()} to {sizes.max()} dimensions (median {np.median(sizes):g}){shared}", verbose)


@remembered
def group_dimensions(
    grouping: str | NDArray[np.int32],
    rows: RowSource,
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
    grouping : one of `GROUPINGS`, or an array of labels, (D,) or (r, D)
    rows : (n, D) training data; only k-means looks at it
    n_bits : number of groups, at most `n_assign` * D
    rng : source of randomness
    n_assign : groups of a dimension, at most `n_bits`; 1 for contiguous groups
    kmeans_iter : iterations of k-means
    n_threads, verbose : threads of k-means; 2 or more prints its course

    Returns
    -------
    labels : (D,) int32, or (n_assign, D) int32 if `n_assign` is above 1; the labels of a column differ
    """
    n_features = rows.shape[1]
    if not isinstance(grouping, str):
        return grouping
    if grouping == "contiguous":
        return (np.arange(n_features, dtype=np.int64) * n_bits // n_features).astype(np.int32)
    if grouping == "random" or n_assign > n_features:
        labels = overlaid_labels(n_features, n_bits, n_assign, rng)
    elif n_assign == 1 and n_bits == n_features:
        return np.arange(n_features, dtype=np.int32)
    else:
        points = sketch_dimensions(rows, rng, n_threads=n_threads)
        labels = kmeans_labels(
            points,
            n_bits,
            rng,
            equal=grouping == "kmeans-equal",
            n_assign=n_assign,
            n_iter=kmeans_iter,
            n_threads=n_threads,
            verbose=verbose,
        )
    return labels if n_assign > 1 else labels[0]


def check_labels(labels: ArrayLike, n_features: int, n_bits: int) -> NDArray[np.int32]:
    """Return given labels as int32 if they are the groups 0 .. n_bits - 1, each with a dimension.

    (D,), or (r, D), whose columns must hold r different groups.
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
    """Make the labels of a column differ, (r, D): one that repeats goes to the smallest other group."""
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


def sketch_dimensions(rows: RowSource, rng: np.random.Generator, *, n_threads: int = 1) -> NDArray[np.float32]:
    """Describe every dimension by its values over the samples, (D, n), or by a random projection of them, (D, 512).

    A Gaussian projection to 512 numbers keeps the distances between dimensions to a few per cent (Johnson-
    Lindenstrauss). Blocks are added in a fixed order, whatever the number of threads.
    """
    n_rows, n_features = rows.shape
    if n_rows <= SKETCH:
        points = np.empty((n_features, n_rows), np.float32)
        for start, block in rows.blocks():
            points[:, start : start + len(block)] = block.T
        return points
    projection = rng.standard_normal((n_rows, SKETCH), dtype=np.float32) / np.float32(np.sqrt(SKETCH))
    points = np.zeros((n_features, SKETCH), np.float32)
    columns = split_rows(n_features, 4096)
    with blas_threads():
        for start, block in rows.blocks():
            weights = projection[start : start + len(block)]

            def add(first: int, last: int, block: NDArray = block, weights: NDArray = weights) -> None:
                points[first:last] += block[:, first:last].T @ weights

            run_each(add, columns, n_threads)
    return points


def kmeans_labels(
    points: Floats,
    n_groups: int,
    rng: np.random.Generator,
    *,
    equal: bool = False,
    n_assign: int = 1,
    n_iter: int = 20,
    n_threads: int = 1,
    verbose: int = 0,
) -> NDArray[np.int32]:
    """Nearest `n_assign` centres of each row of `points`, (n_assign, n), by FAISS's k-means from randomly drawn rows.

    Where there are at least as many groups as points, the points themselves are the centres. Empty groups are filled;
    with `equal` all groups have the same size, up to one place.
    """
    import faiss

    if n_groups >= len(points):
        centers = points
    else:
        seed = int(rng.integers(1, 2**31))
        centers = kmeans(points, n_groups, seed, n_iter, n_jobs=n_threads, verbose=verbose >= 2)
    if equal:
        return _equal_labels(points, centers, n_groups, n_assign, rng, n_threads)
    with faiss_threads(n_threads):
        _, nearest = faiss.knn(points, centers, n_assign)
    return fill_empty_groups(np.ascontiguousarray(nearest.T, np.int32), n_groups, points)


def _equal_labels(
    points: Floats, centers: Floats, n_groups: int, n_assign: int, rng: np.random.Generator, n_threads: int
) -> NDArray[np.int32]:
    """Groups of equal size around centres, up to one place, (n_assign, n).

    A point asks the nearest centres that have room, and a centre takes the nearest points that ask. Then centres move
    to the means of their groups, which are filled again, a few times.
    """
    n = len(points)
    places = (np.arange(n_assign * n).reshape(n_assign, n) % n_groups).astype(np.int32)
    rooms = [np.bincount(plane, minlength=n_groups) for plane in places]
    labels = np.empty((0, n), np.int32)
    if n_groups < n:
        for _ in range(_ROUNDS):
            first = _fill_nearest(points, centers, rooms[0], labels, rng, n_threads)
            centers = sp.csr_array((np.ones(n, np.float32), first, np.arange(n + 1)), (n, n_groups)).T @ points
            centers /= np.maximum(rooms[0], 1).astype(np.float32)[:, None]
    for room in rooms:
        plane = _fill_nearest(points, centers[:n_groups], room, labels, rng, n_threads)
        labels = np.vstack([labels, plane[None]])
    return separate_labels(labels, n_groups)


def _fill_nearest(
    points: Floats,
    centers: Floats,
    room: NDArray[np.int64],
    taken: NDArray[np.int32],
    rng: np.random.Generator,
    n_threads: int,
) -> NDArray[np.int32]:
    """Give each point the nearest centre that has room, the nearest points first; none of its labels in `taken`."""
    import faiss

    labels, left = np.full(len(points), -1, np.int64), room.copy()
    while True:
        asking, open_groups = np.flatnonzero(labels < 0), np.flatnonzero(left[: len(centers)])
        if not len(asking) or not len(open_groups):
            break
        with faiss_threads(n_threads):
            asked = min(_CANDIDATES, len(open_groups))
            distances, nearest = faiss.knn(points[asking], np.ascontiguousarray(centers[open_groups]), asked)
        candidates = open_groups[nearest]
        distances[(taken[:, asking, None] == candidates).any(axis=0)] = np.inf
        found = fill_places(candidates, -distances, left)
        if not (found >= 0).any():
            break
        labels[asking] = found
        left -= np.bincount(found[found >= 0], minlength=len(room))
    return fill_rest(labels, room, rng).astype(np.int32)


def fill_places(candidates: NDArray[np.integer], scores: Floats, room: NDArray[np.int64]) -> NDArray[np.int64]:
    """Give each row the best of its candidates that has room, -1 where none has; the best scores come first.

    candidates, scores (n, c), -inf where a candidate may not be asked; room (n_groups,): places of each group.
    """
    labels = np.full(len(candidates), -1, np.int64)
    room, scores = room.copy(), scores.copy()
    asking = np.arange(len(candidates))
    while len(asking):
        best = scores[asking].argmax(axis=1)
        score = scores[asking, best]
        scores[asking, best] = -np.inf  # each is asked once
        asks = score > -np.inf
        asking, score = asking[asks], score[asks]
        group = candidates[asking, best[asks]]
        queue = np.lexsort((-score, group))
        asking, group = asking[queue], group[queue]
        accepted = np.arange(len(group)) - np.searchsorted(group, group) < room[group]
        labels[asking[accepted]] = group[accepted]
        room -= np.bincount(group[accepted], minlength=len(room))
        asking = np.sort(asking[~accepted])
    return labels


def fill_rest(labels: NDArray[np.int64], room: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Give rows without a group (-1) any of the places that are left."""
    left = room - np.bincount(labels[labels >= 0], minlength=len(room))
    labels[labels < 0] = rng.permutation(np.repeat(np.arange(len(room)), left))
    return labels


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
