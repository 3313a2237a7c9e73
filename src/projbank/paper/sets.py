"""Which data sets experiments run on: vectors files, pictures and videos, or a TOML file that names several."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from projbank.evaluate.data import DataSet
from projbank.features.extract import Outputs
from projbank.files import atomic_path
from projbank.rows.files import open_array, open_vectors

KINDS = ("fv", "vlad", "")
"""Which of the paper's columns stand beside a data set: those of Fisher vectors, of VLAD, or none."""
N_QUERIES = 1000
SMALL_SET = 1500
"""Sets of fewer vectors than this have a tenth of them as queries instead of 1,000."""
PATHS = ("vectors", "labels", "files", "split", "folds", "source")
NOTES = "sets.json"
_NAME = re.compile(r"(?!\.)[^/\\\x00-\x1f\x7f]{1,200}")


@dataclass(frozen=True)
class SetFiles:
    """Where a data set lies. Only `vectors` or `source` is needed; docs/reproduce.md explains each.

    Labels and file names are looked for beside the vectors, where `projbank features` puts them. A `toy` set is too
    small or too easy to say anything about the paper's statements.
    """

    name: str
    title: str = ""
    kind: str = ""
    toy: bool = False
    vectors: Path | None = None
    dataset: str | None = None
    labels: Path | None = None
    files: Path | None = None
    split: Path | None = None
    folds: Path | None = None
    source: Path | None = None
    components: int | None = None
    sample: int | None = None
    queries: int | None = None
    train: int | None = None
    seeds: int | None = None
    descriptor: str | None = None
    alpha: float | None = None
    only: tuple[str, ...] = ()

    def open(self) -> DataSet:
        """Map the vectors and read the labels."""
        assert self.vectors is not None
        labels = self.labels or Outputs(self.vectors).labels
        return DataSet(self.name, open_vectors(self.vectors, self.dataset), open_array(labels))

    def n_queries(self, n_rows: int) -> int:
        """Queries of a split: 1,000 as in the paper, a tenth of small sets."""
        return self.queries or (N_QUERIES if n_rows >= SMALL_SET else max(1, n_rows // 10))

    def fold_rows(self, n_rows: int) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Training and test rows of each given fold; none where the set names neither a split nor lists of folds."""
        if self.folds is not None:
            assert self.vectors is not None
            path = self.files or Outputs(self.vectors).files
            if not path.is_file():
                raise FileNotFoundError(f"{path}: no such file; it should name the file of each vector of {self.name}.")
            return ucf101_folds(self.folds, path.read_text(encoding="utf-8").splitlines())
        if self.split is None:
            return []
        marks = np.asarray(open_array(self.split))
        if marks.shape != (n_rows,):
            raise ValueError(f"{self.split}: must have a number per vector ({n_rows}). Got shape {marks.shape}.")
        train, test = np.flatnonzero(marks == 1), np.flatnonzero(marks != 1)
        if not len(train) or not len(test):
            raise ValueError(f"{self.split}: must mark training rows by 1 and have test rows too.")
        return [(train, test)]


def ucf101_folds(lists: Path, files: list[str]) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Rows of UCF101's three official folds, from `trainlist0N.txt` and `testlist0N.txt` in the folder `lists`.

    Of the file of each row, only the last two parts count (action and video).
    """
    rows = {"/".join(Path(file).parts[-2:]): row for row, file in enumerate(files)}
    folds = []
    for fold in (1, 2, 3):
        parts = []
        for split in ("train", "test"):
            path = lists / f"{split}list0{fold}.txt"
            if not path.is_file():
                raise FileNotFoundError(f"{path}: no such file.")
            wanted = [line.split()[0] for line in path.read_text().splitlines() if line.strip()]
            missing = [name for name in wanted if name not in rows]
            if missing:
                raise ValueError(f"{path}: {len(missing)} of its videos have no vector, the first is {missing[0]}.")
            parts.append(np.sort(np.array([rows[name] for name in wanted], np.int64)))
        folds.append((parts[0], parts[1]))
    return folds


def read_sets(paths: Iterable[Path]) -> list[SetFiles]:
    """Data sets of `--data`: a TOML file names several, anything else is one set with its own file's name."""
    found: list[SetFiles] = []
    for path in paths:
        if not path.exists():
            raise FileNotFoundError(f"{path}: no such file or folder.")
        split = path.with_name(path.stem + ".split.npy")
        if path.suffix == ".toml":
            found += _read_toml(path)
        elif path.is_dir() or path.suffix == ".zip":
            found.append(SetFiles(path.stem, source=path))
        else:
            found.append(SetFiles(path.stem, vectors=path, split=split if split.exists() else None))
    names = [one.name for one in found]
    for name in names:
        if not _NAME.fullmatch(name):
            raise ValueError(
                f"--data: {name!r} can't be the name of a set, after which files are named: no slashes, no control "
                "characters, no dot in front."
            )
        if names.count(name) > 1:
            raise ValueError(f"--data names {name!r} twice; give one of them another name in a TOML file.")
    return found


def _read_toml(path: Path) -> list[SetFiles]:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: not a TOML file ({error}).") from error
    if not content:
        raise ValueError(f"{path}: names no data set.")
    return [_read_set(path, name, entry) for name, entry in content.items()]


def _read_set(path: Path, name: str, entry: Any) -> SetFiles:
    known = {field.name for field in fields(SetFiles)} - {"name"}
    if not isinstance(entry, dict):
        raise ValueError(f"{path}: {name} must be a table, [{name}].")
    unknown = sorted(set(entry) - known)
    if unknown:
        raise ValueError(f"{path}: [{name}] may have {', '.join(sorted(known))}. Got {unknown[0]!r}.")
    if ("vectors" in entry) == ("source" in entry):
        raise ValueError(f"{path}: [{name}] must have either vectors or source.")
    if entry.get("kind", "") not in KINDS:
        raise ValueError(f"{path}: [{name}] kind must be 'fv' or 'vlad'. Got {entry['kind']!r}.")
    values: dict[str, Any] = entry | {"only": tuple(entry.get("only", ()))}
    for word in PATHS:
        if word in values:
            values[word] = path.parent / values[word]
            if not values[word].exists():
                raise FileNotFoundError(f"{path}: [{name}] {word}: {values[word]}: no such file or folder.")
    return SetFiles(name, **values)


def note_set(folder: Path, files: SetFiles, data: DataSet) -> None:
    """Keep beside the results what a report needs to know about a set, so that it can be drawn without the data."""
    note = {"title": files.title or files.name, "kind": files.kind, "toy": files.toy}
    notes = read_notes(folder) | {files.name: note | {"classes": len(np.unique(np.asarray(data.labels)))}}
    with atomic_path(folder / NOTES) as temporary:
        temporary.write_text(json.dumps(notes, indent=1) + "\n", encoding="utf-8")


def read_notes(folder: Path) -> dict[str, dict[str, Any]]:
    """Notes on the sets of a folder of results, by name, in the order they were first used."""
    path = folder / NOTES
    if not path.exists():
        return {}
    try:
        notes = json.loads(path.read_text(encoding="utf-8"))
        return {name: dict(note) for name, note in notes.items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"{path}: damaged ({error}); remove it and run `projbank reproduce` again.") from error
