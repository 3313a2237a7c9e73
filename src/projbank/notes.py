"""A note behind the content of a file: one line of JSON with a checksum, which readers of most formats pass over."""

from __future__ import annotations

import json
import mmap
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from projbank.integrity import DamageError, checksum, checksum_blocks

MAGIC = b"\nprojbank "
MAX_NOTE = 1 << 20
_BLOCK = 1 << 20
_AT_END = re.compile(rb"\nprojbank \{[^\n]*\} [0-9a-f]{16}\n\Z")
_LOOK_AT = 4096


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
