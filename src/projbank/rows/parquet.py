"""Rows of parquet files, read as a stream: a row group may be larger than memory."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from projbank.extras import install
from projbank.integrity import DamageError, told
from projbank.rows.arrow import ColumnRows, ListRows, list_length, vector_column
from projbank.rows.chunked import ChunkedRows
from projbank.rows.source import ALL, BLOCK_BYTES, Floats, RowSource, as_floats
from projbank.rows.views import StackedRows

_BATCH_BYTES = 4 << 20
"""Bytes of vectors that are decoded at a time."""
_AHEAD = 16
"""Blocks that are kept for threads that ask for them out of order."""


class ParquetRows(ChunkedRows):
    """Rows of one parquet file: a column of lists of numbers, or columns that all are numbers.

    Blocks that follow each other are read in one go through the file; others start from their row group.
    """

    def __init__(self, file: Any, name: str, column: str | None = None) -> None:
        self._file = file
        self._name = name
        self._column = vector_column(file.schema_arrow, name, column)
        groups = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
        self._groups = np.cumsum([0, *groups])
        self._lock = Lock()
        self._kept: dict[int, Floats] = {}
        self._stream: Iterator[Floats] | None = None
        self._at = 0
        super().__init__((int(self._groups[-1]), self._length()), self._groups)

    def bounds(self, budget: int = BLOCK_BYTES) -> list[tuple[int, int]]:
        return RowSource.bounds(self, budget)  # blocks may begin anywhere: the stream goes on

    def block(self, start: int, stop: int, columns: slice = ALL) -> Floats:
        with self._lock:
            return as_floats(self._read(start, stop)[:, columns])

    def _pick(self, ids: NDArray[np.int64]) -> Floats:
        out = np.empty((len(ids), self.shape[1]), np.float32)
        for start, stop in RowSource.bounds(self, _BATCH_BYTES):
            low, high = np.searchsorted(ids, [start, stop])
            if low < high:
                out[low:high] = self.block(start, stop)[ids[low:high] - start]
        return out

    def _read(self, start: int, stop: int) -> Floats:
        if start in self._kept and len(self._kept[start]) == stop - start:
            return self._kept.pop(start)
        group = min(int(np.searchsorted(self._groups, start, side="right")) - 1, len(self._groups) - 2)
        is_far = self._groups[group] > self._at + _AHEAD * (stop - start)
        if self._stream is None or start < self._at or is_far:
            self._start_at(group)
        while self._at < start:  # blocks before this one, which another thread may ask for
            height = min(stop - start, start - self._at)
            if len(self._kept) >= _AHEAD:
                self._kept.pop(next(iter(self._kept)))
            at = self._at
            self._kept[at] = self._next(height)
        return self._next(stop - start)

    def _start_at(self, group: int) -> None:
        self._kept.clear()
        self._stream = self._batches(range(group, len(self._groups) - 1))
        self._rest = np.empty((0, self.shape[1]), np.float32)
        self._at = int(self._groups[group])

    def _next(self, height: int) -> Floats:
        """Next rows of the stream."""
        assert self._stream is not None
        out = np.empty((height, self.shape[1]), np.float32)
        done = 0
        while done < height:
            if not len(self._rest):
                self._rest = next(self._stream)
            part = self._rest[: height - done]
            out[done : done + len(part)] = part
            self._rest = self._rest[len(part) :]
            done += len(part)
        self._at += height
        return out

    def _batches(self, groups: range) -> Iterator[Floats]:
        import pyarrow as pa

        size = max(1, _BATCH_BYTES // (4 * max(1, self.shape[1])))
        wanted = None if self._column is None else [self._column]
        batches = self._file.iter_batches(size, list(groups), wanted, use_threads=False)
        while True:
            with told(self._name, "parquet file"):
                batch = next(batches, None)
            if batch is None:
                raise DamageError(f"{self._name}: damaged parquet file (it has fewer rows than it says).")
            table = pa.Table.from_batches([batch])
            yield self._values(table).block(0, len(table))

    def _values(self, table: Any) -> RowSource:
        return ColumnRows(table) if self._column is None else ListRows(table.column(self._column), self._name)

    def _length(self) -> int:
        if self._column is None:
            return len(self._file.schema_arrow)
        kind = self._file.schema_arrow.field(self._column).type
        if hasattr(kind, "list_size") or not self._groups[-1]:
            return int(getattr(kind, "list_size", 0))
        import pyarrow as pa

        group = int(np.argmax(self._groups[1:] > 0))
        with told(self._name, "parquet file"):
            first = next(self._file.iter_batches(1, [group], [self._column], use_threads=False), None)
        if first is None:
            raise DamageError(f"{self._name}: damaged parquet file (it has fewer rows than it says).")
        return list_length(pa.chunked_array([first.column(0)]), self._name)


def open_parquet(paths: Sequence[str | os.PathLike[str]], column: str | None = None) -> RowSource:
    """Open one or several parquet files as one.

    Parameters
    ----------
    paths : the files, in the order of their rows
    column : the column of vectors; needed where there are several columns of lists
    """
    parts = [ParquetRows(_opened(Path(path)), str(path), column) for path in paths]
    return parts[0] if len(parts) == 1 else StackedRows(parts, [str(path) for path in paths])


def open_arrow(path: Path, column: str | None = None) -> RowSource:
    """Map an Arrow (feather) file into memory."""
    try:
        import pyarrow as pa
    except ImportError as error:
        raise ImportError(f"{path}: reading Arrow files needs pyarrow: {install('parquet')}.") from error
    with told(path, "Arrow file"):
        table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
        table.validate()
    name = vector_column(table.schema, str(path), column)
    with told(path, "Arrow file"):
        for vectors in [] if name is None else [table.column(name)]:
            vectors.validate(full=True)  # lists that begin or end outside of their numbers
    return ColumnRows(table) if name is None else ListRows(table.column(name), str(path))


def opened_parquet(X: Any) -> RowSource:
    """Rows of a `pyarrow.parquet.ParquetFile` or a data set of parquet files."""
    if hasattr(X, "iter_batches"):
        return ParquetRows(X, "X")
    if hasattr(X, "files") and getattr(getattr(X, "format", None), "default_extname", "") == "parquet":
        return open_parquet(X.files)
    raise TypeError(f"X must be an Arrow table or column, or parquet files. Got {type(X).__name__} of pyarrow.")


def read_column(path: str | os.PathLike[str], name: str) -> Any:
    """Return a column of a parquet file that stands beside the vectors, as a pyarrow.ChunkedArray."""
    file = _opened(Path(path))
    if name not in file.schema_arrow.names:
        raise ValueError(f"{path}: has no column {name!r}; it has {', '.join(file.schema_arrow.names)}.")
    with told(str(path), "parquet file"):
        return file.read([name]).column(0)


def _opened(path: Path) -> Any:
    try:
        import pyarrow.parquet as pq
    except ImportError as error:
        raise ImportError(f"{path}: reading parquet needs pyarrow: {install('parquet')}.") from error
    with told(path, "parquet file"):
        return pq.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False, page_checksum_verification=True)
