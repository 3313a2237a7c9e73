"""Tables: records of several seeds as rows of means and spreads, best precision first."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from projbank.evaluate.results import Record


@dataclass(frozen=True)
class Row:
    """One method at one length over all its seeds; a failed one has an error and no numbers."""

    method: str
    n_bits: int | None
    params: dict[str, Any]
    n_seeds: int
    n_failed: int
    code_bytes: int
    precision: dict[int, tuple[float, float]]
    training_seconds: float
    coding_microseconds: float
    model_bytes: int
    error: str


def summarise(records: list[Record]) -> list[Row]:
    """Rows of a table, best precision first, failed ones last; asymmetric scores are rows of their own."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        text = json.dumps([record["method"], record["n_bits"], record["params"]], sort_keys=True)
        groups.setdefault(text, []).append(record)
    rows = []
    for group in groups.values():
        rows.append(_row(group, "precision", ""))
        if any("asymmetric" in record for record in group):
            rows.append(_row(group, "asymmetric", " (asymmetric)"))
    return sorted(rows, key=lambda row: -next(iter(row.precision.values()), (-1.0, 0.0))[0])


def _row(group: list[Record], score: str, suffix: str) -> Row:
    good = [record for record in group if score in record]
    failed = [record for record in group if "error" in record]
    first = group[0]
    ks = [int(k) for k in good[0][score]] if good else []
    return Row(
        method=first["method"] + suffix,
        n_bits=first["n_bits"],
        params=first["params"],
        n_seeds=len(good),
        n_failed=len(failed),
        code_bytes=good[0]["code_bytes"] if good else 0,
        precision={k: _mean_and_spread([record[score][str(k)] for record in good]) for k in ks},
        training_seconds=float(np.mean([record["training_seconds"] for record in good])) if good else 0.0,
        coding_microseconds=1e6 * float(np.mean([record["coding_seconds"] for record in good])) if good else 0.0,
        model_bytes=good[0]["model_bytes"] if good else 0,
        error=failed[0]["error"] if failed else "",
    )


def _mean_and_spread(values: list[float]) -> tuple[float, float]:
    """Mean and standard deviation (0 for a single value)."""
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


def draw(rows: list[Row], title: str) -> Any:
    """Make a Rich table of the rows."""
    from rich.table import Table

    ks = next((list(row.precision) for row in rows if row.precision), [])
    table = Table(title=title, title_justify="left")
    table.add_column("method", no_wrap=True)
    for name in ("bits", "bytes", *(f"P@{k}" for k in ks), "training s", "coding us", "model MB", "seeds"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("note")
    for row in rows:
        name = row.method + "".join(f" {key}={value}" for key, value in row.params.items())
        bits = "all" if row.n_bits is None else str(row.n_bits)
        if not row.precision:
            table.add_row(name, bits, *[""] * (len(ks) + 5), row.error)
            continue
        scores = [_with_spread(*row.precision[k], row.n_seeds) for k in ks]
        costs = [f"{row.training_seconds:.1f}", f"{row.coding_microseconds:.1f}", f"{row.model_bytes / 1e6:.2f}"]
        note = f"{row.n_failed} failed: {row.error}" if row.error else ""
        table.add_row(name, bits, str(row.code_bytes), *scores, *costs, str(row.n_seeds), note)
    return table


def _with_spread(mean: float, spread: float, n: int) -> str:
    return f"{mean:.4f} ± {spread:.4f}" if n > 1 else f"{mean:.4f}"
