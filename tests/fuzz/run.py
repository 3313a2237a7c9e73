"""Each case in a child of its own, forked from a parent in which everything is imported, compiled and tried."""

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

from tests.fuzz.formats import digest, formats

SECONDS = 30
BYTES = 1 << 30
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
        self.formats = [found for found in formats(self.folder) if only in found.name]
        self.answers = []
        for found in self.formats:
            path = self.write(found, found.content)
            self.answers.append(digest(found.use(path)))

    def write(self, found, content):
        path = self.folder / f"case{found.suffix}"
        path.write_bytes(content)
        return path

    def change(self, case):
        """The format and the damaged file of a case."""
        rng = np.random.default_rng([self.seed, case])
        number = int(rng.integers(len(self.formats)))
        found = self.formats[number]
        return number, found.change(found.content, rng)

    def run(self, case):
        """Damage a file and use it in a child."""
        number, content = self.change(case)
        found = self.formats[number]
        if content == found.content:
            return Outcome(case, found.name, "right")
        path = self.write(found, content)
        kind, words = _in_child(lambda: found.use(path))
        if kind == "answered" and found.checked:
            kind = "right" if words == self.answers[number] else "another answer"
        return Outcome(case, found.name, kind, words)


def _in_child(work):
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _work(work, writer)
    os.close(writer)
    text, hangs = b"", False
    try:
        while True:
            ready, _, _ = select.select([reader], [], [], SECONDS)
            if not ready:
                hangs = True
                os.kill(child, signal.SIGKILL)
                break
            part = os.read(reader, 1 << 16)
            if not part:
                break
            text += part
    finally:
        os.close(reader)
        _, status = os.waitpid(child, 0)
    if hangs:
        return "hangs", f"for {SECONDS} s"
    if os.WIFSIGNALED(status):
        return "signal", signal.Signals(os.WTERMSIG(status)).name
    kind, _, words = text.decode("utf-8", "replace").partition("\n")
    return kind or "no word", words


def _work(work, writer):
    """The child: never returns."""
    kind, words = "no word", ""
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + BYTES, size + BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        kind, words = "answered", digest(work())
    except MemoryError as error:
        kind, words = "more than 1 GB", str(error)
    except REFUSALS as error:
        kind, words = "refused", f"{type(error).__name__}: {error}"
        if isinstance(error.__cause__, MemoryError) or "nable to allocate" in words:
            kind = "more than 1 GB"
    except BaseException:
        kind, words = "traceback", traceback.format_exc()
    os.write(writer, f"{kind}\n{words}".encode("utf-8", "replace")[:60_000])
    os._exit(0)


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
