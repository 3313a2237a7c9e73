"""A Dask cluster: its workers code blocks of rows and search shards of an index; results are those of one process.

Workers open files for themselves, so that only what is learnt travels to them and only codes come back. A task of a
worker that was killed is done again by another.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import pickle
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from projbank.extras import install
from projbank.integrity import checksum
from projbank.progress import progress
from projbank.rows.cells import Place
from projbank.rows.files import open_vectors
from projbank.rows.source import ALL, BLOCK_BYTES, Floats, RowSource, Statistics, as_rows
from projbank.rows.views import ChosenRows, ColumnRange, LogCounts, RowRange
from projbank.sinks import stamp
from projbank.threads import blas_threads

_TASK_BYTES = 256 << 20
"""Bytes of float32 rows of a task, at most: a task costs milliseconds beside its work."""
_READ_BYTES = 64 << 20
"""Bytes of float32 rows that a task reads at a time."""
_TASKS = 16
"""Tasks for each worker between two writes of codes."""
_LEAST_TASKS = 4
"""Tasks for each worker, where there is enough to read, so that none waits long for another."""
_PATIENCE = 5.0
"""Seconds between two looks at whether the workers can go on."""
_TOGETHER = 4
"""Results for each worker that are fetched together."""
_KEPT = 4
"""Things that workers keep between two calls: vectors that are read, and what codes them."""
_NO_WORKERS = 12
"""Looks in a row that find no worker, before that is an error: a killed worker takes some seconds to come back."""


_X = Place()
"""What is read of AnnData files unless another place is named."""


@dataclass(frozen=True)
class Opener:
    """How a worker opens vectors: a path that it can read, too, and what is read there."""

    path: str
    dataset: str | None = None
    place: Place = _X
    log_counts: bool = False
    ids: bytes | None = None
    """Rows that are meant, int64, where not all are."""
    part: tuple[int, int] | None = None
    """Consecutive rows of these that are meant."""
    stamp: str = ""
    """What the files were like when they were opened first: a worker opens others of the same names anew."""

    def __call__(self) -> RowSource:
        """Open the vectors."""
        rows = as_rows(open_vectors(self.path, self.dataset, self.place))
        rows = LogCounts(rows) if self.log_counts else rows
        rows = rows if self.ids is None else ChosenRows(rows, np.frombuffer(self.ids, np.int64))
        return rows if self.part is None else RowRange(rows, *self.part)


class Sent:
    """What the workers of a cluster have got already: each thing travels once, not with every part of the rows.

    It is the result of a task, not scattered data: the task is done again where the worker that held it was killed.
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        self._held: dict[str, Any] = {}

    def __call__(self, value: Any) -> Any:
        """Future of a value, the same one for the same content."""
        import cloudpickle

        packed = cloudpickle.dumps(value)
        name = checksum(packed)
        self._held[name] = self._held.pop(name, None) or _submitted(self._client, pickle.loads, packed)
        if len(self._held) > _KEPT:
            del self._held[next(iter(self._held))]
        return self._held[name]


class ClusterRows(RowSource):
    """Rows of a file or store that the workers of a cluster read, code and measure.

    ``bank.fit(rows)`` learns in this process, from sums that the workers computed; ``bank.transform(rows)`` gives codes
    that they made.

    Parameters
    ----------
    opener : Opener, or the path of a file or store
    client : distributed.Client
    """

    def __init__(self, opener: Opener | str | os.PathLike[str], client: Any, sent: Sent | None = None) -> None:
        opener = opener if isinstance(opener, Opener) else Opener(os.path.abspath(opener))
        self._opener = opener if sent else replace(opener, stamp=str(stamp(Path(opener.path))))
        self._client = client
        self._sent = sent or Sent(client)
        self._rows = _opened(self._opener)
        self.shape, self.dtype, self.made_by = self._rows.shape, self._rows.dtype, self._rows.made_by
        self.first, self.in_chunks = self._rows.first, self._rows.in_chunks
        self.part_bytes = _TASKS * _TASK_BYTES * _n_workers(client)

    def bounds(self, budget: int = BLOCK_BYTES) -> list[tuple[int, int]]:
        share = 4 * self.shape[0] * self.shape[1] // (_LEAST_TASKS * _n_workers(self._client))
        return self._rows.bounds(max(budget, min(_TASK_BYTES, max(_READ_BYTES, share))))

    def block(self, start: int, stop: int, columns: slice = ALL) -> Floats:
        return self._rows.block(start, stop, columns)

    def take(self, ids: NDArray[np.integer], out: Floats, n_threads: int = 1) -> None:
        self._rows.take(ids, out, n_threads)

    def part(self, start: int, stop: int) -> RowSource:
        first = self._opener.part[0] if self._opener.part else 0
        return ClusterRows(replace(self._opener, part=(first + start, first + stop)), self._client, self._sent)

    def chosen(self, ids: NDArray[np.int64]) -> RowSource:
        ids = np.asarray(ids, np.int64) + (self._opener.part[0] if self._opener.part else 0)
        if self._opener.ids is not None:
            ids = np.frombuffer(self._opener.ids, np.int64)[ids]
        return ClusterRows(replace(self._opener, ids=ids.tobytes(), part=None), self._client, self._sent)

    def statistics(self, name: str = "X") -> Statistics:
        """Statistics of the columns; each task measures some of them, so that sums are those of one process."""
        if self._statistics is None:
            edges = np.linspace(0, self.shape[1], 1 + min(self.shape[1], _n_workers(self._client)), dtype=int).tolist()
            calls = list(itertools.pairwise(edges))
            try:
                parts = list(_run(self._client, _measure, (self._sent(self._opener),), calls))
            except ValueError:
                return super().statistics(name)  # which names the column among all
            self._statistics = Statistics(*(np.concatenate(part) for part in zip(*parts, strict=True)))
        return self._statistics

    def write(
        self,
        code: Callable[[Floats, NDArray[Any]], bool],
        out: NDArray[Any],
        bounds: list[tuple[int, int]],
        *,
        n_threads: int = 1,
        verbose: int = 0,
    ) -> None:
        form = (out.shape[1:], out.dtype.str)
        common = self._sent(self._opener), self._sent(code), form
        results = _run(self._client, _code, common, bounds)
        with progress("coding on the cluster", self.shape[0], verbose) as advance:
            for (start, stop), part in zip(bounds, results, strict=True):
                out[start:stop] = part
                advance(stop - start)


class ClusterIndex:
    """Index files that the workers of a cluster search, each a shard; results are those of one index of them all.

    Parameters
    ----------
    paths : index files, which workers can read, too; their ids must be distinct
    client : distributed.Client
    """

    def __init__(self, paths: Sequence[str | os.PathLike[str]], client: Any) -> None:
        from projbank.search import HammingIndex

        self._paths = [os.path.abspath(path) for path in paths]
        whole = HammingIndex.load(self._paths)
        self.n_bits, self.made_by = whole.n_bits, whole.made_by
        self._n_codes = len(whole)
        self._client = client

    def __len__(self) -> int:
        return self._n_codes

    def search(self, queries: NDArray[Any], k: int = 100, **options: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        """Find the k nearest codes of each query, as `HammingIndex.search` does in one stage."""
        if options.get("rerank") is not None:
            raise ValueError("rerank is not for searches on a cluster: search for more, and compare vectors here.")
        calls = [(path,) for path in self._paths]
        common = _submitted(self._client, _same, queries), k, options
        found = list(_run(self._client, _search, common, calls))
        return merge([values for values, _ in found], [ids for _, ids in found], k)


def merge(values: Sequence[NDArray[Any]], ids: Sequence[NDArray[Any]], k: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Best k of the results of several shards: smallest int distances, or largest float scores; ties to smaller ids.

    Ids that are texts keep the order of the shards and, within one, of its results.
    """
    all_values, all_ids = np.concatenate(values, axis=1), np.concatenate(ids, axis=1)
    keys = all_values if all_values.dtype.kind == "i" else -all_values
    if all_ids.dtype == object:
        order = np.argsort(keys, axis=1, kind="stable")[:, :k]
    else:
        empty = np.where(all_ids < 0, np.iinfo(np.int64).max, all_ids)
        order = np.lexsort((empty, keys), axis=1)[:, :k]
    return np.take_along_axis(all_values, order, 1), np.take_along_axis(all_ids, order, 1)


@contextlib.contextmanager
def cluster(address: str) -> Iterator[Any]:
    """Give a client of a cluster.

    Parameters
    ----------
    address : "local:4" for four worker processes of this machine, or where a scheduler listens: "tcp://host:8786"
    """
    try:
        import dask
        import distributed
    except ImportError as error:
        raise ImportError(f"working on a cluster needs Dask: {install('dask')}.") from error
    client_of: Any = distributed.Client
    local_cluster: Any = distributed.LocalCluster
    kind, _, count = address.partition(":")
    if kind == "local":
        if not count.isdigit() or int(count) < 1:
            raise ValueError(f"--cluster must be local:N or the address of a scheduler. Got {address!r} instead.")
        with (
            dask.config.set({"distributed.worker.profile.enabled": False}),  # which looks at workers 100 times a second
            local_cluster(int(count), threads_per_worker=1, processes=True, dashboard_address=":0") as local,
            client_of(local) as client,
        ):
            yield client
        return
    if kind not in ("tcp", "tls", "ucx"):
        raise ValueError(f"--cluster must be local:N or tcp://host:port. Got {address!r} instead.")
    try:
        client = client_of(address, timeout=20)
    except (OSError, TimeoutError) as error:
        raise OSError(f"--cluster {address}: no scheduler answers there ({error}).") from error
    with client:
        yield client


def _run(
    client: Any, function: Callable[..., Any], common: tuple[Any, ...], calls: Sequence[tuple[Any, ...]]
) -> Iterator[Any]:
    """Yield ``function(*common, *call)`` of each call in their order; an error of the earliest is raised."""
    futures = client.map(function, *([value] * len(calls) for value in common), *zip(*calls, strict=True), pure=False)
    step = _TOGETHER * _n_workers(client)
    try:
        for start in range(0, len(futures), step):
            yield from _results(client, futures[start : start + step])
            futures[start : start + step] = [None] * step
    finally:
        client.cancel([future for future in futures if future is not None])


def _results(client: Any, futures: list[Any]) -> list[Any]:
    """Results of some tasks, fetched together; one by one, and so the earliest error first, where that fails."""
    with contextlib.suppress(Exception):
        return list(client.sync(lambda: client.gather(futures, asynchronous=True), callback_timeout=_PATIENCE))
    return [_result(client, future) for future in futures]


def _submitted(client: Any, function: Callable[..., Any], value: Any) -> Any:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
        return client.submit(function, value, pure=False)


def _result(client: Any, future: Any) -> Any:
    from distributed.scheduler import KilledWorker

    absent = 0
    while True:
        try:
            return future.result(timeout=_PATIENCE)
        except KilledWorker as error:
            raise OSError(
                "the cluster gave up: its workers were killed again and again in the same task; they may need more "
                f"memory ({str(error)[:200]})."
            ) from error
        except TimeoutError:
            if future.done():  # meanwhile; or it is the task's own error
                return future.result()
            states = [worker.get("status", "running") for worker in client.scheduler_info(-1)["workers"].values()]
            absent = 0 if states else absent + 1
            if absent >= _NO_WORKERS:
                raise OSError("the cluster has no workers left.") from None
            if states and all(state == "paused" for state in states):
                raise MemoryError("all workers of the cluster are out of memory and paused.") from None


def _n_workers(client: Any) -> int:
    return max(1, len(client.scheduler_info(-1)["workers"]))


def _same(value: Any) -> Any:
    return value


@functools.lru_cache(maxsize=4)
def _opened(opener: Opener) -> RowSource:
    return opener()


def _measure(opener: Opener, first: int, last: int) -> Statistics:
    return ColumnRange(_opened(opener), first, last).statistics()


def _code(opener: Opener, code: Any, form: tuple[tuple[int, ...], str], start: int, stop: int) -> NDArray[Any]:
    shape, dtype = form
    part = np.empty((stop - start, *shape), dtype)
    with blas_threads(1):
        rows = _opened(opener).part(start, stop)
        rows.write(code, part, rows.bounds(_READ_BYTES))
    return part


def _search(queries: NDArray[Any], k: int, options: dict[str, Any], path: str) -> tuple[NDArray[Any], NDArray[Any]]:
    return _index(path, os.stat(path).st_mtime_ns).search(queries, k, **options)


@functools.lru_cache(maxsize=4)
def _index(path: str, changed: int) -> Any:
    from projbank.search import HammingIndex

    return HammingIndex.load(Path(path))
