"""Blocks of an index file: each is a safetensors text of its own; the first also says how far the file is valid.

A file is a row of blocks that begin at multiples of 64 bytes. A file of one block is a safetensors file; every append
adds a block. A block is

- 8 bytes: the length of the header, little-endian;
- the header: JSON, padded with spaces so that the tensors begin at a multiple of 64 bytes;
- the tensors, one after another, little-endian: `lists.words`, `lists.starts` (int64; only of an index with lists),
  `removed` (int64; only of appended blocks: ids that no longer count in the blocks before), `ids` (int64, n),
  `names.offsets` and `payload.offsets` (int64, n + 1; where there are texts), `codes` (uint8, n x ceil(n_bits / 8); bit
  p in byte p // 8 at position p % 8), `names.letters` and `payload.letters` (UTF-8; the payload is JSON),
  `lists.centres` (uint8).

`__metadata__` of the first block begins with `commit`: two slots of 32 hexadecimal digits (8 for the number of appends,
16 for the length of the file, 8 of CRC-32). The newer valid slot counts; an append writes the other one when its block
is on the disk. Then come `check` (XXH3 of the header, with zeros for `commit` and `check`), `format`
("projbank-index", or "projbank-index-block" of an appended one), `version` ("2"), `n_bits`, `next_id` (the id that the
next code gets), `made_by`, `recall`, `reaches`, and `checksums` (XXH3 of each tensor). Version 1 had no commit record,
no checksums, and one block of `ids` and `codes`.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from projbank.integrity import checksum

FORMAT = "projbank-index"
VERSION = "2"
"""2: files grow, hold texts and payload, and check themselves. Files of version 1 are read."""
ALIGNMENT = 64
MAX_HEADER = 1 << 20
DTYPES: dict[str, np.dtype[Any]] = {
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "F32": np.dtype("<f4"),
    "U8": np.dtype(np.uint8),
}
_NAMES = {dtype: name for name, dtype in DTYPES.items()}
_BEGIN = b'{"__metadata__": {"commit": "'
_SLOT = 32
COMMIT_PLACE = 8 + len(_BEGIN)
"""Where the two slots of the commit record stand in a file: within its first 128 bytes."""
_CHECK = b'"check": "'
_DIGITS = 16


class LayoutError(ValueError):
    """A block is damaged; says how."""


class Commit(NamedTuple):
    """How often a file has grown, and how many of its bytes are valid."""

    generation: int
    end: int


def first_commit(end: int) -> bytes:
    """Return the commit record of a new file."""
    return 2 * _slot(Commit(0, end))


def next_slot(commit: Commit) -> tuple[int, bytes]:
    """Return the place and the bytes of the slot that makes `commit` valid; the other slot keeps the state before."""
    return COMMIT_PLACE + _SLOT * (commit.generation % 2), _slot(commit)


def read_commit(record: bytes) -> tuple[Commit | None, bool]:
    """Return the newer of the valid slots, None if neither is; and whether both are valid."""
    found = []
    for text in (record[:_SLOT], record[_SLOT : 2 * _SLOT]):
        try:
            commit = Commit(int(text[:8], 16), int(text[8:24], 16))
        except ValueError:
            continue
        if text == _slot(commit):
            found.append(commit)
    return max(found, default=None), len(found) == 2


def _slot(commit: Commit) -> bytes:
    text = b"%08x%016x" % commit
    return text + b"%08x" % zlib.crc32(text)


def pack_header(tensors: Mapping[str, NDArray[Any]], metadata: Mapping[str, str], *, first: bool) -> bytes:
    """Return length and header of a block whose tensors follow one after another, in the order given.

    The header holds a checksum of itself and one of each tensor. That of the `first` block has the commit record in
    front; its header counts as if the record were zeros, since it changes when the file grows.
    """
    about: dict[str, str] = {"commit": "0" * 2 * _SLOT} if first else {}
    about |= {"check": "0" * _DIGITS, "format": FORMAT if first else f"{FORMAT}-block", "version": VERSION}
    about |= metadata
    about["checksums"] = json.dumps({name: checksum(array) for name, array in tensors.items()})
    header: dict[str, Any] = {"__metadata__": about}
    end = 0
    for name, array in tensors.items():
        stop = end + array.nbytes
        header[name] = {"dtype": _NAMES[array.dtype], "shape": list(array.shape), "data_offsets": [end, stop]}
        end = stop
    text = json.dumps(header).encode()
    text += b" " * (-(8 + len(text)) % ALIGNMENT)
    text = text.replace(_CHECK + b"0" * _DIGITS, _CHECK + checksum(text).encode(), 1)
    if first:
        size = 8 + len(text) + end
        text = text.replace(_BEGIN + b"0" * 2 * _SLOT, _BEGIN + first_commit(size), 1)
    return len(text).to_bytes(8, "little") + text


def begins_block(tail: bytes, end: int) -> bool:
    """Whether the bytes behind the `end` valid ones may be what a killed append left."""
    padding = -end % ALIGNMENT
    head, text = tail[padding : padding + 8], tail[padding + 8 :]
    form = b'{"__metadata__": {"check": "'
    return not any(tail) or (not any(tail[:padding]) and not any(head[4:]) and text.startswith(form[: len(text)]))


class BlockView(NamedTuple):
    """A block in a file: its metadata, its tensors (views of the file), and where it ends."""

    metadata: dict[str, str]
    tensors: dict[str, NDArray[Any]]
    checksums: dict[str, str]
    end: int


def unpack_block(data: NDArray[np.uint8], start: int) -> BlockView:
    """Read the block at `start`; its header is compared with its checksum, its tensors are only looked up."""
    length = int.from_bytes(data[start : start + 8].tobytes(), "little")
    if not 0 < length <= min(MAX_HEADER, len(data) - start - 8):
        raise LayoutError("not an index file, or cut short")
    text = data[start + 8 : start + 8 + length].tobytes()
    header = parse_header(text)
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise LayoutError("damaged metadata")
    if metadata.get("version") == VERSION and metadata.get("check") != header_check(text):
        raise LayoutError("damaged header (its checksum does not agree)")
    if not metadata.get("format", "").startswith(FORMAT):
        raise LayoutError("a safetensors file, but not an index of projbank")
    tensors, end = {}, start + 8 + length
    origin = end
    try:
        checksums = json.loads(metadata.get("checksums", "{}"))
        for name, entry in header.items():
            dtype, shape, (first, stop) = DTYPES[entry["dtype"]], tuple(entry["shape"]), entry["data_offsets"]
            if any(type(number) is not int or number < 0 for number in (*shape, first, stop)) or len(shape) > 2:
                raise ValueError("numbers out of range")
            size = dtype.itemsize * int(np.prod([1, *shape], dtype=object))
            if first != end - origin or stop - first != size or end + size > len(data):
                raise ValueError(f"{name!r} does not lie where it should")
            tensors[name] = data[end : end + size].view(dtype).reshape(shape)
            end += size
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise LayoutError(f"damaged header ({error!s:.100})") from error
    return BlockView(metadata, tensors, checksums, end)


def parse_header(text: bytes) -> dict[str, Any]:
    """Return the JSON object of a header."""
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise LayoutError("not an index file, or damaged (its header is no JSON)") from error
    if not isinstance(header, dict):
        raise LayoutError("not an index file, or damaged (its header is no JSON object)")
    return header


def header_check(text: bytes) -> str:
    """Return the checksum that a header holds: that of itself, with zeros for what is written in later."""
    plain = bytearray(text)
    if text.startswith(_BEGIN):
        plain[len(_BEGIN) : len(_BEGIN) + 2 * _SLOT] = b"0" * 2 * _SLOT
    place = text.find(_CHECK) + len(_CHECK)
    plain[place : place + _DIGITS] = b"0" * _DIGITS
    return checksum(bytes(plain))
