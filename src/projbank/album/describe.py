"""Looking at the photos of an album: which files there are, and tasks that read, describe and code them."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from projbank.album.compare import look_of
from projbank.album.store import DAMAGED, LACKING, Content, File
from projbank.features.coder import MediaCoder
from projbank.features.listing import walk
from projbank.features.media import HEIC_NEEDED, IMAGE_SUFFIXES, MAX_PIXELS, MediaError, Photo, read_photo
from projbank.features.readers import Item, Source, check_name

HASH_BYTES = 16


class Task(NamedTuple):
    """What every task needs: the folder and what describes, or describes and codes, its photos."""

    root: Path
    tool: Any


class Result(NamedTuple):
    """What became of a file: its content and an array (None where it is damaged), or why it could not be read."""

    content: Content | None
    array: NDArray[Any] | None = None
    reason: str = ""


def digest(data: bytes) -> bytes:
    """Hash by which contents are known again."""
    return hashlib.blake2b(data, digest_size=HASH_BYTES).digest()


def read_file(root: Path, file: str) -> bytes:
    """Bytes of a photo; OSError where it is no regular file, or too large."""
    return Source(root, "image", ()).read(Item(file))


def only_hash(task: Task, file: str) -> bytes | None:
    """Hash of a file; None where it can't be read."""
    try:
        return digest(read_file(task.root, file))
    except OSError:
        return None


def descriptors(task: Task, file: str, most: int, seed: int) -> NDArray[np.float32] | None:
    """At most so many local descriptors of a photo, drawn at random; None where it can't be read."""
    extractor = task.tool
    try:
        found = extractor.describe_file(Source(task.root, "image", ()), Item(file))
    except (OSError, MediaError, MemoryError):
        return None
    if len(found) <= most:
        return np.asarray(found)
    rng = np.random.default_rng([seed, *digest(file.encode())[:4]])
    return np.asarray(found[np.sort(rng.choice(len(found), most, replace=False))])


def vector(task: Task, file: str) -> Result:
    """Content and long vector of a photo."""
    describer = task.tool
    try:
        data = read_file(task.root, file)
    except OSError as error:
        return Result(None, None, f"can't be read ({error.strerror or error})")
    key, size = digest(data), len(data)
    try:
        photo = read_photo(data, file, describer.max_side, colour=describer.colour, max_pixels=MAX_PIXELS)
        found = describer.vector(photo.image)
    except (MediaError, MemoryError) as error:
        reason = str(error).removeprefix(f"{file}: ") or "is too large for the memory"
        state = LACKING if HEIC_NEEDED in reason else DAMAGED
        return Result(Content(key, size, state=state, reason=reason))
    return Result(content_of(key, size, photo), found)


def code(task: Task, file: str) -> Result:
    """Content and code of a photo."""
    coder: MediaCoder = task.tool
    result = vector(task._replace(tool=coder.describer), file)
    if result.array is None:
        return result
    return result._replace(array=coder.bank.set_params(n_jobs=1).transform(result.array[None])[0])


def content_of(key: bytes, size: int, photo: Photo) -> Content:
    """What is kept of a decoded photo beside its code."""
    return Content(key, size, photo.width, photo.height, photo.orientation, look_of(photo.image).tobytes())


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
