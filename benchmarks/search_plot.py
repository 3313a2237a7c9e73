"""Draw speed against recall from the files of `benchmarks.search_recall`.

python -m benchmarks.search_plot
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

from benchmarks.common import RESULTS

COLORS = {
    "projbank": "#2a7fba",
    "faiss-ivf": "#d1495b",
    "faiss-hnsw": "#edae49",
    "faiss-hash": "#8d6a9f",
    "usearch": "#66a182",
    "hnswlib": "#777777",
}
TICKS = (0, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999)
MOST = 0.9995
"""Recall at the right end: what lies above is drawn there."""


def place(recall: float) -> float:
    """Recall as decimal digits of what is missed: as far from .9 to .99 as from .99 to .999."""
    return -math.log10(1 - min(recall, MOST))


def draw(paths: list[Path], output: Path) -> None:
    results = [(path.stem.removeprefix("search_recall_"), json.loads(path.read_text())) for path in paths]
    results.sort(key=lambda named: (named[1]["bits"], -named[1]["codes"], named[0]))
    columns = (len(results) + 1) // 2
    figure, grid = plt.subplots(2, columns, figsize=(4.6 * columns, 7.4), layout="constrained", squeeze=False)
    handles = {}
    for (name, result), axes in zip(results, grid.flat, strict=False):
        for method, found in result["methods"].items():
            points = sorted((place(one["recall"]), one["times faster than the exact scan"]) for one in found["points"])
            own = {"linewidth": 2.8, "zorder": 3} if method == "projbank" else {"linewidth": 1.3}
            (handles[method],) = axes.plot(*zip(*points, strict=True), "o-", markersize=4, color=COLORS[method], **own)
        axes.axhline(1, color="#888888", linestyle=":")
        axes.set(yscale="log", xlim=(0, place(MOST) + 0.05), ylim=(0.4, 400))
        axes.set_xticks([place(tick) for tick in TICKS], [f"{tick:g}" for tick in TICKS], fontsize=8)
        axes.set_yticks([1, 10, 100], ["1", "10", "100"])
        pictures = name.partition(f"-{result['bits']}")[0]
        axes.set_title(f"{pictures}, {result['bits']:,} bits, {result['codes']:,} codes", fontsize=10)
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    for axes in grid.flat[len(results) :]:
        axes.set_visible(False)
    figure.supxlabel("recall of the 10 nearest", fontsize=10)
    figure.supylabel("times faster than an exact scan by projbank (one thread, in a batch)", fontsize=10)
    named = [method for method in COLORS if method in handles]
    figure.legend([handles[method] for method in named], named, loc="outside upper center", ncols=6, frameon=False)
    figure.savefig(output, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description="Draw speed against recall.")
    parser.add_argument("--folder", type=Path, default=RESULTS)
    parser.add_argument("--output", type=Path, default=RESULTS / "search_recall.png")
    arguments = parser.parse_args()
    draw(sorted(arguments.folder.glob("search_recall_*.json")), arguments.output)


if __name__ == "__main__":
    main()
