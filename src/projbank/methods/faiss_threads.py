"""FAISS's number of threads, for as long as a piece of work lasts."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from projbank.threads import thread_count


@contextlib.contextmanager
def faiss_threads(n_jobs: int | None) -> Iterator[None]:
    """Let FAISS use so many threads, and as many as before afterwards."""
    import faiss

    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(thread_count(n_jobs))
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)
