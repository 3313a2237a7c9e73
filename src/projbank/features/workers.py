"""Worker processes with one core each, whose results come back in order."""

from __future__ import annotations

import contextlib
import functools
import itertools
import multiprocessing
import os
import pickle
import signal
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, Self, TypeVar

from threadpoolctl import threadpool_limits

from projbank import threads

T = TypeVar("T")
AHEAD = 4
"""Tasks per process that are under way or wait to be taken."""


class Processes:
    """Runs ``task(state, *call)`` here (one job) or in worker processes; use as a context manager.

    Processes take some seconds to start. Until they have, this one works too.

    Parameters
    ----------
    state : what every task gets first; each process reads it once, from a temporary file
    n_jobs : number of processes
    """

    def __init__(self, state: Any, n_jobs: int) -> None:
        self._state = state
        self._n_jobs = n_jobs
        self._pool: ProcessPoolExecutor | None = None
        self._processes: set[multiprocessing.process.BaseProcess] = set()
        self._starting: list[Future[None]] = []

    def __enter__(self) -> Self:
        if self._n_jobs > 1:
            # as an argument it would have to go through a pipe, and the start of one process would wait for the other's
            self._folder = tempfile.TemporaryDirectory(prefix="projbank-")
            path = Path(self._folder.name) / "state"
            path.write_bytes(pickle.dumps(self._state, protocol=5))
            self._pool = ProcessPoolExecutor(
                self._n_jobs,
                mp_context=multiprocessing.get_context("spawn"),  # a fork would copy BLAS and OpenCV threads
                initializer=_start_worker,
                initargs=(path,),
            )
            others = set(multiprocessing.active_children())
            with _held_interrupts(), _without_main():
                self._starting = [self._pool.submit(_ready) for _ in range(self._n_jobs)]
            self._processes = set(multiprocessing.active_children()) - others
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if self._pool is None:
            return
        if kind is not None:  # nobody waits for what is under way
            for process in self._processes:
                process.terminate()
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._folder.cleanup()

    def run(self, task: Callable[..., T], calls: Iterable[tuple[Any, ...]]) -> Iterator[T]:
        """Yield ``task(state, *call)`` of each call, in order; calls are taken as they are needed."""
        if self._pool is None:
            with one_opencv_thread():
                yield from itertools.starmap(functools.partial(task, self._state), calls)
            return
        rest = iter(calls)
        try:
            pending = deque(self._pool.submit(_in_worker, task, *call) for call in itertools.islice(rest, self._n_jobs))
            pending.extend(self._done_here(task, rest))
            while True:
                for call in itertools.islice(rest, max(0, AHEAD * self._n_jobs - len(pending))):
                    pending.append(self._pool.submit(_in_worker, task, *call))
                if not pending:
                    return
                yield pending.popleft().result()
        except BrokenProcessPool as error:
            raise OSError("a worker process died (out of memory, or killed).") from error

    def _done_here(self, task: Callable[..., T], calls: Iterator[tuple[Any, ...]]) -> Iterator[Future[T]]:
        """What this process does of the calls until the others have started."""
        with one_opencv_thread():
            while not all(start.done() for start in self._starting):
                call = next(calls, None)
                if call is None:
                    return
                done: Future[T] = Future()
                try:
                    done.set_result(task(self._state, *call))
                except Exception as error:  # raised when the results before it have been taken
                    done.set_exception(error)
                yield done


@contextlib.contextmanager
def one_opencv_thread() -> Iterator[None]:
    """Keep OpenCV from threads of its own for a while."""
    import cv2

    threads = cv2.getNumThreads()
    cv2.setNumThreads(1)
    try:
        yield
    finally:
        cv2.setNumThreads(threads)


_worker_state: Any = None


@contextlib.contextmanager
def _held_interrupts() -> Iterator[None]:
    """Hold Ctrl-C back, so that processes that are started meanwhile never get one, which the parent handles."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _without_main() -> Iterator[None]:
    """Let processes that are started meanwhile not run the user's script again, whose guard would have to be asked for.

    Tasks are functions of this package, so that they do not need it.
    """
    main = sys.modules["__main__"]
    kept = {name: getattr(main, name) for name in ("__spec__", "__file__") if hasattr(main, name)}
    for name in kept:
        setattr(main, name, None)
    try:
        yield
    finally:
        for name, value in kept.items():
            setattr(main, name, value)


def _ready() -> None:
    """Do nothing: a first task makes the pool start a process."""


def _start_worker(path: Path) -> None:
    """Take the work's state into a fresh process; each worker has one core, and ends with its parent."""
    import cv2

    global _worker_state
    threading.Thread(target=_end_with_parent, daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    cv2.setNumThreads(1)
    threadpool_limits(1)
    threads.most_cores = 1
    _worker_state = pickle.loads(path.read_bytes())


def _end_with_parent() -> None:
    """Wait for the parent's end, also by a kill, which nothing else would tell this process about."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _in_worker(task: Callable[..., T], *call: Any) -> T:
    if _worker_state is None:
        raise RuntimeError("the worker process was not started by Processes.")
    return task(_worker_state, *call)
