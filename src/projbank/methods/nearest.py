"""One way to search for every method: vectors as queries against the codes of a gallery."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from projbank.search import HammingIndex
from projbank.threads import faiss_threads


def search(
    method: Any, queries: Any, codes: NDArray[Any], k: int, *, asymmetric: bool = False, n_jobs: int | None = None
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Nearest codes of each query by the method's own distance.

    Parameters
    ----------
    method : fitted estimator of `METHODS`
    queries : (n, D) vectors; they are coded here
    codes : (N, width) what `method.transform` gave for the gallery
    k : neighbours
    asymmetric : compare real-valued queries with the stored bits (methods of "hamming" distance)
    n_jobs : threads

    Returns
    -------
    distances : (n, min(k, N)); scores, largest first, if `asymmetric`
    rows : (n, min(k, N)) int64
    """
    k = min(k, len(codes))
    if asymmetric and method.distance != "hamming":
        raise ValueError(f"asymmetric search is for binary codes. Got a method of distance {method.distance!r}.")
    if method.distance == "hamming":
        points = (query_values if asymmetric else query_codes)(method, queries)
        return HammingIndex(codes, n_bits=method.n_bits_).search(points, k, n_jobs=n_jobs)
    with faiss_threads(n_jobs):
        if method.distance == "adc":
            return method.search_codes(queries, codes, k)
        return nearest_vectors(method.transform(queries), codes, k)


def query_values(method: Any, queries: Any) -> NDArray[np.float32]:
    """Real-valued queries of a method of binary codes: its own kind, or the margins."""
    return getattr(method, "query_values", method.decision_function)(queries)


def query_codes(method: Any, queries: Any) -> NDArray[np.uint8]:
    """Codes of queries of a method of binary codes: its own kind, or those of rows."""
    codes: NDArray[np.uint8] = getattr(method, "query_codes", method.transform)(queries)
    return codes


def nearest_vectors(queries: NDArray[np.float32], gallery: NDArray[np.float32], k: int) -> tuple[NDArray, NDArray]:
    """Squared Euclidean distances and rows of the k nearest vectors, exact."""
    import faiss

    return faiss.knn(np.ascontiguousarray(queries, np.float32), np.ascontiguousarray(gallery, np.float32), k)
