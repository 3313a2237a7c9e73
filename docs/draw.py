"""Draw docs/pictures: what codes find for their bytes, from the records, and how bank, head and target work.

`python docs/draw.py [NAME ...]` draws all, or those named: precision, bank, head, target. Needs the extra `report`.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from statistics import fmean
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import FancyArrowPatch, Rectangle
from paper_tables import short

HERE = Path(__file__).parent
SETS = {"imagenette_vlad": "Imagenette, VLAD of photos", "caltech_vlad": "Caltech-101, VLAD of photos"}
RIVALS = {
    "itq": ("ITQ", "#b5651d"),
    "rabitq": ("RaBitQ", "#6a4c93"),
    "lsh": ("LSH", "#9a9a9a"),
    "pq": ("PQ", "#2a9d8f"),
}
BLUE, RED, GREY = "#1f5fa8", "#c8553d", "#555555"
GROUP_COLOURS = ("#1f5fa8", "#e08e45", "#5a9367", "#8d5a97")
plt.rcParams |= {"font.size": 12, "axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "projbank"}


def precision() -> Any:
    """P@50 against bytes a vector: the default at three lengths, floats, and the best of other codes."""
    records = json.loads((HERE / "results.json").read_text())
    figure, axes = plt.subplots(1, 2, figsize=(8.4, 4.4), sharey=True, layout="constrained")
    for ax, (name, title) in zip(axes, SETS.items(), strict=True):
        about, others = records["sets"][name], records["retrieval"][name]
        rows = json.loads((HERE.parent / "benchmarks" / "results" / f"mixed_{name}.json").read_text())["rows"]
        floats = fmean(row["hamming"][1] for row in rows if row["method"] == "original")
        ax.axhline(floats, color=GREY, lw=1, ls=":")
        ax.plot(4 * about["D"], floats, "D", color=GREY, ms=9, clip_on=False)
        ax.annotate("floats", (4 * about["D"], floats), (0, -20), textcoords="offset points", ha="right", color=GREY)
        for rival, (label, colour) in RIVALS.items():
            found = [values[1] for values in others[rival]]
            extra = 8 if rival == "rabitq" else 0  # two float32 beside the bits
            sizes = [bits / 8 + extra for bits in about["bits"]]
            ax.plot(sizes, found, "o-", color=colour, ms=4, lw=1.5)
            below = -13 if rival == "lsh" else 0
            ax.annotate(
                label, (sizes[-1], found[-1]), (8, below), textcoords="offset points", va="center", color=colour
            )
        own: dict[int, list[float]] = {64: [], about["D"] // 64: [], about["D"] // 8: []}
        for row in rows:
            if row["method"] == "mixed" and "params" not in row and row["bits"] in own:
                own[row["bits"]].append(row["hamming"][1])
        sizes, found = [bits / 8 for bits in own], [fmean(values) for values in own.values()]
        ax.plot(sizes, found, "o-", color=BLUE, ms=8, lw=2.5)
        ax.annotate(
            "projbank",
            (sizes[-1], found[-1]),
            (10, 0),
            textcoords="offset points",
            va="center",
            color=BLUE,
            weight="bold",
        )
        for size, value in zip(sizes, found, strict=True):
            place, side = ((8, -13), "left") if size == sizes[0] else ((0, 9), "center")  # beside a line that rises
            ax.annotate(short(value), (size, value), place, textcoords="offset points", ha=side, color=BLUE)
        ax.set(xscale="log", xlim=(4, 4 * about["D"] * 1.6), ylim=(0.25, 0.55), title=title, xlabel="bytes a vector")
        ax.set_xticks([8, 63, 500, 4000, 4 * about["D"]], ["8", "63", "500", "4,000", f"{4 * about['D']:,}"])
        ax.minorticks_off()
    axes[0].set_ylabel("share of the first 50 results\nthat is of the query's kind")
    return figure


def bank() -> Any:
    """A bank: every dimension belongs to one group, and a group's weighted sum is one number."""
    figure, ax = _canvas(10, 3.6)
    rng = np.random.default_rng(3)
    groups = rng.permutation(np.repeat(np.arange(4), 6))
    weights = rng.normal(size=24)
    for i, group in enumerate(groups):
        ax.add_patch(Rectangle((0.4 * i, 3), 0.36, 0.5 + 0.25 * abs(weights[i]), color=GROUP_COLOURS[group]))
        ax.plot([0.4 * i + 0.18, 1.2 + 2.4 * group], [2.95, 1.55], color=GROUP_COLOURS[group], lw=0.9, alpha=0.6)
    for group, colour in enumerate(GROUP_COLOURS):
        x = 1.2 + 2.4 * group
        ax.add_patch(plt.Circle((x, 1.3), 0.27, color=colour))
        ax.text(x, 1.3, "Σ", color="white", ha="center", va="center", fontsize=14)
        ax.add_patch(FancyArrowPatch((x, 1.0), (x, 0.5), arrowstyle="-|>", mutation_scale=12, color=colour))
        ax.text(x, 0.2, "01"[(group + 1) % 2], ha="center", va="center", fontsize=16, family="monospace")
    for y, text in (
        (3.4, "a long vector:\neach dimension has\none group, one weight"),
        (1.3, "one weighted sum\na group"),
        (0.2, "1 where the sum\nis above its threshold"),
    ):
        ax.text(9.9, y, text, va="center", fontsize=11)
    ax.set(xlim=(-0.1, 13.4), ylim=(-0.2, 4.4))
    return figure


def head() -> Any:
    """The headed bank: sums of a random bank, two small matrices, bits."""
    figure, ax = _canvas(10, 3.3)
    parts = (
        (0.0, 0.5, 3.2, "#7a7a7a", "x", "the vector\nD = 64,000"),
        (2.6, 0.5, 2.2, BLUE, "f", "sums of a\nrandom bank\nm = 8,192"),
        (5.6, 0.5, 0.9, RED, "", "rank\nr = 256"),
        (8.6, 0.5, 1.6, BLUE, "", "margins, then\nsigns\n512 bits"),
    )
    middle = 1.9
    for x, width, height, colour, letter, text in parts:
        ax.add_patch(Rectangle((x, middle - height / 2), width, height, color=colour, alpha=0.85))
        ax.text(x + width / 2, middle, letter, color="white", ha="center", va="center", fontsize=14, style="italic")
        ax.text(x + width / 2, middle - height / 2 - 0.08, text, va="top", ha="center", fontsize=10)
    arrows = (
        (0.7, 2.4, "one pass\nover the vector"),
        (3.3, 5.4, "A  (m by r)"),
        (6.3, 8.4, "B  (r by bits)"),
        (9.3, 10.3, "sign"),
    )
    for start, stop, text in arrows:
        ax.add_patch(FancyArrowPatch((start, middle), (stop, middle), arrowstyle="-|>", mutation_scale=14, color=GREY))
        ax.text((start + stop) / 2, middle + 0.15, text, ha="center", va="bottom", fontsize=10)
    ax.text(10.5, middle, "1011 0010\n1100 0111\n…", family="monospace", va="center", fontsize=12)
    ax.plot([2.6, 9.1], [3.35, 3.35], color=RED, lw=1.5)
    ax.text(5.85, 3.42, "the head: learnt", color=RED, ha="center", va="bottom", fontsize=11)
    ax.set(xlim=(-0.3, 12.2), ylim=(-0.6, 3.9))
    return figure


def target() -> Any:
    """Why walks on the graph of neighbours: what is near by distance, and where walks from both ends meet."""
    from sklearn.datasets import make_moons
    from sklearn.neighbors import NearestNeighbors

    from projbank.learn.target import graded_walk

    points, _ = make_moons(260, noise=0.05, random_state=4)
    ids = NearestNeighbors(n_neighbors=13).fit(points).kneighbors(points, return_distance=False)[:, 1:]
    start = int(np.argmin(np.linalg.norm(points - (0.0, 0.42), axis=1)))
    walk = graded_walk(ids)
    steps = np.asarray((walk @ walk @ walk @ walk)[[start]].todense()).ravel()
    near = -np.linalg.norm(points - points[start], axis=1)
    figure, axes = plt.subplots(1, 3, figsize=(9, 2.1), layout="constrained")
    many = np.count_nonzero(steps) - 1
    for ax, title in zip(
        axes, ("the neighbour graph", "nearest by distance", "where two-step walks meet"), strict=True
    ):
        ax.set(title=title, aspect="equal", xticks=[], yticks=[])
        ax.spines[:].set_visible(False)
    for i, row in enumerate(ids):
        for j in row[:5]:
            axes[0].plot(*points[[i, j]].T, color="#8fa8c8", lw=0.9, zorder=0)
    axes[0].scatter(*points.T, s=9, color=BLUE)
    for ax, values in ((axes[1], near), (axes[2], steps)):
        chosen = np.argsort(-values)[1 : many + 1]
        ax.scatter(*points.T, s=9, color="#cccccc")
        ax.scatter(*points[chosen].T, s=14, color=RED)
    for ax in axes:
        ax.scatter(*points[start], s=130, marker="*", color="black", zorder=3)
    return figure


def _canvas(width: float, height: float) -> tuple[Any, Any]:
    figure, ax = plt.subplots(figsize=(width, height), layout="constrained")
    ax.axis("off")
    return figure, ax


FIGURES = {"precision": precision, "bank": bank, "head": head, "target": target}


def main() -> None:
    """Draw the figures that are named."""
    parser = argparse.ArgumentParser(description="Draw docs/pictures.")
    parser.add_argument("names", nargs="*", choices=[*FIGURES, []], default=[])
    for name in parser.parse_args().names or FIGURES:
        FIGURES[name]().savefig(HERE / "pictures" / f"{name}.png", dpi=110, metadata={"Software": None})
        plt.close("all")


if __name__ == "__main__":
    main()
