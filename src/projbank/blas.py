"""Threads of BLAS and of FAISS, limited for as long as a piece of work lasts, and FAISS's k-means."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from projbank.threads import thread_count


@contextlib.contextmanager
def blas_threads(n_threads: int = 1) -> Iterator[None]:
    """Limit BLAS to so many threads; with one, work that is shared out in blocks gives the same bits on any machine."""
    loaded = tuple(name for name in ("scipy.linalg", "faiss") if name in sys.modules)
    with _controller(loaded).limit(limits=n_threads, user_api="blas"):
        yield


@contextlib.contextmanager
def faiss_threads(n_jobs: int | None = 1) -> Iterator[None]:
    """Let FAISS use so many threads (None is all cores), and as many as before afterwards."""
    import faiss

    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(thread_count(n_jobs))
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


def kmeans(
    points: NDArray[np.float32],
    n_clusters: int,
    seed: int,
    n_iter: int,
    *,
    n_jobs: int | None = 1,
    verbose: bool = False,
) -> NDArray[np.float32]:
    """Centres (n_clusters, k) of the rows of `points` (n, k); on one thread they are the same on any machine."""
    import faiss

    model = faiss.Kmeans(
        points.shape[1],
        n_clusters,
        niter=n_iter,
        seed=seed,
        min_points_per_centroid=1,
        max_points_per_centroid=max(1, len(points)),
        verbose=verbose,
    )
    with faiss_threads(n_jobs):
        model.train(np.ascontiguousarray(points))
    return np.asarray(model.centroids, dtype=np.float32)


@functools.cache
def _controller(loaded: tuple[str, ...]) -> ThreadpoolController:
    """Find the libraries, anew only when one with a BLAS of its own was loaded: that takes milliseconds."""
    return ThreadpoolController()
