"""Draw the picture of the README from the result files: what coding one vector costs, in plain reads of it.

    python -m benchmarks.plot [--input benchmarks/results/encode.json] [--output docs/pictures/coding-cost.png]

Needs Matplotlib, which the extra `dev` brings.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

from benchmarks.common import RESULTS

NAMES = {
    "codes": "projbank, 8,000 bits",
    "scipy.sparse": "the same bank, scipy.sparse",
    "CBE by scipy.fft": "circulant (CBE), scipy.fft",
    "dense projection (BLAS)": "dense projection, BLAS",
}


def costs(path: Path) -> dict[str, float]:
    """Reads of the vector that each way of coding to 8,000 bits costs."""
    ratios = {row["what"]: row["ratio"] for row in json.loads(path.read_text())["ratios"]}
    own = ratios["8000 bits: codes / plain read"]
    return {
        label: own * (1 if name == "codes" else ratios[f"8000 bits: {name} / codes"]) for name, label in NAMES.items()
    }


def draw(values: dict[str, float], path: Path) -> None:
    figure, axes = plt.subplots(figsize=(8, 2.6), layout="constrained")
    bars = axes.barh(list(values), list(values.values()), color=["#2a7fba"] + ["#b8b8b8"] * (len(values) - 1))
    axes.bar_label(bars, [f" {value:,.1f}" if value < 10 else f" {value:,.0f}" for value in values.values()])
    axes.axvline(1, color="#d1495b", linewidth=1)
    axes.text(1.05, -0.75, "one plain read of the vector", color="#d1495b", fontsize=8, va="center")
    axes.set(xscale="log", xlim=(0.7, 8 * max(values.values())), ylim=(len(values) - 0.5, -1.1))
    axes.set_xlabel("cost of coding one vector of 64,000 floats, in plain reads of it (one thread)")
    axes.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description="Draw the picture of the README from the result files.")
    parser.add_argument("--input", type=Path, default=RESULTS / "encode.json")
    parser.add_argument("--output", type=Path, default=Path("docs/pictures/coding-cost.png"))
    arguments = parser.parse_args()
    draw(costs(arguments.input), arguments.output)


if __name__ == "__main__":
    main()
