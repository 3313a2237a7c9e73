"""Looking at the photos of an album: which files there are, and tasks that read, describe and code them."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from numpy.typing import NDArray

from projbank.album.compare import look_of
from projbank.album.store import DAMAGED, LACKING, Content, File
from projbank.features.coder import MediaCoder
from projbank.features.media import HEIC_NEEDED, IMAGE_SUFFIXES, MediaError, read_photo
from projbank.features.readers import Item, Source, check_name, walk
from projbank.features.tasks import State

HASH_BYTES = 16


class Result(NamedTuple):
    """What became of a file: its content and an array (None where it is damaged), or why it could not be read."""

    content: Content | None
    array: NDArray[Any] | None = None
    reason: str = ""


def digest(data: bytes) -> bytes:
    """Hash by which contents are known again."""
    return hashlib.blake2b(data, digest_size=HASH_BYTES).digest()


def photos_in(root: Path) -> Source:
    """What reads the photos of a folder."""
    return Source(root, "image", ())


def vector(state: State, file: str) -> Result:
    """Content and long vector of a photo."""
    describer = state.tool
    try:
        data = state.source.read(Item(file))
    except OSError as error:
        return Result(None, None, f"can't be read ({error.strerror or error})")
    key, size = digest(data), len(data)
    try:
        photo = read_photo(data, file, describer.max_side, colour=describer.colour)
        found = describer.vector(photo.image)
    except (MediaError, MemoryError) as error:
        reason = str(error).removeprefix(f"{file}: ") or "is too large for the memory"
        kind = LACKING if HEIC_NEEDED in reason else DAMAGED
        return Result(Content(key, size, state=kind, reason=reason))
    look = look_of(photo.image).tobytes()
    return Result(Content(key, size, photo.width, photo.height, photo.orientation, look), found)


def code(state: State, file: str) -> Result:
    """Content and code of a photo."""
    coder: MediaCoder = state.tool
    result = vector(state._replace(tool=coder.describer), file)
    return result if result.array is None else result._replace(array=coder.code(result.array))


@dataclass
class Look:
    """What a look at a folder found."""

    files: list[File] = field(default_factory=list)
    problems: list[tuple[str, str]] = field(default_factory=list)
    others: Counter[str] = field(default_factory=Counter)
    """Number of files that are no photos, by the ending of their names."""


def look_at(root: Path) -> Look:
    """List the photos below a folder; hidden files and folders are passed over."""
    found = Look()
    for one in walk(root):
        suffix = os.path.splitext(one.file)[1].lower()
        if suffix not in IMAGE_SUFFIXES and not one.problem:
            found.others[suffix or "without ending"] += 1
            continue
        name = one.file.encode("utf-8", "backslashreplace").decode()
        if one.problem:
            found.problems.append((name, one.problem))
            continue
        try:
            check_name(root, one.file)
            status = os.stat(root / one.file)
        except ValueError:
            found.problems.append((name, "has a name with control characters, or one that is not UTF-8"))
        except OSError as error:
            found.problems.append((name, f"can't be read ({error.strerror or error})"))
        else:
            found.files.append(File(one.file, status.st_size, status.st_mtime_ns))
    return found
