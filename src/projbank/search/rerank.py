"""The second stage: a shortlist put in order by the asymmetric score, or by the original vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from projbank.rows.source import RowSource, check_finite, foreign_rows, row_blocks
from projbank.search.margins import quantise, weigh
from projbank.search.scan import Part, sort_pairs, weighted_distances
from projbank.threads import run_each

Ranked = tuple[NDArray[np.float32], NDArray[np.int64]]
GATHER_BYTES = 8 << 20
"""Bytes of float32 rows gathered at a time."""


def by_margins(
    parts: Sequence[Part],
    rows: NDArray[np.int64],
    ids: NDArray[np.int64],
    margins: NDArray[np.float32],
    k: int,
    query_bits: int,
    n_threads: int,
) -> Ranked:
    """Keep the k candidates of each query with the largest asymmetric scores; `rows` and `ids` are (n_queries, s).

    Rows are counted through all parts. Candidates of id -1 are places left empty: they come last, with score -inf.
    """
    weighted = weigh(*quantise(margins, query_bits), query_bits)
    distances, found = sort_pairs(weighted_distances(parts, rows, weighted, n_threads), ids, k)
    return weighted.scores(distances, found), found


def by_vectors(
    candidates: NDArray[np.int64], vectors: Any, query_vectors: Any, metric: str, k: int, n_threads: int
) -> Ranked:
    """Keep the k candidates of each query whose rows of `vectors` are nearest to the query's own vector.

    Distances are summed in float64 and given as float32; ties go to the smaller id. Candidates of id -1 are places left
    empty: they come last, at an infinite distance.
    """
    foreign = foreign_rows(vectors)
    vectors = vectors if foreign is None else foreign
    points = _check_vectors(candidates, vectors, query_vectors)
    distances = np.full(candidates.shape, np.inf, dtype=np.float32)
    ordered = np.sort(candidates, axis=1)  # rows are read in the order of the file

    def one(q: int) -> None:
        point = points[q].astype(np.float64)
        empty = int(np.searchsorted(ordered[q], 0))
        for start, stop in row_blocks(ordered.shape[1] - empty, len(point), GATHER_BYTES):
            start, stop = start + empty, stop + empty
            rows = ordered[q, start:stop]
            distances[q, start:stop] = _distances(_gather(vectors, rows), point, metric)
            bad = ~np.isfinite(distances[q, start:stop])
            if bad.any():
                raise ValueError(f"rerank contains NaN, infinity or a value too large at row {rows[np.argmax(bad)]}.")

    run_each(one, [(q,) for q in range(len(candidates))], n_threads)
    return sort_pairs(distances, ordered, k)


def _check_vectors(candidates: NDArray[np.int64], vectors: Any, query_vectors: Any) -> NDArray[np.float32]:
    shape: tuple[int, ...] = tuple(getattr(vectors, "shape", ()))
    if len(shape) != 2 or vectors.dtype.kind not in "fiu":
        raise ValueError(
            f"rerank must be 'asymmetric' or a 2-D array of vectors. Got {type(vectors).__name__} {shape}."
        )
    if query_vectors is None:
        raise ValueError("rerank with vectors needs query_vectors, the vectors of the queries.")
    points = query_vectors.toarray() if sp.issparse(query_vectors) else np.asarray(query_vectors)
    wanted = (len(candidates), shape[1])
    if points.shape != wanted or points.dtype.kind not in "fiu":
        raise ValueError(f"query_vectors must be floats of shape {wanted}. Got {points.dtype} of shape {points.shape}.")
    last = int(candidates.max(initial=-1))
    if last >= shape[0]:
        raise ValueError(f"rerank must have a row for every id. Got {shape[0]} rows, but found id {last}.")
    points = points.astype(np.float32, copy=False)
    check_finite(points, name="query_vectors")
    return points


def _gather(vectors: Any, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    if isinstance(vectors, RowSource):
        return vectors.read(rows).astype(np.float64)
    block = vectors[rows]
    return np.asarray(block.toarray() if sp.issparse(block) else block, dtype=np.float64)


def _distances(block: NDArray[np.float64], point: NDArray[np.float64], metric: str) -> NDArray[np.float64]:
    if metric == "l2":
        difference = block - point
        return np.sqrt(np.einsum("ij,ij->i", difference, difference))
    lengths = np.sqrt(np.einsum("ij,ij->i", block, block)) * np.sqrt(point @ point)
    products = np.einsum("ij,j->i", block, point)
    return 1 - np.divide(products, lengths, out=np.zeros_like(products), where=lengths != 0)
