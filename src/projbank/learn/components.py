"""Principal components of any number of rows: one pass, few rows in memory at a time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from projbank.learn.run import remembered
from projbank.learn.target import product
from projbank.rows.source import RowSource, check_finite, release_pages
from projbank.threads import run_each, split_rows

_COLUMNS = 4096
"""Columns that a thread multiplies at a time; sums over columns do not depend on the number of threads."""
_SPARE, _MOST = 4, 1024
"""Directions kept on the way, in times those that are wanted, up to so many: so the last ones are told well, too."""
_SUMMED, _PART = 4, 512
"""Up to so many times as many columns as directions kept, products of columns are summed, so many columns at a time."""
_TOLERANCE = 1e-6
"""Share of the largest variance below which a direction is rounding error of float32."""

Floats = NDArray[np.float32]


class Components(NamedTuple):
    """means (D,) float64; directions (D, k) float32 with orthonormal columns; variances (k,) float64, falling."""

    means: NDArray[np.float64]
    directions: Floats
    variances: NDArray[np.float64]


@remembered
def streamed_components(rows: RowSource, rank: int, n_threads: int = 1) -> Components:
    """Return the leading principal components of rows that are read once, in order.

    What was seen is summed up by scaled directions, `rank` or some more. A block of new rows joins them, the leading
    directions of both are taken, and so on (Ross, Lim, Lin and Yang, IJCV 2008). Exact where all rows fit into the
    first block; else directions that come late or are weak are told a little less well. Memory: 3 x D numbers for each
    direction that is kept. Where columns are few, their inner products are summed instead: exact, in D x D numbers.
    """
    n_rows, n_features = rows.shape
    most = max(rank, min(_SPARE * rank, _MOST))
    step = max(8, min(n_rows, 2 * most))
    if n_rows > step and n_features <= _SUMMED * most:
        return _summed_components(rows, rank, step, n_threads)
    stack = np.empty((min(n_rows, most) + step + 1, n_features), np.float32)
    means, kept = np.zeros(n_features), 0
    variances = np.empty(0)
    for start, stop in split_rows(n_rows, step):
        block = rows.block(start, stop)
        check_finite(block, start)
        own = block.mean(axis=0, dtype=np.float64)
        n_new = stop - start
        np.subtract(block, own, out=stack[kept : kept + n_new], casting="same_kind")
        release_pages(block)
        stack[kept + n_new] = np.sqrt(start * n_new / stop) * (means - own)  # what the means differ by
        means += (own - means) * (n_new / stop)
        used = stack[: kept + n_new + (start > 0)]
        gram = _gram(used, n_threads)
        _check_squares(gram, start, stop)
        kept = min(most, len(used))
        values, vectors = scipy.linalg.eigh(gram, subset_by_index=(len(used) - kept, len(used) - 1))
        variances = np.maximum(values[::-1], 0) / stop
        _mix(used, np.ascontiguousarray(vectors[:, ::-1].T, np.float32), n_threads)
    stack, variances = stack[: min(kept, rank)], variances[:rank]
    lengths = np.sqrt(np.einsum("ij,ij->i", stack, stack, dtype=np.float64))
    real = lengths**2 > _TOLERANCE * lengths.max(initial=0) ** 2
    real[0] = True
    directions = stack[real] / np.maximum(lengths[real], 1e-30).astype(np.float32)[:, None]
    return Components(means, np.ascontiguousarray(directions.T), variances[real])


def _summed_components(rows: RowSource, rank: int, step: int, n_threads: int) -> Components:
    """Components by the inner products of all columns, summed over blocks of rows about the mean of the first."""
    n_rows, n_features = rows.shape
    total, sums, base = np.zeros((n_features, n_features)), np.zeros(n_features), np.zeros(n_features)
    for start, stop in split_rows(n_rows, step):
        block = rows.block(start, stop)
        check_finite(block, start)
        if not start:
            base = block.mean(axis=0, dtype=np.float64)
        centred = np.subtract(block, base, dtype=np.float32)
        release_pages(block)
        sums += centred.sum(axis=0, dtype=np.float64)

        def add(first: int, last: int, centred: Floats = centred) -> None:
            with np.errstate(over="ignore", invalid="ignore"):  # refused below
                total[first:last, :last] += centred[:, first:last].T @ centred[:, :last]

        run_each(add, split_rows(n_features, _PART), n_threads)
        _check_squares(total.diagonal(), start, stop)
    total /= n_rows
    sums /= n_rows
    total -= sums[:, None] * sums
    wanted = n_features - min(rank, n_features), n_features - 1
    values, vectors = scipy.linalg.eigh(total, lower=True, overwrite_a=True, subset_by_index=wanted)
    variances = np.maximum(values[::-1], 0)
    real = variances > _TOLERANCE * variances[0]
    real[0] = True
    return Components(base + sums, np.ascontiguousarray(vectors[:, ::-1][:, real], np.float32), variances[real])


def _check_squares(sums: NDArray[np.float64], start: int, stop: int) -> None:
    """Refuse rows whose inner products overflow."""
    if not np.isfinite(sums).all():
        raise ValueError(f"X is too large: rows {start} to {stop - 1} have squares that do not fit into float32.")


def leading_values(rows: RowSource, n_components: int, n_threads: int = 1) -> Floats:
    """Values of every row in the leading principal components, (n, k)."""
    found = streamed_components(rows, n_components, n_threads)
    directions = found.directions
    values = np.empty((rows.shape[0], directions.shape[1]), np.float32)
    for start, block in rows.blocks():
        centred = np.subtract(block, found.means, dtype=np.float32)
        values[start : start + len(block)] = product(centred, directions, n_threads)
    return values


def _gram(stack: Floats, n_threads: int) -> NDArray[np.float64]:
    """Inner products of rows, (n, n); parts are summed in a fixed order."""
    ranges = split_rows(stack.shape[1], _COLUMNS)
    total = np.zeros((len(stack), len(stack)))
    parts: list[Floats] = [np.empty((0, 0), np.float32)] * n_threads

    def multiply(place: int, first: int, last: int) -> None:
        columns = np.ascontiguousarray(stack[:, first:last])
        with np.errstate(over="ignore"):  # refused by the caller
            parts[place] = columns @ columns.T

    for few in (ranges[i : i + n_threads] for i in range(0, len(ranges), n_threads)):
        run_each(multiply, [(place, *columns) for place, columns in enumerate(few)], n_threads)
        for part in parts[: len(few)]:
            total += part
    return total


def _mix(stack: Floats, vectors: Floats, n_threads: int) -> None:
    """Replace the first rows of a stack (n, D) by `vectors` (k, n) times the stack."""

    def multiply(first: int, last: int) -> None:
        stack[: len(vectors), first:last] = vectors @ np.ascontiguousarray(stack[:, first:last])

    run_each(multiply, split_rows(stack.shape[1], _COLUMNS), n_threads)
