"""Files of vectors, opened without reading them: `.npy`, `.npz`, HDF5."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from projbank.files import input_file
from projbank.npyfile import open_npy
from projbank.rows.archives import is_sparse, open_npz
from projbank.rows.hdf5 import open_hdf5


def open_vectors(path: str | os.PathLike[str], dataset: str | None = None) -> Any:
    """Open a file of vectors: `.npy` (memory-mapped), `.npz` (one array, or scipy.sparse's own), or HDF5.

    The first bytes tell what a file is, not its name.

    Parameters
    ----------
    path : path of the file
    dataset : name of the array inside an `.npz` or HDF5 file; needed where there are several 2-D ones

    Returns
    -------
    numpy.memmap, numpy.ndarray, scipy.sparse.csr_array or h5py.Dataset of shape (n, D)
    """
    path = Path(path)
    X = _open_any(path, dataset)
    if len(X.shape) != 2:
        raise ValueError(f"{path}: vectors must be a 2-D array, one vector per row. Got shape {tuple(X.shape)}.")
    if 0 in X.shape:
        raise ValueError(f"{path}: holds no vectors. Got shape {tuple(X.shape)}.")
    if X.dtype == np.uint8:
        raise ValueError(f"{path}: holds packed codes (dtype uint8), not vectors; vectors are float16, 32 or 64.")
    if X.dtype.kind not in "fiu":
        raise ValueError(f"{path}: vectors must be float16, float32 or float64. Got dtype {X.dtype}.")
    return X


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


def _open_any(path: Path, dataset: str | None) -> Any:
    head = first_bytes(path)
    if head.startswith(b"PK\x03\x04"):
        return open_npz(path, lambda names, shapes: _member(path, dataset, names, shapes))
    if head.startswith(b"\x89HDF\r\n\x1a\n"):
        return open_hdf5(path, lambda names, shapes: _choose(path, dataset, names, shapes))
    if head.startswith(b"\x93NUMPY"):
        return open_array(path)
    raise ValueError(f"{path}: not a file of vectors; known are .npy, .npz and HDF5.")


def _member(path: Path, dataset: str | None, names: list[str], shapes: dict[str, tuple[int, ...]]) -> str | None:
    """Name of an array of an archive, or None for the sparse matrix that all of them make up."""
    return None if dataset is None and is_sparse(names) else _choose(path, dataset, names, shapes)


def _choose(path: Path, dataset: str | None, names: list[str], shapes: dict[str, tuple[int, ...]]) -> str:
    if dataset is not None:
        if dataset not in names:
            raise ValueError(f"{path}: has no array {dataset!r}; it has {', '.join(names) or 'none'}.")
        return dataset
    matrices = [name for name in names if len(shapes[name]) == 2]
    if len(matrices) != 1:
        raise ValueError(
            f"{path}: name the array of vectors (--dataset): it has {', '.join(matrices) or 'no 2-D array'}."
        )
    return matrices[0]
