"""Pseudo-labels: the exact k-nearest-neighbour graph of the training data, computed in blocks."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from projbank.kernels.nearest import center_rows, merge_nearest
from projbank.memo import remembered
from projbank.progress import progress
from projbank.threads import run_all, split_rows
from projbank.vectors import read_rows, row_blocks

_BLOCK_BYTES = 96 << 20
_SIDE = 4
"""So many blocks are multiplied with so many others in one go, to be centred once for all of them."""


def nearest_neighbors(
    X: Any,
    n_neighbors: int,
    center: NDArray[np.floating] | None = None,
    *,
    directions: bool = False,
    gram: NDArray[np.float32] | None = None,
    n_threads: int = 1,
    verbose: int = 0,
) -> NDArray[np.int64]:
    """Exact Euclidean nearest neighbours of every row among the other rows; ties go to the smaller id.

    Each pair of blocks is multiplied once and serves both sides. Every product runs on one BLAS thread, so that the
    result does not depend on the number of threads.

    Parameters
    ----------
    X : (n, D) array, memory map or sparse matrix; five blocks of at most 96 MiB of rows are held per thread
    n_neighbors : int in [1, n - 1]
    center : (D,) array that is subtracted from the rows (distances do not change, their rounding error falls)
    directions : scale the centred rows to length 1, so that neighbours are those by cosine (rows of zeros stay)
    gram : (n, n) array that takes up the inner products of these rows, for who needs them too
    n_threads : threads
    verbose : show a progress bar on a terminal

    Returns
    -------
    ids : (n, n_neighbors) int64, nearest first
    """
    n_rows, n_features = X.shape
    distances = np.full((n_rows, n_neighbors), np.inf, np.float32)
    ids = np.full((n_rows, n_neighbors), np.iinfo(np.int64).max, np.int64)
    blocks = row_blocks(n_rows, n_features, min(_BLOCK_BYTES, 4 * 1024 * n_features))
    origin = np.zeros(n_features, np.float32) if center is None else center.astype(np.float32)
    locks = [threading.Lock() for _ in blocks]

    def centered(block: int) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        return centered_rows(read_rows(X, *blocks[block]), origin, directions)

    def offer(a: int, dots: NDArray[np.float32], squares: list[NDArray[np.float64]], b: int) -> None:
        (start, stop), (first, _) = blocks[a], blocks[b]
        with locks[a]:
            merge_nearest(dots, squares[0], squares[1], start, first, distances[start:stop], ids[start:stop])

    def multiply(some: range, others: range) -> int:
        held = [centered(a) for a in some]
        for b in others:
            right, right_squares = held[b - some[0]] if b in some else centered(b)
            for a, (left, left_squares) in zip(some, held, strict=True):
                if a > b:
                    break
                dots = left @ right.T
                offer(a, dots, [left_squares, right_squares], b)
                if a != b:
                    offer(b, np.ascontiguousarray(dots.T), [right_squares, left_squares], a)
                if gram is not None:
                    gram[slice(*blocks[a]), slice(*blocks[b])] = dots
                    gram[slice(*blocks[b]), slice(*blocks[a])] = dots.T
        return sum(a <= b for a in some for b in others)

    n_blocks = len(blocks)
    for side in (_SIDE, 2, 1):  # what is multiplied in one go changes no result: smaller parts where threads are many
        sides = [range(start, stop) for start, stop in split_rows(n_blocks, side)]
        calls = [(some, others) for i, some in enumerate(sides) for others in sides[i:]]
        if len(calls) >= 2 * n_threads:
            break
    with (
        threadpool_limits(1, user_api="blas"),
        progress("nearest neighbours", n_blocks * (n_blocks + 1) // 2, verbose) as advance,
    ):
        for done in run_all(multiply, calls, n_threads):
            advance(done)
    return ids


def centered_rows(
    rows: NDArray[np.float32], center: NDArray[np.float32], directions: bool
) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Rows less the centre, scaled to length 1 if `directions` (rows of zeros stay), and their squared lengths."""
    out, squares = np.empty(rows.shape, np.float32), np.empty(len(rows))
    center_rows(rows, center, directions, out, squares)
    return out, squares


@remembered
def neighbor_graph(
    X: Any, n_neighbors: int, center: NDArray[np.floating] | None = None, *, n_threads: int = 1, verbose: int = 0
) -> sp.csr_array:
    """Positive pairs of the nearest neighbours of every row; parameters as in `nearest_neighbors`."""
    return positive_pairs(nearest_neighbors(X, n_neighbors, center, n_threads=n_threads, verbose=verbose))


def positive_pairs(ids: NDArray[np.int64]) -> sp.csr_array:
    """Pairs with l_ij = +1: either is among the other's nearest, or i = j.

    Parameters
    ----------
    ids : (n, k) neighbours of every sample

    Returns
    -------
    (n, n) symmetric CSR matrix of ones with the diagonal, sorted indices
    """
    n_rows, k = ids.shape
    ones = np.ones(ids.size, np.float32)
    graph = sp.csr_array((ones, ids.ravel(), np.arange(0, ids.size + 1, k)), shape=(n_rows, n_rows))
    graph = (graph + graph.T + sp.eye_array(n_rows, dtype=np.float32, format="csr")).tocsr()
    graph.data[:] = 1
    graph.sort_indices()
    return graph
