"""Rows of pandas and polars frames: a column of arrays or lists, or columns of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from projbank.rows.source import ALL, Floats, RowSource, as_floats


class ArrayColumnRows(RowSource):
    """Rows of a column whose every value is an array or a list of numbers, all of the same length."""

    def __init__(self, column: Any, name: str) -> None:
        self._values = np.asarray(column, object)
        self._name = name
        self.shape = len(self._values), np.size(self._values[0]) if len(self._values) else 0

    def block(self, start: int, stop: int, columns: slice = ALL) -> Floats:
        out = np.empty((stop - start, self.shape[1]), np.float32)
        for place, value in enumerate(self._values[start:stop]):
            try:
                with np.errstate(over="ignore"):
                    vector = np.asarray(value, np.float32)
            except (TypeError, ValueError):
                vector = np.empty(0, np.float32)
            if vector.shape != self.shape[1:]:
                got = f"an array of shape {vector.shape}" if vector.ndim == 1 and vector.size else repr(value)[:80]
                raise ValueError(
                    f"{self._name} must hold vectors of {self.shape[1]} numbers, as the first. "
                    f"Got {got} at row {start + place}."
                )
            out[place] = vector
        return as_floats(out[:, columns])


def pandas_rows(X: Any) -> RowSource | None:
    """Rows of a frame's one column of vectors, or of a series of vectors; None for a frame of plain numbers."""
    columns = [X] if X.ndim == 1 else [X.iloc[:, i] for i in range(X.shape[1]) if _may_hold_vectors(X.dtypes.iloc[i])]
    vectors = [column for column in columns if len(column) and _is_vector(column.iloc[0])]
    if not vectors:
        texts = [str(column.name) for column in columns if len(column) and isinstance(column.iloc[0], str)]
        if texts:
            raise ValueError(
                f"X must have a column of vectors, or columns that all are numbers. Got text in {texts[0]!r}."
            )
        return None
    if len(vectors) > 1:
        raise ValueError(f"X must have one column of vectors; give one: {', '.join(str(one.name) for one in vectors)}.")
    column = vectors[0]
    name = "X" if column.name is None else f"X[{column.name!r}]"
    if hasattr(column.dtype, "pyarrow_dtype"):
        import pyarrow as pa

        from projbank.rows.arrow import ListRows

        arrow = pa.array(column)
        return ListRows(arrow if isinstance(arrow, pa.ChunkedArray) else pa.chunked_array([arrow]), name)
    return ArrayColumnRows(column, name)


def polars_rows(X: Any) -> RowSource:
    """Rows of a polars series of arrays or lists, or of a frame; through Arrow, without a copy."""
    from projbank.rows.arrow import arrow_rows

    if not hasattr(X, "to_arrow"):
        raise TypeError(
            f"X must be a polars DataFrame or Series. Got {type(X).__name__}: collect() it, or give the file's path "
            "to projbank.rows.files.open_vectors, which reads parquet in blocks."
        )
    return arrow_rows(X.to_arrow())


def _may_hold_vectors(dtype: Any) -> bool:
    return getattr(dtype, "kind", "") == "O" or hasattr(dtype, "pyarrow_dtype")


def _is_vector(value: Any) -> bool:
    return isinstance(value, list | tuple) or (np.ndim(value) == 1 and hasattr(value, "dtype"))
