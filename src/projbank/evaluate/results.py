"""Result files: JSON, one record per measured cell, rewritten whole after each, so that a run can go on."""

from __future__ import annotations

import datetime
import json
import os
import platform
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from projbank.files import atomic_path

FORMAT = "projbank-results"
VERSION = 1
KEY = ("dataset", "protocol", "method", "n_bits", "params", "seed")
"""What tells cells apart; each record also has machine, date, and what was measured or why it failed."""

Record = dict[str, Any]


class ResultFile:
    """Records of one or more runs, in memory and on disk.

    Parameters
    ----------
    path : file to go on with, or to make; its folder must exist
    borrow : other files whose cells count as measured, too; nothing is written to them

    Raises
    ------
    ValueError
        If there is such a file but it is not one of results; it is left as it is.
    """

    def __init__(self, path: str | os.PathLike[str], borrow: Iterable[ResultFile] = ()) -> None:
        self.path = Path(path)
        if not self.path.parent.is_dir():  # told before the work, not after it
            raise FileNotFoundError(f"cannot write {self.path}: there is no folder {self.path.parent}")
        known = read_results(self.path) if self.path.exists() else []
        self._cells = {_key_text(record): record for record in known}
        self._borrow = list(borrow)

    @property
    def records(self) -> list[Record]:
        """All records, oldest cell first."""
        return list(self._cells.values())

    def find(self, key: Record) -> Record | None:
        """Find the record of a cell, if it was measured."""
        known = (file._cells.get(_key_text(key)) for file in (self, *self._borrow))
        return next((record for record in known if record is not None), None)

    def put(self, record: Record) -> None:
        """Add a record, or replace that of the same cell, and write the file."""
        self._cells[_key_text(record)] = record
        self._write()

    def merge(self, records: Iterable[Record]) -> int:
        """Add records of another run where they are new, or newer than those of the same cell; returns how many."""
        taken = 0
        for record in records:
            known = self._cells.get(_key_text(record))
            if known is None or known["date"] < record["date"]:
                self._cells[_key_text(record)] = record
                taken += 1
        if taken:
            self._write()
        return taken

    def _write(self) -> None:
        with atomic_path(self.path) as temporary:
            lines = ",\n".join(json.dumps(record) for record in self.records)  # one cell a line, for version control
            text = f'{{"format": "{FORMAT}", "version": {VERSION}, "cells": [\n{lines}\n]}}\n'
            temporary.write_text(text, encoding="utf-8")


def read_results(path: str | os.PathLike[str]) -> list[Record]:
    """Records of a result file."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
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
    return {"date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"), "machine": machine()}


def machine() -> Record:
    """Processor, cores, Python and system."""
    cpu = platform.processor() or "unknown"
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line.partition(":")[2] for line in info.read_text().splitlines() if line.startswith("model name")]
        cpu = names[0].strip() if names else cpu
    return {"cpu": cpu, "cores": os.cpu_count(), "python": platform.python_version(), "system": platform.platform()}


def _key_text(record: Record) -> str:
    return json.dumps([record[name] for name in KEY], sort_keys=True)
