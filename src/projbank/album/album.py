"""The album: a folder of photos that can be searched by a picture."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from projbank.album import describe
from projbank.album.store import MOST_BITS, AlbumError, File, Model, Store
from projbank.album.update import Report, Update, Updater
from projbank.features.coder import MediaCoder
from projbank.features.media import read_photo
from projbank.files import locked
from projbank.integrity import input_file
from projbank.models.file import load
from projbank.params import check_choice, check_int
from projbank.search import HammingIndex

FOLDER = ".projbank"
INDEX = "album.sqlite"
DESCRIBERS = ("auto", "sift", "net")
MORE = 32
"""Candidates beyond those asked for, so that the order by exact similarity is right to the last place."""


@dataclass(frozen=True)
class Hit:
    """A photo that was found."""

    path: str
    """Path from the album's folder, with slashes."""
    score: float
    """How alike it is: 1 is the same, 0 unrelated."""
    content: int
    """Number of its content; copies have the same."""


@dataclass(frozen=True)
class Codes:
    """The codes of an album at one moment, ready to be searched."""

    model: Model
    ids: NDArray[np.int64]
    index: HammingIndex
    state: int
    """What `Store.changes` said then."""

    @classmethod
    def read(cls, store: Store) -> Codes | None:
        """Read all codes; None where nothing is learnt yet."""
        with store.transaction(write=False):
            state, model = store.changes(), store.model()
            if model is None:
                return None
            ids, codes = store.codes(model)
        return cls(model, ids, HammingIndex(codes, ids=ids, n_bits=model.n_bits), state)

    def nearest(self, values: NDArray[np.float32], k: int) -> list[tuple[int, float]]:
        """Numbers and similarities of the k contents that are most like all rows of `values`, the best first."""
        query = (values / np.maximum(np.abs(values).sum(axis=1, keepdims=True), np.finfo(np.float32).tiny)).mean(axis=0)
        k = min(k, len(self.ids))
        if not k:
            return []
        _, found = self.index.search(query[None], min(k + MORE, len(self.ids)), query_bits=8, n_jobs=1)
        rows = np.searchsorted(self.ids, found[0])
        scores = similarities(query, self.index.codes[rows])
        order = np.lexsort((found[0], -scores))[:k]
        return [(int(found[0][i]), float(scores[i])) for i in order]


def similarities(query: NDArray[np.float32], codes: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return from -1 to 1 how far codes agree with real-valued bits: their weighted share, twice less 1."""
    bits = np.unpackbits(codes, axis=1, bitorder="little")[:, : len(query)]
    total = np.abs(query).sum()
    agreed = (2 * bits.astype(np.float32) - 1) @ query
    return np.asarray(np.clip(agreed / total, -1, 1) if total > 0 else np.zeros(len(codes)), dtype=np.float32)


def gone(content: int) -> FileNotFoundError:
    """Return what to raise where no file of an album has a content."""
    return FileNotFoundError(f"photo {content} is not in the album, or has changed since its last update.")


class Album:
    """A folder of photos that can be searched by a picture.

    What it needs is kept in the folder `.projbank` inside; no other file is ever changed.

    Parameters
    ----------
    folder : where the photos are
    describer : {"auto", "sift", "net"}
        What photos are described by, when the album learns. "auto": EfficientNet-lite0 where the extra `photos` is
        installed, otherwise dense SIFT and Fisher vectors; an album that has learnt before keeps to its own.
    n_bits : int
        Bits of a code, then.
    n_jobs : int or None
        Processes and threads; None is one per core.
    verbose : int
        1 shows progress bars on a terminal.

    Examples
    --------
    >>> import projbank
    >>> album = projbank.Album("~/Photos")       # doctest: +SKIP
    >>> album.update().photos                    # doctest: +SKIP
    3000
    >>> album.find("beach.jpg", k=2)             # doctest: +SKIP
    [Hit(path='2019/coast.jpg', score=0.61, content=17), Hit(path='sea.jpg', score=0.55, content=203)]
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        describer: str = "auto",
        n_bits: int = 1024,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.root = Path(folder).expanduser()
        if not self.root.exists():
            raise FileNotFoundError(f"{self.root}: no such folder.")
        if not self.root.is_dir():
            raise NotADirectoryError(f"{self.root}: is a file, not a folder of photos.")
        self.describer = check_choice(self, "describer", describer, DESCRIBERS)
        self.n_bits = check_int(self, "n_bits", n_bits, 8, MOST_BITS)
        self.n_jobs, self.verbose = n_jobs, verbose
        self.folder = self.root / FOLDER
        self._store: Store | None = None
        self._codes: Codes | None = None
        self._coder: tuple[str, MediaCoder] | None = None
        self.busy = threading.RLock()

    @property
    def store(self) -> Store:
        """The album's tables; AlbumError where there is no album yet."""
        if self._store is None:
            self._store = Store(self.folder / INDEX)
        return self._store

    def close(self) -> None:
        """Close the album's files."""
        if self._store is not None:
            self._store.close()
        self._store = self._codes = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def update(self, *, relearn: bool = False, report: Report | None = None) -> Update:
        """Make the album, or bring it up to date: only what is new or changed is described.

        A run that was cut off goes on where it stopped. BlockingIOError where another process is at it.

        Parameters
        ----------
        relearn : learn codebook and bank anew; the album answers by the old ones until all photos are coded
        report : gets the course of the work: stage, steps done, steps in all
        """
        try:
            self.folder.mkdir(exist_ok=True)
        except OSError as error:
            raise type(error)(f"cannot write {self.folder}: {error.strerror or error}") from error
        busy = f"{self.root}: another process is updating this album; wait until it has ended."
        with locked(self.folder / "lock", busy):
            store = Store(self.folder / INDEX, create=True)
            try:
                settings = (self.describer, self.n_bits, self.n_jobs, self.verbose, report)
                return Updater(self.root, self.folder, store, *settings).run(relearn=relearn)
            finally:
                store.close()

    def find(self, pictures: Any, k: int = 12, *, min_similarity: float = -1.0, include_self: bool = True) -> list[Hit]:
        """Find the photos that are most like a picture, or like all of several.

        Files that have changed or gone since the last update are left out. A picture whose very bytes are in the album
        comes first, with score 1.

        Parameters
        ----------
        pictures : path, bytes of a picture file, or a list of these
        k : number of photos
        min_similarity : least score, from -1 to 1
        include_self : whether photos with the very bytes of a picture count
        """
        k = check_int("Album.find", "k", k, 1)
        several = pictures if isinstance(pictures, list | tuple) else [pictures]
        if not several:
            raise ValueError("Album.find needs at least one picture. Got none.")
        data = [_bytes_of(picture) for picture in several]
        with self.busy:
            codes, coder = self._current()
            vectors = np.stack([self._vector(coder, one, _name_of(at)) for one, at in zip(data, several, strict=True)])
            same = {self.store.content_id(describe.digest(one)) for one in data} - {None}
            return self._hits(codes, coder.bank.query_values(vectors), k, min_similarity, same, include_self)

    def like(self, content: int, k: int = 12, *, min_similarity: float = -1.0, include_self: bool = False) -> list[Hit]:
        """Find the photos that are most like one of the album, by the number of its content; nothing is described."""
        with self.busy:
            codes = self.codes()
            row = int(np.searchsorted(codes.ids, content))
            if row == len(codes.ids) or codes.ids[row] != content:
                raise gone(content)
            bits = np.unpackbits(codes.index.codes[row], bitorder="little")[: codes.model.n_bits]
            return self._hits(
                codes, (2 * bits.astype(np.float32) - 1)[None], k, min_similarity, {content}, include_self
            )

    def is_current(self, file: File) -> bool:
        """Whether a file is still as it was when it was looked at last."""
        try:
            status = os.stat(self.root / file.path)
        except OSError:
            return False
        return (status.st_size, status.st_mtime_ns) == file[1:]

    def current_files(self, content: int) -> list[File]:
        """Files of a content that are still as they were."""
        with self.busy:
            return [file for file in self.store.files_of(content) if self.is_current(file)]

    def codes(self) -> Codes:
        """The codes at this moment; AlbumError where there are none yet."""
        with self.busy:
            if self._codes is None or self._codes.state != self.store.changes():
                self._codes = Codes.read(self.store)
            if self._codes is None:
                raise AlbumError(f"{self.root}: has learnt nothing yet; run: projbank album {self.root}")
            return self._codes

    def coder(self) -> MediaCoder:
        """What describes and codes photos of this album."""
        with self.busy:
            return self._current()[1]

    def _current(self) -> tuple[Codes, MediaCoder]:
        """Codes and the coder that made them."""
        codes = self.codes()
        try:
            return codes, self._load(codes)
        except FileNotFoundError:  # another coder has replaced it meanwhile
            self._codes = None
            codes = self.codes()
            return codes, self._load(codes)

    def _load(self, codes: Codes) -> MediaCoder:
        name, identity = codes.model.file, codes.model.identity
        if self._coder is None or self._coder[0] != name:
            self._coder = name, load(self.folder / name)
        made = self._coder[1]
        if made.identity() != identity:
            raise AlbumError(f"{self.folder / name}: is {made.identity()}, but the codes are of {identity}.")
        return made

    def _vector(self, coder: MediaCoder, data: bytes, name: str) -> NDArray[np.float32]:
        describer = coder.describer
        return describer.vector(read_photo(data, name, describer.max_side, colour=describer.colour).image)

    def _hits(
        self,
        codes: Codes,
        values: NDArray[np.float32],
        k: int,
        least: float,
        same: set[Any],
        include_self: bool,
    ) -> list[Hit]:
        """Files of the nearest contents, as many as are asked for and still there; the very same come first."""
        hits: list[Hit] = []
        wanted = k + len(same)
        while True:
            nearest = [pair for pair in codes.nearest(values, wanted) if pair[0] not in same]
            ranked = [(number, 1.0) for number in sorted(same)] * include_self + nearest
            hits = [
                Hit(file.path, score, number)
                for number, score in ranked
                if score >= least
                for file in self.current_files(number)
            ]
            if len(hits) >= k or wanted >= len(codes.ids) or (nearest and nearest[-1][1] < least):
                return hits[:k]
            wanted *= 4


def _bytes_of(picture: Any) -> bytes:
    if isinstance(picture, bytes | bytearray | memoryview):
        return bytes(picture)
    with open(input_file(Path(picture).expanduser(), "picture"), "rb") as file:
        return file.read()


def _name_of(picture: Any) -> str:
    return "the picture" if isinstance(picture, bytes | bytearray | memoryview) else str(picture)
