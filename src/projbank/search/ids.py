"""Ids of codes: whole numbers, distinct, not negative."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def check_ids(ids: ArrayLike, count: int | None = None) -> NDArray[np.int64]:
    """Return `ids` as int64 (count,), or raise an error that says what was allowed and what came."""
    array = np.asarray(ids)
    if array.size == 0:
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise TypeError(f"ids must be whole numbers (int64). Got dtype {array.dtype} instead.")
    if array.ndim != 1 or (count is not None and len(array) != count):
        wanted = "1-D" if count is None else f"of shape ({count},), one per code"
        raise ValueError(f"ids must be {wanted}. Got shape {array.shape}.")
    if len(array) and (array.min() < 0 or array.max() > np.iinfo(np.int64).max - 1):
        raise ValueError(f"ids must be in the range [0, 2**63 - 2]. Got {array.min()} to {array.max()}.")
    array = array.astype(np.int64, copy=False)
    if np.any(array[1:] <= array[:-1]):
        values, counts = np.unique(array, return_counts=True)
        if len(values) < len(array):
            raise ValueError(f"ids must be distinct. Got {values[np.argmax(counts > 1)]} more than once.")
    return array
