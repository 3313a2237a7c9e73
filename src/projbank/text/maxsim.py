"""Exact MaxSim: each token of a query finds its nearest token of the document, and their inner products are added."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from projbank.rows.bags import Bags, read_bag, split_bags
from projbank.search.scan import sort_pairs
from projbank.threads import blas_threads, run_each, thread_count


def rerank(
    ids: ArrayLike, queries: Bags, documents: Bags, k: int | None = None, *, n_jobs: int | None = None
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Put a shortlist in the order of MaxSim, sum over tokens q of a query of max <q, t> over tokens t of a document.

    Parameters
    ----------
    ids : (n_queries, s) ints
        Documents to look at for each query, as a search gives them; -1 marks an empty place.
    queries, documents : list of (n_i, k) arrays, or (stacked, offsets)
        Their token vectors. Only documents of the shortlist are read, so `stacked` may be a memory map.
    k : int or None
        Documents kept of each shortlist; None keeps all.
    n_jobs : int or None
        Threads; None and -1 are all cores. The result does not depend on it.

    Returns
    -------
    scores : (n_queries, k) float32, falling
        -inf for a document without tokens and for an empty place.
    ids : (n_queries, k) int64
        Ties go to the smaller id.

    Examples
    --------
    >>> import numpy as np
    >>> documents = [np.eye(2), np.array([[0.6, 0.8]])]
    >>> scores, ids = rerank([[0, 1]], [np.array([[0.0, 2.0]])], documents)
    >>> ids.tolist(), scores.round(1).astype(str).tolist()
    ([[0, 1]], [['2.0', '1.6']])
    """
    asked = split_bags(queries, name="queries")
    texts = split_bags(documents, asked[0].shape[1] if asked else None, name="documents")
    shortlist = _check_ids(ids, len(asked), len(texts))
    if k is not None and (isinstance(k, bool) or not hasattr(k, "__index__") or not 1 <= k <= shortlist.shape[1]):
        raise ValueError(f"k must be None or an int in the range [1, {shortlist.shape[1]}], as ids are. Got {k!r}.")
    scores = np.full(shortlist.shape, -np.inf, dtype=np.float32)

    def work(q: int) -> None:
        tokens = read_bag(asked, q, "queries")
        for place, document in enumerate(shortlist[q]):
            if document >= 0 and len(texts[document]):
                products = tokens @ read_bag(texts, document, "documents").T
                scores[q, place] = products.max(axis=1).sum(dtype=np.float64)

    with blas_threads(1):
        run_each(work, [(q,) for q in range(len(asked))], thread_count(n_jobs))
    falling, found = sort_pairs(-scores, shortlist, shortlist.shape[1] if k is None else int(k))
    return -falling, found


def _check_ids(ids: Any, n_queries: int, n_documents: int) -> NDArray[np.int64]:
    shortlist = np.asarray(ids)
    if shortlist.ndim != 2 or shortlist.dtype.kind not in "iu" or len(shortlist) != n_queries:
        raise ValueError(
            f"ids must be ints of shape (n_queries, s), with {n_queries} queries. "
            f"Got shape {shortlist.shape}, dtype {shortlist.dtype}."
        )
    if shortlist.size and (shortlist.min() < -1 or shortlist.max() >= n_documents):
        bad = int(shortlist.min() if shortlist.min() < -1 else shortlist.max())
        raise ValueError(f"ids must be in the range [-1, {n_documents - 1}], as there are documents. Got {bad}.")
    return shortlist.astype(np.int64)
