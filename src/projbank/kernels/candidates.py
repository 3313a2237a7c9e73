"""Inner products of points with some rows each, which are looked up where they stand: dense or compressed sparse."""

from __future__ import annotations

import numpy as np

from projbank.kernels.jit import kernel


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
