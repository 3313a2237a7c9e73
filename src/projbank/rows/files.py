"""Files and stores of vectors, opened without reading them."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from projbank.integrity import input_file, open_npy
from projbank.rows.archives import is_sparse, open_npz
from projbank.rows.cells import Place
from projbank.rows.hdf5 import open_hdf5
from projbank.rows.views import StackedRows

SUFFIXES = (".arrow", ".feather", ".h5", ".h5ad", ".hdf5", ".npy", ".npz", ".parquet")
"""Names of files that are read as one where a folder of them is given."""
_BESIDE = (".csv", ".json", ".jsonl", ".md", ".txt", ".yaml", ".yml")
"""What may stand beside them."""
KNOWN = ".npy, .npz, HDF5, AnnData (.h5ad), zarr, parquet, Arrow"


def open_vectors(path: str | os.PathLike[str], dataset: str | None = None, place: Place = Place()) -> Any:  # noqa: B008
    """Open a file or store of vectors, or a folder of files as one: `.npy` (memory-mapped), `.npz`, HDF5, zarr...

    The first bytes tell what a file is, not its name. A folder's files are read in the order of their names.

    Parameters
    ----------
    path : path of the file, zarr store or folder
    dataset : name of the array or column inside; needed where there are several 2-D ones
    place : what is read of an AnnData file or store; its X if not given

    Returns
    -------
    numpy.memmap, numpy.ndarray, scipy.sparse.csr_array, h5py.Dataset or RowSource of shape (n, D)
    """
    path = Path(path)
    X = _open_folder(path, dataset, place) if path.is_dir() else _open_any(path, dataset, place)
    if len(X.shape) != 2:
        raise ValueError(f"{path}: vectors must be a 2-D array, one vector per row. Got shape {tuple(X.shape)}.")
    if 0 in X.shape:
        raise ValueError(f"{path}: holds no vectors. Got shape {tuple(X.shape)}.")
    if X.dtype == np.uint8:
        raise ValueError(f"{path}: holds packed codes (dtype uint8), not vectors; vectors are float16, 32 or 64.")
    if X.dtype.kind not in "fiu":
        raise ValueError(f"{path}: vectors must be float16, float32 or float64. Got dtype {X.dtype}.")
    return X


def holds_vectors(path: Path) -> bool:
    """Whether a folder is a zarr store or has files of vectors and no others, or a zip has; it may hold pictures."""
    from projbank.rows.zarr import is_zarr

    if path.is_dir():
        files = _files(path)
        others = (one for one in path.iterdir() if one not in files and one.suffix.lower() not in _BESIDE)
        return is_zarr(path) or (bool(files) and not any(others))
    return path.is_file() and path.suffix.lower() == ".zip" and _has_names(path, ".npy")


def open_array(path: str | os.PathLike[str]) -> NDArray[Any]:
    """Memory-map a `.npy` file, or say in one line why it can't be read."""
    path = Path(path)
    if not first_bytes(path).startswith(b"\x93NUMPY"):
        raise ValueError(f"{path}: not a NumPy .npy file.")
    return open_npy(path)[0]


def first_bytes(path: Path) -> bytes:
    """First 16 bytes of a file; a directory, a missing, a special and an empty file are told apart."""
    with open(input_file(path), "rb") as file:
        head = file.read(16)
    if not head:
        raise ValueError(f"{path}: the file is empty.")
    return head


def _open_any(path: Path, dataset: str | None, place: Place) -> Any:
    head = first_bytes(path)
    if head.startswith(b"\x89HDF\r\n\x1a\n"):
        return open_hdf5(path, dataset, place, lambda names, shapes: _choose(path, dataset, names, shapes))
    place.refuse(path)
    if head.startswith(b"PK\x03\x04"):
        if _has_names(path, "/data.pkl"):
            raise ValueError(f"{path}: holds objects of PyTorch, which are not read; write the tensor by numpy.save.")
        return open_npz(path, lambda names, shapes: _member(path, dataset, names, shapes))
    if head.startswith(b"\x93NUMPY"):
        return open_array(path)
    if head.startswith(b"PAR1"):
        from projbank.rows.parquet import open_parquet

        return open_parquet([path], dataset)
    if head.startswith(b"ARROW1"):
        from projbank.rows.parquet import open_arrow

        return open_arrow(path, dataset)
    raise ValueError(f"{path}: not a file of vectors; known are {KNOWN}.")


def _open_folder(path: Path, dataset: str | None, place: Place) -> Any:
    from projbank.rows.zarr import is_zarr, open_zarr

    if is_zarr(path):
        return open_zarr(path, dataset, place, lambda names, shapes: _choose(path, dataset, names, shapes))
    files = _files(path)
    if not files:
        raise IsADirectoryError(f"{path}: is a directory without files of vectors; known are {KNOWN}.")
    parts = [open_vectors(file, dataset, place) for file in files]
    return StackedRows(parts, [str(file) for file in files])


def _files(folder: Path) -> list[Path]:
    return sorted(
        one for one in folder.iterdir() if one.suffix.lower() in SUFFIXES and one.is_file() and one.name[0] not in "._"
    )


def _has_names(path: Path, end: str) -> bool:
    """Whether a zip has files whose names end so."""
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name.endswith(end) for name in archive.namelist())
    except (zipfile.BadZipFile, OSError):
        return False


def _member(path: Path, dataset: str | None, names: list[str], shapes: dict[str, tuple[int, ...]]) -> str | None:
    """Name of an array of an archive, or None for the sparse matrix that all of them make up."""
    return None if dataset is None and is_sparse(names) else _choose(path, dataset, names, shapes)


def _choose(path: Path, dataset: str | None, names: list[str], shapes: dict[str, tuple[int, ...]]) -> str:
    if dataset is not None:
        if dataset not in names:
            raise ValueError(f"{path}: has no array {dataset!r}; it has {', '.join(names) or 'none'}.")
        return dataset
    matrices = [name for name in names if len(shapes[name]) == 2]
    sparse = [name.removesuffix("/indptr") for name in names if name.endswith("/indptr")]
    if sparse and not matrices:
        raise ValueError(
            f"{path}: {sparse[0]!r} holds the parts of a sparse matrix, but not its format; a file of 10x Genomics "
            "becomes an AnnData file by scanpy.read_10x_h5(...).write_h5ad(...)."
        )
    if len(matrices) != 1:
        raise ValueError(
            f"{path}: name the array of vectors (--dataset): it has {', '.join(matrices) or 'no 2-D array'}."
        )
    return matrices[0]
