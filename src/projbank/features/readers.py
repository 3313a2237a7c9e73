"""Readers of data sets: which files there are, and the label, class and split of each."""

from __future__ import annotations

import contextlib
import csv
import functools
import io
import re
import tempfile
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

import numpy as np

from projbank.features.media import IMAGE_SUFFIXES, VIDEO_SUFFIXES
from projbank.params import check_int

UNLABELLED = -1


@dataclass(frozen=True)
class Item:
    """One file of a data set; `file` is its path from the root, with slashes."""

    file: str
    label: int = UNLABELLED
    class_name: str = ""
    split: str = ""


@dataclass(frozen=True)
class Source(ABC):
    """A data set: where it is, whether it holds images or videos, and its files in a fixed order."""

    root: Path
    media: str
    items: tuple[Item, ...] = field(repr=False)

    @abstractmethod
    def read(self, item: Item) -> bytes:
        """Bytes of a file."""

    @abstractmethod
    def local_file(self, item: Item) -> contextlib.AbstractContextManager[Path]:
        """Path of a file on disk, for decoders that need one; a temporary copy where it has none."""

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
        return dict(sorted({item.label: item.class_name for item in self.items}.items()))


class FolderSource(Source):
    """A data set in a folder."""

    def read(self, item: Item) -> bytes:
        """Bytes of a file."""
        return (self.root / item.file).read_bytes()

    @contextlib.contextmanager
    def local_file(self, item: Item) -> Iterator[Path]:
        """Path of a file."""
        yield self.root / item.file


class ZipSource(Source):
    """A data set in a zip file."""

    def read(self, item: Item) -> bytes:
        """Bytes of a file."""
        try:
            return _archive(self.root, self.root.stat().st_mtime_ns).read(item.file)
        except (KeyError, RuntimeError, zipfile.BadZipFile) as error:  # RuntimeError: encrypted
            raise OSError(f"{self.root}: can't read {item.file} ({error}).") from error

    @contextlib.contextmanager
    def local_file(self, item: Item) -> Iterator[Path]:
        """Path of a temporary copy of a file, gone afterwards."""
        with tempfile.TemporaryDirectory(prefix="projbank-") as folder:
            path = Path(folder) / PurePosixPath(item.file).name
            path.write_bytes(self.read(item))
            yield path


def image_folder(root: Path) -> Source:
    """Images in a folder, a class per subfolder; images that lie in the folder itself have no label."""
    return _class_folders(root, "image")


def video_folder(root: Path) -> Source:
    """Videos in a folder, a class per subfolder; videos that lie in the folder itself have no label."""
    return _class_folders(root, "video")


def flickr_groups(root: Path) -> Source:
    """Photos downloaded group by group: a folder per group, each photo named by its id.

    A photo that was posted to several groups is taken once, in the first group by name, so that no copy of a query
    can be in the gallery.
    """
    source = _class_folders(root, "image")
    seen: set[str] = set()
    items = []
    for item in source.items:
        if item.class_name and (photo := PurePosixPath(item.file).stem) not in seen:
            seen.add(photo)
            items.append(item)
    if not items:
        raise ValueError(f"{root}: no group folders with images.")
    return replace(source, items=tuple(items))


def labelled_zip(path: Path) -> Source:
    """Images or videos in a zip file; `labels.csv` inside gives file, label, class and split.

    Of its columns only `file` is needed. Without `label`, classes are numbered by name; without `labels.csv`, the class
    is the folder that a file lies in.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            names = [info.filename for info in archive.infolist() if not info.is_dir()]
            table = archive.read("labels.csv") if "labels.csv" in names else None
    except zipfile.BadZipFile as error:
        raise ValueError(f"{path}: not a zip file, or damaged ({error}).") from error
    if table is None:
        media = _media_of(path, names)
        files = sorted(name for name in names if _is(media, name))
        return ZipSource(path, media, tuple(_numbered(files, [PurePosixPath(name).parent.name for name in files])))
    rows = list(csv.DictReader(io.StringIO(table.decode("utf-8-sig"))))
    if any(not row.get("file") for row in rows):
        raise ValueError(f"{path}: labels.csv needs a column 'file' with a name in every row.")
    return ZipSource(path, _media_of(path, [row["file"] for row in rows]), _table_items(path, rows, set(names)))


def ucf101(root: Path, fold: int = 1) -> Source:
    """UCF101: a folder of videos per action, and the official lists of one of its three folds.

    The lists are `ucfTrainTestlist/trainlist0N.txt` and `testlist0N.txt`; `classInd.txt` numbers the actions from 1.
    Videos may lie in the root itself or in a subfolder such as `UCF-101`.
    """
    check_int("ucf101", "fold", fold, 1, 3)
    lists = _one_folder(root, "ucfTrainTestlist")
    numbers = {name: int(number) for number, name in _split_lines(lists / "classInd.txt")}
    items = []
    for split in ("train", "test"):
        for words in _split_lines(lists / f"{split}list0{fold}.txt"):
            action = words[0].split("/")[0]
            if action not in numbers:
                raise ValueError(
                    f"{lists / 'classInd.txt'}: has no class {action!r}, which {split}list0{fold}.txt names."
                )
            items.append(Item(words[0], numbers[action], action, split))
    base = next(
        (folder for folder in (root, root / "UCF-101", root / "videos") if (folder / items[0].file).exists()), None
    )
    if base is None:
        raise FileNotFoundError(f"{root}: the video {items[0].file} is neither there nor in UCF-101/ or videos/.")
    prefix = "" if base == root else base.name + "/"
    return FolderSource(root, "video", tuple(replace(item, file=prefix + item.file) for item in items))


def ilsvrc2010(root: Path) -> Source:
    """ILSVRC2010: `train/nXXXXXXXX/*.JPEG`, and `val` and `test` images numbered in the order of ground-truth files.

    `meta.mat` of the development kit gives the number (1 to 1000) of each synset; the labels are these numbers. It and
    `ILSVRC2010_{validation,test}_ground_truth.txt` may lie anywhere below the root. Absent splits are left out.
    """
    numbers = _synset_numbers(_find(root, "meta.mat"))
    names = {number: wnid for wnid, number in numbers.items()}
    items = []
    if (root / "train").is_dir():
        for file in _files(root, "image", root / "train"):
            synset = file.split("/")[1]
            if synset not in numbers:
                raise ValueError(f"{root}: meta.mat has no number for the synset folder {synset!r}.")
            items.append(Item(file, numbers[synset], synset, "train"))
    for split, title in (("val", "validation"), ("test", "test")):
        if (root / split).is_dir():
            items += _numbered_images(root, split, _find(root, f"ILSVRC2010_{title}_ground_truth.txt"), names)
    if not items:
        raise ValueError(f"{root}: has no images in train/, val/ or test/.")
    return FolderSource(root, "image", tuple(items))


LAYOUTS: dict[str, Callable[[Path], Source]] = {
    "images": image_folder,
    "videos": video_folder,
    "zip": labelled_zip,
    "ucf101": ucf101,
    "ilsvrc2010": ilsvrc2010,
    "flickr": flickr_groups,
}
"""Reader of each layout by name."""


def open_source(path: str | Path, layout: str = "auto", fold: int | None = None) -> Source:
    """Open a data set; "auto" tells the layout from what is there (never "flickr", which looks like "images").

    Parameters
    ----------
    path : folder or zip file
    layout : "auto" or one of `LAYOUTS`
    fold : 1, 2 or 3: the fold of UCF101's official splits; 1 if None
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file or folder.")
    if layout == "auto":
        layout = _guess(path)
    if layout not in LAYOUTS:
        allowed = ", ".join(map(repr, ("auto", *LAYOUTS)))
        raise ValueError(f"The 'layout' parameter must be one of {allowed}. Got {layout!r} instead.")
    if path.is_dir() == (layout == "zip"):
        raise ValueError(f"{path}: layout {layout!r} needs a {'zip file' if layout == 'zip' else 'folder'}.")
    if layout == "ucf101":
        return ucf101(path, 1 if fold is None else fold)
    if fold is not None:
        raise ValueError(f"The 'fold' parameter is for UCF101 only; {path} has the layout {layout!r}.")
    return LAYOUTS[layout](path)


def _guess(path: Path) -> str:
    if path.is_file():
        return "zip"
    if (path / "ucfTrainTestlist").is_dir():
        return "ucf101"
    if any(path.glob("**/ILSVRC2010_*_ground_truth.txt")):
        return "ilsvrc2010"
    return _media_of(path, _all_files(path)) + "s"


@functools.lru_cache(maxsize=1)
def _archive(path: Path, modified: int) -> zipfile.ZipFile:
    """Keep the last zip file open: reading its directory takes longer than reading an image."""
    return zipfile.ZipFile(path)


def _is(media: str, name: str) -> bool:
    return name.lower().endswith(IMAGE_SUFFIXES if media == "image" else VIDEO_SUFFIXES)


def _media_of(root: Path, names: Sequence[str]) -> str:
    """Tell images from videos by the names' endings."""
    images = sum(_is("image", name) for name in names)
    videos = sum(_is("video", name) for name in names)
    if images and videos:
        raise ValueError(f"{root}: holds {images} images and {videos} videos; name the layout.")
    if not images and not videos:
        raise ValueError(f"{root}: no images or videos (known endings: {' '.join(IMAGE_SUFFIXES + VIDEO_SUFFIXES)}).")
    return "image" if images else "video"


def _all_files(root: Path, below: Path | None = None) -> list[str]:
    """Paths from the root of all files, sorted; hidden files and folders are passed over."""
    paths = (path.relative_to(root) for path in (below or root).rglob("*"))
    visible = (path for path in paths if not any(part.startswith(".") for part in path.parts))
    return sorted(path.as_posix() for path in visible if (root / path).is_file())


def _files(root: Path, media: str, below: Path | None = None) -> list[str]:
    files = [name for name in _all_files(root, below) if _is(media, name)]
    if not files:
        raise ValueError(f"{below or root}: no {media}s found.")
    return files


def _class_folders(root: Path, media: str) -> Source:
    files = _files(root, media)
    classes = [name.split("/")[0] if "/" in name else "" for name in files]
    return FolderSource(root, media, tuple(_numbered(files, classes)))


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


def _one_folder(root: Path, name: str) -> Path:
    if not (root / name).is_dir():
        raise FileNotFoundError(f"{root}: there is no folder {name}.")
    return root / name


def _split_lines(path: Path) -> list[list[str]]:
    """Words of each line that is not blank."""
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file.")
    return [words for line in path.read_text().splitlines() if (words := line.split())]


def _find(root: Path, name: str) -> Path:
    found = sorted(root.rglob(name))
    if not found:
        raise FileNotFoundError(f"{root}: there is no {name} below it.")
    return found[0]


def _synset_numbers(meta: Path) -> dict[str, int]:
    """ILSVRC2010_ID of each WordNet id, from the development kit."""
    from scipy.io import loadmat

    try:
        synsets = loadmat(meta, squeeze_me=True)["synsets"]
        pairs = zip(np.atleast_1d(synsets["WNID"]), np.atleast_1d(synsets["ILSVRC2010_ID"]), strict=True)
        return {str(wnid): int(number) for wnid, number in pairs}
    except (KeyError, ValueError, NotImplementedError) as error:
        raise ValueError(f"{meta}: not the meta.mat of ILSVRC2010's development kit ({error}).") from error


def _numbered_images(root: Path, split: str, truth: Path, names: dict[int, str]) -> Iterator[Item]:
    """Images whose file name ends in their line number (from 1) of the ground-truth file."""
    labels = [int(words[0]) for words in _split_lines(truth)]
    for file in _files(root, "image", root / split):
        number = re.search(r"(\d+)$", PurePosixPath(file).stem)
        if number is None or not 1 <= int(number.group(1)) <= len(labels):
            raise ValueError(f"{root}: {file} has no line among the {len(labels)} of {truth.name}.")
        label = labels[int(number.group(1)) - 1]
        if label not in names:
            raise ValueError(f"{truth}: label {label} is not in meta.mat.")
        yield Item(file, label, names[label], split)
