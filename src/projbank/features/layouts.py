"""Readers of published data sets, each laid out in its own way: UCF101, ILSVRC2010, groups of Flickr photos."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath

import numpy as np

from projbank.features.readers import Item, Source, class_folders, find_files
from projbank.params import check_int


def flickr_groups(root: Path) -> Source:
    """Photos downloaded group by group: a folder per group, each photo named by its id.

    A photo that was posted to several groups is taken once, in the first group by name, so that no copy of a query
    can be in the gallery.
    """
    source = class_folders(root, "image")
    seen: set[str] = set()
    items = []
    for item in source.items:
        if item.class_name and (photo := PurePosixPath(item.file).stem) not in seen:
            seen.add(photo)
            items.append(item)
    if not items:
        raise ValueError(f"{root}: no group folders with images.")
    return replace(source, items=tuple(items))


def ucf101(root: Path, fold: int = 1) -> Source:
    """UCF101: a folder of videos per action, and the official lists of one of its three folds.

    The lists are `ucfTrainTestlist/trainlist0N.txt` and `testlist0N.txt`; `classInd.txt` numbers the actions from 1.
    Videos may lie in the root itself or in a subfolder such as `UCF-101`.
    """
    check_int("ucf101", "fold", fold, 1, 3)
    lists = root / "ucfTrainTestlist"
    if not lists.is_dir():
        raise FileNotFoundError(f"{root}: there is no folder ucfTrainTestlist.")
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
    return Source(root, "video", tuple(replace(item, file=prefix + item.file) for item in items))


def ilsvrc2010(root: Path) -> Source:
    """ILSVRC2010: `train/nXXXXXXXX/*.JPEG`, and `val` and `test` images numbered in the order of ground-truth files.

    `meta.mat` of the development kit gives the number (1 to 1000) of each synset; the labels are these numbers. It and
    `ILSVRC2010_{validation,test}_ground_truth.txt` may lie anywhere below the root. Absent splits are left out.
    """
    numbers = _synset_numbers(_find(root, "meta.mat"))
    names = {number: wnid for wnid, number in numbers.items()}
    items = []
    if (root / "train").is_dir():
        for file in find_files(root, "image", root / "train"):
            synset = file.split("/")[1]
            if synset not in numbers:
                raise ValueError(f"{root}: meta.mat has no number for the synset folder {synset!r}.")
            items.append(Item(file, numbers[synset], synset, "train"))
    for split, title in (("val", "validation"), ("test", "test")):
        if (root / split).is_dir():
            items += _numbered_images(root, split, _find(root, f"ILSVRC2010_{title}_ground_truth.txt"), names)
    if not items:
        raise ValueError(f"{root}: has no images in train/, val/ or test/.")
    return Source(root, "image", tuple(items))


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
    for file in find_files(root, "image", root / split):
        number = re.search(r"(\d+)$", PurePosixPath(file).stem)
        if number is None or not 1 <= int(number.group(1)) <= len(labels):
            raise ValueError(f"{root}: {file} has no line among the {len(labels)} of {truth.name}.")
        label = labels[int(number.group(1)) - 1]
        if label not in names:
            raise ValueError(f"{truth}: label {label} is not in meta.mat.")
        yield Item(file, label, names[label], split)
