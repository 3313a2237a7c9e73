"""What a report needs to know about data sets, kept beside the results, so that it can be drawn without the data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from projbank.evaluate.data import DataSet
from projbank.evaluate.results import Record, ResultFile, read_results
from projbank.features.extract import Outputs
from projbank.files import atomic_path
from projbank.paper.sets import SetFiles

FILE = "sets.json"
COMMANDS = "commands.txt"


def read_notes(folder: Path) -> dict[str, dict[str, Any]]:
    """Notes on the sets of a folder of results, by name, in the order they were first used."""
    path = folder / FILE
    if not path.exists():
        return {}
    try:
        notes = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path}: damaged ({error}); remove it and run `projbank reproduce` again.") from error
    if not isinstance(notes, dict) or not all(isinstance(note, dict) for note in notes.values()):
        raise ValueError(f"{path}: not the notes of `projbank reproduce`; remove it.")
    return notes


def note_set(folder: Path, files: SetFiles, data: DataSet) -> None:
    """Keep title, kind and classes of a set."""
    notes = read_notes(folder)
    notes[files.name] = data.identity | {
        "title": files.title or files.name,
        "kind": files.kind,
        "classes": len(set(data.labels.tolist())),
        "class_names": _class_names(files),
    }
    with atomic_path(folder / FILE) as temporary:
        temporary.write_text(json.dumps(notes, indent=1) + "\n", encoding="utf-8")


def take_results(folder: Path, path: Path) -> int:
    """Add the retrieval cells of a file of `projbank evaluate` to a folder of results; the newer of two is kept.

    Returns how many were new or newer.
    """
    by_name: dict[str, list[Record]] = {}
    for record in read_results(path):
        if "experiment" in record["protocol"]:
            raise ValueError(
                f"{path}: holds cells of `{record['protocol']['experiment']}`, not of `projbank evaluate`."
            )
        by_name.setdefault(record["dataset"]["name"], []).append(record)
    (folder / "results").mkdir(parents=True, exist_ok=True)
    files = {name: ResultFile(folder / "results" / f"{name}.json") for name in by_name}
    return sum(files[name].merge(records) for name, records in by_name.items())


def note_command(folder: Path, command: str) -> None:
    """Keep a command line that results came from; the same one is kept once."""
    known = read_commands(folder)
    if command not in known:
        with atomic_path(folder / COMMANDS) as temporary:
            temporary.write_text("".join(line + "\n" for line in [*known, command]), encoding="utf-8")


def read_commands(folder: Path) -> list[str]:
    """Command lines that the results of a folder came from, oldest first."""
    path = folder / COMMANDS
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def _class_names(files: SetFiles) -> dict[str, str]:
    assert files.vectors is not None
    path = Outputs(files.vectors).classes
    if not path.is_file():
        return {}
    lines = path.read_text(encoding="utf-8").splitlines()
    return {label: name for label, _, name in (line.partition("\t") for line in lines)}
