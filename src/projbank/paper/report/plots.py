"""The plots: the paper's figures, drawn with matplotlib for light and dark pages and as PNG."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from projbank.evaluate.results import Mean
from projbank.extras import install
from projbank.paper.report.content import Figure
from projbank.paper.report.study import METHODS, Lines, SetInfo, method_name

INK = "#010203"
"""Colour of text and axes; on the page it becomes the page's own text colour."""
SIZE = (5.6, 4.2)
FLOATS = "Original floats"
DRAWN = ("original", "pca", "pka", "rr+pq", "lsh", "bpbc", "cbe", "itq", "randst+bpb", "bpb", "kbpb-rbf", "joint")
"""Methods of the curves; the tables have all of them."""


def style(method: str) -> dict[str, Any]:
    """How a method's line looks; soft groups are dashed and hollow."""
    colour, *marker, line = (METHODS.get(method.split()[0], ("", ""))[1] or "#999999 . -").split()
    look = {"color": colour, "marker": "".join(marker), "linestyle": line, "markersize": 5, "linewidth": 1.6}
    return look | ({"linestyle": "--", "markerfacecolor": "none"} if "grouping=soft" in method else {})


def precision_figure(one: SetInfo, k: int) -> Figure | None:
    """Precision against the length of the codes, figure 1 (a-1) of the paper."""
    words = ("precision", str(k))
    lines = one.lines("", words)
    shown = {method: lines[method] for method in DRAWN if method in lines and method != "original"}
    title = f"{one.title}: precision at {k} against code length"
    floats = one.mean("original", None, words)
    return _line_figure(f"{one.name}-code-length", title, shown, f"precision at {k}", floats=floats)


def pair_error_figure(one: SetInfo) -> Figure | None:
    """Average pairwise error of the bits against that of one bit of all dimensions."""
    lines, whole = one.lines("pair-error", ["pair_error"]), one.mean("original", None, ["pair_error"], "pair-error")
    title = f"{one.title}: pairwise error against code length"
    about = "one bit of all dimensions"
    return _line_figure(f"{one.name}-pair-error", title, lines, "share of wrong pairs", floats=whole, about=about)


def soft_figure(one: SetInfo, k: int) -> Figure | None:
    """Soft against hard groups, as the length goes up to D."""
    lines, title = one.lines("soft", ("precision", str(k))), f"{one.title}: soft against hard groups"
    return _line_figure(f"{one.name}-soft", title, lines, f"precision at {k}")


def varied_figure(one: SetInfo, k: int, word: str, label: str) -> Figure | None:
    """Precision against a parameter, which makes every value a variant of its own."""
    words, lines = ("precision", str(k)), Lines()
    for method, points in one.lines("sensitivity", words, lambda record: record["params"].get(word)).items():
        lines.setdefault(method.split()[0], {}).update(points)
    title, floats = f"{one.title}: precision at {k} against {label}", one.mean("original", None, words)
    return _line_figure(f"{one.name}-{word}", title, lines, f"precision at {k}", floats=floats, x=label)


def _line_figure(
    name: str, title: str, lines: Lines, label: str, *, x: str = "bits", floats: Mean | None = None, about: str = FLOATS
) -> Figure | None:
    """Means over seeds with their deviations."""
    xs = sorted({at for points in lines.values() for at in points})
    if len(xs) < 2:
        return None

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        if floats is not None:
            axes.axhline(floats.value, **style("original"), label=about)
        for method, points in lines.items():
            at = sorted(points)
            values, spreads = [points[x].value for x in at], [points[x].spread for x in at]
            axes.errorbar(at, values, spreads, capsize=2, label=method_name(method), **style(method))
        axes.set_ylabel(label)
        _x_axis(axes, x, xs)
        _legend(axes)

    return Figure(name, title, draw)


def curves_figure(one: SetInfo) -> Figure | None:
    """Precision-recall curves at the longest codes: means over seeds after the same numbers of results."""
    ratio = min(one.ratios("pr-curves"), default=None)
    found = {method: one.at(method, ratio, "pr-curves") for method in DRAWN}
    lines = {
        method: [np.mean([record[axis] for record in records], axis=0) for axis in ("recall", "precision")]
        for method, records in found.items()
        if records
    }
    if not lines:
        return None

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for method, (recall, precision) in lines.items():
            axes.plot(recall, precision, label=method_name(method), **style(method) | {"marker": ""})
        axes.set(xlabel="recall", ylabel="precision", xlim=(0, 1), ylim=(0, None))
        _legend(axes)

    length = f" at {one.dimensions // ratio:,} bits" if ratio else ""
    return Figure(f"{one.name}-pr", f"{one.title}: precision against recall{length}", draw)


def resources_figure(one: SetInfo) -> Figure | None:
    """Numbers to store and multiplications against the length, figures 1 (a-2) and (a-3); counted, not measured."""
    dimensions, bits = one.dimensions, [one.dimensions // ratio for ratio in one.ratios()]
    labels = {"itq": "linear (ITQ, LSH)", "bpbc": "bilinear (BPBC)", "bpb": "bank, hard groups"}
    if len(bits) < 2:
        return None

    def draw(figure: Any) -> None:
        for j, axes in enumerate(figure.subplots(1, 2)):
            for name, label in labels.items():
                axes.plot(bits, [resources(name, dimensions, b)[j] for b in bits], label=label, **style(name))
            _x_axis(axes, "bits", bits)
            axes.set(yscale="log", title=("numbers to store", "multiplications per vector")[j])
        _legend(figure.axes[1])

    return Figure(f"{one.name}-resources", f"{dimensions:,} dimensions: what three kinds of projection need", draw)


def resources(method: str, dimensions: int, n_bits: int) -> tuple[int, int]:
    """Numbers to store and multiplications per vector, table 1 of the paper.

    Linear: D d and D d. Bilinear, with nearly square shapes: D1 d1 + D2 d2 and D (d1 + d2). Bank: D and D.
    """
    if method == "bpb":
        return dimensions, dimensions
    if method == "itq":
        return dimensions * n_bits, dimensions * n_bits
    rows, width = _nearly_square(dimensions), _nearly_square(n_bits)
    other_rows, other_width = -(-dimensions // rows), -(-n_bits // width)
    return rows * width + other_rows * other_width, dimensions * (width + other_width)


def _nearly_square(n: int) -> int:
    """Largest divisor up to the root, or the root itself where that is far off: some spare bits are then dropped."""
    root = int(n**0.5)
    return next((i for i in range(root, root // 2, -1) if n % i == 0), root)


def render(figure: Figure) -> tuple[str, bytes, bytes]:
    """Draw a plot once; returns an SVG element for a page, an SVG file and a PNG file.

    Text and axes of the element take the colour of the page around it; files have black ones, PNG on white.
    """
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure as Canvas
    except ImportError as error:
        raise ImportError(f"plots need Matplotlib: {install('report')}.") from error

    ink: dict[Any, Any] = {f"{part}.color": INK for part in ("text", "xtick", "ytick")}
    looks = ink | {
        "axes.edgecolor": INK,
        "axes.labelcolor": INK,
        "axes.titlesize": "medium",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.alpha": 0.25,
        "font.size": 9,
        "svg.fonttype": "none",
        "svg.hashsalt": figure.name,
    }
    svg, png = io.BytesIO(), io.BytesIO()
    with mpl.rc_context(looks):
        canvas = Canvas(figsize=SIZE, layout="constrained")
        figure.draw(canvas)
        canvas.savefig(png, format="png", dpi=110)
        canvas.set_layout_engine("none")  # the places found for the first form serve the second
        canvas.savefig(svg, format="svg", transparent=True, metadata={"Date": None})
    text = svg.getvalue().decode()
    return _as_element(text, figure.title), text.replace(INK, "#000000").encode(), png.getvalue()


def _as_element(text: str, title: str) -> str:
    """An SVG file as part of a page: no header, no ids but those that are used, the page's own text colour."""
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL).replace(INK, "currentColor")
    used = set(re.findall(r"(?:url\(#|href=\"#)([^)\"]+)", text))
    text = re.sub(r' id="([^"]+)"', lambda match: match.group(0) if match.group(1) in used else "", text)
    return text.replace("<svg ", f'<svg role="img" aria-label="{escape(title, quote=True)}" ', 1)


def _x_axis(axes: Any, label: str, xs: Sequence[float]) -> None:
    """A logarithmic axis; of bits, with a tick at each length."""
    axes.set_xlabel(label)
    axes.set_xscale("log", base=2 if label == "bits" else 10)
    if label == "bits":
        axes.set_xticks(xs, [f"{x:,}" for x in xs])
        axes.minorticks_off()


def _legend(axes: Any) -> None:
    lines, labels = axes.get_legend_handles_labels()
    if not labels:
        return
    n_columns = min(4, len(labels))
    while True:
        legend = axes.figure.legend(
            lines, labels, loc="outside lower center", ncols=n_columns, frameon=False, fontsize=8
        )
        if n_columns == 1 or legend.get_window_extent().width <= axes.figure.bbox.width:
            return
        legend.remove()
        n_columns -= 1
