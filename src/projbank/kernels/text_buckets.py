"""Kernel of the fixed-dimensional encoding: projected tokens added up, or averaged, in SimHash buckets."""

from __future__ import annotations

import numpy as np

from projbank.kernels.jit import kernel


@kernel("void(float32[:, ::1], float32[::1], int64, boolean, float32[:, :, ::1])")
def fill_buckets(products, thresholds, n_planes, average, out):
    """Add token i to bucket b of every repetition; bit j of b is 1 iff its product with plane j is above a threshold.

    products (n, R * n_planes + R * p): of each token with the planes of all repetitions, then its R projections;
    thresholds (R * n_planes,); out (R, 2 ** n_planes, p), zeros. With `average`, sums are divided by the number of
    tokens, and an empty bucket gets the first token of the bucket that is not empty and whose number differs in the
    fewest bits, the smaller number on a tie.
    """
    n_repetitions, n_buckets, n_projected = out.shape
    n_tokens = products.shape[0]
    counts = np.zeros(n_buckets, np.int64)
    first = np.zeros(n_buckets, np.int64)
    for r in range(n_repetitions):
        counts[:] = 0
        plane, start = r * n_planes, n_repetitions * n_planes + r * n_projected
        for i in range(n_tokens):
            bucket = 0
            for j in range(n_planes):
                bucket |= int(products[i, plane + j] > thresholds[plane + j]) << j
            if counts[bucket] == 0:
                first[bucket] = i
            counts[bucket] += 1
            target, values = out[r, bucket], products[i, start : start + n_projected]
            for j in range(n_projected):
                target[j] += values[j]
        if not average or n_tokens == 0:
            continue
        for bucket in range(n_buckets):
            target = out[r, bucket]
            if counts[bucket]:
                share = np.float32(counts[bucket])
                for j in range(n_projected):
                    target[j] /= share
                continue
            nearest, fewest = 0, n_planes + 1
            for other in range(n_buckets):
                if counts[other]:
                    differing, bits = bucket ^ other, 0
                    while differing:
                        differing &= differing - 1
                        bits += 1
                    if bits < fewest:
                        nearest, fewest = other, bits
            target[:] = products[first[nearest], start : start + n_projected]
