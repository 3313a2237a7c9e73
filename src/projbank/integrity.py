"""What is read is what was written: regular files, checksums of content, and identities of what made it.

Every model and codebook has an identity, ``"ProjectionBank:3f0c..."``: its class, and 16 hexadecimal digits over the
arrays that its output depends on. What it makes (vectors, codes, an index) carries that string as `made_by`. Equal
identities give equal output; another seed, another training set or another codebook gives another identity, and
`check_made_by` compares them.

`.npy` files say what made them: behind the numbers stands one line, a note with a checksum. Every reader of `.npy`
files passes over it, ``tail -1 codes.npy`` shows it, and it moves with the file::

    projbank {"checksum": "...", "kind": "codes", "made_by": "ProjectionBank:...", "n_bits": 500} 0123456789abcdef

`checksum` covers everything before the note, the 16 digits at the end cover the note itself. Files without a note are
read as ever; bytes behind the numbers that are no note are damage.
"""

from __future__ import annotations

import contextlib
import json
import math
import mmap
import os
import re
import stat
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any, NamedTuple

import numpy as np
import xxhash
from numpy.lib import format as npy
from numpy.typing import DTypeLike, NDArray

from projbank.files import reserve

MAGIC = b"\nprojbank "
MAX_NOTE = 1 << 20
_BLOCK = 1 << 20
_AT_END = re.compile(rb"\nprojbank \{[^\n]*\} [0-9a-f]{16}\n\Z")
_LOOK_AT = 4096

_MOST_NESTED = 64
_VERIFIED = 4 << 30
"""Files up to this length are compared with their checksum when they are opened."""
_warned: set[str] = set()


class IdentityError(ValueError):
    """Two things do not belong together: codes and a bank that did not make them, vectors and another codebook."""


class DamageError(ValueError):
    """A file does not hold what was written to it."""


@contextlib.contextmanager
def told(path: Path | str, kind: str) -> Iterator[None]:
    """Say in one line what a library of a file format can't read."""
    try:
        yield
    except DamageError:
        raise
    except Exception as error:  # such libraries raise whatever they like on damaged bytes
        text = " ".join(str(error).split()) or type(error).__name__
        raise DamageError(f"{path}: damaged {kind} ({text:.200}).") from error


def checksum(*parts: bytes | memoryview | NDArray[Any]) -> str:
    """Checksum of bytes and arrays one after another: XXH3 of 64 bits, 16 hexadecimal digits.

    It runs at the speed of memory and finds damage; it is no protection against forgery.
    """
    return checksum_blocks(parts)


def checksum_blocks(blocks: Iterable[bytes | memoryview | NDArray[Any]]) -> str:
    """Checksum of blocks that come one by one, equal to that of all of them at once."""
    digest = xxhash.xxh3_64()
    for block in blocks:
        digest.update(_bytes(block))
    return digest.hexdigest()


def identity(kind: str, arrays: Mapping[str, NDArray[Any]], settings: Mapping[str, Any] | None = None) -> str:
    """Identity of a model or a codebook: ``"kind:"`` and 16 hexadecimal digits.

    Parameters
    ----------
    kind : name of the class
    arrays : what was learnt, by name; names, types, shapes and numbers count, the order in the mapping does not
    settings : JSON values that the output depends on beside the arrays (not: threads, verbosity)
    """
    names = sorted(arrays)
    shapes = [[name, arrays[name].dtype.newbyteorder("<").str, list(arrays[name].shape)] for name in names]
    head = json.dumps([kind, shapes, dict(settings or {})], sort_keys=True, separators=(",", ":"))
    values = (arrays[name].astype(arrays[name].dtype.newbyteorder("<"), copy=False) for name in names)
    return f"{kind}:{checksum(head.encode(), *values)}"


def check_made_by(
    subject: str,
    made_by: str | None,
    tool: str,
    tool_identity: str | None,
    mend: str,
    comparable: Collection[str] = (),
) -> None:
    """Raise IdentityError where `subject` was made by something else than `tool`; warn once where that is unknown.

    Parameters
    ----------
    subject : what is to be used, as the user knows it: ``"index.pbi"``
    made_by : the identity it carries, or None
    tool : what it is to be used with: ``"bank.safetensors"``
    tool_identity : the tool's own identity, or None
    mend : what the user can do: ``"search with the bank that made the codes, or encode and index again"``
    comparable : other identities that go together with the tool (earlier versions whose codes were kept comparable)
    """
    if made_by is None or tool_identity is None:
        lacking = subject if made_by is None else tool
        warn_once(
            "identity",
            f"{lacking}: carries no note of what made it; whether {subject} and {tool} belong together is not known.",
        )
    elif made_by != tool_identity and made_by not in comparable:
        raise IdentityError(f"{subject}: was made by {made_by}, but {tool} is {tool_identity}; {mend}.")


def warn_once(topic: str, message: str) -> None:
    """Give a warning the first time that its topic comes up in a process."""
    if topic not in _warned:
        _warned.add(topic)
        warnings.warn(message, UserWarning, stacklevel=3)


def _bytes(part: bytes | memoryview | NDArray[Any]) -> Any:
    if isinstance(part, np.ndarray):
        return np.ascontiguousarray(part).reshape(-1).view(np.uint8).data if part.size else b""
    return part


def input_file(path: str | os.PathLike[str], what: str = "file") -> Path:
    """Return the path of a regular file; a directory, a missing file and a pipe are refused."""
    path = Path(path)
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        raise FileNotFoundError(f"{path}: no such file.") from None
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
        reason = getattr(error, "strerror", None) or error
        raise OSError(f"{path!s:.200}: cannot be read ({reason}).") from error
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(f"{path}: is a directory, not a {what}.")
    if not stat.S_ISREG(mode):
        raise OSError(f"{path}: is a pipe or a device, not a {what} on disk; write it to one first.")
    return path


def write_note(file: IO[bytes], stop: int, facts: dict[str, Any]) -> None:
    """Write a note with `facts` (JSON values; None is left out) behind the first `stop` bytes, and end the file there.

    `checksum` in it covers all bytes before, the 16 digits at its end cover the note itself.
    """
    kept = {name: value for name, value in facts.items() if value is not None}
    kept["checksum"] = content_checksum(file, stop)
    text = json.dumps(kept, sort_keys=True).encode()
    file.seek(stop)
    file.write(MAGIC + text + b" " + checksum(text).encode() + b"\n")
    file.truncate()


def parse_note(path: Path, text: bytes) -> dict[str, Any]:
    """Return what a note says; DamageError where the bytes are no whole note."""
    words, _, digits = text[len(MAGIC) :].rpartition(b" ")
    if len(text) > MAX_NOTE or not text.startswith(MAGIC) or digits != checksum(words).encode() + b"\n":
        raise DamageError(f"{path}: damaged: what stands behind its content is no note of projbank.")
    try:
        note = json.loads(words)
    except (ValueError, RecursionError) as error:
        raise DamageError(f"{path}: damaged: its note is no JSON.") from error
    if not isinstance(note, dict) or not isinstance(note.get("checksum"), str):
        raise DamageError(f"{path}: damaged: its note has no checksum.")
    return note


def seal(path: Path) -> None:
    """Add a note with the checksum to a file of any format whose readers look at its beginning only."""
    with open(path, "r+b") as file:
        write_note(file, file.seek(0, 2), {})


def check_seal(path: Path) -> None:
    """Raise DamageError where a file has no note at its end, or its content does not agree with the checksum there."""
    with open(path, "rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - _LOOK_AT))
        found = _AT_END.search(file.read())
        if found is None:
            raise DamageError(f"{path}: damaged: it has no checksum at its end.")
        note, stop = parse_note(path, found[0]), size - len(found[0])
        check_content(path, file, stop, note)


def check_content(path: Path, file: IO[bytes], stop: int, note: dict[str, Any]) -> None:
    """Raise DamageError where the first `stop` bytes do not agree with the checksum of the note."""
    if content_checksum(file, stop) != note["checksum"]:
        raise DamageError(f"{path}: damaged: its content does not agree with its checksum. Take it from a copy.")


def content_checksum(file: IO[bytes], stop: int) -> str:
    """Checksum of the first `stop` bytes."""
    return checksum_blocks(_blocks(file, stop))


def _blocks(file: IO[bytes], stop: int) -> Iterator[memoryview]:
    """First `stop` bytes of a file, in blocks that fit into the processor's cache."""
    file.flush()
    file.seek(0)
    block = memoryview(mmap.mmap(-1, _BLOCK))
    while stop > 0:
        n_read = file.readinto(block[: min(stop, _BLOCK)])  # type: ignore[attr-defined]
        if not n_read:
            raise DamageError(f"{file.name}: cut short while it was read.")
        stop -= n_read
        yield block[:n_read]


class Layout(NamedTuple):
    """Where the numbers of a `.npy` file stand."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran: bool
    start: int
    stop: int


def open_npy(path: str | os.PathLike[str], *, verify: bool | None = None) -> tuple[NDArray[Any], dict[str, Any] | None]:
    """Map a `.npy` file into memory, read-only, after everything about it is checked; with its note, if it has one.

    Parameters
    ----------
    path : the file
    verify : whether to compare the numbers with the note's checksum; None: up to 4 GiB

    Raises
    ------
    DamageError
        If it is no `.npy` file, holds Python objects or records, is cut short, or disagrees with its checksum.
    """
    path = input_file(path)
    with open(path, "rb") as file:
        layout = _read_layout(path, file)
        note = _read_note(path, file, layout)
        if note is not None and (layout.stop <= _VERIFIED if verify is None else verify):
            check_content(path, file, layout.stop, note)
    if layout.start == layout.stop:
        return np.empty(layout.shape, layout.dtype), note
    order: Any = "F" if layout.fortran else "C"
    return np.memmap(path, layout.dtype, "r", layout.start, layout.shape, order).reshape(
        layout.shape, order=order
    ), note


def read_note(path: str | os.PathLike[str]) -> dict[str, Any] | None:
    """Return the note of a `.npy` file; None where there is none, or where the file is of another format."""
    path = input_file(path)
    with open(path, "rb") as file:
        if file.read(6) != npy.MAGIC_PREFIX:
            return None
        return _read_note(path, file, _read_layout(path, file))


def create_npy(path: Path, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """Map a new `.npy` file for writing, with room reserved for all its numbers; OSError where there is none."""
    dtype = np.dtype(dtype)
    with open(path, "wb") as file:
        npy.write_array_header_1_0(file, {"descr": npy.dtype_to_descr(dtype), "fortran_order": False, "shape": shape})
        start = file.tell()
    reserve(path, start + dtype.itemsize * math.prod(shape))
    return np.memmap(path, dtype, "r+", start, shape) if math.prod(shape) else np.empty(shape, dtype)


def add_note(path: Path, **facts: Any) -> None:
    """Write a note behind the numbers of a `.npy` file that is complete, in place of the one that it has.

    Parameters
    ----------
    facts : JSON values; `kind` (codes, vectors, margins, labels) and `made_by` have a meaning, None is left out
    """
    with open(path, "r+b") as file:
        write_note(file, _read_layout(path, file).stop, facts)


def _read_layout(path: Path, file: IO[bytes]) -> Layout:
    """Read the header of format 1, 2 or 3, and compare it with the length of the file."""
    file.seek(0)
    size = os.fstat(file.fileno()).st_size
    try:
        version = npy.read_magic(file)
        width = 2 if version == (1, 0) else 4
        length = int.from_bytes(file.read(width), "little")
        if version not in ((1, 0), (2, 0), (3, 0)) or length > min(size, 10_000):
            raise ValueError(f"its header claims format {version} and {length} bytes")
        text = file.read(length)
        if sum(map(text.count, (b"(", b"[", b"{", b"-", b"+", b"~"))) > _MOST_NESTED:
            raise ValueError("too many brackets in its header")
        file.seek(8)
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, fortran, dtype = read(file)
    except (
        ValueError,
        SyntaxError,
        TypeError,
        KeyError,
        OverflowError,
        RecursionError,
        MemoryError,
        TokenError,
    ) as error:
        raise DamageError(f"{path}: damaged or unsupported .npy file ({error!s:.200}).") from error
    if dtype.hasobject or dtype.kind not in "biufcSU":
        raise DamageError(
            f"{path}: damaged or unsupported .npy file ({dtype!s:.80}: only numbers are read, no objects or records)."
        )
    if any(type(length) is not int or length < 0 for length in shape):
        raise DamageError(f"{path}: damaged or unsupported .npy file (shape {shape!s:.80}).")
    start = file.tell()
    stop = start + dtype.itemsize * math.prod(shape)
    if stop > size or max(shape, default=0) > 2**62:
        raise DamageError(
            f"{path}: damaged or unsupported .npy file "
            f"(cut short: shape {shape!s:.80} needs {stop:,} bytes, not {size:,})."
        )
    return Layout(dtype, shape, fortran, start, stop)


def _read_note(path: Path, file: IO[bytes], layout: Layout) -> dict[str, Any] | None:
    if file.seek(0, os.SEEK_END) == layout.stop:
        return None
    file.seek(layout.stop)
    text = file.read(MAX_NOTE + 1)
    if text.startswith(npy.MAGIC_PREFIX):  # several arrays in one file: the first is read
        return None
    return parse_note(path, text)
