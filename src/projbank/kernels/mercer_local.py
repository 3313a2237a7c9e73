"""Loops of the RBF kernel whose width is one of each pair."""

from __future__ import annotations

import numpy as np

from projbank.kernels.jit import kernel

_MATRIX = "Array(float32, 2, 'C', readonly=True)"


@kernel(f"void({_MATRIX}, {_MATRIX}, int64, boolean, float32[:, ::1], float32[::1])")
def local_squares(rows, basis, k, same, squares, widths):
    """squares[i, j] = |x_i - y_j|^2; widths[i] = mean distance from x_i to its k nearest y.

    rows (n, m); basis (m, L): dimension after dimension. Where rows are the basis (`same`), none is its own neighbour.
    The sums of squares are plain, so equal samples are exactly 0 apart, and a row has the same numbers in any block.
    """
    nearest = np.empty(k, np.float32)
    for i in range(rows.shape[0]):
        own = squares[i]
        own[:] = 0
        for q in range(rows.shape[1]):
            x = rows[i, q]
            for j in range(own.size):
                difference = basis[q, j] - x
                own[j] += difference * difference
        nearest[:] = np.inf
        for j in range(own.size):
            if own[j] < nearest[k - 1] and not (same and i == j):
                place = k - 1
                while place > 0 and nearest[place - 1] > own[j]:
                    nearest[place] = nearest[place - 1]
                    place -= 1
                nearest[place] = own[j]
        total = 0.0
        for place in range(k):
            total += np.sqrt(np.float64(nearest[place]))
        widths[i] = total / k


@kernel("void(float32[:, ::1], float32[::1], Array(float32, 1, 'C', readonly=True), float64)")
def local_values(squares, widths, others, factor):
    """squares[i, j] -> exp(-squares[i, j] / sigma^2), sigma = factor (widths[i] + others[j]) / 2, in place.

    Where both widths are 0, equal samples have the value 1 and others 0.
    """
    for i in range(squares.shape[0]):
        for j in range(squares.shape[1]):
            sigma = 0.5 * factor * (np.float64(widths[i]) + np.float64(others[j]))
            value = np.float64(squares[i, j])
            if value > 0:
                squares[i, j] = np.exp(-value / (sigma * sigma)) if sigma > 1e-30 else 0.0
            else:
                squares[i, j] = 1.0
