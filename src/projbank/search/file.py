"""Index files: safetensors with raw ids and codes, so that a file of any size is opened by mapping it into memory."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from projbank.bits import code_bytes
from projbank.files import atomic_path

FORMAT = "projbank-index"
VERSION = 1
MAX_HEADER = 1 << 20
ALIGNMENT = 64
COPY_BYTES = 32 << 20


class IndexFileError(ValueError):
    """A file is not an index of projbank, is damaged or cut short, or was written by a newer version."""


class IndexContent(NamedTuple):
    """What an index file holds."""

    codes: NDArray[np.uint8]
    ids: NDArray[np.int64]
    n_bits: int
    next_id: int


def write_index(path: str | os.PathLike[str], content: IndexContent) -> None:
    """Write the file whole or not at all; an existing one is replaced in one step."""
    codes, ids, n_bits, next_id = content
    id_bytes = 8 * len(ids)
    header = {
        "__metadata__": {"format": FORMAT, "version": str(VERSION), "n_bits": str(n_bits), "next_id": str(next_id)},
        "ids": {"dtype": "I64", "shape": [len(ids)], "data_offsets": [0, id_bytes]},
        "codes": {"dtype": "U8", "shape": list(codes.shape), "data_offsets": [id_bytes, id_bytes + codes.size]},
    }
    text = json.dumps(header).encode()
    text += b" " * (-(8 + len(text)) % ALIGNMENT)
    with atomic_path(path) as temporary, open(temporary, "wb") as file:
        file.write(len(text).to_bytes(8, "little"))
        file.write(text)
        file.write(np.ascontiguousarray(ids, dtype="<i8").data)
        rows = max(1, COPY_BYTES // codes.shape[1])
        for start in range(0, len(codes), rows):
            file.write(np.ascontiguousarray(codes[start : start + rows]).data)


def read_index(path: str | os.PathLike[str]) -> IndexContent:
    """Map an index file into memory, read-only; its header and size are checked, its data are not read."""
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path}: is a directory, not an index file.")
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file.")
    header, start = _read_header(path)
    metadata = header.get("__metadata__")
    if not isinstance(metadata, dict) or metadata.get("format") != FORMAT:
        raise IndexFileError(f"{path}: a safetensors file, but not an index of projbank.")
    version = _number(path, metadata, "version")
    if version > VERSION:
        raise IndexFileError(f"{path}: written by a newer projbank (file version {version}); upgrade to read it.")
    n_bits, next_id = _number(path, metadata, "n_bits"), _number(path, metadata, "next_id")
    n_codes = _check_layout(path, header, n_bits)
    expected = start + n_codes * (8 + code_bytes(n_bits))
    if path.stat().st_size != expected:
        raise IndexFileError(f"{path}: cut short or damaged: {path.stat().st_size} bytes instead of {expected}.")
    ids = _map(path, np.dtype("<i8"), start, (n_codes,))
    codes = _map(path, np.dtype(np.uint8), start + 8 * n_codes, (n_codes, code_bytes(n_bits)))
    return IndexContent(codes, ids, n_bits, next_id)


def is_index(path: str | os.PathLike[str]) -> bool:
    """Whether a file says of itself that it is an index of projbank."""
    try:
        header, _ = _read_header(Path(path))
    except IndexFileError:
        return False
    metadata = header.get("__metadata__")
    return isinstance(metadata, dict) and metadata.get("format") == FORMAT


def _read_header(path: Path) -> tuple[dict[str, Any], int]:
    """Read the header; give it and the offset of the data behind it."""
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        text = file.read(length) if 0 < length <= MAX_HEADER else b""
    if not text or len(text) < length:
        raise IndexFileError(f"{path}: not an index file, or cut short.")
    try:
        header = json.loads(text)
    except ValueError as error:
        raise IndexFileError(f"{path}: not an index file, or damaged (its header is no JSON).") from error
    if not isinstance(header, dict):
        raise IndexFileError(f"{path}: not an index file, or damaged (its header is no JSON object).")
    return header, 8 + length


def _number(path: Path, metadata: dict[str, Any], name: str) -> int:
    text = metadata.get(name)
    if not isinstance(text, str) or not text.isascii() or not text.isdigit() or len(text) > 19:
        raise IndexFileError(f"{path}: damaged metadata ({name} {text!r}).")
    return int(text)


def _check_layout(path: Path, header: dict[str, Any], n_bits: int) -> int:
    """Give the number of codes, if ids and codes stand where version 1 puts them."""
    try:
        (n_codes,) = header["ids"]["shape"]
        id_bytes, width = 8 * n_codes, code_bytes(n_bits)
        expected = {
            "ids": {"dtype": "I64", "shape": [n_codes], "data_offsets": [0, id_bytes]},
            "codes": {
                "dtype": "U8",
                "shape": [n_codes, width],
                "data_offsets": [id_bytes, id_bytes + n_codes * width],
            },
        }
        fits = n_bits > 0 and n_codes >= 0 and all(header[name] == expected[name] for name in expected)
    except (KeyError, TypeError, ValueError):
        fits = False
    if not fits:
        raise IndexFileError(f"{path}: damaged header (ids and codes do not fit each other).")
    return int(n_codes)


def _map(path: Path, dtype: np.dtype, offset: int, shape: tuple[int, ...]) -> NDArray:
    if shape[0] == 0:
        return np.empty(shape, dtype=dtype)
    return np.memmap(path, dtype=dtype, mode="r", offset=offset, shape=shape)
