"""Kernels of dense trajectories: integral images of orientation histograms, and sums over the cells of a track."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from projbank.kernels.jit import kernel


@kernel("void(float32[:, :, ::1], float32[:, :, ::1], int64[::1], int64, float32, float64[:, :, ::1])")
def integral_histograms(
    magnitudes: NDArray[np.float32],
    angles: NDArray[np.float32],
    starts: NDArray[np.int64],
    still_bin: int,
    still_below: float,
    out: NDArray[np.float64],
) -> None:
    """Integral image of orientation histograms of several vector fields side by side.

    Field f votes with its magnitude for the two nearest of 8 orientations, bins ``starts[f]`` and following. The field
    whose bins end at `still_bin` votes with 1 for that bin instead where its magnitude is below `still_below`.

    Parameters
    ----------
    magnitudes, angles : (fields, h, w), angles in [0, 2 pi)
    starts : (fields,) first bin of each field
    still_bin : bin of what does not move
    out : (h + 1, w + 1, bins); ``out[y, x]`` is the sum over all pixels above and left of (y, x)
    """
    n_fields, height, width = magnitudes.shape
    n_bins = out.shape[2]
    per_bin = np.float32(4 / np.pi)
    out[0] = 0
    line = np.zeros(n_bins, np.float64)
    for y in range(height):
        line[:] = 0
        out[y + 1, 0] = 0
        for x in range(width):
            for f in range(n_fields):
                magnitude = magnitudes[f, y, x]
                if starts[f] + 8 == still_bin and magnitude < still_below:
                    line[still_bin] += 1
                else:
                    place = angles[f, y, x] * per_bin
                    low = int(place)
                    share = (place - np.float32(low)) * magnitude
                    line[starts[f] + (low & 7)] += magnitude - share
                    line[starts[f] + ((low + 1) & 7)] += share
            above, here = out[y, x + 1], out[y + 1, x + 1]
            for b in range(n_bins):
                here[b] = above[b] + line[b]


@kernel("void(float64[:, :, ::1], int64[:, ::1], int64, int64[::1], float32[:, :, :, ::1])")
def add_cells(
    integral: NDArray[np.float64],
    corners: NDArray[np.int64],
    cell: int,
    times: NDArray[np.int64],
    histograms: NDArray[np.float32],
) -> None:
    """Add the histograms of 2x2 cells to those of each track's present third in time.

    Parameters
    ----------
    integral : (h + 1, w + 1, bins) integral image
    corners : (n, 2) x and y of the top left pixel of each track's patch
    cell : width of a cell in pixels
    times : (n,) which third of its life a track is in
    histograms : (n, 3, 4, bins); cells in rows from the top left
    """
    for i in range(len(corners)):
        for j in range(4):
            x, y = corners[i, 0] + (j & 1) * cell, corners[i, 1] + (j >> 1) * cell
            target = histograms[i, times[i], j]
            a, b = integral[y, x], integral[y, x + cell]
            c, d = integral[y + cell, x], integral[y + cell, x + cell]
            for o in range(len(target)):
                target[o] += np.float32((d[o] - c[o]) - (b[o] - a[o]))
