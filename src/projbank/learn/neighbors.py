"""Pseudo-labels: the exact k-nearest-neighbour graph of the training data, computed in blocks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from projbank.kernels.nearest import center_rows, merge_nearest
from projbank.learn.run import remembered
from projbank.progress import progress
from projbank.rows.source import RowSource
from projbank.threads import blas_threads, run_each, split_rows

TILE = 4096
"""Rows that are multiplied with as many others in one go."""
COLUMNS = 4096
STRIP = 512
"""Columns that are read at a time, and rows of a tile that one thread multiplies with them."""


def nearest_neighbors(
    rows: RowSource,
    n_neighbors: int,
    center: NDArray[np.floating] | None = None,
    *,
    directions: bool = False,
    gram: NDArray[np.float32] | None = None,
    n_threads: int = 1,
    verbose: int = 0,
) -> NDArray[np.int64]:
    """Exact Euclidean nearest neighbours of every row among the other rows; ties go to the smaller id.

    Inner products of 4,096 rows with as many others are summed up over ranges of columns, each pair once for both
    sides. Every product runs on one BLAS thread, so that the result does not depend on the number of threads.

    Parameters
    ----------
    rows : (n, D); at most 8,192 rows of 4,096 columns (128 MiB) are held
    n_neighbors : int in [1, n - 1]
    center : (D,) array that is subtracted from the rows (distances do not change, their rounding error falls)
    directions : scale the centred rows to length 1, so that neighbours are those by cosine (rows of zeros stay)
    gram : (n, n) array that takes up the inner products of these rows, kept for other uses
    n_threads : threads
    verbose : show a progress bar on a terminal

    Returns
    -------
    ids : (n, n_neighbors) int64, nearest first
    """
    n_rows, n_features = rows.shape
    distances = np.full((n_rows, n_neighbors), np.inf, np.float32)
    ids = np.full((n_rows, n_neighbors), np.iinfo(np.int64).max, np.int64)
    origin = np.zeros(n_features, np.float32) if center is None else center.astype(np.float32)
    scale = _scale(rows, origin) if directions else np.float32(1)
    tiles = split_rows(n_rows, TILE)
    pairs = [(some, others) for i, some in enumerate(tiles) for others in tiles[i:]]

    def offer(dots: NDArray[np.float32], squares: list[NDArray[np.float64]], start: int, first: int) -> None:
        """Offer the vectors from `first` on to those from `start` on."""

        def merge(low: int, high: int) -> None:
            own = slice(start + low, start + high)
            merge_nearest(
                dots[low:high], squares[0][low:high], squares[1], start + low, first, distances[own], ids[own]
            )

        run_each(merge, split_rows(len(dots), STRIP), n_threads)

    n_ranges = len(split_rows(n_features, COLUMNS))
    with (
        blas_threads(),
        progress("nearest neighbours", len(pairs) * n_ranges, verbose) as advance,
    ):
        for some, others in pairs:
            dots, squares = _inner_products(rows, some, others, origin, scale, n_threads, advance)
            if directions:
                dots *= _inverse_lengths(squares[0])[:, None]
                dots *= _inverse_lengths(squares[1])
                squares = [np.sign(part) for part in squares]
            offer(dots, squares, some[0], others[0])
            if some != others:
                offer(np.ascontiguousarray(dots.T), squares[::-1], others[0], some[0])
            if gram is not None:
                gram[slice(*some), slice(*others)] = dots
                gram[slice(*others), slice(*some)] = dots.T
    return ids


def _inner_products(
    rows: RowSource,
    some: tuple[int, int],
    others: tuple[int, int],
    center: NDArray[np.float32],
    scale: np.float32,
    n_threads: int,
    advance: Callable[[int], None],
) -> tuple[NDArray[np.float32], list[NDArray[np.float64]]]:
    """Inner products of the centred and scaled rows of two ranges, and the squared lengths of the rows of each."""
    sides = [some] if some == others else [some, others]
    lengths = [stop - start for start, stop in sides]
    buffers = [np.empty(length * min(COLUMNS, rows.shape[1]), np.float32) for length in lengths]
    squares = [np.zeros(length) for length in lengths]
    dots = np.zeros((lengths[0], lengths[-1]), np.float32)

    def read(side: int, columns: tuple[int, int], panel: NDArray[np.float32], low: int, high: int) -> None:
        start = sides[side][0]
        block = rows.block(start + low, start + high, slice(*columns))
        center_rows(block, center[slice(*columns)], scale, panel[low:high], squares[side][low:high])

    def multiply(left: NDArray[np.float32], right: NDArray[np.float32], low: int, high: int) -> None:
        strip = left[low:high]
        if left is right:
            dots[low:high, low:high] += strip @ strip.T
            dots[low:high, high:] += strip @ right[high:].T
        else:
            dots[low:high] += strip @ right.T

    for columns in split_rows(rows.shape[1], COLUMNS):
        width = columns[1] - columns[0]
        panels = [
            buffer[: length * width].reshape(length, width) for buffer, length in zip(buffers, lengths, strict=True)
        ]
        for side, panel in enumerate(panels):
            reads = [(side, columns, panel, *strip) for strip in split_rows(len(panel), STRIP)]
            run_each(read, reads, n_threads)
        products = [(panels[0], panels[-1], *strip) for strip in split_rows(len(dots), STRIP)]
        run_each(multiply, products, n_threads)
        advance(1)
    if len(sides) == 1:
        for low, high in split_rows(len(dots), STRIP):
            dots[high:, low:high] = dots[low:high, high:].T
    return dots, [squares[0], squares[-1]]


def _scale(rows: RowSource, center: NDArray[np.float32]) -> np.float32:
    """Power of two that brings centred values near 1, judged by some rows: no inner product of them underflows."""
    starts = np.unique(np.linspace(0, rows.shape[0] - 1, 16).astype(np.int64)).tolist()
    size = max(float(np.abs(rows.block(start, start + 1) - center).max()) for start in starts)
    return np.float32(2.0 ** -np.round(np.log2(size))) if size > 0 else np.float32(1)


def centered_rows(
    rows: NDArray[np.float32], center: NDArray[np.float32], directions: bool
) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Rows less the centre, scaled to length 1 if `directions` (rows of zeros stay), and their squared lengths."""
    out, squares = np.empty(rows.shape, np.float32), np.zeros(len(rows))
    center_rows(rows, center, np.float32(1), out, squares)
    if directions:
        out *= _inverse_lengths(squares)[:, None]
        squares = np.sign(squares)
    return out, squares


def _inverse_lengths(squares: NDArray[np.float64]) -> NDArray[np.float32]:
    """1 / length of vectors of squared length `squares`; 1 for vectors of zeros."""
    return (1 / np.sqrt(np.where(squares > 0, squares, 1))).astype(np.float32)


@remembered
def neighbor_graph(
    rows: RowSource,
    n_neighbors: int,
    center: NDArray[np.floating] | None = None,
    *,
    n_threads: int = 1,
    verbose: int = 0,
) -> sp.csr_array:
    """Positive pairs of the nearest neighbours of every row; parameters as in `nearest_neighbors`."""
    return positive_pairs(nearest_neighbors(rows, n_neighbors, center, n_threads=n_threads, verbose=verbose))


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
