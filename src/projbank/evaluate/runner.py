"""Running a plan of experiments cell by cell: resume, slow methods, failures, progress over the whole plan."""

from __future__ import annotations

import contextlib
import sys
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from projbank.evaluate.results import KEY, Record, ResultFile, stamp
from projbank.progress import say

SLOW_SECONDS = 600.0
"""A method that needs longer than this for one cell is measured for one seed only."""


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

    A subclass may keep rows in memory between cells; `close` lets go of them.
    """

    name: str

    def __init__(self, plan: Sequence[Record], results: ResultFile) -> None:
        self.plan = list(plan)
        self.results = results

    @abstractmethod
    def measure(self, key: Record) -> Record:
        """What is to be known about a cell; any exception becomes the record of a failed cell."""

    def is_complete(self, record: Record) -> bool:
        """Whether a record has all that this run asks for."""
        return True

    def headline(self, record: Record) -> str:
        """The most telling number of a record, for a line on the terminal."""
        return f"{record['seconds']:.1f} s"

    @abstractmethod
    def close(self) -> None:
        """Free memory; `measure` may be called again."""

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


def run(experiments: Sequence[Experiment], rules: Rules, verbose: int = 0) -> int:
    """Measure all open cells and keep each result as soon as there is one; returns how many failed.

    Parameters
    ----------
    experiments : in their order; each may hold its rows in memory until its last cell
    rules : which cells are open
    verbose : 1 shows progress over the whole plan on a terminal, 2 also a line per cell
    """
    open_cells = [[key for key in e.plan if e.is_open(key, rules)] for e in experiments]
    total = sum(len(e.plan) for e in experiments)
    left = sum(map(len, open_cells))
    clock = Clock(experiments, open_cells)
    failed = 0
    with _plan_progress(total, total - left, verbose) as show:
        for experiment, keys in zip(experiments, open_cells, strict=True):
            for key in keys:
                show(describe(experiment, key), clock.seconds_left(), 0)
                if experiment.is_open(key, rules):
                    record = key | _measured(experiment, key) | stamp()
                    experiment.results.put(record)
                    failed += "error" in record
                    outcome = record.get("error") or experiment.headline(record)
                    say(f"{describe(experiment, key)}: {outcome}", max(0, verbose - 1))
                clock.done(experiment, key)
                show("", clock.seconds_left(), 1)
            experiment.close()
    return failed


def describe(experiment: Experiment, key: Record) -> str:
    """Name a cell in a few words."""
    params = "".join(f" {name}={value}" for name, value in key["params"].items())
    length = "" if key["n_bits"] is None else f", {key['n_bits']} bits"
    return f"{experiment.name} {key['dataset']['name']}: {key['method']}{params}{length}, seed {key['seed']}"


class Clock:
    """How long the rest of a plan will take, from what its cells took so far.

    A cell is expected to take what the same cell took with another seed, else the mean of its method in the same
    experiment, else that of the experiment, of the same protocol on other sets, of all cells.
    """

    def __init__(self, experiments: Sequence[Experiment], open_cells: Sequence[Sequence[Record]]) -> None:
        self._open = [(e, key) for e, keys in zip(experiments, open_cells, strict=True) for key in keys]
        self._known: dict[tuple, list[float]] = {}
        for experiment in experiments:
            for record in experiment.records():
                self._learn(experiment, record)

    def done(self, experiment: Experiment, key: Record) -> None:
        """Take a cell off the list."""
        self._open.remove((experiment, key))
        record = experiment.results.find(key)
        if record is not None:
            self._learn(experiment, record)

    def seconds_left(self) -> float | None:
        """Seconds for the open cells; None while nothing was measured."""
        total = 0.0
        for experiment, key in self._open:
            known = next((self._known[name] for name in _names(experiment, key) if name in self._known), None)
            if known is None:
                return None
            total += sum(known) / len(known)
        return total

    def _learn(self, experiment: Experiment, record: Record) -> None:
        for name in _names(experiment, record):
            self._known.setdefault(name, []).append(record.get("seconds", 0.0))


def _names(experiment: Experiment, key: Record) -> list[tuple]:
    """Names under which the time of a cell is looked up, the most fitting first."""
    own = (id(experiment), experiment.name)
    return [(*own, key["method"], key["n_bits"]), (*own, key["method"]), own, (experiment.name,), ()]


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
        text = " ".join(str(error).split())
        return {"error": f"{type(error).__name__}: {text}", "seconds": time.perf_counter() - start}
    return found | {"seconds": time.perf_counter() - start}


@contextlib.contextmanager
def _plan_progress(total: int, done: int, verbose: int) -> Iterator[Callable[[str, float | None, int], None]]:
    """Give a function that shows the cell at work and the seconds left, and advances the bar by so many cells."""
    if not verbose or not sys.stderr.isatty():
        yield lambda text, seconds, steps: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(20), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.fields[left]}"))
    with Progress(
        *columns, TextColumn("{task.description}"), console=Console(stderr=True), refresh_per_second=2
    ) as bar:
        task = bar.add_task("", total=total, completed=done, left="")

        def show(text: str, seconds: float | None, steps: int) -> None:
            bar.update(task, advance=steps, description=text, left=time_left(seconds))

        yield show


def time_left(seconds: float | None) -> str:
    """Say how long it will take, in one unit."""
    if seconds is None:
        return "time left unknown"
    for size, unit in ((3600, "h"), (60, "min")):
        if seconds >= 1.5 * size:
            return f"about {seconds / size:.0f} {unit} left"
    return f"about {seconds:.0f} s left"
