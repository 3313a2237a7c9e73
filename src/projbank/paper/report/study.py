"""What a folder of results holds: data sets, and for each protocol rows of means over seeds."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from projbank.evaluate.results import Record, read_results
from projbank.paper.notes import read_commands, read_notes

NAMES = {
    "original": "Original",
    "pca": "PCA",
    "rr": "RR",
    "pq": "PQ",
    "rr+pq": "RR+PQ",
    "pka": "PKA",
    "sign": "Sign",
    "alpha0": "alpha = 0",
    "lsh": "LSH",
    "sph": "SpH",
    "bpbc": "BPBC",
    "cbe": "CBE",
    "cbe-rand": "CBE, random",
    "itq": "ITQ",
    "kmeans+itq": "Kmeans+ITQ",
    "randst+bpb": "RandST+BPB",
    "bpb": "BPB",
    "kbpb-poly": "KBPB¹ (poly)",
    "kbpb-rbf": "KBPB² (RBF)",
    "joint": "joint bank (ours)",
    "joint solver=random": "random bank",
    "sign-select": "Sign, chosen",
    "srht+sign": "SRHT+sign",
    "rabitq": "RaBitQ",
}
"""How methods are written, in the order of the tables: the paper's first, then others."""
ORDER = (
    *("original", "pca", "pq", "pka", "rr+pq", "sign", "alpha0", "lsh", "sph", "bpbc", "cbe"),
    *("kmeans+itq", "randst+bpb", "bpb", "kbpb-poly", "kbpb-rbf", "joint"),
    *("rr", "itq", "cbe-rand", "srht+sign", "sign-select", "rabitq"),
)
PLAIN_PARAMS = ("max_iter", "n_neighbors")
"""Parameters that do not make a variant of its own: `--quick` lowers them."""
_MAIN_K = 50
REAL_METHODS = ("original", "pca", "rr", "pq", "rr+pq", "pka")
"""Methods whose codes are not compared by Hamming distance, as in the upper part of the paper's tables."""


def method_name(method: str) -> str:
    """How a method is written; a variant, such as "joint solver=random", with its parameters."""
    base, _, params = method.partition(" ")
    return NAMES.get(method) or NAMES.get(base, base) + (f", {params}" if params else "")


def order_of(method: str) -> tuple[int, str]:
    """Place of a method in tables; variants follow the plain form."""
    base, _, params = method.partition(" ")
    return (ORDER.index(base) if base in ORDER else len(ORDER)), params


@dataclass(frozen=True)
class Mean:
    """Mean and standard deviation over seeds."""

    value: float
    spread: float
    n: int


@dataclass
class SetInfo:
    """A data set and its records, by protocol ("" is retrieval)."""

    name: str
    title: str
    kind: str
    n_vectors: int
    dimensions: int
    classes: int
    class_names: dict[str, str]
    records: dict[str, list[Record]] = field(default_factory=dict)

    def good(self, protocol: str = "") -> list[Record]:
        """Records that did not fail."""
        return [record for record in self.records.get(protocol, []) if "error" not in record]

    def failed(self, protocol: str = "") -> list[Record]:
        """Records that say why they failed."""
        return [record for record in self.records.get(protocol, []) if "error" in record]

    def ratio(self, n_bits: int | None) -> int | None:
        """D / bits of a record, rounded: 13,488 / 210 counts as 64."""
        return None if n_bits is None else round(self.dimensions / n_bits)

    def precision(
        self,
        method: str,
        ratio: int | None,
        k: int,
        *,
        score: str = "precision",
        seeds: set[int] | None = None,
    ) -> Mean | None:
        """Precision after k results at D / bits, or of a method of fixed length, if it was measured.

        With `seeds`, only these count, and all of them must be there: means of other seeds are not comparable. But
        means over more seeds, which can't be taken apart, stand in for any of them.
        """
        rows = [r for r in self.at_length(method, ratio) if score in r and str(k) in r[score]]
        if seeds is not None:
            exact = without_repeats([r for r in rows if seeds_of(r) <= seeds])
            if set().union(*map(seeds_of, exact)) == seeds:
                return mean_of(exact, score, str(k))
            if not any("seeds" in r and seeds <= seeds_of(r) for r in rows):
                return None
        return mean_of(without_repeats(rows), score, str(k))

    def accuracy(self, method: str, ratio: int) -> Mean | None:
        """Accuracy of a linear SVM at D / bits, or of a method of fixed length."""
        return mean_of(without_repeats(self.at_length(method, ratio, "action")), "accuracy")

    def cost(self, method: str, ratio: int | None, word: str) -> float | None:
        """Bytes or seconds at D / bits, the least of all seeds: what other work on the machine added is no cost."""
        return min((record[word] for record in self.at_length(method, ratio, "cost")), default=None)

    def seeds(self, method: str, ratio: int) -> set[int]:
        """Seeds for which the precision of a method was measured at D / bits."""
        return set().union(*(seeds_of(r) for r in self.plain(method) if self.ratio(r["n_bits"]) == ratio))

    def at_length(self, method: str, ratio: int | None, protocol: str = "") -> list[Record]:
        """Records of a method at D / bits, or of any length where that follows from the data."""
        records = self.plain(method, protocol)
        return [r for r in records if r["n_bits"] is None or self.ratio(r["n_bits"]) == ratio]

    def plain(self, method: str, protocol: str = "") -> list[Record]:
        """Records of a method, at each length with the parameters that most of them have; others are variants."""
        lengths: dict[int | None, dict[str, list[Record]]] = {}
        for record in self.good(protocol):
            if record["method"] == method:
                same = lengths.setdefault(record["n_bits"], {})
                same.setdefault(json.dumps(record["params"], sort_keys=True), []).append(record)
        chosen = [max(same.values(), key=_n_seeds) for same in lengths.values()]
        return [record for records in chosen for record in records]

    def exceptions(self, method: str) -> dict[str, list[int]]:
        """Parameters with which retrieval was measured at some lengths only, as text, and these lengths."""
        found: dict[str, list[int]] = {}
        for record in self.plain(method):
            words = ", ".join(f"{name}={value}" for name, value in sorted(record["params"].items()))
            found.setdefault(words, []).append(record["n_bits"])
        return {words: sorted(set(bits)) for words, bits in found.items() if words and len(found) > 1}

    def pair_errors(self, method: str) -> dict[int, Mean]:
        """Pairwise error by bits."""
        found: dict[int, list[Record]] = {}
        for record in self.plain(method, "pair-error"):
            found.setdefault(record["n_bits"], []).append(record)
        return _means(found, "pair_error")

    def varied(self, word: str, k: int) -> dict[str, dict[float, Mean]]:
        """Precision of the sensitivity protocol: method, then value of the parameter `word`."""
        found: dict[str, dict[float, list[Record]]] = {}
        for record in self.good("sensitivity"):
            if word in record["params"]:
                found.setdefault(record["method"], {}).setdefault(record["params"][word], []).append(record)
        return {method: _means(records, "precision", str(k)) for method, records in found.items()}

    def soft_and_hard(self, k: int) -> dict[tuple[str, bool], dict[int, Mean]]:
        """Precision by bits for (method, soft groups or not); hard ones of the same seeds may be retrieval cells."""
        soft = self.good("soft")
        if not soft:
            return {}
        methods, protocol = {record["method"] for record in soft}, soft[0]["protocol"]
        seeds = set().union(*map(seeds_of, soft))
        found: dict[tuple[str, bool], dict[int, list[Record]]] = {}
        for record in (*soft, *(record for record in self.good() if seeds_of(record) <= seeds)):
            method, grouping = record["method"], record["params"].get("grouping", "")
            if method == "joint" and not grouping:  # its own choice, which may be soft
                continue
            if method in methods and record["protocol"] == protocol:
                by_bits = found.setdefault((method, str(grouping).startswith("soft")), {})
                by_bits.setdefault(record["n_bits"], []).append(record)
        return {key: _means(records, "precision", str(k)) for key, records in found.items()}

    def methods(self, protocol: str = "") -> list[str]:
        """Methods with at least one record, in the order of the tables."""
        return sorted({record["method"] for record in self.records.get(protocol, [])}, key=order_of)

    def ratios(self, protocol: str = "") -> list[int]:
        """Measured D / bits, the shortest codes first."""
        found = {self.ratio(record["n_bits"]) for record in self.records.get(protocol, [])}
        return sorted((ratio for ratio in found if ratio is not None), reverse=True)

    def bits(self, ratio: int) -> int:
        """Bits at D / bits."""
        return self.dimensions // ratio

    def ks(self, protocol: str = "") -> list[int]:
        """Measured numbers of results."""
        return sorted({int(k) for record in self.good(protocol) for k in record["precision"]})

    def main_k(self, protocol: str = "") -> int:
        """The number of results that plots and verdicts look at: 50 where it was measured."""
        ks = self.ks(protocol)
        return _MAIN_K if _MAIN_K in ks else ks[-1]


def _n_seeds(records: list[Record]) -> int:
    return sum(len(seeds_of(record)) for record in records)


def seeds_of(record: Record) -> set[int]:
    """Seeds that a record is of: one, or the `seeds` of a record that holds means over several."""
    return set(record.get("seeds") or [record["seed"]])


def without_repeats(records: list[Record]) -> list[Record]:
    """Records in which no seed comes twice.

    Where single seeds of a record of means were measured again, whichever covers more seeds is kept; the later
    measurement where both cover as many.
    """
    summaries = [record for record in records if "seeds" in record]
    single = [record for record in records if "seeds" not in record]
    for summary in summaries:
        again = [record for record in single if record["seed"] in summary["seeds"]]
        if len(again) >= len(summary["seeds"]):
            continue
        single = [*(record for record in single if record not in again), summary]
    return single


def mean_of(records: list[Record], *words: str) -> Mean | None:
    """Mean and standard deviation over seeds of what records hold under `words`.

    A record of means over several seeds has their deviations in `spread`, and is pooled with the others.
    """
    if not records:
        return None
    counts = np.array([len(seeds_of(record)) for record in records])
    means = np.array([_value(record, words) for record in records])
    spreads = np.array([_value(record.get("spread", {}), words) for record in records])
    n, mean = int(counts.sum()), float(np.average(means, weights=counts))
    squares = (counts - 1) @ spreads**2 + counts @ (means - mean) ** 2
    return Mean(mean, float(np.sqrt(squares / (n - 1))) if n > 1 else 0.0, n)


def _value(holder: Any, words: tuple[str, ...]) -> float:
    for word in words:
        holder = holder.get(word, 0.0) if isinstance(holder, dict) else 0.0
    return float(holder)


def _means(records: dict[Any, list[Record]], *words: str) -> dict[Any, Mean]:
    """Mean over seeds of what the records of each key hold under `words`, keys in order."""
    means = {key: mean_of(without_repeats(found), *words) for key, found in sorted(records.items())}
    return {key: mean for key, mean in means.items() if mean is not None}


@dataclass(frozen=True)
class Study:
    """All sets of a folder."""

    folder: Path
    sets: list[SetInfo]
    commands: list[str]

    def having(self, protocol: str) -> list[SetInfo]:
        """Sets with records of a protocol ("" is retrieval)."""
        return [one for one in self.sets if one.records.get(protocol)]

    def all_records(self) -> list[Record]:
        """Every record of every set."""
        return [record for one in self.sets for records in one.records.values() for record in records]


def read_study(folder: Path) -> Study:
    """Read all result files of a folder; of each protocol, the records of the data and sizes with the most cells count.

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
        for record in read_results(path):
            identity = record["dataset"]
            one = sets.setdefault(identity["name"], _set_info(identity, notes.get(identity["name"], {})))
            suffix = path.stem.partition(".")[2]
            one.records.setdefault(record["protocol"].get("experiment", suffix), []).append(record)
    for one in sets.values():
        for protocol, records in one.records.items():
            main = _main_protocol(records)
            one.records[protocol] = [_as_variant(record) for record in main] if protocol == "" else main
    order = list(notes)
    ranked = sorted(sets.values(), key=lambda one: order.index(one.name) if one.name in order else len(order))
    return Study(folder, ranked, read_commands(folder))


def _as_variant(record: Record) -> Record:
    """Name a retrieval record by its parameters, too, where they make it another method; iterations do not."""
    other = {name: value for name, value in record["params"].items() if name not in PLAIN_PARAMS}
    if not other:
        return record
    words = " ".join(f"{name}={value}" for name, value in sorted(other.items()))
    return record | {"method": f"{record['method']} {words}"}


def _set_info(identity: Record, note: Record) -> SetInfo:
    return SetInfo(
        name=identity["name"],
        title=str(note.get("title", identity["name"])),
        kind=note.get("kind", ""),
        n_vectors=identity["vectors"],
        dimensions=identity["dimensions"],
        classes=note.get("classes", 0),
        class_names=note.get("class_names", {}),
    )


def _main_protocol(records: list[Record]) -> list[Record]:
    """Records of the data and protocol that most cells have; others would not be comparable.

    Records of means that an earlier run printed need not be of the very same vectors: they say where they come from.
    """
    groups: dict[str, list[Record]] = {}
    for record in records:
        groups.setdefault(_comparable(record), []).append(record)
    of_known_vectors = [group for group in groups.values() if "fingerprint" in group[0]["dataset"]]
    if not of_known_vectors:
        return max(groups.values(), key=len)
    main = max(of_known_vectors, key=len)
    return main + groups.get(_comparable(main[0], any_vectors=True), [])


def _comparable(record: Record, any_vectors: bool = False) -> str:
    """Data and protocol as text."""
    data = {word: value for word, value in record["dataset"].items() if word != "fingerprint" or not any_vectors}
    return json.dumps([data, record["protocol"]], sort_keys=True)
