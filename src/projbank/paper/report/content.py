"""What a report is made of, whatever it is written as: sections of paragraphs, tables, figures, verdicts, pictures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from projbank.paper.report.study import Mean


@dataclass(frozen=True)
class Cell:
    """Text of a cell, the number it is sorted by, whether it is the best of its column, and whether of one seed."""

    text: str
    value: float | None = None
    best: bool = False
    single: bool = False


@dataclass(frozen=True)
class Column:
    """Heading of a column, a second line under it, and whose figures it holds: "ours", "paper" or "" for names."""

    title: str
    detail: str = ""
    owner: str = "ours"


@dataclass(frozen=True)
class Table:
    """A table; its name is unique in a report and serves as file name."""

    name: str
    title: str
    columns: list[Column]
    rows: list[list[Cell]]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Figure:
    """A plot; `draw` fills a matplotlib figure. The title says what is to be seen."""

    name: str
    title: str
    draw: Callable[[Any], None]
    size: tuple[float, float] = (5.6, 4.0)


@dataclass(frozen=True)
class Verdict:
    """A statement of the paper, whether it holds here ("agrees", "differs" or "open"), and the figures for it."""

    statement: str
    outcome: str
    evidence: str


@dataclass(frozen=True)
class Picture:
    """A small picture, what it shows, and whether it is right (None for the query)."""

    path: Path
    caption: str
    right: bool | None


@dataclass(frozen=True)
class Gallery:
    """Queries, each with rows of what different searches found."""

    name: str
    title: str
    queries: list[tuple[Picture, list[tuple[str, list[Picture]]]]]


@dataclass(frozen=True)
class Code:
    """Lines that are set as they are."""

    lines: tuple[str, ...]


Part = str | Table | Figure | Gallery | Code | list[Verdict]


@dataclass(frozen=True)
class Section:
    """A headed part of the report."""

    name: str
    title: str
    parts: list[Part]


def number(value: float | None, digits: int = 3) -> Cell:
    """A cell with a plain number; three decimals without the leading zero, as in the tables of the field."""
    if value is None:
        return Cell("-")
    return Cell(decimal(value, digits), value)


def decimal(value: float, digits: int = 3) -> str:
    """Write a number; below 1 without the leading zero."""
    text = f"{value:,.{digits}f}"
    return text.replace("0.", ".", 1) if text.startswith(("0.", "-0.")) else text


def with_spread(mean: Mean | None, digits: int = 3) -> Cell:
    """A cell with mean and spread; a single seed is marked by a star."""
    if mean is None:
        return Cell("-")
    spread = f" ± {decimal(mean.spread, digits)}" if mean.n > 1 else "*"
    return Cell(decimal(mean.value, digits) + spread, mean.value, single=mean.n == 1)


def mark_best(rows: list[list[Cell]], among: list[bool], *, lowest: bool = False) -> list[list[Cell]]:
    """Mark the best cell of every column among the given rows; one seed does not count beside means of several."""
    marked = [list(row) for row in rows]
    for j in range(1, max((len(row) for row in rows), default=0)):
        cells = [(row[j], i) for i, row in enumerate(rows) if among[i] and row[j].value is not None]
        if not all(cell.single for cell, _ in cells):
            cells = [(cell, i) for cell, i in cells if not cell.single]
        if len(cells) > 1:
            best = (min if lowest else max)(cell.value for cell, _ in cells)  # type: ignore[type-var]
            for cell, i in cells:
                if cell.value == best:
                    marked[i][j] = replace(cell, best=True)
    return marked
