"""Estimates of time left: what the bars of a command show after the first tenth of their time, against the truth.

OMP_NUM_THREADS=1 python -m benchmarks.time_left NAME COMMAND... --jobs 1

Time is that of the processor, so that other work on the machine does not count; hence one thread.
"""

from __future__ import annotations

import io
import json
import sys
import time
from typing import Any, ClassVar

import rich.progress

import projbank.progress
from benchmarks.common import RESULTS
from projbank.cli import main
from projbank.evaluate.results import stamp
from projbank.progress import TimeLeft

LEAST = 2.0
"""Bars of fewer seconds are gone before anyone can read them."""


class Terminal(io.StringIO):
    """A place for bars that nobody looks at."""

    def isatty(self) -> bool:  # noqa: D102
        return True


class Watched(TimeLeft):
    """Notes what it shows: when, of which bar, and the seconds left."""

    notes: ClassVar[list[tuple[float, int, float | None]]] = []
    titles: ClassVar[dict[int, str]] = {}

    def __init__(self) -> None:
        super().__init__(time.process_time)

    def __str__(self) -> str:
        self.notes.append((time.process_time(), id(self), self.seconds))
        return super().__str__()


class Bars(rich.progress.Progress):
    """Notes what bars are called."""

    def add_task(self, description: str, *args: Any, **settings: Any) -> Any:  # noqa: D102
        Watched.titles[id(settings["time_left"])] = description
        kept.append(settings["time_left"])  # else another may get its id
        return super().add_task(description, *args, **settings)


kept: list[TimeLeft] = []


def bars() -> list[dict[str, Any]]:
    """Of each bar that lasts: its seconds, and what it showed to what was left, after a tenth and until nine tenths."""
    found = []
    for bar, title in Watched.titles.items():
        own = [note for note in Watched.notes if note[1] == bar]
        start, end = own[0][0], own[-1][0]
        if end - start < LEAST:
            continue
        later = [note for note in own if note[0] >= start + (end - start) / 10 and note[0] <= end - (end - start) / 10]
        ratios = [None if left is None else max(left, 0.5) / (end - when) for when, _, left in later]
        shown = [ratio for ratio in ratios if ratio is not None]
        found.append(
            {
                "bar": title,
                "seconds": round(end - start, 1),
                "after a tenth": None if not ratios or ratios[0] is None else round(ratios[0], 2),
                "least": round(min(shown), 2) if shown else None,
                "most": round(max(shown), 2) if shown else None,
                "share within a factor of two": round(
                    sum(ratio is not None and 0.5 <= ratio <= 2 for ratio in ratios) / max(len(ratios), 1), 2
                ),
            }
        )
    return found


def run(name: str, words: list[str]) -> None:
    """Run a command, and add what its bars told to the results."""
    time.perf_counter = time.process_time  # with which cells are measured
    projbank.progress.TimeLeft = Watched  # type: ignore[assignment, misc]
    rich.progress.Progress = Bars  # type: ignore[misc]
    sys.stderr = Terminal()
    sys.argv = ["projbank", *words]
    started = time.process_time()
    try:
        main()
    except SystemExit as stop:
        if stop.code:
            sys.exit(sys.stderr.getvalue()[-2000:] if isinstance(sys.stderr, Terminal) else 1)
    finally:
        sys.stderr = sys.__stderr__
    result = {"command": " ".join(words), "seconds": round(time.process_time() - started, 1)}
    path = RESULTS / "time_left.json"
    known = json.loads(path.read_text())["commands"] if path.exists() else {}
    known[name] = result | {"bars": bars()}
    path.write_text(json.dumps(stamp() | {"commands": known}, indent=1) + "\n")
    print(json.dumps(known[name], indent=1))


if __name__ == "__main__":
    run(sys.argv[1], sys.argv[2:])
