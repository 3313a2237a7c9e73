"""What all benchmarks share: timing in turns, the plain read that ratios refer to, and result files."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np

from projbank.evaluate.results import stamp

RESULTS = Path(__file__).parent / "results"


@numba.njit(nogil=True)
def plain_read(words: Any) -> Any:
    """Sum an array of 64-bit words: the cost of having looked at every byte once."""
    total = np.uint64(0)
    for i in range(words.size):
        total += words[i]
    return total


def as_words(array: Any) -> Any:
    """The bytes of a contiguous array as 64-bit words."""
    flat = array.reshape(-1).view(np.uint8)
    return flat[: flat.size // 8 * 8].view(np.uint64)


def seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def best_seconds(runs: dict[str, Callable[[], object]], turns: int = 7) -> dict[str, float]:
    """Best time of each run; all are timed in turns, so that a noisy moment spoils one turn of each, not one run."""
    for run in runs.values():
        run()  # compile, fill caches
    times = [{name: seconds(run) for name, run in runs.items()} for _ in range(turns)]
    return {name: min(turn[name] for turn in times) for name in runs}


def run(*words: object) -> dict[str, float]:
    """Seconds, core seconds of all its processes, and peak memory of the largest one, of a command of projbank."""
    started = time.perf_counter()
    child = subprocess.Popen([sys.executable, "-m", "projbank", *map(str, words)], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    if status:
        raise RuntimeError(f"projbank {words[0]} has failed.")
    return {
        "seconds": round(time.perf_counter() - started, 1),
        "core seconds": round(usage.ru_utime + usage.ru_stime, 1),
        "peak MB": round(usage.ru_maxrss / 1024, 1),
    }


def result_path(name: str) -> Path:
    """Read the one option that every benchmark has: where the result goes."""
    parser = argparse.ArgumentParser(description=f"Run the benchmark {name!r} and write its result as JSON.")
    parser.add_argument("--output", type=Path, default=RESULTS / f"{name}.json")
    path: Path = parser.parse_args().output
    return path


def write_result(path: Path, result: dict[str, Any]) -> None:
    """Write a result with machine and date, and print its rows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(stamp() | result, indent=1) + "\n")
    print(f"written to {path}")


def report(rows: list[dict[str, Any]]) -> None:
    """Print what was measured next to what was asked."""
    for row in rows:
        goal = f"  (goal: {row['goal']}, {'met' if row['met'] else 'MISSED'})" if "goal" in row else ""
        print(f"{row['what']:<62} {row['ratio']:8.2f}{goal}", flush=True)


def row(what: str, ratio: float, *, most: float | None = None, least: float | None = None) -> dict[str, Any]:
    """One measured ratio and, where there is one, its goal."""
    result: dict[str, Any] = {"what": what, "ratio": round(ratio, 3)}
    if most is not None:
        result |= {"goal": f"at most {most:g}", "met": ratio <= most}
    if least is not None:
        result |= {"goal": f"at least {least:g}", "met": ratio >= least}
    return result
