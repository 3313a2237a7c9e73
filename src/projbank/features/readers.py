"""Readers of data sets: which files there are, and the label, class and split of each."""

from __future__ import annotations

import contextlib
import csv
import functools
import io
import os
import shutil
import stat
import struct
import tempfile
import unicodedata
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from projbank.features.media import IMAGE_SUFFIXES, MAX_PIXELS, VIDEO_SUFFIXES
from projbank.params import check_choice

UNLABELLED = -1
SUFFIXES = {"image": IMAGE_SUFFIXES, "video": VIDEO_SUFFIXES}
LAYOUTS = ("images", "videos", "zip", "ucf101", "ilsvrc2010", "flickr")
MAX_IMAGE_BYTES = 4 * MAX_PIXELS
MAX_VIDEO_BYTES = 8 << 30
"""Larger files are not read: a small zip may expand without end."""
BLOCK_BYTES = 1 << 20
_ZIP_ERRORS = (NotImplementedError, UnicodeDecodeError, EOFError, IndexError, OverflowError, RuntimeError, struct.error)
"""What zipfile raises on damaged directories beside its own error."""


@dataclass(frozen=True)
class Item:
    """One file of a data set; `file` is its path from the root, with slashes."""

    file: str
    label: int = UNLABELLED
    class_name: str = ""
    split: str = ""


@dataclass(frozen=True)
class Source:
    """A data set: a folder or zip file, whether it holds images or videos, and its files in a fixed order."""

    root: Path
    media: str
    items: tuple[Item, ...] = field(repr=False)

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for item in self.items:
            check_name(self.root, item.file)
            check_text(self.root, item.class_name)
            if item.file in seen:
                raise ValueError(f"{self.root}: names the file {item.file!r} twice.")
            if not -(2**63) <= item.label < 2**63:
                raise ValueError(f"{self.root}: the label of {item.file} does not fit in 64 bits. Got {item.label}.")
            seen.add(item.file)

    def select(self, split: str | None = None, exclude: Sequence[str] = ()) -> Source:
        """Keep only the files of `split`, and drop whole classes by name."""
        splits = {item.split for item in self.items}
        if split is not None and split not in splits:
            known = ", ".join(sorted(splits - {""})) or "none"
            raise ValueError(
                f"The 'split' parameter must be one that {self.root} has ({known}). Got {split!r} instead."
            )
        unknown = set(exclude) - {item.class_name for item in self.items}
        if unknown:
            raise ValueError(
                f"The 'exclude' parameter names classes that {self.root} lacks: {', '.join(sorted(unknown))}."
            )
        kept = tuple(item for item in self.items if split in (None, item.split) and item.class_name not in set(exclude))
        if not kept:
            raise ValueError(f"{self.root}: no files are left after the selection.")
        return replace(self, items=kept)

    def class_names(self) -> dict[int, str]:
        """Name of each label, in rising order."""
        return dict(sorted({item.label: item.class_name for item in self.items if item.label != UNLABELLED}.items()))

    def read(self, item: Item) -> bytes:
        """Bytes of a file; OSError where it can't be read whole, or is too large."""
        with self._open(item) as file:
            return file.read()

    @contextlib.contextmanager
    def local_file(self, item: Item) -> Iterator[Path]:
        """Path of a file on disk, for decoders that need one; of a zip's member a temporary copy."""
        if not self._is_zip:
            yield self._path(item)
            return
        with tempfile.TemporaryDirectory(prefix="projbank-") as folder:
            path = Path(folder) / ("file" + PurePosixPath(item.file).suffix)
            with self._open(item) as file, open(path, "wb") as copy:
                shutil.copyfileobj(file, copy, BLOCK_BYTES)
            yield path

    def stamp(self, item: Item) -> dict[str, int]:
        """What tells cheaply that a file has changed: its size and time of change, in a zip size and checksum."""
        if self._is_zip:
            info = self._archive.getinfo(item.file)
            return {"size": info.file_size, "crc": info.CRC}
        status = os.stat(self.root / item.file)
        return {"size": status.st_size, "mtime_ns": status.st_mtime_ns}

    def checksum(self, item: Item) -> int:
        """CRC-32 of a file's bytes."""
        if self._is_zip:
            return self._archive.getinfo(item.file).CRC
        total = 0
        with open(self.root / item.file, "rb") as file:
            while block := file.read(BLOCK_BYTES):
                total = zlib.crc32(block, total)
        return total

    def _path(self, item: Item) -> Path:
        """Path of a file in a folder; a pipe or device, which might never end, is refused."""
        path = self.root / item.file
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            raise OSError("not a regular file")
        self._check_size(status.st_size)
        return path

    def _check_size(self, n_bytes: int) -> None:
        limit = MAX_IMAGE_BYTES if self.media == "image" else MAX_VIDEO_BYTES
        if n_bytes > limit:
            raise OSError(f"{n_bytes} bytes are too many, at most {limit}")

    @property
    def _is_zip(self) -> bool:
        return not self.root.is_dir()

    @property
    def _archive(self) -> zipfile.ZipFile:
        return _open_zip(self.root, self.root.stat().st_mtime_ns)

    @contextlib.contextmanager
    def _open(self, item: Item) -> Iterator[Any]:
        if not self._is_zip:
            with open(self._path(item), "rb") as file:
                yield file
            return
        with _readable(self.root, item.file):
            info = self._archive.getinfo(item.file)
            self._check_size(info.file_size)
            with self._archive.open(info) as member:
                yield member


def class_folders(root: Path, media: str) -> Source:
    """A folder with a subfolder for each class; files that lie in the folder itself have no label."""
    files = find_files(root, media)
    classes = [name.split("/")[0] if "/" in name else "" for name in files]
    return Source(root, media, tuple(_numbered(files, classes)))


def labelled_zip(path: Path) -> Source:
    """Images or videos in a zip file; `labels.csv` inside gives file, label, class and split.

    Of its columns only `file` is needed. Without `label`, classes are numbered by name; without `labels.csv`, the class
    is the folder that a file lies in.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            infos = {info.filename: info for info in archive.infolist() if not info.is_dir()}
            if (table := infos.get("labels.csv")) is not None:
                if table.file_size > MAX_IMAGE_BYTES:
                    raise ValueError(f"{path}: labels.csv is too large ({table.file_size} bytes).")
                with _readable(path, "labels.csv"):
                    text = archive.read(table).decode("utf-8-sig")
    except (zipfile.BadZipFile, *_ZIP_ERRORS) as error:
        raise ValueError(f"{path}: not a zip file, or damaged ({error}).") from error
    for name in infos:
        check_name(path, name)
    if table is None:
        media = media_of(path, list(infos))
        files = sorted(name for name in infos if _is(media, name))
        return Source(path, media, tuple(_numbered(files, [PurePosixPath(name).parent.name for name in files])))
    try:
        rows = list(csv.DictReader(io.StringIO(text)))
    except csv.Error as error:
        raise ValueError(f"{path}: labels.csv is damaged ({error}).") from error
    if any(not row.get("file") for row in rows):
        raise ValueError(f"{path}: labels.csv needs a column 'file' with a name in every row.")
    return Source(path, media_of(path, [row["file"] for row in rows]), _table_items(path, rows, set(infos)))


def open_source(path: str | Path, layout: str = "auto", fold: int | None = None) -> Source:
    """Open a data set; "auto" tells the layout from what is there (never "flickr", which looks like "images").

    Parameters
    ----------
    path : folder or zip file
    layout : "auto" or one of `LAYOUTS`
    fold : 1, 2 or 3: the fold of UCF101's official splits; 1 if None
    """
    from projbank.features import layouts

    path = Path(path)
    check_place(path)
    check_choice("open_source", "layout", layout, ("auto", *LAYOUTS))
    if layout == "auto":
        layout = _guess(path)
    if path.is_dir() == (layout == "zip"):
        raise ValueError(f"{path}: layout {layout!r} needs a {'zip file' if layout == 'zip' else 'folder'}.")
    if layout == "ucf101":
        return layouts.ucf101(path, 1 if fold is None else fold)
    if fold is not None:
        raise ValueError(f"The 'fold' parameter is for UCF101 only; {path} has the layout {layout!r}.")
    if layout in ("images", "videos"):
        return class_folders(path, layout.removesuffix("s"))
    return {"zip": labelled_zip, "ilsvrc2010": layouts.ilsvrc2010, "flickr": layouts.flickr_groups}[layout](path)


def check_place(path: Path) -> None:
    """Raise for what can't be a data set."""
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file or folder.")
    if not (path.is_dir() or path.is_file()):
        raise ValueError(f"{path}: neither a folder nor a zip file, but a pipe, socket or device.")


def find_files(root: Path, media: str, below: Path | None = None) -> list[str]:
    """Paths from the root of all images or videos below a folder, sorted; an error if there are none."""
    files = [file for file in media_files(root, media, below) if (root / file).is_file()]
    if not files:
        raise ValueError(f"{below or root}: no {media}s found.")
    return files


def media_files(root: Path, media: str, below: Path | None = None) -> Iterator[str]:
    """Yield the paths from the root of the images or videos below a folder, in order; links out of it are refused."""
    for found in walk(root, below):
        if _is(media, found.file):
            if found.problem:
                raise ValueError(f"{root}: {found.file} {found.problem}.")
            yield found.file


class Found(NamedTuple):
    """A file below a folder: its path from there, with slashes, and why it can't be taken, if so."""

    file: str
    problem: str = ""


def walk(root: Path, below: Path | None = None) -> Iterator[Found]:
    """Yield the files below a folder in the order of their paths; what is hidden is passed over.

    One folder's names are held at a time. Links to files stay within the root, or have a problem; links to folders are
    not followed, and have one too.
    """
    prefix = "" if below in (None, root) else f"{below.relative_to(root).as_posix()}/"
    yield from _walk(root, os.path.realpath(root), prefix)


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


def _guess(path: Path) -> str:
    if path.is_file():
        return "zip"
    if (path / "ucfTrainTestlist").is_dir():
        return "ucf101"
    if any(path.glob("**/ILSVRC2010_*_ground_truth.txt")):
        return "ilsvrc2010"
    return media_of(path, (found.file for found in walk(path))) + "s"


@functools.lru_cache(maxsize=1)
def _open_zip(path: Path, modified: int) -> zipfile.ZipFile:
    """Keep the last zip file open: reading its directory takes longer than reading an image."""
    return zipfile.ZipFile(path)


@contextlib.contextmanager
def _readable(root: Path, name: str) -> Iterator[None]:
    """Turn what a damaged or encrypted member of a zip raises into an OSError that names it."""
    try:
        yield
    except Exception as error:  # decompressors raise whatever they like on damaged bytes
        raise OSError(f"{root}: can't read {name} ({error}).") from error


def _is(media: str, name: str) -> bool:
    return name.lower().endswith(SUFFIXES[media])


def media_of(root: Path, names: Iterable[str]) -> str:
    """Tell images from videos by the names' endings."""
    counts = dict.fromkeys(SUFFIXES, 0)
    for name in names:
        for media in SUFFIXES:
            counts[media] += _is(media, name)
    if all(counts.values()):
        raise ValueError(
            f"{root}: holds {counts['image']} images and {counts['video']} videos; name the layout, or keep one kind."
        )
    if not any(counts.values()):
        raise ValueError(f"{root}: no images or videos (known endings: {' '.join(IMAGE_SUFFIXES + VIDEO_SUFFIXES)}).")
    return max(counts, key=lambda media: counts[media])


def check_text(root: Path, name: str) -> None:
    """Refuse names that would break a list of names, or a terminal."""
    if any(unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp") for letter in name):
        raise ValueError(f"{root}: the name {name!a} holds a control character or is not UTF-8; rename it.")


def check_name(root: Path, name: str) -> None:
    """Refuse names of files that climb out of the data set."""
    check_text(root, name)
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or name[1:3] in (":/", ":\\"):
        raise ValueError(f"{root}: the name {name!r} leads out of the data set.")


def _numbered(files: Sequence[str], classes: Sequence[str]) -> Iterator[Item]:
    """Items with classes numbered from 0 by name."""
    numbers = {name: i for i, name in enumerate(sorted(set(classes) - {""}))}
    for file, name in zip(files, classes, strict=True):
        yield Item(file, numbers.get(name, UNLABELLED), name)


def _table_items(path: Path, rows: list[dict[str, str]], names: set[str]) -> tuple[Item, ...]:
    """Items of `labels.csv`, checked against the files that are there."""
    for row in rows:
        if row["file"] not in names:
            raise ValueError(f"{path}: labels.csv names {row['file']!r}, which is not in the zip.")
    classes = [row.get("class") or "" for row in rows]
    splits = [row.get("split") or "" for row in rows]
    items = list(_numbered([row["file"] for row in rows], classes))
    if rows and rows[0].get("label") is not None:
        try:
            items = [replace(item, label=int(row["label"])) for item, row in zip(items, rows, strict=True)]
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path}: labels.csv has a label that is not a whole number ({error}).") from error
    return tuple(replace(item, split=split) for item, split in zip(items, splits, strict=True))
