"""Rows of single cells: AnnData in memory or backed, and sparse matrices that stand in HDF5 files and zarr stores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from projbank.integrity import told
from projbank.rows.chunked import ChunkedRows, chunk_edges
from projbank.rows.source import ALL, Floats, RowSource, as_floats, as_rows
from projbank.rows.sparse import sparse_rows

_VALUES = 1 << 16
"""Stored values per chunk, where a file does not say."""


PARTS = ("data", "indices", "indptr")


class CompressedRows(ChunkedRows):
    """Rows of a sparse matrix in a file, as AnnData writes it: a group of `data`, `indices` and `indptr`.

    Only the row pointers are held; indices are checked as they are read.

    Parameters
    ----------
    group : h5py or zarr group
    name : what errors call it
    parts : its arrays, if they are not to be read from the group itself
    """

    def __init__(self, group: Any, name: str = "X", parts: Mapping[str, Any] | None = None) -> None:
        kind = sparse_kind(group)
        if kind != "csr":
            raise ValueError(
                f"{name}: is a sparse matrix in {kind or 'unknown'} format, which can't be read row by row; "
                "write it in csr format: adata.X = adata.X.tocsr()."
            )
        with told(name, "sparse matrix"):
            shape = tuple(int(length) for length in group.attrs.get("shape", group.attrs.get("h5sparse_shape", ())))
            parts = {part: group[part] for part in PARTS} if parts is None else parts
            pointers = np.asarray(parts["indptr"][:])
            n_values = min(parts["data"].shape[0], parts["indices"].shape[0])
            values = (parts["data"].chunks or (_VALUES,))[0]
        if len(shape) != 2 or pointers.dtype.kind not in "iu" or len(pointers) != shape[0] + 1:
            raise ValueError(f"{name}: the parts of the sparse matrix do not fit each other.")
        if pointers[0] != 0 or pointers[-1] > n_values or np.any(pointers[1:] < pointers[:-1]):
            raise ValueError(f"{name}: the row pointers of the sparse matrix are out of range.")
        per_row = max(1.0, int(pointers[-1]) / max(1, shape[0]))
        super().__init__(shape, chunk_edges(shape[0], max(1, int(values / per_row))))
        self._parts = parts
        self._name = name
        self._pointers = pointers

    def block(self, start: int, stop: int, columns: slice = ALL) -> Floats:
        low, high = int(self._pointers[start]), int(self._pointers[stop])
        with told(self._name, "sparse matrix"):
            data, indices = (np.asarray(self._parts[part][low:high]) for part in ("data", "indices"))
        pointers = self._pointers[start : stop + 1] - self._pointers[start]
        rows = sparse_rows("csr", data, indices, pointers, (stop - start, self.shape[1]), self._name)
        return as_floats(rows[:, columns].toarray())


def sparse_kind(group: Any) -> str:
    """Return "csr" or "csc" for a group that holds a sparse matrix; "" for another."""
    kind = group.attrs.get("encoding-type", group.attrs.get("h5sparse_format", ""))
    kind = kind.decode() if isinstance(kind, bytes) else str(kind)
    return kind.removesuffix("_matrix") if kind.removesuffix("_matrix") in ("csr", "csc") else ""


def anndata_rows(X: Any) -> RowSource:
    """Rows of an AnnData's X, or of one of anndata's sparse matrices on disk.

    Other rows are given as they stand: ``adata.layers["counts"]``, ``adata.obsm["X_scvi"]``.
    """
    if hasattr(X, "group") and hasattr(X, "format"):
        return CompressedRows(X.group)
    if not hasattr(X, "obs_names"):
        raise TypeError(f"X must be an AnnData, or one of its matrices. Got {type(X).__name__} of anndata.")
    matrix = X.X
    if matrix is None:
        layers, others = ", ".join(X.layers), ", ".join(X.obsm)
        raise ValueError(
            "X is an AnnData without X: give what to read, adata.layers[...] "
            f"(it has {layers or 'none'}) or adata.obsm[...] (it has {others or 'none'})."
        )
    return as_rows(matrix)
