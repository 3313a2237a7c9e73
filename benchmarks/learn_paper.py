"""How long does the paper's solver take, and does its time grow as N log N and as D? Two cores.

    python -m benchmarks.learn_paper
    python -m benchmarks.learn_paper wide     # D alone; the rest of the record stays

The data are VLAD-like: Gaussian mixtures with a few hundred causes. Times are of whole fits but where said.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import RESULTS, report, row, write_result
from projbank import ProjectionBank
from projbank.learn.grouping import group_dimensions
from projbank.learn.neighbors import nearest_neighbors, positive_pairs
from projbank.learn.paper import PaperLearner
from projbank.learn.run import Run
from projbank.rows.source import as_rows


def vectors(n: int, n_features: int, rng: np.random.Generator) -> Any:
    """Unit vectors near a space of 200 dimensions."""
    causes = rng.standard_normal((n, 200), dtype=np.float32)
    X = causes @ rng.standard_normal((200, n_features), dtype=np.float32)
    X += 10 * rng.standard_normal((n, n_features), dtype=np.float32)
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def learning_seconds(X: Any, n_bits: int, turns: int) -> float:
    """Best processor time of the learning alone: 40 steps on a given graph with 50 neighbours."""
    labels = group_dimensions("random", X, n_bits, np.random.default_rng(0))
    graph = positive_pairs(nearest_neighbors(as_rows(X), 50, n_threads=2))
    means = X.mean(axis=0, dtype=np.float64)
    learner = PaperLearner.of(ProjectionBank(max_iter=40, tol=0.0).get_params())
    best = float("inf")
    for _ in range(turns):
        start = time.process_time()
        learner.learn_groups(as_rows(X), labels, graph, means, n_bits, Run("bank", seed=0, n_threads=2))
        best = min(best, time.process_time() - start)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description="Time of the paper's solver.")
    parser.add_argument("part", nargs="?", choices=["all", "wide"], default="all")
    parser.add_argument("--output", type=Path, default=RESULTS / "learn_paper.json")
    given = parser.parse_args()
    rng = np.random.default_rng(0)
    learning_seconds(vectors(100, 128, rng), 16, 1)  # compile
    wide = {d: learning_seconds(vectors(2500, d, rng), d // 16, 2) for d in (2048, 4096, 8192)}
    by_width = [
        row(f"learning, D = {2 * d} / D = {d}, D/16 bits", wide[2 * d] / wide[d], most=2.3) for d in (2048, 4096)
    ]
    found = {"learning seconds by D": {str(d): round(t, 3) for d, t in wide.items()}}
    if given.part == "wide":
        report(by_width)
        known = json.loads(given.output.read_text(encoding="utf-8"))
        kept = [one for one in known["ratios"] if "D/16 bits" not in one["what"]]
        by_size = {word: known[word] for word in known if word.startswith("learning")}
        write_result(given.output, by_size | found | {"ratios": kept + by_width})
        return
    times = {n: learning_seconds(vectors(n, 2048, rng), 128, 3) for n in (2500, 5000, 10_000, 20_000)}
    rows = [
        row(f"learning, N = {2 * n} / N = {n} (k = 50)", times[2 * n] / times[n], most=2.3)
        for n in (2500, 5000, 10_000)
    ]

    X = vectors(5000, 32_000, rng)
    start = time.perf_counter()
    bank = ProjectionBank(2000, solver="paper", n_neighbors=50, max_iter=40, tol=0.0, n_jobs=2).fit(X)
    whole = time.perf_counter() - start
    rows.append(row("D = 32,000, 2,000 bits, N = 5,000, 40 steps, whole fit, seconds", whole, most=60))
    rows += by_width
    report(rows)
    curve = bank.loss_curve_
    print(f"loss per pair {curve[0]:.4f} at the start, {curve[-1]:.4f} after {bank.n_iter_} steps")
    seconds = {str(n): round(t, 3) for n, t in times.items()}
    write_result(given.output, {"learning seconds by N": seconds, **found, "ratios": rows})


if __name__ == "__main__":
    main()
