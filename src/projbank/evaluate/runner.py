"""Running a plan of experiments cell by cell: resume, slow methods, failures, progress over the whole plan."""

from __future__ import annotations

import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from projbank.evaluate.results import KEY, Record, ResultFile, stamp
from projbank.progress import progress, say

SLOW_SECONDS = 600.0
"""A method that needs longer than this for one cell is measured for one seed only."""
EFFORT = {
    **dict.fromkeys(("original", "joint", "mixed", "distances", "rr+pq"), 4),
    **dict.fromkeys(("itq", "kmeans+itq", "randst+bpb", "bpb", "bpb-equal"), 8),
    **dict.fromkeys(("kbpb-poly", "kbpb-rbf", "kbpb-rbf-equal"), 25),
}
"""How long methods take, about, where others take 1: for the first estimates of the time left."""


@dataclass(frozen=True)
class Rules:
    """Which cells are measured, apart from those without a record.

    slow_seconds : a method that needs longer for one cell is measured for its first seed only; None for all seeds
    retry_failed : measure cells again that failed before
    since : measure cells again whose record is older than this time (ISO 8601, UTC), for methods that have changed
    """

    slow_seconds: float | None = SLOW_SECONDS
    retry_failed: bool = False
    since: str | None = None


class Experiment(ABC):
    """One protocol on one data set: the keys of its cells in order, and how to measure one.

    A subclass may keep rows in memory between cells; `close` lets go of them. `headline` is the word under which
    records have their most telling number.
    """

    name: str
    headline = "seconds"

    def __init__(self, plan: Sequence[Record], results: ResultFile) -> None:
        self.plan = list(plan)
        self.results = results

    @abstractmethod
    def measure(self, key: Record) -> Record:
        """What is to be known about a cell; any exception becomes the record of a failed cell."""

    @abstractmethod
    def close(self) -> None:
        """Free memory; `measure` may be called again."""

    def is_complete(self, record: Record) -> bool:
        """Whether a record has all that this run asks for."""
        return True

    def is_open(self, key: Record, rules: Rules) -> bool:
        """Whether a cell is still to be measured."""
        known = self.results.find(key)
        if known is None:
            return not _is_slow(key, self.results.records, rules.slow_seconds)
        if rules.since is not None and known["date"] < rules.since:
            return True
        return rules.retry_failed if "error" in known else not self.is_complete(known)

    def records(self) -> list[Record]:
        """Records of the plan, in its order, as far as there are any."""
        return [record for record in map(self.results.find, self.plan) if record is not None]


Cell = tuple[Experiment, Record]


def run(experiments: Sequence[Experiment], rules: Rules, verbose: int = 0) -> int:
    """Measure all open cells and keep each result as soon as there is one; returns how many failed.

    `verbose`: 1 shows progress over the whole plan on a terminal, 2 also a line per cell.
    """
    open_cells = [[key for key in experiment.plan if experiment.is_open(key, rules)] for experiment in experiments]
    total, failed = sum(len(experiment.plan) for experiment in experiments), 0
    done = total - sum(map(len, open_cells))
    pairs = list(zip(experiments, open_cells, strict=True))
    forecast = Forecast((experiment, key) for experiment, keys in pairs for key in keys)
    for experiment in experiments:
        for record in experiment.records():
            if "error" not in record:
                forecast.measured((experiment, record), record["seconds"])
    with progress("", total, verbose, done=done, is_long=True) as show:
        for experiment, keys in pairs:
            for key in keys:
                title = describe(experiment, key)
                show(0, title=title)
                if experiment.is_open(key, rules):  # another seed may have shown that the method is slow
                    record = key | _measured(experiment, key) | stamp()
                    experiment.results.put(record)
                    failed += "error" in record
                    outcome = record.get("error") or f"{experiment.headline} {_short(record[experiment.headline])}"
                    say(f"{title}: {outcome}", max(0, verbose - 1))
                    forecast.measured((experiment, key), record["seconds"])
                show(1, title="", seconds=forecast.seconds_left())
            experiment.close()
    return failed


class Forecast:
    """Seconds that cells will take: what their method took elsewhere, else by how much its kind usually takes."""

    def __init__(self, cells: Iterable[Cell]) -> None:
        self._left = list(cells)
        self._alike: dict[str, list[float]] = {}
        self._of_method: dict[str, list[float]] = {}
        self._seconds = self._effort = 0.0

    def measured(self, cell: Cell, seconds: float) -> None:
        """A cell took so many seconds."""
        method = cell[1]["method"]
        self._alike.setdefault(_but_seed(cell), []).append(seconds)
        self._of_method.setdefault(method, []).append(seconds)
        self._seconds += seconds
        self._effort += EFFORT.get(method, 1)

    def seconds_left(self) -> float:
        """Drop the first cell that is left, and add up what the others will take."""
        del self._left[0]
        return sum(map(self._expected, self._left))

    def _expected(self, cell: Cell) -> float:
        method = cell[1]["method"]
        times = self._alike.get(_but_seed(cell)) or self._of_method.get(method)
        return fmean(times) if times else EFFORT.get(method, 1) * self._seconds / max(self._effort, 1)


def _but_seed(cell: Cell) -> str:
    return describe(*cell).rpartition(", seed ")[0]


def describe(experiment: Experiment, key: Record) -> str:
    """Name a cell in a few words."""
    params = "".join(f" {name}={value}" for name, value in key["params"].items())
    length = "" if key["n_bits"] is None else f", {key['n_bits']} bits"
    return f"{experiment.name} {key['dataset']['name']}: {key['method']}{params}{length}, seed {key['seed']}"


def _short(value: Any) -> str:
    """A number, or numbers by their names, for a line on the terminal."""
    if isinstance(value, dict):
        return ", ".join(f"@{name} {number:.4f}" for name, number in value.items())
    return f"{value:.4g}"


def _is_slow(key: Record, records: list[Record], limit: float | None) -> bool:
    """Whether another seed of the same cell is known to take longer than `limit`."""
    if limit is None:
        return False
    same = [name for name in KEY if name != "seed"]
    return any(
        record.get("seconds", 0) > limit and record["seed"] != key["seed"] and all(record[n] == key[n] for n in same)
        for record in records
    )


def _measured(experiment: Experiment, key: Record) -> Record:
    start = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # lowered lengths and neighbours stand in the record
            found = experiment.measure(key)
    except Exception as error:  # any method may fail in its own way: the others go on
        found = {"error": f"{type(error).__name__}: {' '.join(str(error).split())}"}
    return found | {"seconds": time.perf_counter() - start}
