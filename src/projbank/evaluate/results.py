"""Results: a JSON file of records, rewritten whole after each, so that a run can go on; and tables of them."""

from __future__ import annotations

import datetime
import json
import os
import platform
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from projbank.files import atomic_path
from projbank.integrity import input_file

FORMAT = "projbank-results"
VERSION = 1
KEY = ("dataset", "protocol", "method", "n_bits", "params", "seed")
"""What distinguishes cells; each record also has machine, date, and what was measured or why it failed."""

Record = dict[str, Any]

SCORES = {"precision": "P", "recall": "R"}
"""What records hold, by labels or without, and how columns are headed."""
WORK = ("training", "coding")


@dataclass(frozen=True)
class Mean:
    """Mean and standard deviation over seeds (0 for a single one)."""

    value: float
    spread: float
    n: int

    @classmethod
    def of(cls, values: list[float]) -> Mean:
        """Mean of at least one value."""
        return cls(float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else 0.0, len(values))


class ResultFile:
    """Records of one or more runs, in memory and on disk.

    Parameters
    ----------
    path : file to go on with, or to make, in a folder that exists; None keeps the records in memory only
    borrow : other files whose cells count as measured, too; nothing is written to them

    Raises
    ------
    ValueError
        If the file exists but does not hold results; it is left as it is.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, borrow: Iterable[ResultFile] = ()) -> None:
        self.path = None if path is None else Path(path)
        if self.path is not None and not self.path.parent.is_dir():  # an error before the work, not after it
            raise FileNotFoundError(f"cannot write {self.path}: there is no folder {self.path.parent}")
        known = read_results(self.path) if self.path is not None and self.path.exists() else []
        self._cells = {_key_text(record): record for record in known}
        self._borrow = list(borrow)

    @property
    def records(self) -> list[Record]:
        """All records, oldest cell first."""
        return list(self._cells.values())

    def find(self, key: Record) -> Record | None:
        """Find the record of a cell, if it was measured."""
        text = _key_text(key)
        return next((file._cells[text] for file in (self, *self._borrow) if text in file._cells), None)

    def put(self, record: Record) -> None:
        """Add a record, or replace that of the same cell, and write the file."""
        self._cells[_key_text(record)] = record
        if self.path is not None:
            with atomic_path(self.path) as temporary:
                lines = ",\n".join(json.dumps(record) for record in self.records)  # one cell a line
                text = f'{{"format": "{FORMAT}", "version": {VERSION}, "cells": [\n{lines}\n]}}\n'
                temporary.write_text(text, encoding="utf-8")


def read_results(path: str | os.PathLike[str]) -> list[Record]:
    """Records of a result file."""
    try:
        content = json.loads(input_file(path, "result file").read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"{path}: not a result file, or damaged ({error}).") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError(f"{path}: a JSON file, but not one of projbank's results.")
    if content.get("version") != VERSION:
        raise ValueError(f"{path}: written by another version of projbank (file version {content.get('version')}).")
    records = content.get("cells")
    if not isinstance(records, list) or not all(isinstance(r, dict) and set(KEY) <= set(r) for r in records):
        raise ValueError(f"{path}: damaged result file (cells lack {', '.join(KEY)}).")
    return records


def stamp() -> Record:
    """Date and machine of a measurement."""
    cpu = platform.processor() or "unknown"
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line.partition(":")[2] for line in info.read_text().splitlines() if line.startswith("model name")]
        cpu = names[0].strip() if names else cpu
    system = {"cores": os.cpu_count(), "python": platform.python_version(), "system": platform.platform()}
    date = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return {"date": date, "machine": {"cpu": cpu} | system}


def _key_text(record: Record) -> str:
    return json.dumps([record[name] for name in KEY], sort_keys=True)


class Row(NamedTuple):
    """One method at one length over all its seeds; without records that did not fail, there are no scores."""

    name: str
    n_bits: int | None
    scores: dict[int, Mean]
    good: list[Record]
    failed: list[Record]


def summarise(records: list[Record]) -> list[Row]:
    """Rows of a table, best score first, failed ones last; asymmetric scores are rows of their own."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        text = json.dumps([record["method"], record["n_bits"], record["params"]], sort_keys=True)
        groups.setdefault(text, []).append(record)
    rows = []
    for group in groups.values():
        first, failed = group[0], [record for record in group if "error" in record]
        params = "".join(f" {key}={value}" for key, value in first["params"].items())
        for score, suffix in ((score_of(records), ""), ("asymmetric", " (asymmetric)")):
            good = [record for record in group if score in record]
            if good or not suffix:
                ks = good[0][score] if good else ()
                scores = {int(k): Mean.of([record[score][k] for record in good]) for k in ks}
                rows.append(Row(first["method"] + suffix + params, first["n_bits"], scores, good, failed))
    return sorted(rows, key=lambda row: -next((mean.value for mean in row.scores.values()), -1.0))


def score_of(records: list[Record]) -> str:
    """Whether records are of precision by labels, or of recall of the floats' neighbours."""
    return "recall" if any("recall" in record for record in records) else "precision"


def draw(rows: list[Row]) -> tuple[Any, list[str]]:
    """Make a Rich table of the rows, which fits 80 columns, and a line for each row of which something failed."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    letter = SCORES[score_of([record for row in rows for record in row.good])]
    ks = next((list(row.scores) for row in rows if row.scores), [])
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("method", min_width=14)
    for name in ("bits", "bytes", *(f"{letter}@{k}" for k in ks), "train s", "code us", "MB"):
        table.add_column(name, justify="right", no_wrap=True)
    notes = []
    for row in rows:
        bits = "all" if row.n_bits is None else str(row.n_bits)
        if row.failed:
            notes.append(f"{row.name}, {bits} bits, {len(row.failed)} failed: {row.failed[0]['error']}")
        if not row.scores:
            table.add_row(row.name, bits, *["-"] * (len(ks) + 4))
            continue
        first, *others = (row.scores[k] for k in ks)
        scores = [_with_spread(first), *(f"{mean.value:.3f}" for mean in others)]
        training, coding = (Mean.of([record[f"{work}_seconds"] for record in row.good]).value for work in WORK)
        megabytes, code_bytes = f"{row.good[0]['model_bytes'] / 1e6:.2f}", str(row.good[0]["code_bytes"])
        times = [f"{training:.1f}", f"{1e6 * coding:.1f}"]
        table.add_row(row.name, bits, code_bytes, *scores, *times, megabytes)
    return table, notes


def _with_spread(mean: Mean) -> str:
    return f"{mean.value:.3f} ±{mean.spread:.3f}" if mean.n > 1 else f"{mean.value:.3f}"
