"""The files that an extraction makes; what an earlier one made, and which files of a data set have changed since."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from projbank.features.extractor import FeatureExtractor
from projbank.features.readers import Item, Source
from projbank.files import check_output
from projbank.integrity import DamageError, open_npy
from projbank.models.file import load
from projbank.unfinished import Unfinished

FORMAT = "projbank-features"
VERSION = 1
START_OVER = "--relearn starts over"
Line = Mapping[str, Any]


class Outputs:
    """The files of one extraction.

    Beside `vectors.npy` stand `labels.npy`, `files.txt` and so on; beside any other name, say `q.npy`, they are
    `q.labels.npy` and so on, so that several sets can share a folder.

    Attributes
    ----------
    vectors : the vectors, a row per file
    labels : label of each row, int64; -1 where there is none
    files : file of each row, one per line
    classes : label and name of each class, one per line with a tab between
    record : what the rows were made from: the codebook's identity, then size, time and checksum of each file
    codebook : descriptor settings and codebook, for `FeatureExtractor` and `--codebook`
    """

    def __init__(self, vectors: Path) -> None:
        stem = vectors.stem
        prefix = "" if stem == "vectors" else f"{stem}."
        self.vectors = vectors
        self.labels = vectors.with_name(f"{prefix}labels.npy")
        self.files = vectors.with_name(f"{prefix}files.txt")
        self.classes = vectors.with_name(f"{prefix}classes.txt")
        self.record = vectors.with_name(f"{prefix}record.jsonl")
        self.codebook = vectors.with_name(f"{stem}.codebook.safetensors")

    def check_kinds(self) -> None:
        """Raise where a file that no earlier run has written stands in the way of an output."""
        check_output(self.vectors, kind="vectors")
        check_output(self.codebook, kind="codebook")
        if self.vectors.exists() or self.codebook.exists():
            return
        for path in (self.labels, self.files, self.classes, self.record):
            if path.exists() and path.stat().st_size:
                raise FileExistsError(
                    f"cannot write {path}: a file of this name is there and was not made for {self.vectors.name}; name "
                    "another output, move the file, or give --force."
                )

    def unfinished(self) -> Unfinished:
        """The folder of a run that is not finished; it is worth going on with once there is a codebook."""
        targets = {
            "labels.npy": self.labels,
            "files.txt": self.files,
            "classes.txt": self.classes,
            "codebook.safetensors": self.codebook,
            "record.jsonl": self.record,
            "rows.npy": self.vectors,
        }
        return Unfinished(self.vectors, targets, "codebook.safetensors")


@dataclass(frozen=True)
class Previous:
    """The vectors of an earlier run: the codebook, and for each row the file and its size, time and checksum."""

    outputs: Outputs
    extractor: FeatureExtractor
    vectors: NDArray[np.float32] | None
    lines: list[Line]
    labels: NDArray[np.int64] | None = None

    @classmethod
    def read(cls, outputs: Outputs) -> Self | None:
        """Read what stands there; None if there are neither vectors nor a codebook."""
        if not outputs.codebook.exists():
            if outputs.vectors.exists():
                raise FileExistsError(
                    f"{outputs.vectors}: exists without its codebook {outputs.codebook.name}; {START_OVER}."
                )
            return None
        extractor = load(outputs.codebook)
        if not isinstance(extractor, FeatureExtractor):
            raise ValueError(f"{outputs.codebook}: holds a {type(extractor).__name__}, not a codebook; {START_OVER}.")
        if not outputs.vectors.exists():
            return cls(outputs, extractor, None, [])
        lines = _read_lines(outputs, extractor.identity())
        vectors = _read_array(outputs.vectors)
        if vectors.dtype != np.float32 or vectors.shape != (len(lines), extractor.n_dims_):
            raise ValueError(
                f"{outputs.vectors}: shape {vectors.shape} and dtype {vectors.dtype} do not fit {len(lines)} files "
                f"and a codebook of {extractor.n_dims_} dimensions; {START_OVER}."
            )
        labels = _read_array(outputs.labels) if outputs.labels.exists() else None
        return cls(
            outputs, extractor, vectors, lines, labels if labels is not None and len(labels) == len(lines) else None
        )

    def check_same(self, extractor: FeatureExtractor) -> None:
        """Raise where another extractor than that of the earlier run is asked for."""
        old, new = self.extractor.settings(), extractor.settings()
        for name in sorted(old.keys() | new.keys()):
            if old.get(name) != new.get(name):
                raise ValueError(
                    f"{self.outputs.codebook}: was made with {name}={old.get(name)}. Got {name}={new.get(name)}; "
                    f"{START_OVER}."
                )
        if hasattr(extractor, "encoder_") and extractor.identity() != self.extractor.identity():
            raise ValueError(
                f"{self.outputs.vectors}: was made with the codebook {self.extractor.identity()}, not with the "
                f"given one, {extractor.identity()}; {START_OVER}."
            )


@dataclass
class Plan:
    """Rows to come, in order: the index of each item in the source, and the old row that is kept, if any.

    Rows that were there keep their order, new files follow in the order of the source.
    """

    rows: list[tuple[int, int | None]]
    n_new: int
    changed: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    relabelled: bool = False

    @classmethod
    def make(cls, source: Source, previous: Previous | None) -> Self:
        """Compare the files of a data set with those of the earlier run."""
        places = {item.file: i for i, item in enumerate(source.items)}
        lines, labels = ([], None) if previous is None else (previous.lines, previous.labels)
        plan = cls([], 0)
        for row, line in enumerate(lines):
            place = places.pop(line["file"], None)
            if place is None:
                plan.gone.append(line["file"])
                continue
            plan.relabelled |= labels is None or labels[row] != source.items[place].label
            if is_same(source, source.items[place], line):
                plan.rows.append((place, row))
            else:
                plan.changed.append(line["file"])
                plan.rows.append((place, None))
        if previous is not None and lines and not plan.rows:
            raise ValueError(
                f"{previous.outputs.vectors}: holds vectors of other files (first: {lines[0]['file']}), none of which "
                f"is in {source.root}; write to another file, or {START_OVER}."
            )
        plan.n_new = len(places)
        plan.rows += [(place, None) for place in places.values()]
        return plan

    @property
    def todo(self) -> list[int]:
        """Indices of the items to describe."""
        return [item for item, row in self.rows if row is None]

    @property
    def is_empty(self) -> bool:
        """Whether the vectors are as they should be."""
        return bool(self.rows) and not (self.todo or self.gone or self.relabelled)

    def summary(self) -> str:
        """What is different since the earlier run, in one line."""
        parts = [_count(self.n_new, "new file")]
        if self.changed:
            parts.append(f"{_count(len(self.changed), 'changed file')} (first: {self.changed[0]})")
        if self.gone:
            parts.append(f"{_count(len(self.gone), 'file')} gone, rows dropped (first: {self.gone[0]})")
        if self.relabelled:
            parts.append("labels numbered anew")
        return ", ".join(parts) + "; codebook kept"


def header(extractor: FeatureExtractor) -> Line:
    """First line of a record."""
    return {"format": FORMAT, "version": VERSION, "codebook": extractor.identity()}


def _read_lines(outputs: Outputs, identity: str) -> list[Line]:
    """Lines of the files that have a row; a run of 0.1.0 left only their names."""
    if not outputs.record.exists():
        if not outputs.files.exists():
            raise FileExistsError(f"{outputs.vectors}: exists without {outputs.files.name}; {START_OVER}.")
        return [{"file": name} for name in outputs.files.read_text("utf-8").splitlines()]
    try:
        first, *lines = map(json.loads, outputs.record.read_text("utf-8").splitlines())
        if first["format"] != FORMAT:
            raise ValueError("not a record of features")
        kept = [line for line in lines if line["ok"] and isinstance(line["file"], str)]
        made_with, newer = str(first["codebook"]), first["version"] > VERSION
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{outputs.record}: damaged ({error}); {START_OVER}.") from error
    if newer:
        raise ValueError(f"{outputs.record}: written by a newer projbank; upgrade to read it.")
    if made_with != identity:
        raise ValueError(
            f"{outputs.vectors}: was made with the codebook {made_with}, but {outputs.codebook.name} is "
            f"{identity}; put the right one back, or {START_OVER}."
        )
    return kept


def _read_array(path: Path) -> NDArray[Any]:
    try:
        return open_npy(path)[0]
    except DamageError as error:
        raise DamageError(f"{error} ({START_OVER}.)") from error


def is_same(source: Source, item: Item, line: Line) -> bool:
    """Compare size and time, and the checksum where only the time differs."""
    try:
        stamp = source.stamp(item)
        if "size" in line and stamp["size"] != line["size"]:
            return False
        if "crc" not in line or ("mtime_ns" in stamp and stamp["mtime_ns"] == line.get("mtime_ns")):
            return True
        return source.checksum(item) == line["crc"]
    except OSError:
        return False


def _count(n: int, what: str) -> str:
    return f"{n} {what}" + ("s" if n != 1 else "")
