"""Safetensors files with a checksum: the same content gives the same bytes; all is checked before anything is used."""

from __future__ import annotations

import itertools
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from projbank.files import reserve
from projbank.integrity import DamageError, checksum, checksum_blocks, input_file
from projbank.kinds import looks_like

DTYPES = {
    name: np.dtype(code)
    for name, code in {
        "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1",
        "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1", "BOOL": "?",
    }.items()
}  # fmt: skip
_NAMES = {dtype: name for name, dtype in DTYPES.items()}
MAX_HEADER = 16 << 20
_ALIGNMENT = 64
_BLOCK = 1 << 20


class Header(NamedTuple):
    """Header of a safetensors file, checked against the file's length."""

    metadata: dict[str, str]
    tensors: dict[str, tuple[np.dtype[Any], tuple[int, ...], int]]
    """Type, shape and place (counted from the beginning of the file) of each."""
    start: int
    """Where the tensors begin."""
    size: int
    """Length of the file."""
    canonical: bytes
    """What the checksum covers beside the tensors."""


def write_tensors(path: Path, tensors: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> None:
    """Fill an existing file (see `projbank.files.atomic_path`) with arrays and metadata, and their checksum.

    The same content gives the same bytes. OSError where there is no room for it.
    """
    names = sorted(tensors, key=lambda name: (-tensors[name].dtype.itemsize, name))  # so that each begins aligned
    arrays, entries, end = [], {}, 0
    for name in names:
        array = np.ascontiguousarray(tensors[name], dtype=tensors[name].dtype.newbyteorder("<"))
        if array.dtype not in _NAMES:
            raise TypeError(f"The array {name!r} can't be saved: there is no safetensors type for {array.dtype}.")
        entries[name] = {
            "dtype": _NAMES[array.dtype],
            "shape": list(tensors[name].shape),
            "data_offsets": [end, end + array.nbytes],
        }
        end += array.nbytes
        arrays.append(array)
    header: dict[str, Any] = {"__metadata__": dict(sorted(metadata.items())), **entries}
    header["__metadata__"]["checksum"] = checksum(_canonical(header), *arrays)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % _ALIGNMENT)
    if len(text) > MAX_HEADER:
        raise ValueError(f"{path}: the parameters take {len(text):,} bytes; at most {MAX_HEADER:,} can be saved.")
    reserve(path, 8 + len(text) + end)
    with open(path, "r+b") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for array in arrays:
            file.write(array.reshape(-1).view(np.uint8).data if array.size else b"")
        file.truncate()


def read_header(path: str | os.PathLike[str]) -> Header:
    """Read and check the header; the tensors are not read.

    Raises
    ------
    DamageError
        If it is no safetensors file, or its header does not describe exactly this file.
    """
    path = input_file(path)
    size = path.stat().st_size
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 2 <= length <= min(MAX_HEADER, size - 8):
            raise DamageError(f"{path}: not a safetensors file, or cut short{looks_like(path)}.")
        text = file.read(length)
    header = parse_json(path, text)
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise DamageError(f"{path}: damaged header (its metadata are not words).")
    tensors, end = {}, 0
    try:
        for name, entry in sorted(header.items(), key=lambda item: tuple(item[1]["data_offsets"])):
            dtype, shape, (first, last) = DTYPES[entry["dtype"]], tuple(entry["shape"]), entry["data_offsets"]
            if not all(type(number) is int and 0 <= number <= size for number in (*shape, first, last)):
                raise ValueError(f"numbers of {name!r} are out of range")
            if first != end or last - first != dtype.itemsize * math.prod(shape):
                raise ValueError(f"{name!r} does not have the length of its shape")
            tensors[name] = (dtype, shape, 8 + length + first)
            end = last
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DamageError(f"{path}: damaged header ({type(error).__name__}: {error!s:.200}).") from error
    if 8 + length + end != size:
        raise DamageError(f"{path}: cut short or damaged: {size:,} bytes instead of {8 + length + end:,}.")
    return Header(metadata, tensors, 8 + length, size, _canonical({"__metadata__": metadata, **header}))


def read_tensors(path: str | os.PathLike[str]) -> tuple[Header, dict[str, NDArray[Any]]]:
    """Read all arrays, and compare them with the checksum where the file has one.

    Raises
    ------
    DamageError
        As `read_header`, and if the checksum does not agree.
    """
    header = read_header(path)
    path = Path(path)
    data = np.empty(header.size - header.start, dtype=np.uint8)
    check(path, header, _read_blocks(path, header.start, data.data))
    arrays = {}
    for name, (dtype, shape, place) in header.tensors.items():
        first = place - header.start
        values = data[first : first + dtype.itemsize * math.prod(shape)]
        if dtype == np.bool_ and values.size and values.max() > 1:
            raise DamageError(f"{path}: {name!r} holds truth values that are neither 0 nor 1.")
        if first % dtype.itemsize:
            values = values.copy()
        arrays[name] = values.view(dtype).reshape(shape)
    return header, arrays


def _read_blocks(path: Path, start: int, out: memoryview) -> Iterator[memoryview]:
    """Fill `out` from a file; each block is given while the processor's cache has it and the disk reads on."""
    with open(path, "rb", buffering=0) as file:
        file.seek(start)
        done = 0
        while done < len(out):
            n_read = file.readinto(out[done : done + _BLOCK])
            if not n_read:
                raise DamageError(f"{path}: cut short while it was read.")
            yield out[done : done + n_read]
            done += n_read


def check(path: Path, header: Header, blocks: Iterable[memoryview | NDArray[np.uint8]]) -> None:
    """Compare the bytes of all tensors, which are read to their end, with the checksum in the header, if it has one."""
    found = checksum_blocks(itertools.chain([header.canonical], blocks))
    if header.metadata.get("checksum", found) != found:
        raise DamageError(f"{path}: damaged: its content does not agree with its checksum. Take it from a copy.")


def parse_json(path: Path, text: bytes) -> dict[str, Any]:
    """Return the JSON object of a header, without names that come twice, NaN, or brackets without end."""
    if text.count(b"[") + text.count(b"{") > max(1000, len(text) // 8):
        raise DamageError(f"{path}: damaged header (too many brackets).")
    try:
        header = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise DamageError(f"{path}: not a file of projbank, or damaged (its header is no JSON).") from error
    if not isinstance(header, dict):
        raise DamageError(f"{path}: not a file of projbank, or damaged (its header is no JSON object).")
    return header


def _canonical(header: Mapping[str, Any]) -> bytes:
    """One text for one content: everything but the checksum itself."""
    metadata = {name: value for name, value in header["__metadata__"].items() if name != "checksum"}
    return json.dumps({**header, "__metadata__": metadata}, sort_keys=True, separators=(",", ":")).encode()


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name comes twice")
    return found


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")
