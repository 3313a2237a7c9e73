"""Worker processes that describe and encode files, one thread each; results come back in order."""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from projbank.features.encoder import Encoder
from projbank.features.extractor import FeatureExtractor
from projbank.features.media import MediaError
from projbank.features.readers import Source
from projbank.models.file import load

NO_DESCRIPTORS = "no descriptors"


@dataclass(frozen=True)
class Result:
    """What became of one file: an array, or none and the reason; a zero vector has a reason too."""

    array: NDArray[np.float32] | None
    reason: str = ""


class Workers:
    """Runs tasks on the files of a source, here (one job) or in worker processes; use as a context manager.

    Parameters
    ----------
    source : the data set
    extractor : descriptor settings; `encode` takes them and the encoder from a codebook file
    n_jobs : number of processes
    """

    def __init__(self, source: Source, extractor: FeatureExtractor, n_jobs: int) -> None:
        self._state = _State(source, extractor)
        self._n_jobs = n_jobs
        self._pool: ProcessPoolExecutor | None = None
        self._processes: set[multiprocessing.process.BaseProcess] = set()

    def __enter__(self) -> Self:
        if self._n_jobs > 1:
            self._pool = ProcessPoolExecutor(
                self._n_jobs,
                mp_context=multiprocessing.get_context("spawn"),  # a fork would copy BLAS and OpenCV threads
                initializer=_start_worker,
                initargs=(self._state,),
            )
            others = set(multiprocessing.active_children())
            with _ignored_interrupts():
                for _ in range(self._n_jobs):
                    self._pool.submit(_ready)
            self._processes = set(multiprocessing.active_children()) - others
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is None:
            return
        if kind is not None:  # nobody waits for what is under way
            for process in self._processes:
                process.terminate()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def encode(self, indices: Iterable[int], codebook: Path) -> Iterator[Result]:
        """Yield the vector of each file, in order."""
        return self._run(_encode, [(i, codebook) for i in indices])

    def sample(self, indices: Iterable[int], per_file: int, seed: int) -> Iterator[Result]:
        """Yield at most `per_file` descriptors of each file, in order."""
        return self._run(_sample, [(i, per_file, seed) for i in indices])

    def _run(self, task: Callable[..., Result], calls: Sequence[tuple[Any, ...]]) -> Iterator[Result]:
        if self._pool is None:
            return self._run_here(task, calls)
        return self._run_pool(self._pool, task, calls)

    def _run_here(self, task: Callable[..., Result], calls: Sequence[tuple[Any, ...]]) -> Iterator[Result]:
        import cv2

        threads = cv2.getNumThreads()
        cv2.setNumThreads(1)
        try:
            for call in calls:
                yield task(self._state, *call)
        finally:
            cv2.setNumThreads(threads)

    def _run_pool(
        self, pool: ProcessPoolExecutor, task: Callable[..., Result], calls: Sequence[tuple[Any, ...]]
    ) -> Iterator[Result]:
        pending: deque[Future[Result]] = deque()
        rest = iter(calls)
        try:
            while True:
                while len(pending) < 4 * self._n_jobs and (call := next(rest, None)) is not None:
                    pending.append(pool.submit(_in_worker, task, *call))
                if not pending:
                    return
                yield pending.popleft().result()
        except BrokenProcessPool as error:
            raise OSError("a worker process died (out of memory, or killed).") from error


@dataclass(frozen=True)
class _State:
    source: Source
    extractor: FeatureExtractor


_worker_state: _State | None = None


@contextlib.contextmanager
def _ignored_interrupts() -> Iterator[None]:
    """Let processes that are started meanwhile ignore Ctrl-C, which is the parent's affair, from their first moment."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals can only be set in the main thread
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _ready() -> None:
    """Do nothing: a first task makes the pool start a process."""


def _start_worker(state: _State) -> None:
    """Take the work's data into a fresh process; each worker has one core."""
    import cv2

    global _worker_state
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    cv2.setNumThreads(1)
    threadpool_limits(1)
    _worker_state = state


def _in_worker(task: Callable[..., Result], *call: Any) -> Result:
    if _worker_state is None:
        raise RuntimeError("the worker process was not started by Workers.")
    return task(_worker_state, *call)


def _encode(state: _State, index: int, codebook: Path) -> Result:
    encoder = _encoder(codebook)
    described = _describe(state, index)
    if described.array is None:
        return described
    if not len(described.array):
        return Result(np.zeros(encoder.n_dims_, dtype=np.float32), NO_DESCRIPTORS)
    return Result(encoder.transform([described.array])[0])


@functools.lru_cache(maxsize=1)
def _encoder(codebook: Path) -> Encoder:
    """Read the codebook once per process; images are spread over processes, so that each needs one thread."""
    extractor: FeatureExtractor = load(codebook)
    encoder: Encoder = extractor.encoder_.set_params(n_jobs=1)
    return encoder


def _sample(state: _State, index: int, per_file: int, seed: int) -> Result:
    described = _describe(state, index)
    if described.array is None or len(described.array) <= per_file:
        return described
    chosen = np.random.default_rng([seed, index]).choice(len(described.array), per_file, replace=False)
    return Result(described.array[np.sort(chosen)])


def _describe(state: _State, index: int) -> Result:
    item = state.source.items[index]
    try:
        return Result(state.extractor.describe_file(state.source, item))
    except MediaError as error:
        return Result(None, str(error))
    except OSError as error:
        path = Path(state.source.root) / item.file
        return Result(None, f"{item.file}: can't be read ({error.strerror or error}, {path}).")
