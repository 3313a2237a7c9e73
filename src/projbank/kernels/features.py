"""Kernels of features: dense SIFT, sums of the encoders, histograms along trajectories."""

from __future__ import annotations

import numpy as np

from projbank.kernels.jit import kernel

CLIP = np.float32(0.2)


@kernel("void(float32[:, ::1], float32[:, :, ::1])")
def orientation_maps(image, maps):
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
def spatial_bins(maps, rows, bin_size, bins):
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
def descriptors(bins, row_of, column_of, window, root, out, norms):
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


@kernel("void(float32[:, :], float32[::1], float32[:, ::1])")
def with_squares(X, centre, out):
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
def shifted_exp(scores, shifts):
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
def scale_rows(weights, totals, sums):
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
def sum_by_label(X, labels, sums, counts):
    """Add row i of X to ``sums[labels[i]]`` and count it, in order."""
    n, k = X.shape
    for i in range(n):
        label = labels[i]
        counts[label] += 1
        row, target = X[i], sums[label]
        for j in range(k):
            target[j] += row[j]


@kernel("void(float32[:, :, ::1], float32[:, :, ::1], int64[::1], int64, float32, float64[:, :, ::1])")
def integral_histograms(magnitudes, angles, starts, still_bin, still_below, out):
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
def add_cells(integral, corners, cell, times, histograms):
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
