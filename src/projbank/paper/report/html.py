"""The report as one HTML file that needs nothing else: styles, script and plots stand inside; plots as files, too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from importlib import resources
from pathlib import Path

from projbank.files import atomic_path
from projbank.paper.report import plots, sections
from projbank.paper.report.content import Cell, Column, Figure, Section, Table

TITLE = "Projection banks, measured again"
OUTCOMES = ("agrees", "differs", "in part", "open", "no verdict")


def write_report(folder: Path) -> Path:
    """Draw `report.html`, and every plot as PNG and SVG under `plots/`; returns the page's path.

    Only the results that `projbank reproduce` left in the folder are read, nothing is measured.
    """
    parts = sections.build(folder)
    (folder / "plots").mkdir(exist_ok=True)
    drawn = {}
    for figure in [part for section in parts for part in section.parts if isinstance(part, Figure)]:
        drawn[figure.name], svg, png = plots.render(figure)
        _write(folder / "plots" / f"{figure.name}.png", png)
        _write(folder / "plots" / f"{figure.name}.svg", svg)
    _write(folder / "report.html", page(parts, drawn).encode())
    return folder / "report.html"


def _write(path: Path, content: bytes) -> None:
    with atomic_path(path) as temporary:
        temporary.write_bytes(content)


def page(parts: Sequence[Section], drawn: Mapping[str, str]) -> str:
    """The whole page; `drawn` has the SVG element of each figure by its name."""
    links = "".join(f'<li><a href="#{_id(s.name)}">{escape(s.title)}</a></li>' for s in parts)
    body = "".join(_section(section, drawn) for section in parts)
    files = resources.files("projbank.paper.report")
    style, script = (files.joinpath(name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="icon" href="data:,"><title>{TITLE}</title>\n<style>\n{style}</style></head>\n<body>\n'
        f'<header><h1>{TITLE}</h1></header>\n<nav aria-label="Contents"><ul>{links}</ul></nav>\n<main>\n{body}</main>\n'
        "<footer>Made by projbank report. Click on a heading of a table to sort it.</footer>\n"
        f"<script>\n{script}</script>\n</body></html>\n"
    )


def _id(name: str) -> str:
    return "".join(c if c.isalnum() or c in "-_" else "-" for c in name)


def _section(section: Section, drawn: Mapping[str, str]) -> str:
    parts = "\n".join(_part(part, drawn) for part in section.parts)
    return f'<section id="{_id(section.name)}">\n<h2>{escape(section.title)}</h2>\n{parts}\n</section>\n'


def _part(part: str | Table | Figure, drawn: Mapping[str, str]) -> str:
    if isinstance(part, Figure):
        return f"<figure><figcaption>{escape(part.title)}</figcaption>{drawn[part.name]}</figure>"
    return _table(part) if isinstance(part, Table) else f"<p>{escape(part)}</p>"


def _table(table: Table) -> str:
    heads = "".join(_heading(column) for column in table.columns)
    rows = "".join(
        f"<tr>{''.join(map(_cell, row, table.columns))}</tr>\n" for row in table.rows if len(row) == len(table.columns)
    )
    notes = "".join(f"<li>{escape(note)}</li>" for note in table.notes)
    listed = f'<ul class="notes">{notes}</ul>' if notes else ""
    return (
        f'<h3 id="{_id(table.name)}">{escape(table.title)}</h3>\n<div class="scroll" tabindex="0" role="region" '
        f'aria-labelledby="{_id(table.name)}"><table{_classes(prose=table.prose)}>\n<thead><tr>{heads}</tr></thead>\n'
        f"<tbody>\n{rows}</tbody></table></div>\n{listed}"
    )


def _heading(column: Column) -> str:
    words = f"paper: {column.detail}" if column.paper else column.detail
    detail = f"<small>{escape(words)}</small>" if words else ""
    button = f'<button type="button">{escape(column.title)}</button>'
    return f'<th scope="col"{_classes(paper=column.paper)}>{button}{detail}</th>'


def _cell(cell: Cell, column: Column) -> str:
    value = "" if cell.value is None else f' data-value="{cell.value!r}"'
    outcome, colon, rest = cell.text.partition(": ")
    text = escape(cell.text)
    if colon and outcome in OUTCOMES:
        text = f'<strong class="{_id(outcome)}">{outcome}</strong> {escape(rest)}'
    return f"<td{value}{_classes(best=cell.best, paper=column.paper)}>{text}</td>"


def _classes(**names: bool) -> str:
    used = " ".join(name for name, on in names.items() if on)
    return f' class="{used}"' if used else ""
