"""Kernels of the encoders: descriptors with their squares, soft assignment to Gaussians, sums per nearest centre."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from projbank.kernels.jit import kernel


@kernel("void(float32[:, :], float32[::1], float32[:, ::1])")
def with_squares(X: NDArray[np.float32], centre: NDArray[np.float32], out: NDArray[np.float32]) -> None:
    """Write x - centre and its squares side by side: out (n, 2k) from X (n, k)."""
    n, k = X.shape
    for i in range(n):
        row = X[i]
        first, second = out[i, :k], out[i, k:]
        for j in range(k):
            value = row[j] - centre[j]
            first[j] = value
            second[j] = value * value


@kernel("void(float32[:, ::1], float32[::1])")
def shifted_exp(scores: NDArray[np.float32], shifts: NDArray[np.float32]) -> None:
    """Replace each score s of row i by exp(s - shifts[i]), where no score is above its row's shift.

    exp is 2**n times a polynomial on [-ln 2 / 2, ln 2 / 2] (relative error 2e-7), so that the loop is vector code.
    Below 1e-30 it is 0: denormal numbers would slow the matrix product that follows.
    """
    n, k = scores.shape
    exponents = np.zeros(k, np.int32)
    powers = exponents.view(np.float32)
    for i in range(n):
        row = scores[i]
        shift = shifts[i]
        for j in range(k):
            x = row[j] - shift
            x = x if x > np.float32(-80) else np.float32(-80)
            turns = np.floor(x * np.float32(1.4426950408889634) + np.float32(0.5))
            x = (x - turns * np.float32(0.693359375)) - turns * np.float32(-2.12194440e-4)
            series = np.float32(1.9875691500e-4) * x + np.float32(1.3981999507e-3)
            series = series * x + np.float32(8.3334519073e-3)
            series = series * x + np.float32(4.1665795894e-2)
            series = series * x + np.float32(1.6666665459e-1)
            series = series * x + np.float32(5.0000001201e-1)
            row[j] = (series * x * x + x) + np.float32(1)
            exponents[j] = (np.int32(turns) + np.int32(127)) << np.int32(23)
        for j in range(k):
            value = row[j] * powers[j]
            row[j] = value if value > np.float32(1e-30) else np.float32(0)


@kernel("void(float32[:, ::1], float32[::1], float32[::1])")
def scale_rows(weights: NDArray[np.float32], totals: NDArray[np.float32], sums: NDArray[np.float32]) -> None:
    """Divide each row by its total, in place, and add up the rows in `sums`."""
    n, k = weights.shape
    for i in range(n):
        row = weights[i]
        factor = np.float32(1) / totals[i]
        for j in range(k):
            value = row[j] * factor
            row[j] = value
            sums[j] += value


@kernel("void(float32[:, :], int64[::1], float32[:, ::1], int64[::1])")
def sum_by_label(
    X: NDArray[np.float32], labels: NDArray[np.int64], sums: NDArray[np.float32], counts: NDArray[np.int64]
) -> None:
    """Add row i of X to ``sums[labels[i]]`` and count it, in order."""
    n, k = X.shape
    for i in range(n):
        label = labels[i]
        counts[label] += 1
        row, target = X[i], sums[label]
        for j in range(k):
            target[j] += row[j]
