"""The report: what a folder of results holds, as one HTML page, as plots, and as Markdown."""

from __future__ import annotations

import shutil
from pathlib import Path

from projbank.files import atomic_path
from projbank.paper.report import html, markdown, plots, sections
from projbank.paper.report.content import Gallery
from projbank.paper.report.sheet import gallery_sheet
from projbank.paper.report.study import read_study

__all__ = ["write_documents", "write_report"]


def write_report(folder: Path) -> Path:
    """Draw `report.html`, and every plot as PNG and SVG under `plots/`; returns the page's path.

    Parameters
    ----------
    folder : what `projbank reproduce` filled; only its results are read, nothing is measured
    """
    parts = sections.build(read_study(folder))
    (folder / "plots").mkdir(exist_ok=True)
    elements = {}
    for figure in sections.all_figures(parts):
        drawn = plots.render(figure)
        elements[figure.name] = drawn.element
        _write(folder / "plots" / f"{figure.name}.png", drawn.png)
        _write(folder / "plots" / f"{figure.name}.svg", drawn.svg)
    target = folder / "report.html"
    _write(target, html.page(parts, elements).encode())
    return target


def write_documents(folder: Path, docs: Path) -> Path:
    """Write the report as Markdown with PNG pictures; what an earlier call left in `docs` is replaced.

    Raises
    ------
    ValueError
        If `docs` holds files of other kinds, which would be lost.
    """
    foreign = [p.name for p in docs.iterdir() if p.suffix not in (".md", ".png", ".jpg")] if docs.is_dir() else []
    if foreign:
        raise ValueError(f"{docs}: holds other files ({foreign[0]}), and is to be replaced; name another folder.")
    parts = sections.build(read_study(folder))
    fresh = docs.with_name(docs.name + ".part")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    for section in parts[1:]:
        (fresh / f"{section.name}.md").write_text(markdown.document(section), encoding="utf-8")
        for part in section.parts:
            if isinstance(part, Gallery):
                (fresh / f"{part.name}.jpg").write_bytes(gallery_sheet(part))
    for figure in sections.all_figures(parts):
        (fresh / f"{figure.name}.png").write_bytes(plots.render(figure, dpi=90).png)
    index = markdown.index(parts, f"projbank report {folder} --docs {docs}")
    (fresh / "README.md").write_text(index, encoding="utf-8")
    shutil.rmtree(docs, ignore_errors=True)
    fresh.rename(docs)
    return docs


def _write(path: Path, content: bytes) -> None:
    with atomic_path(path) as temporary:
        temporary.write_bytes(content)
