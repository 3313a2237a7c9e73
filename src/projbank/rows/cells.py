"""Single cells in files: what is read of an AnnData file or store, and which genes its columns are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from projbank.integrity import identity
from projbank.rows.anndata import PARTS, CompressedRows, sparse_kind
from projbank.rows.source import RowSource

LARGEST_CHUNK = 256 << 20
"""Bytes of a chunk of a file, which is unpacked whole for a single row of it."""


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
