"""Worker processes with one core each, whose results come back in order; tasks that describe and encode files."""

from __future__ import annotations

import contextlib
import functools
import itertools
import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from projbank.features.encoder import Encoder
from projbank.features.extractor import FeatureExtractor
from projbank.features.media import MAX_PIXELS, MediaError
from projbank.features.readers import Source
from projbank.models.file import load
from projbank.progress import progress, say

S = TypeVar("S")
T = TypeVar("T")
AHEAD = 4
"""Tasks per process that are under way or wait to be taken."""

NO_DESCRIPTORS = "no descriptors"


class Processes(Generic[S]):
    """Runs ``task(state, *call)`` here (one job) or in worker processes; use as a context manager.

    Parameters
    ----------
    state : what every task gets first; it is sent to each process once
    n_jobs : number of processes
    """

    def __init__(self, state: S, n_jobs: int) -> None:
        self._state = state
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
            with _held_interrupts(), _without_main():
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

    def run(self, task: Callable[..., T], calls: Iterable[tuple[Any, ...]]) -> Iterator[T]:
        """Yield ``task(state, *call)`` of each call, in order; calls are taken as they are needed."""
        if self._pool is None:
            with one_opencv_thread():
                yield from itertools.starmap(functools.partial(task, self._state), calls)
            return
        pending: deque[Future[T]] = deque()
        rest = iter(calls)
        try:
            while True:
                for call in itertools.islice(rest, AHEAD * self._n_jobs - len(pending)):
                    pending.append(self._pool.submit(_in_worker, task, *call))
                if not pending:
                    return
                yield pending.popleft().result()
        except BrokenProcessPool as error:
            raise OSError("a worker process died (out of memory, or killed).") from error


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


def _start_worker(state: Any) -> None:
    """Take the work's data into a fresh process; each worker has one core, and ends with its parent."""
    import cv2

    global _worker_state
    threading.Thread(target=_end_with_parent, daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    cv2.setNumThreads(1)
    threadpool_limits(1)
    _worker_state = state


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


class Result(NamedTuple):
    """What became of one file: an array, or none and the reason; a zero vector has a reason too."""

    array: NDArray[np.float32] | None
    reason: str = ""
    stamp: dict[str, int] | None = None
    """Size, time of change and checksum of the file, as far as it has them."""


class _State(NamedTuple):
    source: Source
    extractor: FeatureExtractor
    max_pixels: int


class Workers(Processes[_State]):
    """Runs tasks on the files of a source, here (one job) or in worker processes; use as a context manager.

    Parameters
    ----------
    source : the data set
    extractor : descriptor settings; `encode` takes them and the encoder from a codebook file
    n_jobs : number of processes
    max_pixels : larger pictures and frames are refused
    """

    def __init__(self, source: Source, extractor: FeatureExtractor, n_jobs: int, max_pixels: int = MAX_PIXELS) -> None:
        super().__init__(_State(source, extractor, max_pixels), n_jobs)

    def encode(self, indices: Iterable[int], codebook: Path) -> Iterator[Result]:
        """Yield the vector of each file, in order."""
        written = codebook.stat().st_mtime_ns
        return self.run(_encode, [(i, codebook, written) for i in indices])

    def sample(
        self, indices: Sequence[int], encoder: Encoder, on_error: str, verbose: int, *, tell: bool = False
    ) -> list[NDArray[np.float32]]:
        """Descriptors to learn from, as many of each file as make up the encoder's `max_descriptors`."""
        per_file, sampled = -(-encoder.max_descriptors // len(indices)), []
        with progress("descriptors", len(indices), verbose) as advance:
            for result in self.run(_sample, [(i, per_file, encoder.random_state or 0) for i in indices]):
                if result.array is not None:
                    sampled.append(result.array)
                elif on_error == "fail":
                    raise MediaError(result.reason)
                elif tell:
                    print(f"skipped {result.reason}", file=sys.stderr)
                advance(1)
        say(f"learning the codebook from {sum(map(len, sampled))} descriptors of {len(sampled)} files", verbose)
        return sampled


def _encode(state: _State, index: int, codebook: Path, written: int) -> Result:
    item = state.source.items[index]
    try:
        stamp = state.source.stamp(item)  # before it is read: a change meanwhile is seen by the next run
        stamp["crc"] = state.source.checksum(item)
    except OSError:
        stamp = {}  # `_describe` says why
    encoder = _encoder(codebook, written)
    described = _describe(state, index)
    if described.array is None:
        return described._replace(stamp=stamp)
    if not len(described.array):
        return Result(np.zeros(encoder.n_dims_, dtype=np.float32), NO_DESCRIPTORS, stamp)
    return Result(encoder.transform([described.array])[0], "", stamp)


@functools.lru_cache(maxsize=1)
def _encoder(codebook: Path, written: int) -> Encoder:
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
        return Result(state.extractor.describe_file(state.source, item, state.max_pixels))
    except MediaError as error:
        return Result(None, str(error))
    except OSError as error:
        return Result(None, f"{item.file}: can't be read ({error.strerror or error}, {state.source.root / item.file}).")
    except MemoryError:
        return Result(None, f"{item.file}: is too large for the memory (make it smaller by max_side).")
