"""k-means over descriptors by FAISS, and the nearest centre of each descriptor."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from projbank.threads import run_all, split_rows

BLOCK_ROWS = 1024


def kmeans(X: NDArray[np.float32], n_clusters: int, seed: int, max_iter: int = 25) -> NDArray[np.float32]:
    """Centres (n_clusters, k) of the rows of X (n, k); FAISS on one thread, so that the result is reproducible."""
    import faiss

    model = faiss.Kmeans(
        X.shape[1],
        n_clusters,
        niter=max_iter,
        seed=seed,
        min_points_per_centroid=1,
        max_points_per_centroid=max(1, len(X)),
    )
    with _one_faiss_thread():
        model.train(np.ascontiguousarray(X))
    return np.asarray(model.centroids, dtype=np.float32)


def nearest(X: NDArray[np.float32], centres: NDArray[np.floating], n_threads: int = 1) -> NDArray[np.int64]:
    """Index of the nearest centre of each row, the smaller index on a tie."""
    centres = np.asarray(centres, dtype=np.float32)
    half_norms = 0.5 * (centres**2).sum(axis=1)
    labels = np.empty(len(X), dtype=np.int64)

    def work(start: int, stop: int) -> None:
        closeness = X[start:stop] @ centres.T
        closeness -= half_norms
        labels[start:stop] = closeness.argmax(axis=1)

    for _ in run_all(work, split_rows(len(X), BLOCK_ROWS), n_threads):
        pass
    return labels


@contextmanager
def _one_faiss_thread() -> Iterator[None]:
    import faiss

    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)
