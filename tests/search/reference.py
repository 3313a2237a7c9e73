"""The slow reference: every distance, then a sort."""

import numpy as np


def all_distances(codes, queries, n_bits):
    bits = np.unpackbits(codes, axis=1, count=n_bits, bitorder="little").astype(np.int32)
    points = np.unpackbits(queries, axis=1, count=n_bits, bitorder="little").astype(np.int32)
    return points.sum(axis=1)[:, None] + bits.sum(axis=1)[None] - 2 * points @ bits.T


def slow_search(codes, queries, k, ids, n_bits, allowed=None, most=None):
    """Order by (distance, id); -1 and the largest int32 where fewer than k are left."""
    distances = np.full((len(queries), k), np.iinfo(np.int32).max)
    found = np.full((len(queries), k), -1)
    for q, row in enumerate(all_distances(codes, queries, n_bits).tolist()):
        pairs = sorted(
            (d, i)
            for d, i in zip(row, np.asarray(ids).tolist(), strict=True)
            if (allowed is None or i in allowed) and (most is None or d <= most)
        )[:k]
        distances[q, : len(pairs)] = [d for d, _ in pairs]
        found[q, : len(pairs)] = [i for _, i in pairs]
    return distances, found
