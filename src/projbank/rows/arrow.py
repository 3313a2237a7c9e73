"""Rows of Arrow data: columns of lists of numbers, or tables whose columns all are numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from projbank.rows.chunked import ChunkedRows
from projbank.rows.source import ALL, Floats, RowSource, as_floats, as_rows


class ListRows(ChunkedRows):
    """Rows of a chunked Arrow array of lists, all of the same length; nothing is copied but blocks that are read."""

    def __init__(self, column: Any, name: str = "X") -> None:
        self._name = name
        self._chunks = [chunk for chunk in map(_lists, column.chunks) if len(chunk)]
        edges = np.cumsum([0, *map(len, self._chunks)])
        n_features = list_length(column, name)
        super().__init__((int(edges[-1]), n_features), edges)

    def block(self, start: int, stop: int, columns: slice = ALL) -> Floats:
        low = int(np.searchsorted(self._edges, start, side="right")) - 1
        parts = []
        while start < stop:
            first = int(self._edges[low])
            chunk = self._chunks[low].slice(start - first, min(stop, int(self._edges[low + 1])) - start)
            parts.append(list_values(chunk, self.shape[1], start, self._name)[:, columns])
            start += len(chunk)
            low += 1
        return as_floats(parts[0] if len(parts) == 1 else np.concatenate(parts))


class ColumnRows(RowSource):
    """Rows of an Arrow table, each column one dimension."""

    def __init__(self, table: Any) -> None:
        self.shape = table.shape
        self._table = table

    def block(self, start: int, stop: int, columns: slice = ALL) -> Floats:
        part = self._table.slice(start, stop - start)
        names = range(self.shape[1])[columns]
        out = np.empty((part.num_rows, len(names)), np.float32)
        for place, i in enumerate(names):
            with np.errstate(over="ignore"):
                out[:, place] = part.column(i).to_numpy()
        return out

    def take(self, ids: NDArray[np.integer], out: Floats, n_threads: int = 1) -> None:
        for i in range(self.shape[1]):
            with np.errstate(over="ignore"):
                out[:, i] = self._table.column(i).to_numpy()[ids]


def arrow_rows(X: Any) -> RowSource:
    """Rows of a pyarrow Table, RecordBatch, Array or ChunkedArray, or of parquet files opened by pyarrow."""
    import pyarrow as pa

    if isinstance(X, pa.RecordBatch):
        X = pa.Table.from_batches([X])
    if isinstance(X, pa.Table):
        name = vector_column(X.schema, "X")
        return ColumnRows(X) if name is None else ListRows(X.column(name), f"X[{name!r}]")
    if isinstance(X, pa.Array):
        X = pa.chunked_array([X])
    if isinstance(X, pa.ChunkedArray):
        return ListRows(X)
    if isinstance(X, pa.Tensor):
        return as_rows(X.to_numpy())
    from projbank.rows.parquet import opened_parquet

    return opened_parquet(X)


def vector_column(schema: Any, source: str, wanted: str | None = None) -> str | None:
    """Name of the column of vectors: the one wanted, or the only column of lists; None if all columns are numbers."""
    import pyarrow as pa

    lists = [field.name for field in schema if _is_list(field.type)]
    if wanted is not None:
        if wanted not in lists:
            raise ValueError(f"{source}: has no column of vectors {wanted!r}; it has {', '.join(lists) or 'none'}.")
        return wanted
    if len(lists) == 1:
        return lists[0]
    if lists:
        raise ValueError(f"{source}: name the column of vectors: it has {', '.join(lists)}.")
    others = [
        f"{f.name} ({f.type})" for f in schema if not (pa.types.is_floating(f.type) or pa.types.is_integer(f.type))
    ]
    if others or not len(schema):
        raise ValueError(
            f"{source}: must have a column of lists of numbers, or columns that all are numbers. "
            f"Got {', '.join(others[:3]) or 'no columns'}."
        )
    return None


def list_length(column: Any, name: str) -> int:
    """Length of the lists of a column, which the type says or the first list."""
    kind = column.type
    kind = getattr(kind, "storage_type", kind)
    if not _is_list(kind):
        raise ValueError(f"{name}: must hold lists of numbers, one vector per row. Got a column of {kind}.")
    if hasattr(kind, "list_size"):
        return int(kind.list_size)
    first = next((chunk[0] for chunk in column.chunks if len(chunk)), None)
    return 0 if first is None or not first.is_valid else len(first)


def list_values(lists: Any, n_features: int, first_row: int, name: str) -> NDArray[Any]:
    """Values of an Arrow array of lists as (n, n_features); a missing list and one of another length raise."""
    import pyarrow.compute as pc

    if lists.null_count:
        row = first_row + int(np.argmax(np.asarray(lists.is_null())))
        raise ValueError(f"{name}: has no vector at row {row}.")
    if not hasattr(lists.type, "list_size"):
        lengths = np.asarray(pc.list_value_length(lists))
        if (lengths != n_features).any():
            wrong = int(np.argmax(lengths != n_features))
            raise ValueError(
                f"{name}: vectors must have {n_features} numbers, as the first has. "
                f"Got {lengths[wrong]} at row {first_row + wrong}."
            )
    return lists.flatten().to_numpy(zero_copy_only=False).reshape(len(lists), n_features)


def _lists(chunk: Any) -> Any:
    return getattr(chunk, "storage", chunk)


def _is_list(kind: Any) -> bool:
    import pyarrow as pa

    kind = getattr(kind, "storage_type", kind)
    types = pa.types
    if not (types.is_fixed_size_list(kind) or types.is_list(kind) or types.is_large_list(kind)):
        return False
    return types.is_floating(kind.value_type) or types.is_integer(kind.value_type)
