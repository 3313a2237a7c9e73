"""How good is a ranking, and how good is a bit: retrieval metrics and the paper's pairwise error."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from projbank.params import check_int
from projbank.threads import split_rows

CELLS_PER_BLOCK = 1 << 22
"""Rankings are judged in blocks of queries of about so many entries."""
BITS_PER_BLOCK = 64


class PrecisionRecall(NamedTuple):
    """Mean precision and recall after each rank, (n_ranks,), and the area under the curve they draw."""

    precision: NDArray[np.float64]
    recall: NDArray[np.float64]
    area: float


def precision_at_k(ids: ArrayLike, gallery_labels: ArrayLike, query_labels: ArrayLike, k: int) -> float:
    """Share of the first k results that have the query's label, averaged over queries.

    Parameters
    ----------
    ids : int (n_queries, at least k), rows of the gallery, best first
    gallery_labels, query_labels : (n,) and (n_queries,), numbers or strings
    k : number of results that count

    Examples
    --------
    >>> precision_at_k([[2, 0, 1]], gallery_labels=[5, 5, 7], query_labels=[5], k=2)
    0.5
    """
    ranking, gallery, queries = _check_ranking(ids, gallery_labels, query_labels)
    k = check_int("precision_at_k", "k", k, 1, ranking.shape[1])
    hits = sum(int(_relevant(ranking[a:b, :k], gallery, queries[a:b]).sum()) for a, b in _blocks(ranking))
    return hits / (k * len(ranking))


def precision_recall(ids: ArrayLike, gallery_labels: ArrayLike, query_labels: ArrayLike) -> PrecisionRecall:
    """Precision and recall after each rank, averaged over queries, and the area under that curve.

    Queries whose label does not occur in the gallery have no recall and are left out. The area is that of straight
    lines between the points, the first of them drawn on to recall 0; a ranking that is cut short covers only the recall
    it reaches.

    Parameters
    ----------
    ids : int (n_queries, n_ranks), rows of the gallery, best first; the whole gallery for the whole curve
    gallery_labels, query_labels : (n,) and (n_queries,)
    """
    ranking, gallery, queries = _check_ranking(ids, gallery_labels, query_labels)
    n_relevant = _count_relevant(gallery, queries)
    precision, recall = np.zeros(ranking.shape[1]), np.zeros(ranking.shape[1])
    ranks = np.arange(1, ranking.shape[1] + 1)
    for start, stop in _blocks(ranking):
        judged = n_relevant[start:stop] > 0
        hits = _relevant(ranking[start:stop], gallery, queries[start:stop])[judged].cumsum(axis=1)
        precision += (hits / ranks).sum(axis=0)
        recall += (hits / n_relevant[start:stop][judged, None]).sum(axis=0)
    n_judged = np.count_nonzero(n_relevant)
    precision, recall = precision / n_judged, recall / n_judged
    area = np.trapezoid(np.concatenate([precision[:1], precision]), np.concatenate([[0.0], recall]))
    return PrecisionRecall(precision, recall, float(area))


def mean_average_precision(
    ids: ArrayLike, gallery_labels: ArrayLike, query_labels: ArrayLike, distances: ArrayLike | None = None
) -> float:
    """Mean over queries of the average precision.

    With `distances`, each relevant result gets the precision after all results of its distance, as in scikit-learn's
    ``average_precision_score``; without, the order of `ids` is taken as it is. Relevant items that a shortened ranking
    does not list count as 0, and queries whose label does not occur in the gallery are left out.

    Parameters
    ----------
    ids : int (n_queries, n_ranks), rows of the gallery, best first
    gallery_labels, query_labels : (n,) and (n_queries,)
    distances : (n_queries, n_ranks), optional: distances that never fall, or scores that never rise, along a row
    """
    ranking, gallery, queries = _check_ranking(ids, gallery_labels, query_labels)
    values = None if distances is None else _check_distances(distances, ranking.shape)
    n_relevant, ranks, total = _count_relevant(gallery, queries), np.arange(1, ranking.shape[1] + 1), 0.0
    for start, stop in _blocks(ranking):
        relevant = _relevant(ranking[start:stop], gallery, queries[start:stop])
        precision = relevant.cumsum(axis=1) / ranks
        if values is not None:
            precision = np.take_along_axis(precision, _group_ends(values[start:stop]), axis=1)
        sums = (precision * relevant).sum(axis=1)
        total += float(np.divide(sums, n_relevant[start:stop], out=np.zeros(stop - start), where=sums > 0).sum())
    return total / np.count_nonzero(n_relevant)


def neighbor_recall(ids: ArrayLike, true_ids: ArrayLike) -> float:
    """Share of the true neighbours (n_queries, k) that are among those found (n_queries, m), averaged over queries."""
    found, true = np.asarray(ids), np.asarray(true_ids)
    if found.ndim != 2 or true.ndim != 2 or len(found) != len(true) or true.size == 0:
        raise ValueError(
            "ids and true_ids must be 2-D with a row per query, true_ids with at least 1 column. "
            f"Got shapes {found.shape} and {true.shape}."
        )
    return float(np.mean([np.isin(wanted, row).mean() for row, wanted in zip(found, true, strict=True)]))


def recall_at_k(ids: ArrayLike, true_ids: ArrayLike, k: int) -> float:
    """Share of the true k nearest that are among the first k found, averaged over queries.

    Parameters
    ----------
    ids, true_ids : int (n_queries, at least k), what was found and the true neighbours, nearest first
    k : number of results and of true neighbours that count

    Examples
    --------
    >>> recall_at_k([[4, 1, 2]], true_ids=[[1, 3, 2]], k=2)
    0.5
    """
    found, true = np.asarray(ids), np.asarray(true_ids)
    k = check_int("recall_at_k", "k", k, 1, min(found.shape[-1:] + true.shape[-1:], default=1))
    return neighbor_recall(found[..., :k], true[..., :k])


def pair_errors(bits: ArrayLike, positive_pairs: Any) -> NDArray[np.float64]:
    """Share of all N^2 ordered pairs that each bit puts on the wrong side, (d,).

    A positive pair is wrong where its bits differ, any other pair where they are equal. Counts come from the number of
    ones of each bit and a pass over the positive pairs, so no pair is left out and N^2 work is never done.

    Parameters
    ----------
    bits : (N, d) truth values, the signs of the projections
    positive_pairs : scipy.sparse (N, N), not 0 where a pair is positive; symmetric, with the diagonal
    """
    array = np.asarray(bits)
    if array.ndim != 2 or 0 in array.shape or not (array.dtype == bool or np.isin(array, (0, 1)).all()):
        raise ValueError(f"bits must be truth values of shape (N, d). Got {array.dtype} of shape {array.shape}.")
    n, errors = len(array), np.empty(array.shape[1])
    graph = _check_pairs(positive_pairs, n)
    for start, stop in split_rows(array.shape[1], BITS_PER_BLOCK):
        signs = np.where(array[:, start:stop], 1, -1).astype(np.int32)
        agreement = np.einsum("ij,ij->j", signs, graph @ signs, dtype=np.int64)  # equal minus different positive pairs
        different = (graph.nnz - agreement) // 2
        equal_pairs = (n**2 + signs.sum(axis=0, dtype=np.int64) ** 2) // 2
        errors[start:stop] = (equal_pairs - (graph.nnz - different) + different) / n**2
    return errors


def pair_error(bits: ArrayLike, positive_pairs: Any) -> float:
    """Average of `pair_errors` over the bits: the paper's E_avg, and E_org for one bit of all dimensions."""
    return float(pair_errors(bits, positive_pairs).mean())


def _check_ranking(
    ids: ArrayLike, gallery_labels: ArrayLike, query_labels: ArrayLike
) -> tuple[NDArray, NDArray, NDArray]:
    ranking, gallery, queries = np.asarray(ids), np.asarray(gallery_labels), np.asarray(query_labels)
    if ranking.ndim != 2 or ranking.size == 0 or ranking.dtype.kind not in "iu":
        raise ValueError(
            f"ids must be whole numbers of shape (n_queries, k). Got {ranking.dtype} of shape {ranking.shape}."
        )
    if gallery.ndim != 1:
        raise ValueError(f"gallery_labels must be 1-D. Got shape {gallery.shape}.")
    if queries.shape != (len(ranking),):
        raise ValueError(f"query_labels must have shape ({len(ranking)},), one per row. Got shape {queries.shape}.")
    first, last = ranking.min(), ranking.max()
    if first < 0 or last >= len(gallery):
        raise ValueError(f"ids must be rows, in the range [0, {len(gallery) - 1}]. Got {first} to {last}.")
    return ranking, gallery, queries


def _check_distances(distances: ArrayLike, shape: tuple[int, ...]) -> NDArray:
    values = np.asarray(distances)
    if values.shape != shape:
        raise ValueError(f"distances must have the shape of ids, {shape}. Got shape {values.shape}.")
    steps = np.diff(values, axis=1)
    if not (np.all(steps >= 0) or np.all(steps <= 0)):
        raise ValueError("distances must be in order along each row: never falling, or (scores) never rising.")
    return values


def _check_pairs(positive_pairs: Any, n: int) -> Any:
    if not sp.issparse(positive_pairs) or positive_pairs.shape != (n, n):
        came = f"{type(positive_pairs).__name__} {getattr(positive_pairs, 'shape', '')}"
        raise ValueError(f"positive_pairs must be scipy.sparse of shape {(n, n)}. Got {came}.")
    graph = sp.csr_array(positive_pairs != 0).astype(np.int32)
    if (graph != graph.T).nnz or not np.all(graph.diagonal()):
        raise ValueError("positive_pairs must be symmetric and include the diagonal.")
    return graph


def _blocks(ranking: NDArray) -> list[tuple[int, int]]:
    return split_rows(len(ranking), max(1, CELLS_PER_BLOCK // ranking.shape[1]))


def _relevant(ranking: NDArray, gallery: NDArray, queries: NDArray) -> NDArray[np.bool_]:
    return gallery[ranking] == queries[:, None]


def _count_relevant(gallery: NDArray, queries: NDArray) -> NDArray[np.int64]:
    """Count the gallery's items of each query's label; at least one query must have some."""
    labels, counts = np.unique(gallery, return_counts=True)
    places = np.minimum(np.searchsorted(labels, queries), len(labels) - 1)
    n_relevant = np.where(labels[places] == queries, counts[places], 0)
    if not n_relevant.any():
        raise ValueError("query_labels must have a label of the gallery. Got none that occurs in gallery_labels.")
    return n_relevant


def _group_ends(values: NDArray) -> NDArray[np.int64]:
    """Last position of the run of equal values that each entry belongs to."""
    n_ranks = values.shape[1]
    ends = np.full(values.shape, n_ranks - 1)
    ends[:, :-1] = np.where(values[:, 1:] != values[:, :-1], np.arange(n_ranks - 1), n_ranks - 1)
    return np.minimum.accumulate(ends[:, ::-1], axis=1)[:, ::-1]
