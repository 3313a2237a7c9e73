"""What a report is made of: sections of paragraphs, tables and figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import floor, log10
from typing import Any, NamedTuple

from projbank.evaluate.results import Mean


class Cell(NamedTuple):
    """Text of a cell, the number it is sorted by, whether it is the best of its column, and of how many seeds."""

    text: str
    value: float | None = None
    best: bool = False
    n: int = 1


class Column(NamedTuple):
    """Heading of a column, a second line under it, and whether it holds the paper's figures."""

    title: str
    detail: str = ""
    paper: bool = False


class Table(NamedTuple):
    """A table; its name is unique in a report. Cells of `prose` wrap, those of numbers do not."""

    name: str
    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    notes: Sequence[str] = ()
    prose: bool = False


class Figure(NamedTuple):
    """A plot; `draw` fills a matplotlib figure. The title says what is to be seen; the name serves as file name."""

    name: str
    title: str
    draw: Callable[[Any], None]


class Section(NamedTuple):
    """A headed part of the report."""

    name: str
    title: str
    parts: Sequence[str | Table | Figure]


def decimal(value: float, digits: int = 3) -> str:
    """Write a number; below 1 without the leading zero, as in the tables of the field, and 0 as 0."""
    text = f"{value:,.{digits}f}"
    if not text.strip("-0."):
        return "0"
    return text.replace("0.", ".", 1) if text.startswith(("0.", "-0.")) else text


def three_digits(value: float) -> str:
    """Three significant digits, for values that range from microseconds to hours."""
    return decimal(value, max(0, 2 - floor(log10(value))) if value > 0 else 0)


def number(value: float | None, write: Callable[[float], str] = decimal) -> Cell:
    """A cell with a plain number."""
    return Cell("-") if value is None else Cell(write(value), value)


def with_spread(mean: Mean | None, digits: int = 3) -> Cell:
    """A cell with mean and spread; a single seed is marked by a star."""
    if mean is None:
        return Cell("-")
    least = 10.0**-digits
    width = decimal(mean.spread, digits) if mean.spread >= least / 2 else f"<{decimal(least, digits)}"
    spread = f" ± {width}" if mean.n > 1 else "*"
    return Cell(decimal(mean.value, digits) + spread, mean.value, n=mean.n)


def mark_best(rows: list[list[Cell]], among: list[bool], *, lowest: bool = False) -> list[list[Cell]]:
    """Mark the best cell of every column among the given rows; one seed does not count beside means of several."""
    marked = [list(row) for row in rows]
    for j in range(1, max((len(row) for row in rows), default=0)):
        cells = [(row[j].value, i) for i, row in enumerate(rows) if among[i] and row[j].value is not None]
        several = [(value, i) for value, i in cells if rows[i][j].n > 1]
        values = [value for value, _ in several or cells if value is not None]
        if len(values) > 1:
            best = min(values) if lowest else max(values)
            for value, i in several or cells:
                marked[i][j] = marked[i][j]._replace(best=value == best)
    return marked
