"""What Dask costs beside plain processes, what two workers are worth, and how near one process is to its disk.

Vectors: a file of 2 GB of 64,000 numbers each is coded in tasks of 64 MB, by two processes of `multiprocessing` and by
two Dask workers, both started and warm. Disk: one process on one thread codes them from the disk, beside a plain read
of the file and beside coding alone. Pictures: the same files are described and coded by one process and by two. All
are timed in turns, the best of each counts; core seconds are those of all processes that take part.

    python -m benchmarks.cluster --work FOLDER --pictures FOLDER [--parts dask disk pictures]

What is measured replaces the figures of the same parts in the file of results; those of other parts stay. The vectors
stay in the folder, too, for the next time.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from benchmarks.common import RESULTS, as_words, plain_read, report, row, seconds, write_result
from projbank import ProjectionBank, load
from projbank.cluster import ClusterRows, cluster
from projbank.evaluate.results import stamp
from projbank.features.coder import MediaCoder
from projbank.features.extractor import photo_extractor
from projbank.features.listing import open_listing
from projbank.features.straight import code_files, learn_describer, vectors_of
from projbank.integrity import create_npy, open_npy
from projbank.rows.source import ArrayRows, row_blocks
from projbank.threads import blas_threads

D, BITS, TASK = 64_000, 1000, 64 << 20
_state: dict[str, Any] = {}


def start(path: Path, bank: ProjectionBank) -> None:
    """Make a process of the pool ready."""
    _state["X"], _state["bank"] = open_npy(path)[0], bank.set_params(n_jobs=1)


def code(span: tuple[int, int]) -> Any:
    with blas_threads(1):
        return _state["bank"].transform(ArrayRows(_state["X"][slice(*span)]))


def core_seconds(pids: list[int]) -> float:
    """Time that processes have spent on a core so far."""
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def forget(path: Path) -> None:
    """Let the system drop what it keeps of a file in memory."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read(path: Path) -> None:
    buffer = bytearray(32 << 20)
    with open(path, "rb", buffering=0) as file:
        while file.readinto(buffer):
            pass


class Stopwatch:
    """Best seconds and best core seconds of each of several things that are done in turns."""

    def __init__(self) -> None:
        self.best: dict[str, tuple[float, float]] = {}

    def time(self, name: str, run: Callable[[], Any], pids: list[int] | None = None) -> None:
        """Do one of them once, with these processes; with this one, if none are named."""
        pids = pids or [os.getpid()]
        before = core_seconds(pids)
        wall = seconds(run)
        found = wall, core_seconds(pids) - before
        old = self.best.get(name, found)
        self.best[name] = min(old[0], found[0]), min(old[1], found[1])
        print(name, [round(value, 2) for value in found], flush=True)


def vectors(args: argparse.Namespace) -> tuple[Path, ProjectionBank]:
    """A file of vectors, and a bank that codes them."""
    path, rng = args.work / "x.npy", np.random.default_rng(0)
    if not path.exists():
        with open(path, "wb") as file:
            npy.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": (args.rows, D)})
            for start in range(0, args.rows, 1024):
                rng.standard_normal((min(1024, args.rows - start), D), np.float32).tofile(file)
    model = args.work / "bank.safetensors"
    if not model.exists():
        ProjectionBank(BITS, max_iter=2, train_size=1000).fit(open_npy(path)[0][:1000]).save(model)
    return path, load(model).set_params(n_jobs=1)


def dask(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Two Dask workers beside two plain processes."""
    path, bank = vectors(args)
    spans = row_blocks(args.rows, D, TASK)
    expected = np.empty((args.rows, bank.code_bytes), np.uint8)
    timed = Stopwatch()
    with multiprocessing.get_context("spawn").Pool(2, start, (path, bank)) as pool, cluster("local:2") as client:
        rows = ClusterRows(path, client)
        own = [os.getpid()]
        pooled = own + [process.pid for process in pool._pool]  # type: ignore[attr-defined]
        workers = own + list(client.run(os.getpid).values())

        def by_pool() -> None:
            for (low, high), part in zip(spans, pool.imap(code, spans), strict=True):
                expected[low:high] = part

        by_pool()
        np.testing.assert_array_equal(bank.transform(rows), expected)
        for _ in range(args.turns):
            timed.time("two processes", by_pool, pooled)
            timed.time("two Dask workers", lambda: bank.transform(rows), workers)
    plain, by_dask = timed.best["two processes"], timed.best["two Dask workers"]
    return [
        row("Dask beside plain processes, tasks of 64 MB: time", by_dask[0] / plain[0], most=1.15),
        row("Dask beside plain processes, tasks of 64 MB: core seconds", by_dask[1] / plain[1], most=1.15),
        {"what": "GB per core second: coding", "ratio": round(args.rows * D * 4 / 1e9 / plain[1], 3)},
        {
            "what": "ms of core time for 64 MB beside the work",
            "ratio": round(1e3 * (by_dask[1] - plain[1]) / len(spans), 1),
        },
        {
            "what": "thousand million multiply-adds per core second: matrix product of float32",
            "ratio": round(products(), 3),
        },
    ]


def products() -> float:
    """Thousand million multiply-adds per core second of 1,000 rows of 16,000 numbers times a matrix of 512 columns."""
    rows, columns = np.ones((1000, 16_000), np.float32), np.ones((16_000, 512), np.float32)
    timed = Stopwatch()
    with blas_threads(1):
        for _ in range(5):
            timed.time("matrix product", lambda: rows @ columns)
    return rows.size * columns.shape[1] / 1e9 / timed.best["matrix product"][1]


def disk(args: argparse.Namespace) -> list[dict[str, Any]]:
    """One process on one thread, from the disk to codes on the disk, beside reading alone and coding alone."""
    path, bank = vectors(args)
    X = open_npy(path)[0]
    few = np.array(X[: TASK // (4 * D) * 4])
    timed = Stopwatch()

    def to_codes() -> None:
        out = create_npy(args.work / "codes.npy", (args.rows, bank.code_bytes), np.uint8)
        bank.write(X, out)
        out.flush()  # type: ignore[attr-defined]

    to_codes()
    for _ in range(args.turns):
        forget(path)
        timed.time("plain read from the disk", lambda: read(path))
        forget(path)
        timed.time("plain read of the mapped file", lambda: plain_read(as_words(open_npy(path)[0])))
        forget(path)
        timed.time("one process, one thread, from the disk", to_codes)
        timed.time("coding alone, of 256 MB", lambda: bank.transform(few))
    size, best = args.rows * D * 4 / 1e9, timed.best
    coding = best["coding alone, of 256 MB"][0] * args.rows / len(few)
    read_s = min(best[f"plain read {how}"][0] for how in ("from the disk", "of the mapped file"))
    whole = best["one process, one thread, from the disk"][0]
    return [
        row(
            "one process: rate, of the slower of disk and coding on one thread", max(read_s, coding) / whole, least=0.8
        ),
        {"what": "GB/s: plain read", "ratio": round(size / read_s, 3)},
        {"what": "GB/s: coding on one thread", "ratio": round(size / coding, 3)},
        {"what": "GB/s: one process, from the disk to codes", "ratio": round(size / whole, 3)},
    ]


def pictures(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Two processes beside one where pictures are decoded, described and coded."""
    listing = open_listing(args.pictures)
    drawn = listing.draw(200, 0)
    describer = learn_describer(listing, photo_extractor(descriptor="dense-sift", components=64), drawn)
    bank = ProjectionBank(BITS, max_iter=2).fit(vectors_of(listing, describer, drawn))
    coder, timed, n = MediaCoder(describer, bank), Stopwatch(), listing.count()
    for _ in range(args.turns):
        for n_jobs in (1, 2):
            timed.time(f"{n_jobs}", partial(code_files, listing, coder, args.work / "codes.npy", n_jobs=n_jobs))
    return [
        row("pictures: two processes beside one", timed.best["1"][0] / timed.best["2"][0], least=1.6),
        {"what": "pictures per second: one process", "ratio": round(n / timed.best["1"][0], 1)},
    ]


PARTS: dict[str, Callable[[argparse.Namespace], list[dict[str, Any]]]] = {
    "dask": dask,
    "disk": disk,
    "pictures": pictures,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--pictures", type=Path, help="a folder of some thousand pictures")
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=list(PARTS))
    parser.add_argument("--rows", type=int, default=8192)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--output", type=Path, default=RESULTS / "cluster.json")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    parts = json.loads(args.output.read_text()).get("parts", {}) if args.output.exists() else {}
    for name in args.parts:
        print(name, flush=True)
        rows = PARTS[name](args)
        report([one for one in rows if "goal" in one])
        parts[name] = stamp() | {"rows": rows}
        write_result(
            args.output, {"benchmark": "cluster", "parts": {name: parts[name] for name in PARTS if name in parts}}
        )


if __name__ == "__main__":
    main()
