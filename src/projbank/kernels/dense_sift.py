"""Kernels of dense SIFT: gradients into 8 orientation maps, triangular bins of the maps, normalised descriptors."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from projbank.kernels.jit import kernel

CLIP = np.float32(0.2)


@kernel("void(float32[:, ::1], float32[:, :, ::1])")
def orientation_maps(image: NDArray[np.float32], maps: NDArray[np.float32]) -> None:
    """Split the gradient of `image` (h, w) linearly over its two nearest of 8 orientations: maps (h, w, 8).

    The vertical axis points up, as in OpenCV's SIFT; pixels on the border have no gradient. atan is a polynomial
    (Abramowitz and Stegun 4.4.49, error 1e-5 rad), so that the loop over a row is vector code.
    """
    height, width = image.shape
    maps[:] = np.float32(0)
    magnitude = np.zeros(width, np.float32)
    octant = np.zeros(width, np.float32)
    per_octant = np.float32(4 / np.pi)
    for y in range(1, height - 1):
        for x in range(1, width - 1):
            dx = image[y, x + 1] - image[y, x - 1]
            dy = image[y - 1, x] - image[y + 1, x]
            across, up = abs(dx), abs(dy)
            ratio = min(across, up) / max(max(across, up), np.float32(1e-30))
            square = ratio * ratio
            series = np.float32(-0.0851330) + square * np.float32(0.0208351)
            series = np.float32(0.1801410) + square * series
            series = np.float32(0.9998660) + square * (np.float32(-0.3302995) + square * series)
            angle = per_octant * ratio * series
            angle = np.float32(2) - angle if up > across else angle
            angle = np.float32(4) - angle if dx < 0 else angle
            angle = np.float32(8) - angle if dy < 0 else angle
            magnitude[x] = np.sqrt(dx * dx + dy * dy)
            octant[x] = angle
        for x in range(1, width - 1):
            low = int(octant[x])
            share = (octant[x] - np.float32(low)) * magnitude[x]
            maps[y, x, low & 7] += magnitude[x] - share
            maps[y, x, (low + 1) & 7] += share


@kernel("void(float32[:, :, ::1], int64[::1], int64, float32[:, :, ::1])")
def spatial_bins(maps: NDArray[np.float32], rows: NDArray[np.int64], bin_size: int, bins: NDArray[np.float32]) -> None:
    """Weigh the maps (h, w, 8) by a triangle of half-width `bin_size` in both directions: bins (len(rows), w, 8).

    With an odd bin size the bins are centred between two pixels: row r stands for r + 1/2, column x for x + 1/2.
    Outside the image there is no gradient.
    """
    height, width, n_orientations = maps.shape
    n = width * n_orientations
    flat = maps.reshape(height, n)
    margin = (bin_size + 1) * n_orientations
    padded = np.zeros(n + 2 * margin, np.float32)
    line = padded[margin : margin + n]
    odd = bin_size & 1
    per_half = np.float32(0.5 / bin_size)
    for i in range(len(rows)):
        line[:] = np.float32(0)
        for y in range(max(0, rows[i] + 1 - bin_size), min(height, rows[i] + bin_size + odd)):
            weight = np.float32(1) - np.float32(abs(2 * (y - rows[i]) - odd)) * per_half
            source = flat[y]
            for x in range(n):
                line[x] += weight * source[x]
        target = bins[i].reshape(n)
        target[:] = np.float32(0)
        for shift in range(1 - bin_size, bin_size + odd):
            weight = np.float32(1) - np.float32(abs(2 * shift - odd)) * per_half
            start = margin + shift * n_orientations
            source = padded[start : start + n]
            for x in range(n):
                target[x] += weight * source[x]


@kernel(
    "void(float32[:, :, ::1], int64[:, ::1], int64[:, ::1], float32[:, ::1], boolean, float32[:, ::1], float32[::1])"
)
def descriptors(
    bins: NDArray[np.float32],
    row_of: NDArray[np.int64],
    column_of: NDArray[np.int64],
    window: NDArray[np.float32],
    root: bool,
    out: NDArray[np.float32],
    norms: NDArray[np.float32],
) -> None:
    """Gather 4x4 bins per grid point, weigh them, normalise, clip at 0.2 and normalise again (L2, or L1 and root).

    Sums halve an array of constant length and the clip goes to another array: both so that LLVM emits vector code.

    Parameters
    ----------
    bins : (r, w, 8) spatial bins
    row_of, column_of : (n_y, 4) and (n_x, 4) positions in `bins` of the four bins of each grid line
    window : (4, 4) weight of each bin
    root : whether to give RootSIFT, the square root of the L1-normalised descriptor
    out : (n_y * n_x, 128) descriptors; a flat patch gives zeros
    norms : (n_y * n_x,) their length before normalisation
    """
    raw = np.zeros(128, np.float32)
    part = np.zeros(64, np.float32)
    for gy in range(row_of.shape[0]):
        for gx in range(column_of.shape[0]):
            point = gy * column_of.shape[0] + gx
            vector = out[point]
            for i in range(4):
                for j in range(4):
                    source = bins[row_of[gy, i], column_of[gx, j]]
                    weight = window[i, j]
                    at = (4 * i + j) * 8
                    for o in range(8):
                        raw[at + o] = source[o] * weight
            for i in range(64):
                part[i] = raw[i] * raw[i] + raw[i + 64] * raw[i + 64]
            for i in range(32):
                part[i] += part[i + 32]
            for i in range(16):
                part[i] += part[i + 16]
            for i in range(8):
                part[i] += part[i + 8]
            norm = np.sqrt(((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7])))
            norms[point] = norm
            if norm == 0:
                vector[:] = np.float32(0)
                continue
            limit = CLIP * norm
            for i in range(128):
                value = raw[i]
                vector[i] = value if value < limit else limit
            if root:
                for i in range(64):
                    part[i] = vector[i] + vector[i + 64]
            else:
                for i in range(64):
                    part[i] = vector[i] * vector[i] + vector[i + 64] * vector[i + 64]
            for i in range(32):
                part[i] += part[i + 32]
            for i in range(16):
                part[i] += part[i + 16]
            for i in range(8):
                part[i] += part[i + 8]
            scale = np.float32(1) / (
                ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]))
            )
            if root:
                for i in range(128):
                    vector[i] = np.sqrt(vector[i] * scale)
            else:
                scale = np.sqrt(scale)
                for i in range(128):
                    vector[i] *= scale
