"""Index files: mapped into memory at any size; they grow at their end, and readers see whole states only."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from projbank.bits import code_bytes
from projbank.files import atomic_path, check_output, input_file, reserve
from projbank.integrity import checksum
from projbank.search.layout import (
    ALIGNMENT,
    COMMIT_PLACE,
    FORMAT,
    VERSION,
    BlockView,
    Commit,
    LayoutError,
    begins_block,
    header_check,
    next_slot,
    pack_header,
    read_commit,
    unpack_block,
)

try:
    import fcntl
except ImportError:  # Windows: two writers at once are not kept apart
    fcntl = None  # type: ignore[assignment]

CHECKED_BYTES = 64 << 20
"""Tensors up to this size are compared with their checksums when a file is opened; `verify_index` checks all."""
COPY_BYTES = 32 << 20
Tensors = dict[str, NDArray[Any]]


class IndexFileError(ValueError):
    """A file is not an index of projbank, is damaged or cut short, or was written by a newer version."""


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


def write_index(
    path: str | os.PathLike[str], n_bits: int, next_id: int, tensors: Tensors, settings: Mapping[str, str]
) -> FileState:
    """Write a file of one block, whole or not at all; an existing index is replaced in one step."""
    about = {"n_bits": str(n_bits), "next_id": str(next_id), **settings}
    tensors = {name: _plain(array) for name, array in tensors.items()}
    header = pack_header(tensors, about, first=True)
    size = len(header) + sum(array.nbytes for array in tensors.values())
    with atomic_path(path, kind="index", size=size) as temporary, open(temporary, "r+b") as file:
        file.write(header)
        _write(file, tensors)
    return FileState(Path(os.path.realpath(path)), header_check(header[8:]), Commit(0, size))


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
    tensors = {name: _plain(array) for name, array in tensors.items()}
    header = pack_header(tensors, {"next_id": str(next_id)}, first=False)
    with open(input_file(path, "index"), "r+b") as file:
        _lock(path, file)
        if _views(path)[1] != state:
            raise IndexFileError(f"{path}: was changed since it was opened; load it again and repeat the change.")
        start = state.commit.end + -state.commit.end % ALIGNMENT
        commit = Commit(state.commit.generation + 1, start + len(header) + sum(one.nbytes for one in tensors.values()))
        file.truncate(state.commit.end)
        reserve(path, commit.end)
        file.seek(start)
        file.write(header)
        _write(file, tensors)
        _flush(file)
        place, slot = next_slot(commit)
        file.seek(place)
        file.write(slot)
        _flush(file)
    return state._replace(commit=commit)


def read_index(path: str | os.PathLike[str]) -> IndexContent:
    """Map an index file into memory, read-only; headers, sizes and small tensors are checked, codes are not read."""
    path = input_file(path, "index file")
    try:
        views, state = _views(path)
    except LayoutError as error:
        raise IndexFileError(f"{path}: {error}.") from error
    first = views[0].metadata
    n_bits, next_id = _number(path, first, "n_bits"), _number(path, views[-1].metadata, "next_id")
    for view in views:
        _check_block(path, view, n_bits)
    known = {"commit", "check", "checksums", "format", "version", "n_bits", "next_id"}
    settings = {name: value for name, value in first.items() if name not in known}
    return IndexContent(n_bits, next_id, settings, [view.tensors for view in views], state)


def verify_index(path: str | os.PathLike[str]) -> None:
    """Compare every byte of an index file with its checksums; IndexFileError says what does not agree."""
    path = input_file(path, "index file")
    read_index(path)
    for view in _views(path)[0]:
        _check_sums(path, view, everything=True)


def is_index(path: str | os.PathLike[str]) -> bool:
    """Whether a file says of itself that it is an index of projbank."""
    try:
        return unpack_block(_map(Path(path))[0], 0).metadata.get("format") == FORMAT
    except (LayoutError, ValueError):
        return False


def _views(path: Path) -> tuple[list[BlockView], FileState]:
    """All blocks of the newest whole state of a file."""
    data, record = _map(path)
    if len(data) < 8:
        raise LayoutError("not an index file, or cut short")
    commit, is_sure = read_commit(record)
    if commit is None:
        return [_version_1(path, data)], FileState(path, "", Commit(0, len(data)))
    if len(data) < commit.end:
        raise LayoutError(f"cut short: {len(data)} bytes instead of {commit.end}")
    if not begins_block(data[commit.end : commit.end + 2 * ALIGNMENT].tobytes(), commit.end):
        raise LayoutError(f"damaged: {len(data)} bytes instead of {commit.end}")
    views, start = [], 0
    while start < commit.end:
        views.append(unpack_block(data[: commit.end], start))
        _check_kind(path, views[-1], FORMAT if start == 0 else f"{FORMAT}-block")
        start = views[-1].end + -views[-1].end % ALIGNMENT
    if not is_sure and start < len(data):  # its record is damaged, but the block of the last append may be whole
        views.append(unpack_block(data, start))
        _check_kind(path, views[-1], f"{FORMAT}-block")
        _check_sums(path, views[-1], everything=True)
        if views[-1].end != len(data):
            raise LayoutError(f"damaged: {len(data)} bytes instead of {views[-1].end}")
        commit = commit._replace(end=len(data))
    return views, FileState(Path(os.path.realpath(path)), views[0].metadata.get("check", ""), commit)


def _version_1(path: Path, data: NDArray[np.uint8]) -> BlockView:
    view = unpack_block(data, 0)
    _check_kind(path, view, FORMAT)
    if view.metadata["version"] != "1":
        raise LayoutError("damaged metadata (the commit record)")
    if view.end != len(data):
        raise LayoutError(f"cut short or damaged: {len(data)} bytes instead of {view.end}")
    return view


def _check_kind(path: Path, view: BlockView, kind: str) -> None:
    if view.metadata.get("format") != kind:
        raise LayoutError("a safetensors file, but not an index of projbank")
    version = _number(path, view.metadata, "version")
    if version > int(VERSION):
        raise LayoutError(f"written by a newer projbank (file version {version}); upgrade to read it")


def _check_block(path: Path, view: BlockView, n_bits: int) -> None:
    """Raise where ids, codes and texts do not fit each other."""
    tensors = view.tensors
    try:
        n = len(tensors["ids"])
        shapes = {"ids": (n,), "codes": (n, code_bytes(n_bits)), "names.offsets": (n + 1,), "payload.offsets": (n + 1,)}
        fits = n_bits > 0 and "codes" in tensors
        fits &= all(tensors[name].shape == shape for name, shape in shapes.items() if name in tensors)
    except KeyError:
        fits = False
    if not fits:
        raise IndexFileError(f"{path}: damaged header (ids and codes do not fit each other).")
    _check_sums(path, view)
    ids = tensors["ids"]
    if 0 < ids.nbytes <= CHECKED_BYTES and (ids.min() < 0 or len(np.unique(ids)) < len(ids)):
        raise IndexFileError(f"{path}: damaged: its ids are not distinct, or negative.")
    for name in ("names", "payload"):
        offsets, letters = tensors.get(f"{name}.offsets"), tensors.get(f"{name}.letters", np.empty(0, np.uint8))
        if offsets is not None and (offsets[0] != 0 or offsets[-1] != len(letters) or np.any(np.diff(offsets) < 0)):
            raise IndexFileError(f"{path}: damaged: the places of its {name} are out of range.")


def _check_sums(path: Path, view: BlockView, *, everything: bool = False) -> None:
    for name, array in view.tensors.items():
        noted = view.checksums.get(name)
        if noted is not None and (everything or array.nbytes <= CHECKED_BYTES) and checksum(array) != noted:
            raise IndexFileError(f"{path}: damaged: its {name} do not agree with their checksum. Take it from a copy.")


def _number(path: Path, metadata: dict[str, str], name: str) -> int:
    text = metadata.get(name)
    if not isinstance(text, str) or not text.isascii() or not text.isdigit() or len(text) > 19:
        raise IndexFileError(f"{path}: damaged metadata ({name} {text!r}).")
    return int(text)


def _map(path: Path) -> tuple[NDArray[np.uint8], bytes]:
    """Map a file, after its commit record was read: what that calls valid is there by then."""
    with open(path, "rb") as file:
        file.seek(COMMIT_PLACE)
        record = file.read(ALIGNMENT)
        return np.memmap(file, dtype=np.uint8, mode="r") if record else np.empty(0, np.uint8), record


def _plain(array: NDArray[Any]) -> NDArray[Any]:
    return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))


def _write(file: Any, tensors: Tensors) -> None:
    for array in tensors.values():
        flat = array.reshape(-1).view(np.uint8)
        for start in range(0, len(flat), COPY_BYTES):
            file.write(flat[start : start + COPY_BYTES].data)


def _flush(file: Any) -> None:
    file.flush()
    os.fsync(file.fileno())


def _lock(path: Path, file: Any) -> None:
    if fcntl is None:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise BlockingIOError(f"{path}: another process is adding to it; try again when it has ended.") from error
