"""The k nearest codes of a batch of queries, spread over threads; the result never depends on how."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from projbank.search.margins import WeightedQueries
from projbank.threads import run_all, split_rows

BLOCK_BYTES = 128 << 10
"""Codes visited for all queries before the next ones: they stay in the second-level cache."""
HEAP_BYTES = 128 << 20
"""Bound of the memory for the heaps of all threads; larger batches of queries are cut."""
BYTES_PER_THREAD = 1 << 20
"""Bytes of codes to be compared that pay for one more thread."""

Nearest = tuple[NDArray[np.int32], NDArray[np.int64]]


def nearest(
    codes: NDArray[np.uint8], ids: NDArray[np.int64], queries: NDArray[np.uint8], k: int, n_threads: int
) -> Nearest:
    """Hamming distances int32 and ids int64, both (n_queries, k), in the order of (distance, id); k <= len(codes)."""
    no_planes = np.empty((len(queries), 0, queries.shape[1]), dtype=np.uint8)
    return _scan_batches(codes, ids, queries, no_planes, k, n_threads)


def nearest_weighted(
    codes: NDArray[np.uint8], ids: NDArray[np.int64], queries: WeightedQueries, k: int, n_threads: int
) -> Nearest:
    """As `nearest`, by the sum of the weights of the differing bits."""
    return _scan_batches(codes, ids, queries.signs, queries.planes, k, n_threads)


def weighted_distances(
    codes: NDArray[np.uint8], rows: NDArray[np.int64], queries: WeightedQueries, n_threads: int
) -> NDArray[np.int32]:
    """Weighted distances (n_queries, s) of each query to its own `rows` (n_queries, s)."""
    from projbank.kernels import hamming

    distances = np.empty(rows.shape, dtype=np.int32)

    def one(q: int) -> None:
        n_planes, n_bytes = queries.planes.shape[1:]
        signs, planes = queries.signs[q], queries.planes[q]
        hamming.weighted_distances(
            codes.ctypes.data,
            codes.strides[0],
            rows[q],
            signs.ctypes.data,
            planes.ctypes.data,
            n_planes,
            n_bytes,
            distances[q],
        )

    for _ in run_all(one, [(q,) for q in range(len(rows))], n_threads):
        pass
    return distances


def sort_pairs(distances: NDArray, ids: NDArray[np.int64], k: int) -> tuple[NDArray, NDArray[np.int64]]:
    """Keep the k smallest (distance, id) of each row, in order."""
    order = np.lexsort((ids, distances), axis=1)[:, :k]
    return np.take_along_axis(distances, order, axis=1), np.take_along_axis(ids, order, axis=1)


def _scan_batches(
    codes: NDArray[np.uint8],
    ids: NDArray[np.int64],
    queries: NDArray[np.uint8],
    planes: NDArray[np.uint8],
    k: int,
    n_threads: int,
) -> Nearest:
    distances = np.empty((len(queries), k), dtype=np.int32)
    found = np.empty((len(queries), k), dtype=np.int64)
    if k == 0:
        return distances, found
    for start, stop in split_rows(len(queries), max(1, HEAP_BYTES // (12 * k * n_threads))):
        batch = np.ascontiguousarray(queries[start:stop])
        batch_planes = np.ascontiguousarray(planes[start:stop])
        distances[start:stop], found[start:stop] = _scan(codes, ids, batch, batch_planes, k, n_threads)
    return distances, found


def _scan(
    codes: NDArray[np.uint8],
    ids: NDArray[np.int64],
    queries: NDArray[np.uint8],
    planes: NDArray[np.uint8],
    k: int,
    n_threads: int,
) -> Nearest:
    """Each thread fills heaps from its own part of the codes; the best of all heaps are the best of all codes."""
    from projbank.kernels import hamming

    n_rows, n_bytes = codes.shape

    def one_part(start: int, stop: int) -> Nearest:
        distances = np.full((len(queries), min(k, stop - start)), np.iinfo(np.int32).max, dtype=np.int32)
        found = np.full(distances.shape, np.iinfo(np.int64).max, dtype=np.int64)
        hamming.scan(
            codes.ctypes.data + start * codes.strides[0],
            codes.strides[0],
            ids.ctypes.data + start * ids.itemsize,
            stop - start,
            queries.ctypes.data,
            planes.ctypes.data,
            planes.shape[1],
            n_bytes,
            max(1, BLOCK_BYTES // n_bytes),
            distances,
            found,
        )
        return distances, found

    work = n_rows * n_bytes * len(queries)
    n_parts = max(1, min(n_threads, n_rows, work // BYTES_PER_THREAD))
    parts = split_rows(n_rows, -(-n_rows // n_parts))
    heaps = list(run_all(one_part, parts, n_threads))
    return sort_pairs(
        np.concatenate([distances for distances, _ in heaps], axis=1),
        np.concatenate([found for _, found in heaps], axis=1),
        k,
    )
