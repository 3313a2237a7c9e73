"""What a folder of results holds: data sets, and for each protocol records and their means over seeds."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from projbank.evaluate.results import Mean, Record, read_results
from projbank.paper.sets import read_notes

METHODS: dict[str, tuple[str, str]] = {
    "original": ("Original", "#808080 --"),
    "pca": ("PCA", "#5f7fbf > -."),
    "pq": ("PQ", "#a3a33a h :"),
    "pka": ("PKA", "#5f7fbf < :"),
    "rr+pq": ("RR+PQ", "#a3a33a h -."),
    "sign": ("Sign", "#777777 . -."),
    "alpha0": ("alpha = 0", "#777777 . :"),
    "lsh": ("LSH", "#8a8f98 x -"),
    "sph": ("SpH", "#8a8f98 + :"),
    "bpbc": ("BPBC", "#8d6cc4 v -"),
    "cbe": ("CBE", "#1f9e77 P -"),
    "kmeans+itq": ("Kmeans+ITQ", "#b08a2e ^ :"),
    "randst+bpb": ("RandST+BPB", "#e0632a s :"),
    "bpb": ("BPB", "#e0632a s -"),
    "bpb-equal": ("BPB, equal groups", "#e0632a o --"),
    "kbpb-poly": ("KBPB¹ (poly)", "#c9588f d :"),
    "kbpb-rbf": ("KBPB² (RBF)", "#c9588f D -"),
    "kbpb-rbf-equal": ("KBPB² (RBF), equal groups", "#c9588f o --"),
    "joint": ("joint bank (ours)", "#2f8fd8 o -"),
    "mixed": ("headed bank (ours)", "#2f8fd8 * -"),
    "distances": ("codes for distances (ours)", ""),
    "rr": ("RR", ""),
    "itq": ("ITQ", "#b08a2e ^ -"),
    "lda+itq": ("LDA+ITQ", ""),
    "cbe-rand": ("CBE, random", "#1f9e77 P :"),
    "srht+sign": ("SRHT+sign", ""),
    "sign-select": ("Sign, chosen", ""),
    "rabitq": ("RaBitQ", ""),
}
"""How methods are written, and their colour, marker and line, in the order of the tables: the paper's first."""
PLAIN_PARAMS = {"action": ("max_iter", "n_neighbors", "lam", "n_basis"), "causes": ("max_iter",)}
"""Parameters that do not make a variant of its own, by protocol: the protocol itself sets them, for all methods."""
QUICK_PARAMS = ("max_iter", "n_neighbors")
"""The same in all other protocols: `--quick` lowers them."""
MAIN_K = 50
REAL_METHODS = ("original", "pca", "rr", "pq", "rr+pq", "pka")
"""Methods whose codes are not compared by Hamming distance, as in the upper part of the paper's tables."""

Lines = dict[str, dict[float, Mean]]
"""Method, then bits or another number, to a mean over seeds."""


def method_name(method: str) -> str:
    """How a method is written; a variant, such as "bpb grouping=soft", with its parameters."""
    base, _, params = method.partition(" ")
    return METHODS.get(base, (base, ""))[0] + (f", {params}" if params else "")


def order_of(method: str) -> tuple[int, str]:
    """Place of a method in tables; variants follow the plain form."""
    base, _, params = method.partition(" ")
    return (list(METHODS).index(base) if base in METHODS else len(METHODS)), params


@dataclass
class SetInfo:
    """A data set and its records, by protocol ("" is retrieval); the method of a variant is named with parameters."""

    name: str
    n_vectors: int
    dimensions: int
    title: str
    kind: str = ""
    classes: int = 0
    toy: bool = False
    records: dict[str, list[Record]] = field(default_factory=dict)

    def describe(self) -> str:
        """Size of the data set."""
        classes = f", {self.classes} classes" if self.classes else ""
        return f"{self.n_vectors:,} vectors of {self.dimensions:,} dimensions{classes}"

    def good(self, protocol: str = "") -> list[Record]:
        """Records that did not fail."""
        return [record for record in self.records.get(protocol, []) if "error" not in record]

    def methods(self, protocol: str = "") -> list[str]:
        """Methods with at least one record, in the order of the tables."""
        return sorted({record["method"] for record in self.records.get(protocol, [])}, key=order_of)

    def ratio(self, n_bits: int | None) -> int | None:
        """D / bits of a record, rounded: 13,488 / 210 counts as 64."""
        return None if n_bits is None else round(self.dimensions / n_bits)

    def ratios(self, protocol: str = "") -> list[int]:
        """Measured D / bits, the shortest codes first."""
        found = {self.ratio(record["n_bits"]) for record in self.records.get(protocol, [])}
        return sorted((ratio for ratio in found if ratio is not None), reverse=True)

    def at(self, method: str, ratio: int | None, protocol: str = "") -> list[Record]:
        """Records of a method at D / bits, or of any length where that follows from the data."""
        records = [record for record in self.good(protocol) if record["method"] == method]
        return [r for r in records if r["n_bits"] is None or self.ratio(r["n_bits"]) == ratio]

    def seeds(self, method: str, ratio: int | None, words: Iterable[str], protocol: str = "") -> set[int]:
        """Seeds for which a method has a value under `words`."""
        return {record["seed"] for record in self.at(method, ratio, protocol) if _value(record, words) is not None}

    def mean(
        self, method: str, ratio: int | None, words: Iterable[str], protocol: str = "", seeds: set[int] | None = None
    ) -> Mean | None:
        """Mean over seeds of what the records of a method have under `words`; with `seeds`, over these only."""
        records = [r for r in self.at(method, ratio, protocol) if not seeds or r["seed"] in seeds]
        values = [value for record in records if (value := _value(record, words)) is not None]
        return Mean.of(values) if values else None

    def lines(self, protocol: str, words: Iterable[str], x: Callable[[Record], Any] = lambda r: r["n_bits"]) -> Lines:
        """Means over seeds by method and length, or by another number of a record; records without it are left out."""
        found: dict[str, dict[float, list[float]]] = {}
        for record in self.good(protocol):
            at, value = x(record), _value(record, words)
            if at is not None and value is not None:
                found.setdefault(record["method"], {}).setdefault(at, []).append(value)
        return {m: {at: Mean.of(found[m][at]) for at in sorted(found[m])} for m in sorted(found, key=order_of)}

    def ks(self, protocol: str = "") -> list[int]:
        """Measured numbers of results."""
        return sorted({int(k) for record in self.good(protocol) for k in record["precision"]})

    def main_k(self, protocol: str = "") -> int:
        """The number of results that plots and statements look at: 50 where it was measured."""
        ks = self.ks(protocol)
        return MAIN_K if MAIN_K in ks or not ks else ks[-1]


def _value(record: Record, words: Iterable[str]) -> float | None:
    holder: Any = record
    for word in words:
        holder = holder.get(word) if isinstance(holder, dict) else None
    return holder


def read_study(folder: Path) -> list[SetInfo]:
    """Data sets of all result files of a folder; of each protocol, the records of the data and sizes with most cells.

    Raises
    ------
    FileNotFoundError, ValueError
        If the folder has no results.
    """
    results = folder / "results"
    files = sorted(results.glob("*.json")) if results.is_dir() else []
    if not files:
        raise FileNotFoundError(f"{folder}: has no results of `projbank reproduce`.")
    notes = read_notes(folder)
    sets: dict[str, SetInfo] = {}
    for path in files:
        suffix = path.stem.partition(".")[2]  # soft and sensitivity are retrieval with other parameters
        for record in read_results(path):
            if "truth" not in record["protocol"]:  # recall without labels is not of the paper
                name, size = record["dataset"]["name"], (record["dataset"]["vectors"], record["dataset"]["dimensions"])
                note = {"title": name, "kind": "", "classes": 0, "toy": False} | notes.get(name, {})
                words = {word: note[word] for word in ("title", "kind", "classes", "toy")}
                one = sets.setdefault(name, SetInfo(name, *size, **words))
                one.records.setdefault(record["protocol"].get("experiment", suffix), []).append(record)
    for one in sets.values():
        one.records = {
            protocol: _comparable(records, PLAIN_PARAMS.get(protocol, QUICK_PARAMS))
            for protocol, records in one.records.items()
            if protocol != "held-out"  # points that were tried on the way to those of "tuned"
        }
        if "soft" in one.records:
            one.records["soft"] += _borrowed(one.records["soft"], one.good())
    order = list(notes)
    return sorted(sets.values(), key=lambda one: order.index(one.name) if one.name in order else len(order))


def _comparable(records: list[Record], plain: Sequence[str]) -> list[Record]:
    """Records of the data and protocol that most cells have, and of each variant's most common parameters."""
    records = _most(records, lambda record: [record["dataset"], record["protocol"]])
    same: dict[tuple, list[Record]] = {}
    for record in records:
        other = sorted((word, value) for word, value in record["params"].items() if word not in plain)
        name = " ".join([record["method"], *(f"{word}={value}" for word, value in other)])
        same.setdefault((name, record["n_bits"]), []).append(record | {"method": name})
    return [record for found in same.values() for record in _most(found, lambda record: record["params"])]


def _most(records: list[Record], key: Callable[[Record], Any]) -> list[Record]:
    """The largest group of records with an equal key."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        groups.setdefault(json.dumps(key(record), sort_keys=True), []).append(record)
    return max(groups.values(), key=len)


def _borrowed(soft: list[Record], retrieval: list[Record]) -> list[Record]:
    """Cells of hard groups that retrieval had measured already; the joint bank's own choice may be soft."""
    methods, seeds = {record["method"].split()[0] for record in soft} - {"joint"}, {r["seed"] for r in soft}
    return [
        record
        for record in retrieval
        if record["method"] in {*methods, "joint grouping=learnt"} and record["seed"] in seeds
        if record["protocol"] == soft[0]["protocol"]
    ]
