"""Bags: many small sets of vectors (the descriptors of images, the tokens of texts) read from one argument."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from projbank.rows.source import check_finite

Bags = Sequence[ArrayLike] | tuple[ArrayLike, ArrayLike]
"""Many sets of vectors: a list of (n_i, k) arrays, or (stacked, offsets)."""


def split_bags(X: Any, n_features: int | None = None, name: str = "X") -> list[NDArray[Any]]:
    """Return bags as a list of (n_i, k) arrays of numbers, views where possible; `read_bag` checks the numbers.

    Parameters
    ----------
    X : list of (n_i, k) arrays, or (stacked, offsets)
        With offsets, bag i is ``stacked[offsets[i]:offsets[i + 1]]``: one offset more than there are bags.
    n_features : the k that is asked for; any, if None
    name : what errors call X
    """
    if isinstance(X, tuple) and len(X) == 2 and np.ndim(X[1]) == 1 and np.ndim(X[0]) == 2:
        bags = _split(np.asarray(X[0]), np.asarray(X[1]))
    elif hasattr(X, "__len__") and not isinstance(X, str | bytes) and (len(X) == 0 or np.ndim(X[0]) != 1):
        bags = [np.asarray(bag) for bag in X]
    else:
        raise ValueError(f"{name} must be a list of (n_i, k) arrays, or (stacked, offsets).")
    for i, bag in enumerate(bags):
        if bag.ndim != 2 or bag.dtype.kind not in "fiub":
            got = f"Got shape {bag.shape}, dtype {bag.dtype}."
            raise ValueError(f"{name}[{i}] must be an (n_i, k) array of numbers. {got}")
        n_features = bag.shape[1] if n_features is None else n_features
        if bag.shape[1] != n_features:
            raise ValueError(f"{name}[{i}] must have {n_features} columns. Got {bag.shape[1]}.")
    return bags


def read_bag(bags: list[NDArray[Any]], i: int, name: str = "X") -> NDArray[np.float32]:
    """Return one bag as float32 with neighbouring columns adjacent in memory; NaN and infinity raise."""
    with np.errstate(over="ignore"):
        bag = np.ascontiguousarray(bags[i], dtype=np.float32)
    check_finite(bag, name=f"{name}[{i}]")
    return bag


def _split(stacked: NDArray[Any], offsets: NDArray[Any]) -> list[NDArray[Any]]:
    if offsets.dtype.kind not in "iu" or len(offsets) == 0:
        raise ValueError(f"offsets must be one or more ints. Got dtype {offsets.dtype}, length {len(offsets)}.")
    if offsets[0] != 0 or offsets[-1] != len(stacked) or (np.diff(offsets.astype(np.int64)) < 0).any():
        raise ValueError(f"offsets must rise from 0 to the {len(stacked)} rows of stacked.")
    return [stacked[start:stop] for start, stop in itertools.pairwise(offsets)]
