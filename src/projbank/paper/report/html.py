"""The report as one HTML file that needs nothing else: styles, script, plots and pictures stand inside."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from html import escape
from importlib import resources
from typing import Any

from projbank.paper.report.content import Cell, Code, Column, Figure, Gallery, Part, Picture, Section, Table, Verdict

TITLE = "Projection banks, measured again"
_SIGNS = {True: "✓", False: "✗"}


def page(sections: list[Section], drawn: Mapping[str, str]) -> str:
    """The whole page; `drawn` has the SVG element of each figure by its name."""
    links = "".join(f'<li><a href="#{_id(s.name)}">{escape(s.title)}</a></li>' for s in sections)
    body = "".join(_section(section, drawn) for section in sections)
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


def _part(part: Part, drawn: Mapping[str, str]) -> str:
    if isinstance(part, Figure):
        return f"<figure><figcaption>{escape(part.title)}</figcaption>{drawn[part.name]}</figure>"
    writers: dict[type, Any] = {str: _paragraph, Table: _table, Gallery: _gallery, Code: _code, list: _verdicts}
    return str(writers[type(part)](part))


def _paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>"


def _code(code: Code) -> str:
    return f"<pre>{escape(chr(10).join(code.lines))}</pre>"


def _table(table: Table) -> str:
    heads = "".join(_heading(column) for column in table.columns)
    rows = "".join(
        "<tr>" + "".join(_cell(cell, column) for cell, column in zip(row, table.columns, strict=True)) + "</tr>\n"
        for row in table.rows
    )
    notes = "".join(f"<li>{escape(note)}</li>" for note in table.notes)
    listed = f'<ul class="notes">{notes}</ul>' if notes else ""
    return (
        f'<h3 id="{_id(table.name)}">{escape(table.title)}</h3>\n<div class="scroll" tabindex="0" role="region" '
        f'aria-labelledby="{_id(table.name)}"><table>\n<thead><tr>{heads}</tr></thead>\n<tbody>\n{rows}</tbody>'
        f"</table></div>\n{listed}"
    )


def _heading(column: Column) -> str:
    detail = f"<small>{escape(_owner(column))}</small>" if column.detail or column.owner == "paper" else ""
    shade = ' class="paper"' if column.owner == "paper" else ""
    return f'<th scope="col"{shade}><button type="button">{escape(column.title)}</button>{detail}</th>'


def _owner(column: Column) -> str:
    return f"paper: {column.detail}" if column.owner == "paper" else column.detail


def _cell(cell: Cell, column: Column) -> str:
    value = "" if cell.value is None else f' data-value="{cell.value!r}"'
    classes = " ".join(name for name, on in (("best", cell.best), ("paper", column.owner == "paper")) if on)
    shade = f' class="{classes}"' if classes else ""
    return f"<td{value}{shade}>{escape(cell.text)}</td>"


def _verdicts(verdicts: list[Verdict]) -> str:
    if not verdicts:
        return ""
    items = "".join(
        f'<li class="{v.outcome}"><span class="outcome">{v.outcome}</span>{escape(v.statement)}'
        f'<span class="evidence">{escape(v.evidence)}</span></li>\n'
        for v in verdicts
    )
    return f'<h3>What the paper says, and what is so here</h3>\n<ul class="verdicts">\n{items}</ul>'


def _gallery(gallery: Gallery) -> str:
    rows = []
    for query, strips in gallery.queries:
        found = "".join(_strip(title, pictures) for title, pictures in strips)
        rows.append(f'<div class="query">{_strip(f"query: {query.caption}", [query])}{found}</div>\n')
    return f"<h3>{escape(gallery.title)}</h3>\n{''.join(rows)}"


def _strip(title: str, pictures: list[Picture]) -> str:
    items = "".join(_thumbnail(picture) for picture in pictures if picture.path.exists())
    return f'<figure class="strip"><figcaption>{escape(title)}</figcaption><ul>{items}</ul></figure>'


def _thumbnail(picture: Picture) -> str:
    data = base64.b64encode(picture.path.read_bytes()).decode()
    kind = "" if picture.right is None else ' class="right"' if picture.right else ' class="wrong"'
    sign = "" if picture.right is None else f'<span aria-hidden="true">{_SIGNS[picture.right]}</span>'
    word = "" if picture.right is None else ", right" if picture.right else ", wrong"
    alt = escape(picture.caption + word, quote=True)
    return f'<li{kind}><img alt="{alt}" title="{alt}" src="data:image/jpeg;base64,{data}">{sign}</li>'
