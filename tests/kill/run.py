"""A process killed at a random moment; what it leaves, and what the next run makes of that."""

import contextlib
import io
import os
import pickle
import select
import shutil
import signal
import time
import traceback
from pathlib import Path

import numpy as np

from tests.kill.scenarios import files_in, scenarios

HANGS = 300
"""Seconds after which a run counts as hanging."""
PATIENCE = 120
"""Seconds in which worker processes of a killed parent must have ended."""


class Kills:
    """All scenarios with the folder before, the files after, and the seconds between; `folder` is for scratch."""

    def __init__(self, folder, seed=0, only=""):
        self.folder, self.seed = Path(folder), seed
        self.ready = []
        for scenario in scenarios():
            if only and scenario.name not in only.split(","):
                continue
            before, case = self.folder / f"before {scenario.name}", self.folder / "case"
            before.mkdir()
            _inside(before, lambda scenario=scenario, before=before: scenario.prepare(before))
            if not scenario.has_threads:
                shutil.copytree(before, case)
                _inside(case, scenario.run)  # compiles, and loads what is loaded once
                shutil.rmtree(case)
            shutil.copytree(before, case)
            started = time.perf_counter()
            words = self._in_child(scenario, None)
            seconds = time.perf_counter() - started
            if words:
                raise RuntimeError(f"{scenario.name} fails without being killed: {words}")
            self.ready.append((scenario, before, _view(scenario, before), _view(scenario, case), seconds))
            shutil.rmtree(case)

    def run(self, number):
        """Kill one case; returns its scenario, when it was killed, and what was wrong ("" if nothing)."""
        rng = np.random.default_rng([self.seed, number])
        scenario, before, old, new, seconds = self.ready[number % len(self.ready)]
        moment = float(rng.uniform(0, 1.05 * seconds))
        case = self.folder / "case"
        shutil.copytree(before, case)
        try:
            killed = self._in_child(scenario, moment)
            wrong = _half_written(case, scenario, old, new) if killed == "killed" else killed
            wrong = wrong or _survivors(case)
            wrong = wrong or self._in_child(scenario, None)
            wrong = wrong or _differences(_view(scenario, case), new)
        finally:
            shutil.rmtree(case)
        return scenario.name, moment / seconds, wrong, killed == "killed"

    def _in_child(self, scenario, moment):
        """Run a scenario in a child; returns "" or what went wrong, or "killed" where that came first."""
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            _work(scenario.run, self.folder / "case", writer)
        os.close(writer)
        if moment is not None:
            time.sleep(moment)
            os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            if os.WIFSIGNALED(status):
                os.close(reader)
                return "killed"
        words = b""
        while True:
            ready, _, _ = select.select([reader], [], [], HANGS)
            if not ready:
                os.kill(child, signal.SIGKILL)
                words = b"hangs"
                break
            part = os.read(reader, 1 << 16)
            if not part:
                break
            words += part
        os.close(reader)
        if moment is None:
            os.waitpid(child, 0)
        return "" if words == b"done" else words.decode("utf-8", "replace") or "ended without a word"


def _work(run, case, writer):
    """The child: never returns."""
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        said = os.open(case.parent / "stderr", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(said, 2)
        os.chdir(case)
        run()
        os.write(writer, b"done")
    except BaseException:
        os.write(writer, (traceback.format_exc()[-2000:] + (case.parent / "stderr").read_text()[-2000:]).encode())
    finally:
        os._exit(0)


def _view(scenario, folder):
    """What a scenario says about a folder; in a child where engines start threads."""
    if not scenario.has_threads:
        return scenario.view(folder)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            with open(writer, "wb") as pipe:
                pickle.dump(scenario.view(folder), pipe)
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, "rb") as pipe:
        found = pipe.read()
    os.waitpid(child, 0)
    return pickle.loads(found)


def _inside(folder, run):
    here = Path.cwd()
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            run()
    finally:
        os.chdir(here)


def _half_written(case, scenario, old, new):
    """What is neither as before nor as it should become, among the files that users know of."""
    if scenario.is_good is not None:
        is_good = scenario.is_good(_view(scenario, case), old, new)
        return "" if is_good else "what the kill left is no good state"
    found = files_in(case)
    for name in old.keys() | new.keys():
        if found.get(name) not in (old.get(name), new.get(name)):
            is_between = name in scenario.grows and found.get(name) is not None
            if not (is_between and scenario.grows[name](case / name)):
                return f"{name} is neither the old one nor the new one"
    return ""


def _survivors(case):
    """Processes of the killed one that are still there."""
    deadline = time.monotonic() + PATIENCE
    while pids := _processes_in(case):
        if time.monotonic() > deadline:
            return f"processes live on: {pids}"
        time.sleep(0.05)
    return ""


def _processes_in(folder):
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != os.getpid():
            try:
                inside = Path(os.readlink(f"/proc/{entry}/cwd")) == folder
            except OSError:
                continue
            if inside:
                found.append(int(entry))
    return found


def _differences(found, new):
    if found.keys() != new.keys():
        return f"left over or missing after the rerun: {sorted(found.keys() ^ new.keys())}"
    return "".join(f"{name} differs after the rerun; " for name in new if found[name] != new[name])
