"""Draw queries per second against recall from the files of `benchmarks.search_recall`.

python -m benchmarks.search_plot
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

from benchmarks.common import RESULTS


def draw(paths: list[Path], output: Path) -> None:
    figure, all_axes = plt.subplots(1, len(paths), figsize=(5 * len(paths), 4), layout="constrained", squeeze=False)
    for path, axes in zip(paths, all_axes[0], strict=True):
        result = json.loads(path.read_text())
        axes.set_prop_cycle(color=["#d1495b", "#66a182", "#edae49", "#8d6a9f", "#777777"])
        for method, found in result["methods"].items():
            points = sorted((point["recall"], 1e3 / point["ms"]) for point in found["points"])
            own = {"color": "#2a7fba", "linewidth": 2.5} if method == "projbank" else {"linewidth": 1.2}
            axes.plot(*zip(*points, strict=True), marker="o", markersize=4, label=method, **own)
        exact = 1e3 / result["methods"]["projbank"]["exact scan [ms]"]
        axes.axhline(exact, color="#888888", linestyle=":", label="projbank, exact scan")
        axes.set(
            yscale="log", xlim=(0.2, 1.02), xlabel="recall of the 10 nearest", ylabel="queries per second, one thread"
        )
        axes.set_title(f"{path.stem.removeprefix('search_recall_')}: {result['codes']:,} codes")
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(output, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description="Draw speed against recall.")
    parser.add_argument("--output", type=Path, default=RESULTS / "search_recall.png")
    arguments = parser.parse_args()
    draw(sorted(RESULTS.glob("search_recall_*.json")), arguments.output)


if __name__ == "__main__":
    main()
