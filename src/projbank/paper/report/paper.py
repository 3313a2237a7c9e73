"""The paper's own figures, read from paper.json: what it measured, by method and D / bits."""

from __future__ import annotations

import json
from importlib import resources

_FIGURES = json.loads(resources.files("projbank.paper.report").joinpath("paper.json").read_text(encoding="utf-8"))
RETRIEVAL: dict[str, dict[str, list[float]]] = _FIGURES["retrieval"]
"""Flickr 1M and ILSVRC2010: precision of Fisher vectors at 50 and 100, of VLAD at 50 and 100, each at three lengths."""
COST: dict[str, dict[str, list[float]]] = dict(_FIGURES["cost"])
"""Of 64,000 dimensions in double precision, ILSVRC2010, 150,000 training vectors, 6 cores."""
COST["coding µs"] = {name: [1e3 * value for value in values] for name, values in COST.pop("coding ms").items()}
ACTION: dict[str, list[float]] = _FIGURES["action"]
"""UCF101, three folds: accuracy in per cent of Fisher vectors, then of VLAD, each at three lengths."""
DATA = {
    "Flickr 1M": "about 1,000,000 photos of 55 groups, SIFT at interest points",
    "ILSVRC2010": "1,200,000 photos of 1,000 classes, dense SIFT",
    "UCF101": "13,320 videos of 101 actions, dense trajectories, three official folds",
}
"""What the paper measured on; each retrieval set with 1,000 queries, all others as gallery."""
DIMENSIONS = {("UCF101", "fv"): 170_400, ("UCF101", "vlad"): 85_200}
RATIOS, COST_RATIOS, ACTION_RATIOS = (8, 10, 16), (20, 16, 10, 8), (10, 15, 20)
"""D / bits of the tables: for retrieval 8,000, 6,400 and 4,000 bits of 64,000; 4,000, 3,200 and 2,000 of 32,000."""


def place(source: str, kind: str) -> str:
    """A set of the paper and its dimensions, for the head of a column."""
    return f"{source}, D = {DIMENSIONS.get((source, kind), 32_000 if kind == 'vlad' else 64_000):,}"


def precision(source: str, kind: str, method: str, k: int, ratio: float) -> float | None:
    """Semantic precision of the retrieval tables, if the paper has that cell."""
    if kind not in ("fv", "vlad") or k not in (50, 100) or ratio not in RATIOS:
        return None
    return _at(RETRIEVAL[source].get(method), 6 * (kind == "vlad") + 3 * (k == 100) + RATIOS.index(int(ratio)))


def cost(what: str, method: str, ratio: float) -> float | None:
    """Storage in MB, training in s or coding in µs, if the paper has that cell."""
    return _at(COST[what].get(method), COST_RATIOS.index(int(ratio))) if ratio in COST_RATIOS else None


def accuracy(kind: str, method: str, ratio: float) -> float | None:
    """Accuracy on UCF101 in per cent, if the paper has that cell."""
    if kind not in ("fv", "vlad") or ratio not in ACTION_RATIOS:
        return None
    return _at(ACTION.get(method), 3 * (kind == "vlad") + ACTION_RATIOS.index(int(ratio)))


def figure(protocol: str, word: str, method: str, ratio: float) -> float | None:
    """What the paper prints for Fisher vectors (Flickr 1M at 50 results, UCF101) under a word of our records."""
    if protocol == "cost":
        words = {"coding_seconds": "coding µs", "training_seconds": "training s", "model_bytes": "storage MB"}
        return cost(words[word], method, ratio)
    if protocol == "action":
        return accuracy("fv", method, ratio)
    is_precision = protocol == "" and word == "precision"
    return precision("Flickr 1M", "fv", method, 50, ratio) if is_precision else None


def _at(values: list[float] | None, position: int) -> float | None:
    return values[position] if values and position < len(values) else None
