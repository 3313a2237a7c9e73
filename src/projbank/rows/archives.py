"""`.npz` archives of vectors, dense or sparse: sizes are checked before anything is unpacked, contents before use."""

from __future__ import annotations

import math
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.lib import format as npy
from numpy.typing import NDArray

from projbank.integrity import DamageError
from projbank.rows.sparse import sparse_rows

LARGE = 256 << 20
MOST_PACKED = 200
"""An array above `LARGE` bytes that is packed by more than this factor is a bomb, or nothing but zeros."""
_FORMATS = {
    "csr": (sp.csr_array, ("data", "indices", "indptr")),
    "csc": (sp.csc_array, ("data", "indices", "indptr")),
    "coo": (sp.coo_array, ("data", "row", "col")),
}
_DAMAGE = (
    *(zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, MemoryError, RecursionError),
    *(ValueError, TypeError, KeyError, IndexError, SyntaxError, OverflowError, TokenError, OSError),
)
"""What the readers of zip files and of `.npy` headers raise where bytes are not what they should be."""


def open_npz(path: Path, choose: Callable[[list[str], dict[str, tuple[int, ...]]], str | None]) -> Any:
    """Read vectors from an archive: an array, or scipy.sparse's own form as a csr_array.

    Parameters
    ----------
    path : the archive
    choose : gets the names and shapes of all arrays, and returns the name of the one to read; None is the sparse form

    Raises
    ------
    DamageError
        If the archive is damaged, lies about sizes, or holds what is no array of numbers.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            infos = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
            headers = {name: _header(archive, info) for name, info in infos.items()}
    except _DAMAGE as error:
        raise _damage(path, error) from error
    name = choose(list(infos), {name: shape for name, (shape, _, _) in headers.items()})
    try:
        with zipfile.ZipFile(path) as archive:
            if name is not None:
                return _read(archive, infos[name])
            return _read_sparse(archive, infos)
    except _DAMAGE as error:
        raise _damage(path, error) from error


def is_sparse(names: list[str]) -> bool:
    """Whether an archive with these arrays is one that scipy.sparse has saved."""
    return {"format", "shape", "data"} <= set(names)


def _damage(path: Path, error: BaseException) -> DamageError:
    return DamageError(f"{path}: damaged .npz file ({' '.join(str(error).split()) or type(error).__name__:.200}).")


def _header(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, order and type of an array, after its length was compared with them."""
    with archive.open(info) as file:
        version = npy.read_magic(file)
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, fortran, dtype = read(file)
        start = file.tell()
    if dtype.hasobject or dtype.kind not in "biufSU":
        raise ValueError(f"{info.filename!r:.80} is of {dtype!s:.80}; only numbers are read")
    if not all(type(length) is int and 0 <= length < 2**62 for length in shape):
        raise ValueError(f"{info.filename!r:.80} has the shape {shape!s:.80}")
    size = start + dtype.itemsize * math.prod(shape)
    if size != info.file_size:
        raise ValueError(f"{info.filename!r:.80} has {info.file_size} bytes instead of {size}")
    if size > LARGE and size > MOST_PACKED * max(1, info.compress_size):
        raise ValueError(f"{info.filename!r:.80} would grow from {info.compress_size:,} to {size:,} bytes")
    return shape, fortran, dtype


def _read(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> NDArray[Any]:
    shape, fortran, dtype = _header(archive, info)
    with archive.open(info) as file:
        file.seek(info.file_size - dtype.itemsize * math.prod(shape))
        data = bytearray(dtype.itemsize * math.prod(shape))
        view, done = memoryview(data), 0
        while done < len(data):
            part = file.read(min(1 << 20, len(data) - done))
            if not part:
                raise ValueError(f"{info.filename!r:.80} is cut short")
            view[done : done + len(part)] = part
            done += len(part)
        if file.read(1):  # the end is where the archive's own checksum is compared
            raise ValueError(f"{info.filename!r:.80} is longer than it says")
    return np.frombuffer(data, dtype).reshape(shape, order="F" if fortran else "C")


def _read_sparse(archive: zipfile.ZipFile, infos: dict[str, zipfile.ZipInfo]) -> sp.csr_array:
    kind = _read(archive, infos["format"])
    word = kind.item().decode() if kind.dtype.kind == "S" else str(kind.item())
    if word not in _FORMATS:
        raise ValueError(f"sparse format {word!r:.20}; known are csr, csc and coo")
    _, names = _FORMATS[word]
    data, first, second = (_read(archive, infos[name]) for name in names)
    shape = tuple(int(length) for length in _read(archive, infos["shape"]).reshape(-1))
    return sparse_rows(word, data, first, second, shape)
