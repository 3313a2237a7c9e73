"""Index files: mapped into memory at any size; they grow at their end, and readers see whole states only.

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

import contextlib
import json
import os
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from projbank.bits import code_bytes
from projbank.files import atomic_path, check_output, reserve, try_lock
from projbank.integrity import checksum, input_file
from projbank.kinds import looks_like

FORMAT = "projbank-index"
VERSION = "2"
"""2: files grow, hold texts and payload, and check themselves. Files of version 1 are read."""
ALIGNMENT = 64
MAX_HEADER = 1 << 20
CHECKED_BYTES = 64 << 20
"""Tensors up to this size are compared with their checksums when a file is opened; `verify_index` checks all."""
COPY_BYTES = 32 << 20
DTYPES: dict[str, np.dtype[Any]] = {"I64": np.dtype("<i8"), "U8": np.dtype("u1")}
_NAMES = {dtype: name for name, dtype in DTYPES.items()}
_BEGIN = b'{"__metadata__": {"commit": "'
_SLOT = 32
COMMIT_PLACE = 8 + len(_BEGIN)
"""Where the two slots of the commit record stand in a file: within its first 128 bytes."""
_CHECK = b'"check": "'
_DIGITS = 16
Tensors = dict[str, NDArray[Any]]


class IndexFileError(ValueError):
    """A file is not an index of projbank, is damaged or cut short, or was written by a newer version."""


class Commit(NamedTuple):
    """How often a file has grown, and how many of its bytes are valid."""

    generation: int
    end: int


class FileState(NamedTuple):
    """One state of one file: every append makes another."""

    path: Path
    check: str
    """Checksum of the first header, which holds the checksums of the first codes; "" in version 1, which can't grow."""
    commit: Commit

    @property
    def can_grow(self) -> bool:
        """Whether a block can be appended."""
        return bool(self.check)


class IndexContent(NamedTuple):
    """What an index file holds: settings, and per block its tensors (`ids`, `codes`, `removed` ...)."""

    n_bits: int
    next_id: int
    settings: dict[str, str]
    blocks: list[Tensors]
    state: FileState


class BlockView(NamedTuple):
    """A block in a file: its metadata, its tensors (views of the file), and where it ends."""

    metadata: dict[str, str]
    tensors: Tensors
    checksums: dict[str, str]
    end: int


def write_index(
    path: str | os.PathLike[str], n_bits: int, next_id: int, tensors: Tensors, settings: Mapping[str, str]
) -> FileState:
    """Write a file of one block, whole or not at all; an existing index is replaced in one step."""
    about = {"n_bits": str(n_bits), "next_id": str(next_id), **settings}
    header, tensors = _pack(tensors, about, first=True)
    size = len(header) + sum(array.nbytes for array in tensors.values())
    with atomic_path(path, kind="index", size=size) as temporary, open(temporary, "r+b") as file:
        _write(file, header, tensors)
    return FileState(Path(os.path.realpath(path)), _header_check(header[8:]), Commit(0, size))


def append_block(state: FileState, next_id: int, tensors: Tensors) -> FileState:
    """Add a block to the file; whoever has it open goes on with what it was.

    The block counts once it stands on the disk and the commit record says so: a process that is killed before leaves
    the file as it was, and what it wrote is overwritten by the next append.

    Raises
    ------
    BlockingIOError
        If another process is appending.
    IndexFileError
        If the file is another one than that which was opened, or has grown since.
    """
    path = state.path
    check_output(path, kind="index")
    header, tensors = _pack(tensors, {"next_id": str(next_id)}, first=False)
    with open(input_file(path, "index"), "r+b") as file:
        if try_lock(file.fileno()) is False:
            raise BlockingIOError(f"{path}: another process is adding to it; try again when it has ended.")
        check_unchanged(state)
        start = state.commit.end + -state.commit.end % ALIGNMENT
        commit = Commit(state.commit.generation + 1, start + len(header) + sum(one.nbytes for one in tensors.values()))
        file.truncate(state.commit.end)
        reserve(path, commit.end)
        file.seek(start)
        _write(file, header, tensors)
        _flush(file)
        file.seek(COMMIT_PLACE + _SLOT * (commit.generation % 2))  # the other slot keeps the state before
        file.write(_slot(commit))
        _flush(file)
    return state._replace(commit=commit)


def check_unchanged(state: FileState) -> None:
    """Raise IndexFileError if a file was changed since it was opened."""
    if _open(state.path)[1] != state:
        raise IndexFileError(f"{state.path}: was changed since it was opened; load it again and repeat the change.")


def read_index(path: str | os.PathLike[str], *, everything: bool = False) -> IndexContent:
    """Map an index file into memory, read-only; headers, sizes and small tensors are checked, codes are not read.

    With `everything`, every byte is compared with its checksum.
    """
    path = input_file(path, "index file")
    views, state = _open(path)
    first = views[0].metadata
    with _named(path):
        n_bits, next_id = _number(first, "n_bits"), _number(views[-1].metadata, "next_id")
        for view in views:
            _check_block(view, n_bits, everything)
    known = {"commit", "check", "checksums", "format", "version", "n_bits", "next_id"}
    settings = {name: value for name, value in first.items() if name not in known}
    return IndexContent(n_bits, next_id, settings, [view.tensors for view in views], state)


def verify_index(path: str | os.PathLike[str]) -> None:
    """Compare every byte of an index file with its checksums; IndexFileError says what does not agree."""
    read_index(path, everything=True)


@contextlib.contextmanager
def _named(path: Path) -> Iterator[None]:
    """Name the file in an error."""
    try:
        yield
    except IndexFileError as error:
        kind = looks_like(path) if str(error).startswith("not an index") else ""
        raise IndexFileError(f"{path}: {error}{kind}.") from error


def _open(path: Path) -> tuple[list[BlockView], FileState]:
    """All blocks of the newest whole state of a file."""
    with _named(path):
        views, commit = _views(*_map(path))
    return views, FileState(Path(os.path.realpath(path)), views[0].metadata.get("check", ""), commit)


def _map(path: Path) -> tuple[NDArray[np.uint8], bytes]:
    """Map a file, after its commit record was read: what that calls valid is there by then."""
    with open(path, "rb") as file:
        file.seek(COMMIT_PLACE)
        record = file.read(ALIGNMENT)
        return np.memmap(file, dtype=np.uint8, mode="r") if record else np.empty(0, np.uint8), record


def _views(data: NDArray[np.uint8], record: bytes) -> tuple[list[BlockView], Commit]:
    if len(data) < 8:
        raise IndexFileError("not an index file, or cut short")
    slots = [slot for place in (0, _SLOT) if (slot := _read_slot(record[place : place + _SLOT])) is not None]
    if not slots:  # version 1
        view = _unpack(data, 0, FORMAT)
        if view.metadata["version"] != "1":
            raise IndexFileError("damaged metadata (the commit record)")
        if view.end != len(data):
            raise IndexFileError(f"cut short or damaged: {len(data)} bytes instead of {view.end}")
        return [view], Commit(0, len(data))
    commit = max(slots)
    if len(data) < commit.end:
        raise IndexFileError(f"cut short: {len(data)} bytes instead of {commit.end}")
    if not _begins_block(data[commit.end : commit.end + 2 * ALIGNMENT].tobytes(), commit.end):
        raise IndexFileError(f"damaged: {len(data)} bytes instead of {commit.end}")
    views, start = [], 0
    while start < commit.end:
        views.append(_unpack(data[: commit.end], start, FORMAT if start == 0 else f"{FORMAT}-block"))
        start = views[-1].end + -views[-1].end % ALIGNMENT
    if len(slots) == 1 and start < len(data):  # a slot is damaged, but the block of the last append may be whole
        views.append(_unpack(data, start, f"{FORMAT}-block"))
        _check_sums(views[-1], everything=True)
        if views[-1].end != len(data):
            raise IndexFileError(f"damaged: {len(data)} bytes instead of {views[-1].end}")
        commit = commit._replace(end=len(data))
    return views, commit


def _check_block(view: BlockView, n_bits: int, everything: bool) -> None:
    """Raise where ids, codes and texts do not fit each other."""
    tensors = view.tensors
    n, wide, byte = len(tensors.get("ids", ())), DTYPES["I64"], DTYPES["U8"]
    forms = {"ids": (wide, (n,)), "codes": (byte, (n, code_bytes(n_bits)))}
    forms |= {f"{name}.offsets": (wide, (n + 1,)) for name in ("names", "payload")}
    fits = all((tensors[name].dtype, tensors[name].shape) == form for name, form in forms.items() if name in tensors)
    if not fits or n_bits <= 0 or not {"ids", "codes"} <= tensors.keys():
        raise IndexFileError("damaged header (ids and codes do not fit each other)")
    _check_sums(view, everything)
    ids = tensors["ids"]
    if 0 < ids.nbytes <= CHECKED_BYTES and (ids.min() < 0 or len(np.unique(ids)) < len(ids)):
        raise IndexFileError("damaged: its ids are not distinct, or negative")
    for name in ("names", "payload"):
        offsets, letters = tensors.get(f"{name}.offsets"), tensors.get(f"{name}.letters", np.empty(0, np.uint8))
        if offsets is not None and (offsets[0] != 0 or offsets[-1] != len(letters) or np.any(np.diff(offsets) < 0)):
            raise IndexFileError(f"damaged: the places of its {name} are out of range")


def _check_sums(view: BlockView, everything: bool) -> None:
    for name, array in view.tensors.items():
        noted = view.checksums.get(name)
        if noted is not None and (everything or array.nbytes <= CHECKED_BYTES) and checksum(array) != noted:
            raise IndexFileError(f"damaged: its {name} do not agree with their checksum. Take it from a copy")


def _number(metadata: dict[str, str], name: str) -> int:
    text = metadata.get(name)
    if not isinstance(text, str) or not text.isascii() or not text.isdigit() or len(text) > 19:
        raise IndexFileError(f"damaged metadata ({name} {text!r})")
    return int(text)


def _slot(commit: Commit) -> bytes:
    text = b"%08x%016x" % commit
    return text + b"%08x" % zlib.crc32(text)


def _read_slot(text: bytes) -> Commit | None:
    """Read a slot of the commit record; None where it is damaged."""
    try:
        commit = Commit(int(text[:8], 16), int(text[8:24], 16))
    except ValueError:
        return None
    return commit if text == _slot(commit) else None


def _pack(tensors: Tensors, metadata: Mapping[str, str], *, first: bool) -> tuple[bytes, Tensors]:
    """Return length and header of a block, and its tensors as they follow one after another.

    The header holds a checksum of itself and one of each tensor. That of the `first` block has the commit record in
    front; its header counts as if the record were zeros, since it changes when the file grows.
    """
    tensors = {name: np.ascontiguousarray(one, one.dtype.newbyteorder("<")) for name, one in tensors.items()}
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
        text = text.replace(_BEGIN + b"0" * 2 * _SLOT, _BEGIN + 2 * _slot(Commit(0, 8 + len(text) + end)), 1)
    return len(text).to_bytes(8, "little") + text, tensors


def _begins_block(tail: bytes, end: int) -> bool:
    """Whether the bytes behind the `end` valid ones may be what a killed append left."""
    padding = -end % ALIGNMENT
    head, text = tail[padding : padding + 8], tail[padding + 8 :]
    form = b'{"__metadata__": {"check": "'
    return not any(tail) or (not any(tail[:padding]) and not any(head[4:]) and text.startswith(form[: len(text)]))


def _unpack(data: NDArray[np.uint8], start: int, kind: str) -> BlockView:
    """Read the block at `start`; its header is compared with its checksum, its tensors are only looked up."""
    length = int.from_bytes(data[start : start + 8].tobytes(), "little")
    if not 0 < length <= min(MAX_HEADER, len(data) - start - 8):
        raise IndexFileError("not an index file, or cut short")
    text = data[start + 8 : start + 8 + length].tobytes()
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise IndexFileError("not an index file, or damaged (its header is no JSON)") from error
    if not isinstance(header, dict):
        raise IndexFileError("not an index file, or damaged (its header is no JSON object)")
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise IndexFileError("damaged metadata")
    if metadata.get("version") == VERSION and metadata.get("check") != _header_check(text):
        raise IndexFileError("damaged header (its checksum does not agree)")
    if metadata.get("format") != kind:
        raise IndexFileError("a safetensors file, but not an index of projbank")
    version = _number(metadata, "version")
    if version > int(VERSION):
        raise IndexFileError(f"written by a newer projbank (file version {version}); upgrade to read it")
    tensors, origin = {}, start + 8 + length
    end = origin
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
        raise IndexFileError(f"damaged header ({error!s:.100})") from error
    return BlockView(metadata, tensors, checksums, end)


def _header_check(text: bytes) -> str:
    """Return the checksum that a header holds: that of itself, with zeros for what is written in later."""
    plain = bytearray(text)
    if text.startswith(_BEGIN):
        plain[len(_BEGIN) : len(_BEGIN) + 2 * _SLOT] = b"0" * 2 * _SLOT
    place = text.find(_CHECK) + len(_CHECK)
    plain[place : place + _DIGITS] = b"0" * _DIGITS
    return checksum(bytes(plain))


def _write(file: Any, header: bytes, tensors: Tensors) -> None:
    file.write(header)
    for array in tensors.values():
        flat = array.reshape(-1).view(np.uint8)
        for start in range(0, len(flat), COPY_BYTES):
            file.write(flat[start : start + COPY_BYTES].data)


def _flush(file: Any) -> None:
    file.flush()
    os.fsync(file.fileno())
