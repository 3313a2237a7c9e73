"""Threads: how many, how independent pieces of work are spread over them, and those of BLAS and FAISS."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from threadpoolctl import ThreadpoolController


T = TypeVar("T")


most_cores: int | None = None
"""Cores that this process takes at most: a worker process has one, for the others have theirs."""


def available_cores() -> int:
    """Cores that this process may run on."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores if most_cores is None else min(cores, most_cores)


def thread_count(n_jobs: int | None) -> int:
    """Threads meant by scikit-learn's `n_jobs`; None and -1 are all cores, -2 all but one."""
    if n_jobs is None:
        return available_cores()
    if isinstance(n_jobs, bool) or not hasattr(n_jobs, "__index__") or n_jobs == 0:
        raise ValueError(f"The 'n_jobs' parameter must be None or an int other than 0. Got {n_jobs!r} instead.")
    return int(n_jobs) if n_jobs > 0 else max(1, available_cores() + 1 + int(n_jobs))


def split_rows(n_rows: int, rows_per_block: int) -> list[tuple[int, int]]:
    """Cut range(n_rows) into consecutive (start, stop) blocks; the cut never depends on the number of threads."""
    return [(start, min(start + rows_per_block, n_rows)) for start in range(0, n_rows, rows_per_block)]


def run_all(function: Callable[..., T], calls: Sequence[tuple[Any, ...]], n_threads: int) -> Iterator[T]:
    """Yield ``function(*call)`` for each call, as they finish; an error stops the rest.

    Kernels and BLAS release the GIL, so plain threads use all cores and share memory. Each takes the next call from
    one list as soon as it is free. Of several errors that of the earliest call is raised, whichever came first. Threads
    live as long as one run: nothing is left idle, and fork is safe.
    """
    if n_threads == 1 or len(calls) <= 1:
        for call in calls:
            yield function(*call)
        return
    todo = deque(enumerate(calls))
    finished: SimpleQueue[tuple[int, Any, BaseException | None]] = SimpleQueue()

    def work() -> None:
        while True:
            try:
                place, call = todo.popleft()
            except IndexError:
                return
            try:
                finished.put((place, function(*call), None))
            except BaseException as error:  # raised again where the results are awaited
                todo.clear()
                finished.put((place, None, error))

    threads = [Thread(target=work) for _ in range(min(n_threads, len(calls)))]
    try:
        for thread in threads:
            thread.start()
        for _ in calls:
            place, value, error = finished.get()
            if error is not None:
                raise _earliest(place, error, threads, finished)
            yield value
    finally:
        todo.clear()  # after an error or Ctrl-C, calls under way end, no other begins
        for thread in threads:
            if thread.ident is not None:
                thread.join()


def run_each(function: Callable[..., object], calls: Sequence[tuple[Any, ...]], n_threads: int) -> None:
    """Call ``function(*call)`` for each call, as `run_all` does, and return when all have finished."""
    for _ in run_all(function, calls, n_threads):
        pass


def run_ordered(function: Callable[..., T], calls: Sequence[tuple[Any, ...]], n_threads: int) -> list[T]:
    """Return ``function(*call)`` of each call in the order of the calls, whichever finished first; see `run_all`."""
    found = dict(run_all(lambda place, call: (place, function(*call)), list(enumerate(calls)), n_threads))
    return [found[place] for place in range(len(calls))]


def _earliest(
    place: int,
    error: BaseException,
    threads: list[Thread],
    finished: SimpleQueue[tuple[int, Any, BaseException | None]],
) -> BaseException:
    """Wait for the calls under way; the error of the earliest of them that failed, or the given one."""
    for thread in threads:
        thread.join()
    while not finished.empty():
        other, _, failure = finished.get()
        if failure is not None and other < place:
            place, error = other, failure
    return error


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
    import numpy as np

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
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
