"""Rows of Python's own objects and of NumPy arrays without numbers: read where possible, else refused clearly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from os import PathLike
from typing import Any

import numpy as np

from projbank.rows.frames import ArrayColumnRows
from projbank.rows.source import ArrayRows, RowSource


def plain_rows(X: Any) -> RowSource | None:
    """Rows of an array of vectors or of numbers of a type that NumPy has not; None for what NumPy reads itself."""
    if isinstance(X, np.ndarray):
        return _array_rows(X)
    if isinstance(X, str | bytes | PathLike):
        raise TypeError(f"X must be vectors. Got a path: open it, projbank.rows.files.open_vectors({X!r}) reads it.")
    if isinstance(X, Mapping):
        names = ", ".join(map(str, X))
        raise TypeError(
            f"X must be vectors, one per row. Got a {type(X).__name__}; give one of its values: {names:.80}."
        )
    if isinstance(X, Iterator):
        raise TypeError(
            f"X must be vectors that can be read more than once. Got a {type(X).__name__}: give a list of it."
        )
    if isinstance(X, list | tuple):
        lengths = [np.size(row) for row in X if isinstance(row, list | tuple | np.ndarray)]
        wrong = next((i for i, length in enumerate(lengths) if length != lengths[0]), None)
        if wrong is not None and len(lengths) == len(X):
            raise ValueError(
                f"X must hold vectors of {lengths[0]} numbers, as the first. Got {lengths[wrong]} at row {wrong}."
            )
    return None


def _array_rows(X: np.ndarray[Any, Any]) -> RowSource | None:
    if X.dtype.kind == "V" and X.dtype.names is None and X.ndim == 2:  # bfloat16 and float8 of ml_dtypes
        return ArrayRows(X)
    if X.dtype.kind == "V" and X.dtype.names is not None:
        raise TypeError(
            f"X must be vectors. Got an array of records; give one of its fields: {', '.join(X.dtype.names)}."
        )
    if X.dtype.kind == "O" and X.ndim == 1 and len(X) and np.ndim(X[0]) == 1:
        return ArrayColumnRows(X, "X")
    return None
