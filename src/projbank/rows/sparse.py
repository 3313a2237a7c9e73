"""Sparse matrices whose indices are checked: compiled code would follow them anywhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray


def checked(matrix: Any, name: str = "X") -> sp.csr_array:
    """Return a scipy.sparse matrix as csr_array; ValueError where its indices point outside of it.

    The checks cost about as much as one look at every index.
    """
    if matrix.format not in ("csr", "csc", "coo"):
        return sp.csr_array(matrix)  # these forms have no indices, or build them themselves
    if matrix.format == "coo":
        rows, columns = matrix.coords if hasattr(matrix, "coords") else (matrix.row, matrix.col)
        _check_coordinates(matrix.data, rows, columns, matrix.shape, name)
    else:
        n_lines, n_places = matrix.shape if matrix.format == "csr" else matrix.shape[::-1]
        _check_compressed(matrix.data, matrix.indices, matrix.indptr, n_lines, n_places, name)
    return sp.csr_array(matrix)


def sparse_rows(
    kind: str, data: NDArray[Any], first: NDArray[Any], second: NDArray[Any], shape: tuple[int, ...], name: str = "X"
) -> sp.csr_array:
    """Build a csr_array from the arrays of a csr, csc (indices, indptr) or coo matrix (rows, columns), checked."""
    if len(shape) != 2 or min(shape) < 0:
        raise ValueError(f"{name} must be a 2-D matrix. Got shape {shape!s:.80}.")
    if (
        data.ndim != 1
        or first.ndim != 1
        or second.ndim != 1
        or first.dtype.kind not in "iu"
        or second.dtype.kind not in "iu"
    ):
        raise ValueError(f"{name}: values and indices of a sparse matrix must be 1-D, and indices whole numbers.")
    if data.dtype.kind not in "biuf":
        raise ValueError(f"{name}: a sparse matrix must hold numbers. Got dtype {data.dtype}.")
    data = data.astype(data.dtype.newbyteorder("="), copy=False)
    if kind == "coo":
        _check_coordinates(data, first, second, shape, name)
        return sp.csr_array(sp.coo_array((data, (first, second)), shape=shape))
    n_lines, n_places = shape if kind == "csr" else shape[::-1]
    _check_compressed(data, first, second, n_lines, n_places, name)
    make = sp.csr_array if kind == "csr" else sp.csc_array
    return sp.csr_array(make((data, first, second), shape=shape))


def _check_compressed(
    data: NDArray[Any], indices: NDArray[Any], indptr: NDArray[Any], n_lines: int, n_places: int, name: str
) -> None:
    if len(indptr) != n_lines + 1 or len(data) != len(indices):
        raise ValueError(f"{name}: the parts of the sparse matrix do not fit each other.")
    # compared one by one: differences of wild numbers could wrap around
    if indptr[0] != 0 or indptr[-1] > len(indices) or np.any(indptr[1:] < indptr[:-1]):
        raise ValueError(f"{name}: the row pointers of the sparse matrix are out of range.")
    _check_range(indices[: int(indptr[-1])], n_places, name)


def _check_coordinates(
    data: NDArray[Any], rows: NDArray[Any], columns: NDArray[Any], shape: tuple[int, ...], name: str
) -> None:
    if not len(data) == len(rows) == len(columns):
        raise ValueError(f"{name}: the parts of the sparse matrix do not fit each other.")
    _check_range(rows, shape[0], name)
    _check_range(columns, shape[1], name)


def _check_range(indices: NDArray[Any], limit: int, name: str) -> None:
    if len(indices) and (indices.min() < 0 or indices.max() >= limit):
        wrong = indices.min() if indices.min() < 0 else indices.max()
        raise ValueError(f"{name}: the sparse matrix has an index out of range: {wrong} is not in [0, {limit}).")
