"""Three tables of why: groups by weights, what does not matter, and bits and labels of other kinds."""

from __future__ import annotations

from collections.abc import Sequence

from projbank.paper import causes
from projbank.paper.report.content import Cell, Column, Figure, Table, with_spread
from projbank.paper.report.study import SetInfo

NAMES = {"kmeans": "k-means", "kmeans-equal": "k-means, equal size", "random": "random", "gaussian": "Gaussian"}
WORDS = {"n_train": "{:,.0f} training vectors", "n_neighbors": "k = {:g}", "lam": "lambda = {:g}"}
OTHERS = {
    "original": "floats",
    "lsh": "LSH, dense",
    causes.AXES: "LSH along axes",
    "bpb grouping=kmeans pairs=classes": "BPB, class labels",
    "bpb grouping=kmeans-equal pairs=classes": "BPB, equal groups, class labels",
}


def tables(one: SetInfo) -> list[str | Table | Figure | None]:
    """The tables of a set, at the longest codes measured."""
    ratio, k = min(one.ratios("causes"), default=1), one.main_k("causes")
    rows = {
        "groups": _groups(one, ratio),
        "settings": _listed(one, ratio, {BASE: "as the paper has it", **_settings(one)}),
        "others": _listed(one, ratio, OTHERS),
    }
    titles = {
        "groups": ("groups by weights", ["groups", *(NAMES.get(w, w) for w in causes.WEIGHTS)]),
        "settings": ("settings, k-means groups", ["changed", f"P@{k}"]),
        "others": ("other bits, other labels", ["bits", f"P@{k}"]),
    }
    note = f"Precision at {k}, codes of D/{ratio} bits. * one seed."
    return [
        Table(f"{one.name}-{name}", f"{one.title}: {title}", [Column(c) for c in columns], rows[name], [note])
        for name, (title, columns) in titles.items()
    ]


BASE = "bpb grouping=kmeans weights=learnt"


def _groups(one: SetInfo, ratio: int) -> Sequence[Sequence[Cell]]:
    return [
        [Cell(NAMES[groups]), *(_cell(one, ratio, f"bpb grouping={groups} weights={w}") for w in causes.WEIGHTS)]
        for groups in causes.GROUPS
    ]


def _settings(one: SetInfo) -> dict[str, str]:
    """Variants of one parameter and what to call them."""
    found = {}
    for method in one.methods("causes"):
        _, _, params = method.partition(" ")
        word, _, value = params.partition("=")
        if " " not in value and word in WORDS:
            found[method] = WORDS[word].format(float(value))
        elif word == "threshold":
            found[method] = "thresholds at the median"
    return found


def _listed(one: SetInfo, ratio: int, names: dict[str, str]) -> Sequence[Sequence[Cell]]:
    return [[Cell(title), _cell(one, ratio, method)] for method, title in names.items()]


def _cell(one: SetInfo, ratio: int, method: str) -> Cell:
    return with_spread(one.mean(method, ratio, ("precision", str(one.main_k("causes"))), "causes"))
