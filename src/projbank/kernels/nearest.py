"""Centred rows, and keeping the k nearest of every sample while distances arrive block by block."""

from __future__ import annotations

import numpy as np

from projbank.kernels.jit import kernel


@kernel("void(float32[:, ::1], float64[::1], float64[::1], int64, int64, float32[:, ::1], int64[:, ::1])")
def merge_nearest(dots, row_norms, column_norms, first_row, first_column, distances, ids):
    """Offer samples first_column + j to the lists of samples first_row + i; a sample is no neighbour of itself.

    dots (m, n): inner products; norms: squared lengths; distances, ids (m, k): the lists so far, ascending by
    (distance, id). That is a total order, so the lists do not depend on the order in which blocks arrive.
    """
    k = ids.shape[1]
    for i in range(dots.shape[0]):
        worst, worst_id = distances[i, k - 1], ids[i, k - 1]
        for j in range(dots.shape[1]):
            candidate = first_column + j
            distance = np.float32(max(0.0, row_norms[i] + column_norms[j] - 2.0 * dots[i, j]))
            if distance > worst or (distance == worst and candidate > worst_id) or candidate == first_row + i:
                continue
            place = k - 1
            while place > 0 and (
                distances[i, place - 1] > distance
                or (distances[i, place - 1] == distance and ids[i, place - 1] > candidate)
            ):
                distances[i, place] = distances[i, place - 1]
                ids[i, place] = ids[i, place - 1]
                place -= 1
            distances[i, place] = distance
            ids[i, place] = candidate
            worst, worst_id = distances[i, k - 1], ids[i, k - 1]


@kernel(
    "void(Array(float32, 2, 'A', readonly=True), float32[::1], float32, float32[:, ::1], float64[::1])", reorder=True
)
def center_rows(rows, center, scale, out, squares):
    """Rows less the centre, times a scale; their squared lengths are added to `squares`."""
    for i in range(rows.shape[0]):
        total = 0.0
        for j in range(rows.shape[1]):
            value = (rows[i, j] - center[j]) * scale
            out[i, j] = value
            total += np.float64(value) * np.float64(value)
        squares[i] += total
