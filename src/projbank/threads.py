"""Threads: how many, and how independent pieces of work are spread over them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, TypeVar

T = TypeVar("T")


def available_cores() -> int:
    """Cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


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
    """Yield ``function(*call)`` for each call, as they finish; the first error stops the rest.

    Kernels and BLAS release the GIL, so plain threads use all cores and share memory. A pool lives as long as one
    call: it survives fork, and holds no thread when idle.
    """
    if n_threads == 1 or len(calls) <= 1:
        for call in calls:
            yield function(*call)
        return
    with ThreadPoolExecutor(min(n_threads, len(calls))) as pool:
        yield from _bounded(pool, function, iter(calls), 2 * n_threads)


def _bounded(
    pool: ThreadPoolExecutor, function: Callable[..., T], calls: Iterable[tuple[Any, ...]], limit: int
) -> Iterator[T]:
    """Keep at most `limit` calls under way, so that an error or Ctrl-C ends soon."""
    pending: set[Future[T]] = set()
    for call in calls:
        pending.add(pool.submit(function, *call))
        if len(pending) >= limit:
            done, pending = wait(pending, return_when=FIRST_COMPLETED)
            for future in done:
                yield future.result()
    for future in pending:
        yield future.result()
