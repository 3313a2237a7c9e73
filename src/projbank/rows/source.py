"""Vectors in row blocks: arrays, memory maps, sparse matrices and HDF5 data sets are read alike, never copied whole."""

from __future__ import annotations

import mmap
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from projbank.threads import run_all, split_rows

BLOCK_BYTES = 32 << 20
"""How many bytes of float32 rows are held at a time where rows are converted or read from disk."""

_LARGE = 1 << 20
"""Numbers from which a copy is worth starting threads for."""

LARGEST = 1e12
"""Largest root mean square of a column that can be learnt from: sums of squares must fit into float32."""


def row_blocks(n_rows: int, n_features: int, budget: int = BLOCK_BYTES) -> list[tuple[int, int]]:
    """Cut the rows into (start, stop) blocks of at most `budget` bytes, whole tiles of 8 rows where possible."""
    rows = max(8, budget // (4 * max(1, n_features)) // 8 * 8)
    return split_rows(n_rows, rows)


def read_rows(X: Any, start: int, stop: int) -> NDArray[np.float32]:
    """Rows start:stop as float32 with neighbouring columns adjacent in memory; a view where X already is like that."""
    return _as_rows(X[start:stop])


def read_block(X: Any, rows: tuple[int, int], columns: tuple[int, int]) -> NDArray[np.float32]:
    """Some columns of some rows, as `read_rows`."""
    return _as_rows(X[slice(*rows), slice(*columns)])


def _as_rows(block: Any) -> NDArray[np.float32]:
    if sp.issparse(block):
        block = block.toarray()
    block = np.asarray(block)
    if block.dtype == np.float32 and (block.strides[1] == 4 or block.shape[1] == 1) and block.strides[0] % 4 == 0:
        return block
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(block, dtype=np.float32)


def take_rows(X: Any, ids: NDArray[np.integer], out: NDArray[np.float32], n_threads: int = 1) -> None:
    """Copy the rows of the given ascending ids to `out`, few at a time; rows of a file are read in the file's order."""
    if type(X) is np.ndarray and X.dtype == np.float32:

        def take(start: int, stop: int) -> None:
            np.take(X, ids[start:stop], axis=0, out=out[start:stop], mode="clip")  # this mode writes straight to `out`

        for _ in run_all(take, split_rows(len(ids), 64), n_threads if out.size > _LARGE else 1):
            pass
        return
    for start, stop in split_rows(len(ids), 8):
        rows = X[ids[start:stop]]
        with np.errstate(over="ignore"):
            out[start:stop] = rows.toarray() if sp.issparse(rows) else rows


def check_finite(
    block: NDArray[np.floating], first_row: int = 0, name: str = "X", *, ids: NDArray[np.int64] | None = None
) -> None:
    """Raise for the first NaN or infinity of a block, naming its row and column in the whole array.

    The block's rows follow `first_row` there, or have the numbers `ids`.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(block.sum(dtype=np.float64)):  # one cheap pass: a bad value always spoils the sum
            return
    good = np.isfinite(block)
    if good.all():
        return
    row, column = np.unravel_index(np.argmin(good), good.shape)
    value = "NaN" if np.isnan(block[row, column]) else "infinity or a value too large for float32"
    number = first_row + row if ids is None else ids[row]
    raise ValueError(f"{name} contains {value} at row {number}, column {column}.")


class ScaledRows:
    """Rows of X divided by a scale per column, computed block by block as they are read."""

    def __init__(self, X: Any, scale: NDArray[np.floating]) -> None:
        self.shape: tuple[int, int] = X.shape
        self._rows = X
        self._scale = scale.astype(np.float32)

    def __getitem__(self, key: Any) -> NDArray[np.float32]:
        block = self._rows[key]
        scale = self._scale[key[1]] if isinstance(key, tuple) else self._scale
        return (block.toarray() if sp.issparse(block) else np.asarray(block, np.float32)) / scale


class FoldedRows:
    """Rows of X with several dimensions added up to one, under random signs; computed block by block as they are read.

    Inner products of such rows are those of X on average, and differ from them by about |x| |y| / sqrt(dimensions).
    Dimensions that are added stand far from each other; the signs are the same every time.

    Parameters
    ----------
    X : (n, D) array, memory map, sparse matrix, ...
    most : dimensions to come down to, at most
    """

    def __init__(self, X: Any, most: int) -> None:
        self._rows = X
        self._times = -(-X.shape[1] // most)
        self.shape: tuple[int, int] = (X.shape[0], -(-X.shape[1] // self._times))
        signs = np.random.default_rng(0).choice(np.array([-1, 1], np.float32), self._times * self.shape[1])
        self._signs = signs.reshape(self._times, -1)

    def __getitem__(self, key: tuple[slice, slice]) -> NDArray[np.float32]:
        rows, (first, last, _) = key[0], key[1].indices(self.shape[1])
        sums = np.zeros((len(range(self.shape[0])[rows]), last - first), np.float32)
        for signs, start in zip(self._signs, range(0, self._rows.shape[1], self.shape[1]), strict=True):
            block = _as_rows(self._rows[rows, start + first : min(start + last, self._rows.shape[1])])
            sums[:, : block.shape[1]] += block * signs[first : first + block.shape[1]]
        return sums

    def fold(self, vector: NDArray[np.float64]) -> NDArray[np.float64]:
        """A vector (D,), folded alike."""
        longer = np.zeros(self._signs.shape)
        longer.reshape(-1)[: len(vector)] = vector
        return (longer * self._signs).sum(axis=0)


class RepeatedRows:
    """Rows of X written several times, one copy behind the other, as they are read.

    A soft bank, in which a dimension serves r groups, is a hard bank of the vectors written r times.
    """

    def __init__(self, X: Any, times: int) -> None:
        self.shape: tuple[int, int] = (X.shape[0], times * X.shape[1])
        self._rows = X
        self._times = times

    def __getitem__(self, rows: slice | NDArray[np.integer]) -> NDArray[np.float32]:
        block = self._rows[rows]
        with np.errstate(over="ignore"):
            return np.tile(block.toarray() if sp.issparse(block) else np.asarray(block, np.float32), (1, self._times))


def is_hdf5(X: Any) -> bool:
    """Whether X is an h5py data set, which is read block by block and never turned into an array."""
    return type(X).__module__.partition(".")[0] == "h5py"


def column_statistics(X: Any, name: str = "X") -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Means and standard deviations of the columns, (D,) float64 each; raises for the first NaN, infinity or excess.

    A column whose values are all the same has deviation exactly 0.
    """
    n_rows, n_features = X.shape
    first = read_rows(X, 0, 1)[0].astype(np.float64)  # sums of differences lose no digits to a large mean
    check_finite(first[None].astype(np.float32), 0, name)
    sums, squares = np.zeros(n_features), np.zeros(n_features)
    for start, stop in row_blocks(n_rows, n_features):
        rows = read_rows(X, start, stop)
        check_finite(rows, start, name)
        for part in np.array_split(rows, max(1, len(rows) // 16)):
            differences = part - first
            sums += differences.sum(axis=0)
            squares += np.einsum("ij,ij->j", differences, differences)
        release_pages(rows)
    offsets = sums / n_rows
    means, deviations = first + offsets, np.sqrt(np.maximum(squares / n_rows - offsets**2, 0.0))
    largest = int(np.argmax(np.hypot(means, deviations)))
    if np.hypot(means[largest], deviations[largest]) > LARGEST:
        raise ValueError(
            f"{name} is too large in column {largest}: scale it to a root mean square of at most {LARGEST:g}."
        )
    return means, deviations


def nonzeros_per_row(X: Any, n_rows: int = 64) -> float:
    """Mean number of values of a row that are not 0, over some rows from all over X."""
    ids = np.unique(np.linspace(0, X.shape[0] - 1, n_rows).astype(np.int64))
    return float(np.mean([np.count_nonzero(read_rows(X, int(i), int(i) + 1)) for i in ids]))


def release_pages(block: NDArray[Any]) -> None:
    """Let go of the memory behind a block of a file that is mapped for reading (the file's cache keeps it).

    Pages of a mapped file that were read count as the process's memory until then.
    """
    base: Any = block
    while isinstance(base, np.ndarray) and not isinstance(base, np.memmap):
        base = base.base
    while isinstance(base, np.memmap) and isinstance(base.base, np.memmap):
        base = base.base
    if not isinstance(base, np.memmap) or base.mode != "r" or not hasattr(mmap.mmap, "madvise"):
        return
    page = mmap.ALLOCATIONGRANULARITY
    file_start = base.ctypes.data - base.offset % page  # a map begins at a whole page
    low, high = np.lib.array_utils.byte_bounds(block)
    start = max(0, low - file_start) // page * page
    base._mmap.madvise(mmap.MADV_DONTNEED, start, high - file_start - start)  # type: ignore[attr-defined]


def open_vectors(path: str | os.PathLike[str], dataset: str | None = None) -> Any:
    """Open a file of vectors: `.npy` (memory-mapped), `.npz` (one array, or scipy.sparse's own), or HDF5.

    What a file is, is told by its first bytes, not by its name.

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
