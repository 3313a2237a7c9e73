"""Inner products of rows with some others, and keeping the k nearest of every sample while they arrive."""

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


@kernel(
    "void(Array(float32, 2, 'A', readonly=True), Array(float32, 2, 'C', readonly=True), "
    "int64[:, ::1], float64[:, ::1])",
    reorder=True,
)
def dense_dots(rows, points, ids, out):
    """out[i, j] = points[i] . rows[ids[i, j]]; rows (n, D), points (m, D), ids and out (m, s)."""
    for i in range(ids.shape[0]):
        for j in range(ids.shape[1]):
            row = rows[ids[i, j]]
            total = 0.0
            for p in range(points.shape[1]):
                total += np.float64(row[p]) * np.float64(points[i, p])
            out[i, j] = total


@kernel(
    "void(float32[::1], int32[::1], int64[::1], Array(float32, 2, 'C', readonly=True), int64[:, ::1], float64[:, ::1])",
    "void(float32[::1], int64[::1], int64[::1], Array(float32, 2, 'C', readonly=True), int64[:, ::1], float64[:, ::1])",
    reorder=True,
)
def sparse_dots(data, indices, indptr, points, ids, out):
    """out[i, j] = points[i] . row ids[i, j] of a CSR matrix; points (m, D) dense, ids and out (m, s)."""
    for i in range(ids.shape[0]):
        for j in range(ids.shape[1]):
            total = 0.0
            for place in range(indptr[ids[i, j]], indptr[ids[i, j] + 1]):
                total += np.float64(data[place]) * np.float64(points[i, indices[place]])
            out[i, j] = total


@kernel("void(float32[:, ::1], float32[:, ::1], int32[:, ::1], float32[:, ::1])", reorder=True)
def score_candidates(directions, loadings, candidates, scores):
    """Scores (D, c): sizes of the inner products of loadings (D, h) with the directions (d, h) of the candidates."""
    for j in range(candidates.shape[0]):
        for k in range(candidates.shape[1]):
            row = candidates[j, k]
            total = np.float32(0)
            for c in range(loadings.shape[1]):
                total += directions[row, c] * loadings[j, c]
            scores[j, k] = abs(total)
