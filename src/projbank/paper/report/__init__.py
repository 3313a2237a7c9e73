"""The report: what a folder of results holds, as one HTML page, and its plots as files."""

from __future__ import annotations

from pathlib import Path

from projbank.files import atomic_path
from projbank.paper.report import html, plots, sections
from projbank.paper.report.content import Figure

__all__ = ["write_report"]


def write_report(folder: Path) -> Path:
    """Draw `report.html`, and every plot as PNG and SVG under `plots/`; returns the page's path.

    Parameters
    ----------
    folder : what `projbank reproduce` filled; only its results are read, nothing is measured
    """
    parts = sections.build(folder)
    (folder / "plots").mkdir(exist_ok=True)
    elements = {}
    for figure in [part for section in parts for part in section.parts if isinstance(part, Figure)]:
        drawn = plots.render(figure)
        elements[figure.name] = drawn.element
        _write(folder / "plots" / f"{figure.name}.png", drawn.png)
        _write(folder / "plots" / f"{figure.name}.svg", drawn.svg)
    _write(folder / "report.html", html.page(parts, elements).encode())
    return folder / "report.html"


def _write(path: Path, content: bytes) -> None:
    with atomic_path(path) as temporary:
        temporary.write_bytes(content)
