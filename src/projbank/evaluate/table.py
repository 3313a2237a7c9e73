"""Tables: records of several seeds as rows of means and spreads, best score first."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from projbank.evaluate.results import Mean, Record

SCORES = {"precision": "P", "recall": "R"}
"""What records hold, by labels or without, and how columns are headed."""
WORK = ("training", "coding")


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


def draw(rows: list[Row], title: str) -> Any:
    """Make a Rich table of the rows."""
    from rich.table import Table

    letter = SCORES[score_of([record for row in rows for record in row.good])]
    ks = next((list(row.scores) for row in rows if row.scores), [])
    table = Table(title=title, title_justify="left")
    table.add_column("method", no_wrap=True)
    for name in ("bits", "bytes", *(f"{letter}@{k}" for k in ks), "training s", "coding us", "model MB", "seeds"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("note")
    for row in rows:
        bits = "all" if row.n_bits is None else str(row.n_bits)
        error = row.failed[0]["error"] if row.failed else ""
        if not row.scores:
            table.add_row(row.name, bits, *[""] * (len(ks) + 5), error)
            continue
        scores = [_with_spread(row.scores[k]) for k in ks]
        training, coding = (Mean.of([record[f"{work}_seconds"] for record in row.good]).value for work in WORK)
        times = [f"{training:.1f}", f"{1e6 * coding:.1f}"]
        megabytes, code_bytes = f"{row.good[0]['model_bytes'] / 1e6:.2f}", str(row.good[0]["code_bytes"])
        note = f"{len(row.failed)} failed: {error}" if error else ""
        table.add_row(row.name, bits, code_bytes, *scores, *times, megabytes, str(len(row.good)), note)
    return table


def _with_spread(mean: Mean) -> str:
    return f"{mean.value:.4f} ± {mean.spread:.4f}" if mean.n > 1 else f"{mean.value:.4f}"
