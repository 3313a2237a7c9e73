"""The plots: one function per figure of the paper, drawn with matplotlib for light and dark pages and as PNG."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from html import escape
from typing import Any, NamedTuple

import numpy as np

from projbank.paper.report.content import Figure
from projbank.paper.report.study import Mean, SetInfo, mean_of, method_name

INK = "#010203"
"""Colour of text and axes; on the page it becomes the page's own text colour."""
STYLES: dict[str, tuple[str, str, str]] = {
    "original": ("#808080", "", "--"),
    "joint": ("#2f8fd8", "o", "-"),
    "bpb": ("#e0632a", "s", "-"),
    "kbpb-rbf": ("#c9588f", "D", "-"),
    "kbpb-poly": ("#c9588f", "d", ":"),
    "randst+bpb": ("#e0632a", "s", ":"),
    "kmeans+itq": ("#b08a2e", "^", ":"),
    "itq": ("#b08a2e", "^", "-"),
    "bpbc": ("#8d6cc4", "v", "-"),
    "cbe": ("#1f9e77", "P", "-"),
    "cbe-rand": ("#1f9e77", "P", ":"),
    "lsh": ("#8a8f98", "x", "-"),
    "sph": ("#8a8f98", "+", ":"),
    "pka": ("#5f7fbf", "<", ":"),
    "pca": ("#5f7fbf", ">", "-."),
    "rr+pq": ("#a3a33a", "h", "-."),
    "pq": ("#a3a33a", "h", ":"),
    "sign": ("#777777", ".", "-."),
    "alpha0": ("#777777", ".", ":"),
}
"""Colour, marker and line of each method; all can be told apart on white and on dark, most also without colour."""
DRAWN = ("original", "pca", "pka", "rr+pq", "lsh", "bpbc", "cbe", "itq", "randst+bpb", "bpb", "kbpb-rbf", "joint")
"""Methods of the curves; the tables have all of them."""


def style(method: str) -> dict[str, Any]:
    """How a method's line looks."""
    colour, marker, line = STYLES.get(method, ("#999999", ".", "-"))
    return {"color": colour, "marker": marker, "linestyle": line, "markersize": 5, "linewidth": 1.6}


def precision_figure(one: SetInfo, k: int) -> Figure | None:
    """Precision against the length of the codes, figure 1 (a-1) of the paper."""
    ratios = one.ratios()
    lines = {}
    for method in DRAWN:
        points = {one.bits(r): mean for r in ratios if (mean := one.precision(method, r, k)) is not None}
        if points and method != "original":
            lines[method] = points
    floats = one.precision("original", None, k)
    if not lines or len(ratios) < 2:
        return None
    counts = {mean.n for points in lines.values() for mean in points.values()}
    is_mixed = 1 in counts and len(counts) > 1

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        if floats is not None:
            axes.axhline(floats.value, **style("original"), label="Original floats")
        for method, points in lines.items():
            _means_line(axes, points, method_name(method), style(method), mark_single=is_mixed)
        _bits_axis(axes, [one.bits(r) for r in ratios])
        axes.set_ylabel(f"precision at {k}")
        _legend(axes)

    title = f"{one.title}: precision at {k} against code length" + ("; hollow: one split" if is_mixed else "")
    return Figure(f"{one.name}-code-length", title, draw)


def resources_figure(one: SetInfo) -> Figure | None:
    """Numbers to store and multiplications against the length, figures 1 (a-2) and (a-3); counted, not measured."""
    ratios = one.ratios()
    if len(ratios) < 2:
        return None
    dimensions, bits = one.dimensions, [one.bits(ratio) for ratio in ratios]
    counts = {name: [resources(name, dimensions, b) for b in bits] for name in ("itq", "bpbc", "bpb")}
    labels = {"itq": "linear (ITQ, LSH)", "bpbc": "bilinear (BPBC)", "bpb": "bank, hard groups"}

    def draw(figure: Any) -> None:
        for axes, what, j in zip(
            figure.subplots(1, 2), ("numbers to store", "multiplications per vector"), (0, 1), strict=True
        ):
            for name, label in labels.items():
                axes.plot(bits, [pair[j] for pair in counts[name]], label=label, **style(name))
            _bits_axis(axes, bits)
            axes.set(yscale="log", title=what)
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


def coding_figure(one: SetInfo) -> Figure | None:
    """Coding time against the length."""
    lines = {}
    for method in one.methods("cost"):
        times = {one.bits(ratio): one.cost(method, ratio, "coding_seconds") for ratio in one.ratios("cost")}
        found = [(bits, 1e3 * seconds) for bits, seconds in times.items() if seconds is not None]
        if found:
            lines[method] = found
    if not lines:
        return None

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for method, points in lines.items():
            axes.plot(*zip(*points, strict=True), label=method_name(method), **style(method))
        _bits_axis(axes, sorted({bits for points in lines.values() for bits, _ in points}))
        axes.set(yscale="log", ylabel="ms per vector, one thread")
        _legend(axes)

    return Figure(f"{one.name}-coding", f"{one.title}: time to code one vector", draw)


def pair_error_figure(one: SetInfo) -> Figure | None:
    """Average pairwise error of the bits against that of one bit of all dimensions."""
    lines = {m: one.pair_errors(m) for m in one.methods("pair-error") if m != "original"}
    whole = mean_of(one.plain("original", "pair-error"), "pair_error")
    if not any(lines.values()):
        return None

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        if whole is not None:
            axes.axhline(whole.value, **style("original"), label="one bit of all dimensions")
        for method, points in lines.items():
            if points:
                _means_line(axes, points, method_name(method), style(method))
        _bits_axis(axes, sorted({bits for points in lines.values() for bits in points}))
        axes.set_ylabel("share of wrong pairs")
        _legend(axes)

    return Figure(f"{one.name}-pair-error", f"{one.title}: pairwise error against code length", draw)


def curves_figure(one: SetInfo) -> Figure | None:
    """Precision-recall curves at the longest codes: means over seeds after the same numbers of results."""
    lines, longest = {}, 0
    for method in DRAWN:
        records = one.plain(method, "pr-curves")
        n_bits = max((r["n_bits"] or 0 for r in records), default=0)
        same = [r for r in records if (r["n_bits"] or 0) == n_bits]
        if same:
            lines[method] = [np.mean([r[axis] for r in same], axis=0) for axis in ("recall", "precision")]
            longest = max(longest, n_bits)
    if not lines:
        return None

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for method, (recall, precision) in lines.items():
            axes.plot(recall, precision, label=method_name(method), **style(method) | {"marker": ""})
        axes.set(xlabel="recall", ylabel="precision", xlim=(0, 1), ylim=(0, None))
        _legend(axes)

    return Figure(f"{one.name}-pr", f"{one.title}: precision against recall at {longest:,} bits", draw, (5.6, 4.4))


def varied_figures(one: SetInfo, k: int) -> list[Figure]:
    """Precision against lambda, and against the number of basis samples."""
    titles = {"lam": "lambda", "n_basis": "number n of basis samples"}
    found = [(word, title, one.varied(word, k)) for word, title in titles.items()]
    return [_varied(one, word, title, lines, k) for word, title, lines in found if lines]


def _varied(one: SetInfo, word: str, title: str, lines: dict[str, dict[float, Mean]], k: int) -> Figure:
    floats = one.precision("original", None, k)

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        if floats is not None:
            axes.axhline(floats.value, **style("original"), label="Original floats")
        for method, values in lines.items():
            _means_line(axes, values, method_name(method), style(method))
        axes.set(xscale="log", xlabel=title, ylabel=f"precision at {k}")
        _legend(axes)

    bits = max((r["n_bits"] or 0) for r in one.good("sensitivity"))
    return Figure(f"{one.name}-{word}", f"{one.title}: precision at {k} against {title}, {bits:,} bits", draw)


def soft_figure(one: SetInfo, k: int) -> Figure | None:
    """Soft against hard groups, as the length goes up to D."""
    lines = one.soft_and_hard(k)
    if not lines:
        return None

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for (method, is_soft), values in sorted(lines.items()):
            look = style(method) | {
                "linestyle": "--" if is_soft else "-",
                "markerfacecolor": "none" if is_soft else None,
            }
            label = f"{method_name(method)}, {'soft' if is_soft else 'hard'} groups"
            _means_line(axes, values, label, look)
        _bits_axis(axes, sorted({bits for values in lines.values() for bits in values}))
        axes.set_ylabel(f"precision at {k}")
        _legend(axes)

    return Figure(f"{one.name}-soft", f"{one.title}: soft against hard groups", draw)


def balance_figure(one: SetInfo) -> Figure | None:
    """How often bits are 1, at the longest codes."""
    records = one.good("diagnosis")
    if not records:
        return None
    longest = max(record["bits"] for record in records)
    shown = {r["method"]: r["ones"] for r in records if r["bits"] == longest and r["method"] in STYLES}

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for method, counts in shown.items():
            width = 1 / len(counts)
            shares = [100 * count / sum(counts) for count in counts]
            look = style(method) | {"marker": ""}
            axes.step([i * width for i in range(len(counts) + 1)], [*shares, shares[-1]], where="post", **look)
            axes.plot([], [], label=method_name(method), **look)
        axes.set(xlabel="share of vectors for which a bit is 1", ylabel="% of bits", xlim=(0, 1))
        _legend(axes)

    return Figure(f"{one.name}-balance", f"{one.title}: balance of {longest:,} bits", draw)


class Drawn(NamedTuple):
    """A plot as an SVG element for a page, as an SVG file and as a PNG file."""

    element: str
    svg: bytes
    png: bytes


def render(figure: Figure, dpi: int = 110) -> Drawn:
    """Draw a plot once and save it in all forms.

    Text and axes of the element take the colour of the page around it; files have black ones, PNG on white.
    """
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure as Canvas
    except ImportError as error:
        raise ImportError("plots need Matplotlib: pip install projbank[report]") from error

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
        canvas = Canvas(figsize=figure.size, layout="constrained")
        figure.draw(canvas)
        canvas.savefig(png, format="png", dpi=dpi)
        canvas.set_layout_engine("none")  # the places found for the first form serve the second
        canvas.savefig(svg, format="svg", transparent=True, metadata={"Date": None})
    text = svg.getvalue().decode()
    return Drawn(_as_element(text, figure.title), text.replace(INK, "#000000").encode(), png.getvalue())


def _as_element(text: str, title: str) -> str:
    """An SVG file as part of a page: no header, no ids but those that are used, the page's own text colour."""
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL).replace(INK, "currentColor")
    used = set(re.findall(r"(?:url\(#|href=\"#)([^)\"]+)", text))
    text = re.sub(r' id="([^"]+)"', lambda match: match.group(0) if match.group(1) in used else "", text)
    return text.replace("<svg ", f'<svg role="img" aria-label="{escape(title, quote=True)}" ', 1)


def _means_line(
    axes: Any, points: Mapping[Any, Mean], label: str, look: dict[str, Any], *, mark_single: bool = False
) -> None:
    """Means over seeds with their deviations; `mark_single`: those of one seed are hollow."""
    xs, values = list(points), [mean.value for mean in points.values()]
    spreads = [mean.spread for mean in points.values()]
    hollow = [mark_single and mean.n == 1 for mean in points.values()]
    solid = [not alone for alone in hollow]
    axes.errorbar(xs, values, spreads, capsize=2, label=label, markevery=solid, **look)
    if any(hollow):
        axes.plot(xs, values, markevery=hollow, **look | {"linestyle": "", "markerfacecolor": "none"})


def _bits_axis(axes: Any, bits: list[int]) -> None:
    axes.set_xscale("log", base=2)
    axes.set_xticks(bits, [f"{b:,}" for b in bits])
    axes.minorticks_off()
    axes.set_xlabel("bits")


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
