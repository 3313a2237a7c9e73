"""The files of a data set one after the other, without ever holding all their names."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np

from projbank.features.readers import Item, Source, check_name, check_place, labelled_zip, media_files, media_of, walk
from projbank.rows.files import holds_vectors


class Listing(Source):
    """A folder or zip of pictures or of videos.

    Iterating gives its files in a fixed order; a folder's are read anew each time, and need not fit in memory.
    """

    def __iter__(self) -> Iterator[Item]:
        if not self.root.is_dir():
            yield from self.items
            return
        for file in media_files(self.root, self.media):
            check_name(self.root, file)
            yield Item(file)

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
    check_place(path)
    if path.is_file():
        source = labelled_zip(path)
        if media not in (None, source.media):
            raise ValueError(f"{path}: holds {source.media}s. Expected {media}s.")
        return Listing(path, source.media, source.items)
    listing = Listing(path, media or media_of(path, (found.file for found in walk(path))), ())
    if next(iter(listing), None) is None:
        raise ValueError(f"{path}: is a directory without {listing.media}s.")
    return listing


def is_media(path: Path) -> bool:
    """Whether a path is a folder or zip that may hold pictures or videos, rather than a file or store of vectors."""
    if path.is_dir():
        return path.suffix != ".zarr" and not holds_vectors(path)
    return path.suffix.lower() == ".zip" and not holds_vectors(path)
