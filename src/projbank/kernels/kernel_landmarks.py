"""Landmarks of a group: a few centres that stand for many samples of few dimensions (Lloyd's k-means)."""

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
