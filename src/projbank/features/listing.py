"""The files of a data set one after the other, without ever holding all their names."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from projbank.features.media import IMAGE_SUFFIXES, VIDEO_SUFFIXES
from projbank.features.readers import Item, Source, check_name, labelled_zip
from projbank.rows.files import holds_vectors

SUFFIXES = {"image": IMAGE_SUFFIXES, "video": VIDEO_SUFFIXES}


class Found(NamedTuple):
    """A file below a folder: its path from there, with slashes, and why it can't be taken, if so."""

    file: str
    problem: str = ""


def walk(root: Path) -> Iterator[Found]:
    """Yield the files below a folder in the order of their paths; what is hidden is passed over.

    One folder's names are held at a time. Links to files stay within the root, or have a problem; links to folders are
    not followed, and have one too.
    """
    yield from _walk(root, os.path.realpath(root), "")


def _walk(root: Path, real: str, prefix: str) -> Iterator[Found]:
    try:
        with os.scandir(root / prefix) as entries:
            names = sorted(
                entry.name + "/" * entry.is_dir(follow_symlinks=False)
                for entry in entries
                if not entry.name.startswith(".")
            )
    except OSError as error:
        yield Found(prefix, f"can't be read ({error.strerror or error})")
        return
    for name in names:
        file = prefix + name
        if name.endswith("/"):
            yield from _walk(root, real, file)
            continue
        path = root / file
        if path.is_symlink():
            if path.is_dir():
                yield Found(file, "is a link to a folder, which is not followed")
                continue
            if os.path.commonpath([real, os.path.realpath(path)]) != real:
                yield Found(file, "is a link to a file outside of the folder")
                continue
        yield Found(file)


@dataclass(frozen=True)
class Listing:
    """A folder or zip of pictures or of videos.

    Iterating gives its files in a fixed order; a folder's are read anew each time, and need not fit in memory.
    """

    source: Source

    def __iter__(self) -> Iterator[Item]:
        if not self.source.root.is_dir():
            yield from self.source.items
            return
        for found in walk(self.source.root):
            if not found.file.lower().endswith(SUFFIXES[self.source.media]):
                continue
            if found.problem:
                raise ValueError(f"{self.source.root}: {found.file} {found.problem}.")
            check_name(self.source.root, found.file)
            yield Item(found.file)

    def count(self) -> int:
        """Number of files."""
        return sum(1 for _ in self)

    def draw(self, most: int, seed: int) -> list[Item]:
        """At most so many files, drawn at random, in order."""
        n_files = self.count()
        places = np.sort(np.random.default_rng(seed).choice(n_files, min(most, n_files), replace=False))
        files, at, drawn = iter(self), 0, []
        for place in places.tolist():
            drawn.append(next(islice(files, place - at, None)))
            at = place + 1
        return drawn


def open_listing(path: str | Path, media: str | None = None) -> Listing:
    """Open a folder or zip; without `media` it must hold images or videos only, and decides."""
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file or folder.")
    if path.is_file():
        listing = Listing(labelled_zip(path))
        if media not in (None, listing.source.media):
            raise ValueError(f"{path}: holds {listing.source.media}s. Expected {media}s.")
        return listing
    if not path.is_dir():
        raise ValueError(f"{path}: neither a folder nor a zip file, but a pipe, socket or device.")
    counts = dict.fromkeys(SUFFIXES, 0)
    for found in walk(path):
        for kind, endings in SUFFIXES.items():
            counts[kind] += found.file.lower().endswith(endings)
    if media is None and all(counts.values()):
        raise ValueError(f"{path}: holds {counts['image']} images and {counts['video']} videos; name what you want.")
    media = media or max(counts, key=lambda kind: counts[kind])
    if not counts[media]:
        raise ValueError(f"{path}: is a directory without {media}s.")
    return Listing(Source(path, media, ()))


def is_media(path: Path) -> bool:
    """Whether a path is a folder or zip that may hold pictures or videos, rather than a file or store of vectors."""
    if path.is_dir():
        return path.suffix != ".zarr" and not holds_vectors(path)
    return path.suffix.lower() == ".zip" and not holds_vectors(path)


def as_source(listing: Listing, items: Sequence[Item]) -> Source:
    """A data set of some files of a listing."""
    return Source(listing.source.root, listing.source.media, tuple(items))
