"""Plain loops over the samples of one group: distances to neighbours, centred kernel matrices, landmarks."""

from __future__ import annotations

import numpy as np

from projbank.kernels.jit import kernel


@kernel("void(Array(float32, 2, 'C', readonly=True), float32[:, ::1], int64)")
def move_to_means(samples, centers, n_iter):
    """Move the centres (m, L) to the means of the samples (n, m) that are nearest to them, `n_iter` times.

    Centres are held dimension after dimension, so that one sample is compared with 8 of them at a time. Ties go to
    the first centre; a centre without samples stays.
    """
    n, m = samples.shape
    n_centers = centers.shape[1]
    halves, scores = np.empty(n_centers, np.float32), np.empty(n_centers, np.float32)
    sums, counts = np.empty((n_centers, m), np.float64), np.empty(n_centers, np.int64)
    for _ in range(n_iter):
        halves[:] = 0
        for q in range(m):
            for c in range(n_centers):
                halves[c] += np.float32(0.5) * centers[q, c] * centers[q, c]
        sums[:] = 0
        counts[:] = 0
        for i in range(n):
            for c in range(n_centers):
                scores[c] = -halves[c]
            for q in range(m):
                x = samples[i, q]
                for c in range(n_centers):
                    scores[c] += x * centers[q, c]
            best = np.argmax(scores)
            counts[best] += 1
            for q in range(m):
                sums[best, q] += samples[i, q]
        for c in range(n_centers):
            if counts[c] > 0:
                for q in range(m):
                    centers[q, c] = sums[c, q] / counts[c]


@kernel("float64(float32[:, ::1], float64[::1])")
def center_rows(K, means):
    """Subtract every row's mean in place and note it in `means`; returns the largest absolute value that is left."""
    peak = np.float32(0)
    for i in range(K.shape[0]):
        lanes = np.zeros(8, np.float64)
        whole = K.shape[1] // 8 * 8
        for j in range(0, whole, 8):
            for k in range(8):
                lanes[k] += K[i, j + k]
        total = 0.0
        for k in range(8):
            total += lanes[k]
        for j in range(whole, K.shape[1]):
            total += K[i, j]
        means[i] = total / K.shape[1]
        mean = np.float32(means[i])
        for j in range(K.shape[1]):
            K[i, j] -= mean
            peak = max(peak, abs(K[i, j]))
    return peak


@kernel("float64(Array(float32, 2, 'C', readonly=True), int64)")
def mean_neighbor_distance(XT, k):
    """Mean over samples of the mean Euclidean distance to their k nearest others.

    XT (m, n): dimension after dimension. The sums of squares are plain, so equal samples are exactly 0 apart.
    """
    n = XT.shape[1]
    squares = np.empty(n, np.float32)
    nearest = np.empty(k, np.float32)
    total = 0.0
    for i in range(n):
        squares[:] = 0
        for q in range(XT.shape[0]):
            x = XT[q, i]
            for j in range(n):
                difference = XT[q, j] - x
                squares[j] += difference * difference
        squares[i] = np.inf
        nearest[:] = np.inf
        for j in range(n):
            if squares[j] < nearest[k - 1]:
                place = k - 1
                while place > 0 and nearest[place - 1] > squares[j]:
                    nearest[place] = nearest[place - 1]
                    place -= 1
                nearest[place] = squares[j]
        for place in range(k):
            total += np.sqrt(np.float64(nearest[place]))
    return total / (n * k)
