"""Real-valued queries as small integers: what the asymmetric search computes with."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from projbank.bits import pack
from projbank.threads import split_rows

CLIPS = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3)
"""Largest magnitude kept, as a fraction of the largest of the query: the one with the least squared error wins."""
ROWS_PER_BLOCK = 16


class WeightedQueries(NamedTuple):
    """Queries as integers in packed bits: their signs, and one plane per bit of their magnitudes.

    Margin p of query i is about ``scale[i]`` times its integer; `total` are the sums of the magnitudes.
    """

    signs: NDArray[np.uint8]
    planes: NDArray[np.uint8]
    total: NDArray[np.int64]
    scale: NDArray[np.float32]

    def scores(self, distances: NDArray[np.int32], ids: NDArray[np.int64]) -> NDArray[np.float32]:
        """Asymmetric scores from weighted distances: what agrees minus what differs, (n, k); -inf for ids of -1."""
        agreement = self.total[:, None] - 2 * distances.astype(np.int64)
        return np.where(ids < 0, np.float32(-np.inf), (agreement * self.scale[:, None]).astype(np.float32))


def quantise(margins: NDArray[Any], query_bits: int) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Round each query to integers of `query_bits` bits, -m .. m with m = 2 ** (query_bits - 1) - 1, ties to even.

    Parameters
    ----------
    margins : (n_queries, n_bits) floats, finite
    query_bits : int in [2, 8]

    Returns
    -------
    integers : int8 (n_queries, n_bits)
    scale : float32 (n_queries,)
        The one of eight (the query's largest magnitude times 1.0, 0.9 ... 0.3, over m) with the least squared rounding
        error; larger margins are clipped.
    """
    top = 2 ** (query_bits - 1) - 1
    integers = np.zeros(margins.shape, dtype=np.int8)
    scale = np.ones(len(margins), dtype=np.float32)
    for start, stop in split_rows(len(margins), ROWS_PER_BLOCK):
        block = np.asarray(margins[start:stop], dtype=np.float32)
        magnitudes = np.abs(block)
        scale[start:stop] = _best_scale(magnitudes, top)
        rounded = _round(magnitudes, scale[start:stop], top)
        integers[start:stop] = np.where(block > 0, rounded, -rounded)
    return integers, scale


def _best_scale(magnitudes: NDArray[np.float32], top: int) -> NDArray[np.float32]:
    peak = magnitudes.max(axis=1, initial=0)
    peak[peak < np.finfo(np.float32).tiny * top] = top  # a query of zeros: any scale will do
    best, least = np.empty_like(peak), np.full(len(peak), np.inf)
    for clip in CLIPS:
        scale = peak * np.float32(clip) / np.float32(top)
        error = magnitudes - scale[:, None] * _round(magnitudes, scale, top)
        squared = np.einsum("ij,ij->i", error, error, dtype=np.float64)
        better = squared < least
        best[better], least[better] = scale[better], squared[better]
    return best


def _round(magnitudes: NDArray[np.float32], scale: NDArray[np.float32], top: int) -> NDArray[np.float32]:
    return np.minimum(np.rint(magnitudes / scale[:, None]), np.float32(top))


def weigh(integers: NDArray[np.int8], scale: NDArray[np.float32], query_bits: int) -> WeightedQueries:
    """Signs (n, n_bytes), planes (n, query_bits - 1, n_bytes) and sums (n,) of integer queries."""
    magnitudes = np.abs(integers)
    planes = np.stack([pack(magnitudes >> plane & 1) for plane in range(query_bits - 1)], axis=1)
    return WeightedQueries(pack(integers > 0), planes, magnitudes.sum(axis=1, dtype=np.int64), scale)
