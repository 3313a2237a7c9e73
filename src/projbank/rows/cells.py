"""Single cells: AnnData in memory, backed or in files and stores, its sparse matrices, and the genes of its columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from projbank.integrity import identity, told
from projbank.rows.archives import LARGE, MOST_PACKED
from projbank.rows.chunked import ChunkedRows, chunk_edges
from projbank.rows.source import ALL, Floats, RowSource, as_floats, as_rows
from projbank.rows.sparse import sparse_rows

_VALUES = 1 << 16
"""Stored values per chunk, where a file does not say."""


PARTS = ("data", "indices", "indptr")

LARGEST_CHUNK = 256 << 20
"""Bytes of a chunk of a file, which is unpacked whole for a single row of it."""


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


def is_cells(root: Any) -> bool:
    """Whether an open HDF5 file or zarr group was written by AnnData."""
    return root.attrs.get("encoding-type") == "anndata" or {"X", "obs", "var"} <= set(root)


class Place(NamedTuple):
    """What is read of an AnnData file instead of X: a layer, or an array of `obsm`."""

    layer: str | None = None
    obsm: str | None = None

    @property
    def name(self) -> str:
        """Name of the matrix in the file."""
        if self.layer is not None and self.obsm is not None:
            raise ValueError("--layer and --from-obsm exclude each other: one matrix is read.")
        return f"layers/{self.layer}" if self.layer is not None else "X" if self.obsm is None else f"obsm/{self.obsm}"

    def refuse(self, path: Path) -> None:
        """Raise where a place in an AnnData file is named, but it is none."""
        for option, name in (("--layer", self.layer), ("--from-obsm", self.obsm)):
            if name is not None:
                raise ValueError(f"{option} is for AnnData files and stores, which {path} is not.")


def open_cells(root: Any, path: Path, place: Place, open_array: Callable[[str], Any]) -> RowSource:
    """Rows of X of an AnnData file, or of another place in it.

    Parameters
    ----------
    root : open h5py.File or zarr group
    path : what errors call it
    open_array : opens an array of the file by its name in it, one of two dimensions as rows
    """
    name = place.name
    if name not in root:
        known = [f"{folder}/{one}" for folder in ("layers", "obsm") if folder in root for one in root[folder]]
        known = ["X", *known] if "X" in root else known
        raise ValueError(f"{path}: has no {name}; it has {', '.join(known) or 'no matrix'}.")
    rows = open_matrix(root, path, name, open_array)
    rows.made_by = None if place.obsm is not None else _genes(root, rows.shape[1])
    return rows


def open_matrix(root: Any, path: Path, name: str, open_array: Callable[[str], Any]) -> RowSource:
    """Rows of a dense array or a sparse matrix of a file."""
    item = root[name]
    if hasattr(item, "shape"):
        rows: RowSource = open_array(name)
        return rows
    if sparse_kind(item):
        parts = {part: open_array(f"{name}/{part}") for part in PARTS}
        return CompressedRows(item, f"{path}: {name}", parts)
    raise ValueError(f"{path}: {name} is no matrix of numbers, but {item.attrs.get('encoding-type', 'a group')}.")


def group_rows(group: Any, what: str) -> RowSource:
    """Rows of an open group: those of a sparse matrix, or X of AnnData; another is refused."""
    if sparse_kind(group):
        return CompressedRows(group)
    if is_cells(group) and "X" in group:
        return as_rows(group["X"])
    names = [name for name in group if hasattr(group[name], "shape") or sparse_kind(group[name])]
    raise TypeError(f"X must be an array. Got {what}; give one of its arrays: {', '.join(names) or 'it has none'}.")


def check_growth(path: Path, name: str, size: int, stored: int) -> None:
    """Raise where an array would grow beyond all measure: its shape lies, or it is next to nothing but one number."""
    if size > LARGE and size > MOST_PACKED * stored:
        raise ValueError(f"{path}: {name!r} would grow from {stored:,} to {size:,} bytes.")


def looks_like_counts(rows: RowSource) -> bool:
    """Whether the first rows are whole numbers, none below 0, and not all 0 or 1: raw counts."""
    block = rows.block(0, min(256, rows.shape[0]))
    return bool((block >= 0).all() and (block == np.rint(block)).all() and block.max(initial=0) > 1)


def _genes(root: Any, n_features: int) -> str | None:
    """Identity of the names of the columns, so that a bank is not used on other genes."""
    var = root.get("var")
    if var is None or hasattr(var, "shape"):  # files of AnnData before 0.7
        return None
    index = var.attrs.get("_index", "_index")
    if index not in var or not hasattr(var[index], "shape") or var[index].shape != (n_features,):
        return None
    names = [name.decode() if isinstance(name, bytes) else str(name) for name in var[index][:]]
    text = np.frombuffer("\0".join(names).encode(), np.uint8)
    return identity("genes", {"names": text}, {})
