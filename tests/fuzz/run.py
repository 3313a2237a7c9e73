"""Cases in children forked from a parent in which everything is imported, compiled and tried."""

import json
import os
import resource
import select
import signal
import sys
import traceback
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from projbank.kinds import kind_of
from tests.fuzz.formats import digest, formats

SECONDS = 60
BYTES = 1 << 30
RESERVED = 4 << 30
"""Address space of formats whose libraries ask for more than they use; of these the memory used is measured."""
BATCH = 10
"""Cases that a child takes in turn; what fails is tried again in a child of its own, and so is what comes after it."""
REFUSALS = (ValueError, TypeError, OSError)
"""What a refusal may be; the command line says each in one line."""


@dataclass
class Outcome:
    """What became of a case: "refused", "right", "answered" (nothing tells whether that is right), or a failure."""

    case: int
    format: str
    kind: str
    words: str = ""

    @property
    def failed(self):
        return self.kind not in ("refused", "right", "answered")


class Fuzz:
    """All formats, and the right answer of each; `folder` is for scratch."""

    def __init__(self, folder, seed=0, only=""):
        warnings.simplefilter("ignore")
        self.folder, self.seed = Path(folder), seed
        self.formats = [found for found in formats(self.folder) if any(part in found.name for part in only.split(","))]
        self.answers = []
        for found in self.formats:
            path = self.write(found, found.content)
            self.answers.append(digest(found.use(path)))

    def write(self, found, content):
        path = self.folder / f"case{found.suffix}"
        path.write_bytes(content)
        return path

    def pick(self, case):
        """Generator of a case, and the number of its format."""
        rng = np.random.default_rng([self.seed, case])
        return rng, int(rng.integers(len(self.formats)))

    def change(self, case):
        """The damaged file of a case."""
        rng, number = self.pick(case)
        return self.formats[number].change(self.formats[number].content, rng)

    def run(self, cases, batch=BATCH):
        """Yield the outcome of each case."""
        waiting = list(cases)
        while waiting:
            taken, waiting = waiting[:batch], waiting[batch:]
            done = self._in_child(taken)
            if len(done) == 1:
                yield done[0]
                continue
            for place, outcome in enumerate(done):
                if outcome.failed:  # alone, to be sure that it was this one
                    yield self._in_child([outcome.case])[0]
                    waiting = taken[place + 1 :] + waiting
                    break
                yield outcome

    def _in_child(self, cases):
        """Outcomes of the first cases, up to one that ends the child or fails."""
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            self._work(cases, writer)
        os.close(writer)
        text, hangs = b"", False
        while True:
            ready, _, _ = select.select([reader], [], [], SECONDS)
            part = os.read(reader, 1 << 16) if ready else b""
            text += part
            if not part:
                hangs = not ready
                break
        os.close(reader)
        if hangs:
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        done = [
            Outcome(case, self.formats[self.pick(case)[1]].name, *json.loads(line))
            for case, line in zip(cases, text.splitlines(), strict=False)
        ]
        if len(done) < len(cases) and not (done and done[-1].failed):
            case = cases[len(done)]
            kind, words = "signal", signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else str(status)
            if hangs:
                kind, words = "hangs", f"for {SECONDS} s"
            done.append(Outcome(case, self.formats[self.pick(case)[1]].name, kind, words))
        return done

    def _work(self, cases, writer):
        """The child: never returns."""
        try:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, 1)
            os.dup2(null, 2)
            size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (size + BYTES, size + RESERVED))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            for case in cases:
                kind, words = self._try(case)
                os.write(writer, json.dumps([kind, words[:3000]]).encode() + b"\n")
                if kind not in ("refused", "right", "answered"):
                    break
        finally:
            os._exit(0)

    def _try(self, case):
        _, number = self.pick(case)
        found, content = self.formats[number], self.change(case)
        if content == found.content:
            return "right", ""
        path = self.write(found, content)
        most = resource.getrlimit(resource.RLIMIT_AS)[1]
        resource.setrlimit(resource.RLIMIT_AS, (most if found.reserves else most - RESERVED + BYTES, most))
        Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
        before = _most_used()
        try:
            kind_of(path)  # as every command asks about a file that it would replace
            words = digest(found.use(path))
        except MemoryError as error:
            return "more than 1 GB", str(error)
        except REFUSALS as error:
            words = f"{type(error).__name__}: {error}"
            too_much = isinstance(error.__cause__, MemoryError) or "nable to allocate" in words
            if found.reserves:
                too_much = _most_used() > before + BYTES
            return ("more than 1 GB" if too_much else "refused"), words
        except BaseException:
            return "traceback", traceback.format_exc()[-3000:]
        if found.reserves and _most_used() > before + BYTES:
            return "more than 1 GB", words
        if not (found.checked(path) if callable(found.checked) else found.checked):
            return "answered", words
        return ("right" if words == self.answers[number] else "another answer"), words


def _most_used():
    """Bytes of memory that this process has had at its peak."""
    return next(
        int(line.split()[1]) << 10
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("VmHWM")
    )


def summary(outcomes):
    """Numbers of cases by what became of them, in all and by format."""
    kinds, by_format = {}, {}
    for outcome in outcomes:
        kinds[outcome.kind] = kinds.get(outcome.kind, 0) + 1
        of_format = by_format.setdefault(outcome.format, {})
        of_format[outcome.kind] = of_format.get(outcome.kind, 0) + 1
    return {"outcomes": kinds, "formats": dict(sorted(by_format.items()))}


def tell(outcome):
    """Print a failure."""
    print(f"case {outcome.case}, {outcome.format}: {outcome.kind}\n{outcome.words}", file=sys.stderr, flush=True)
