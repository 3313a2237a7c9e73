"""Files of vectors, opened without reading them: `.npy`, `.npz`, HDF5."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray


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
    head = first_bytes(path)
    if not head.startswith(b"\x93NUMPY"):
        raise ValueError(f"{path}: not a NumPy .npy file.")
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise ValueError(f"{path}: damaged or unsupported .npy file ({error}).") from error


def first_bytes(path: Path) -> bytes:
    """First 16 bytes of a file; a directory, a missing and an empty file are told apart."""
    if path.is_dir():
        raise IsADirectoryError(f"{path}: is a directory, not a file.")
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file.")
    with open(path, "rb") as file:
        head = file.read(16)
    if not head:
        raise ValueError(f"{path}: the file is empty.")
    return head


def _open_any(path: Path, dataset: str | None) -> Any:
    head = first_bytes(path)
    if head.startswith(b"PK\x03\x04"):
        return _open_npz(path, dataset)
    if head.startswith(b"\x89HDF\r\n\x1a\n"):
        return _open_hdf5(path, dataset)
    if head.startswith(b"\x93NUMPY"):
        return open_array(path)
    raise ValueError(f"{path}: not a file of vectors; known are .npy, .npz and HDF5.")


def _open_npz(path: Path, dataset: str | None) -> Any:
    try:
        with np.load(path, allow_pickle=False) as archive:
            names = archive.files
            if {"format", "shape", "data"} <= set(names) and dataset is None:
                return sp.csr_array(sp.load_npz(path))
            shapes = {name: archive[name].shape for name in names} if dataset is None else {}
            return archive[_choose(path, dataset, names, shapes)]
    except (zipfile.BadZipFile, EOFError, OSError) as error:
        raise ValueError(f"{path}: damaged .npz file ({error}).") from error


def _open_hdf5(path: Path, dataset: str | None) -> Any:
    try:
        import h5py
    except ImportError as error:
        raise ImportError(f"{path}: reading HDF5 needs h5py: pip install projbank[hdf5]") from error
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        raise ValueError(f"{path}: damaged HDF5 file ({error}).") from error
    shapes: dict[str, tuple[int, ...]] = {}
    file.visititems(lambda name, item: shapes.update({name: item.shape}) if isinstance(item, h5py.Dataset) else None)
    return file[_choose(path, dataset, list(shapes), shapes)]


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
