"""Fold result files of `projbank reproduce` and `projbank evaluate` into docs/results.json.

`python docs/take_results.py out/results/*.json` adds what they measured to the records of the set of the same name, as
means over seeds; what stands there from more splits stays. Then `python docs/make_results.py` writes the pages.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import fmean
from typing import Any

from projbank.evaluate.results import read_results

RECORDS = Path(__file__).parent / "results.json"
RENAMED = {"ucf101": "ucf101_unit"}
DEFAULT_SPLITS = 5
UNLEARNT = ("original", "lsh")
"""Methods that the number of training vectors does not change."""
ONE_BIT = "one bit of all dimensions"
SOFT = {"": "{} hard", "grouping=soft": "{} soft"}
Records = dict[str, Any]
KEPT: dict[str, Callable[[Records], float]] = {
    "tuned": lambda cell: cell["precision"]["50"],
    "action": lambda cell: cell["accuracy"],
}
"""Protocols of which a value, splits and what was chosen are kept by set, method and bits."""


def take(records: Records, found: list[Records]) -> int:
    """Add cells to the records of the page; returns how many means were taken."""
    cells: dict[tuple, dict[int, Records]] = {}
    for cell in found:
        if "error" not in cell:
            name = RENAMED.get(cell["dataset"]["name"], cell["dataset"]["name"])
            kind = cell.get("of", cell["protocol"].get("experiment", "retrieval"))
            words = _words(cell, kind, records["sets"].get(name))
            cells.setdefault((kind, name, words, cell["n_bits"]), {})[cell["seed"]] = cell
    taken = 0
    for (kind, name, words, n_bits), by_seed in sorted(cells.items(), key=str):
        group = list(by_seed.values())
        bits, taken = f"{n_bits or 'all'}", taken + 1
        if kind == "retrieval":
            if name in records["sets"] and "=" not in words:
                _take_retrieval(records, name, words, n_bits, group)
            else:
                _take_other(records, name, words, bits, group)
        elif kind == "soft" and n_bits:
            title = SOFT[words.partition(" ")[2]].format(words.split()[0])
            _take_length(records, "soft", name, title, n_bits, [cell["precision"]["50"] for cell in group])
        elif kind == "pair-error":
            title = ONE_BIT if words == "original" else words
            _take_length(records, "pair_error", name, title, n_bits, [cell["pair_error"] for cell in group])
        elif kind in KEPT:
            values = [_mean(KEPT[kind](cell) for cell in group), len(group)]
            chosen = [cell["chosen"] for cell in group if "chosen" in cell]
            default = cells.get(("retrieval", name, words, n_bits), {})
            if chosen and set(by_seed) <= set(default):  # what default parameters find on the same splits
                chosen = [chosen, _mean(KEPT[kind](default[seed]) for seed in by_seed)]
            elif chosen:
                chosen = [chosen]
            _place(records, kind, name, words)[bits] = [*values, *chosen]
        elif kind == "causes":
            value = _mean(cell["precision"]["50"] for cell in group)
            training = group[0]["protocol"]["training"]
            _place(records, kind, name, bits).update({"training": training, words: [value, len(group)]})
        else:
            taken -= 1
    return taken


def _place(records: Records, *keys: str) -> Records:
    """The records under some keys, made where they are missing."""
    for key in keys:
        records = records.setdefault(key, {})
    return records


def _words(cell: Records, kind: str, about: Records | None) -> str:
    """Method and parameters of a cell, and from how many vectors it learnt where that is not the number of the page."""
    words = [cell["method"], *(f"{word}={value}" for word, value in sorted(cell["params"].items()))]
    training = cell["protocol"].get("training")
    if kind in ("retrieval", "tuned") and about and cell["method"] not in UNLEARNT:
        words += [f"N={training}"] if training not in (None, about["learnt_from"]) else []
    return " ".join(words)


def _take_retrieval(records: Records, name: str, words: str, n_bits: int | None, group: list[Records]) -> None:
    """P@10 and P@50 at the lengths of the page, and the ranking of the whole gallery at any."""
    bits, lengths, own = f"{n_bits or 'all'}", records["sets"][name]["bits"], records["retrieval"][name]
    if n_bits is not None and n_bits not in lengths:
        _take_other(records, name, words, bits, group)
    else:
        values = own.setdefault(words, [[None, None, 0] for _ in (lengths if n_bits else [None])])
        place = lengths.index(n_bits) if n_bits else 0
        if _splits(values[place]) < len(group):
            values[place] = [_mean(cell["precision"][k] for cell in group) for k in ("10", "50")]
            values[place] += [len(group)] if len(group) != DEFAULT_SPLITS else []
    if "map" in group[0]:
        deep = [_mean(cell[word] for cell in group) for word in ("map", "area")]
        _keep(_place(records, "whole", name, words), bits, [*deep, len(group)])


def _take_length(records: Records, part: str, name: str, title: str, n_bits: int | None, values: list[float]) -> None:
    """A mean of a length, with its number of splits, unless there is one of more splits."""
    own = _place(records, part, name)
    known = {known: [known, *rest] for known, *rest in own.get(title, [])}
    if known.get(n_bits, [0])[-1] <= len(values):
        known[n_bits] = [n_bits, _mean(values), len(values)]
    own[title] = [known[n] for n in sorted(known, key=lambda n: n or 0)]


def _take_other(records: Records, name: str, words: str, bits: str, group: list[Records]) -> None:
    """P@10, P@50, MAP, area and splits of sets, lengths and variants that the main tables do not have."""
    values = [_mean(cell["precision"][k] for cell in group) for k in ("10", "50")]
    values += [_mean(cell[word] for cell in group) if word in group[0] else None for word in ("map", "area")]
    _keep(_place(records, "variants", name, words), bits, [*values, len(group)])


def _keep(place: Records, bits: str, values: list[Any]) -> None:
    """Keep means, whose last number is that of splits, unless there are some of more splits."""
    if place.get(bits, [0])[-1] <= values[-1]:
        place[bits] = values


def _splits(value: list[Any]) -> int:
    return value[2] if len(value) > 2 else DEFAULT_SPLITS


def _mean(values: Iterable[float]) -> float:
    return round(fmean(values), 3)


def write(records: Records) -> None:
    """Write the records, a method a line."""
    RECORDS.write_text(_text(records, 0) + "\n", encoding="utf-8")


def _text(value: Any, depth: int) -> str:
    if not isinstance(value, dict):
        inner = ",".join(_text(one, depth + 1) for one in value) if isinstance(value, list) else ""
        return f"[{inner}]" if isinstance(value, list) else json.dumps(value, ensure_ascii=False)
    fields = [f"{json.dumps(key)}: {_text(one, depth + 1)}" for key, one in value.items()]
    if depth < 2 or (depth == 2 and any(isinstance(one, dict) or _nested(one) for one in value.values())):
        indent = " " * (depth + 1)
        return "{\n" + ",\n".join(indent + field for field in fields) + "\n" + indent[1:] + "}"
    return "{" + ", ".join(fields) + "}"


def _nested(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(one, list) for one in value)


def main() -> None:
    """Take the files that are named."""
    parser = argparse.ArgumentParser(description="Fold result files into docs/results.json.")
    parser.add_argument("files", type=Path, nargs="+")
    records = json.loads(RECORDS.read_text(encoding="utf-8"))
    found = []
    for path in parser.parse_args().files:  # of a protocol whose cells look like those of retrieval, its file tells
        of = {"of": "soft"} if path.name.endswith(".soft.json") else {}
        found += [cell | of for cell in read_results(path)]
    print(f"{take(records, found)} means taken from {len(found)} cells")
    write(records)


if __name__ == "__main__":
    main()
