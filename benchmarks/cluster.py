"""What Dask costs beside plain processes, what two workers are worth, and how near one process is to its disk.

Vectors: a file of 2 GB of 64,000 numbers each is coded in tasks of 64 MB, by two processes of `multiprocessing` and by
two Dask workers, both started and warm; and by one process on one thread, from the disk, beside a plain read and beside
coding alone. Pictures: the same files are described and coded by one process and by two. All are timed in turns, the
best of each counts; core seconds are those of all processes that take part.

    python -m benchmarks.cluster --work FOLDER --pictures FOLDER
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from benchmarks.common import RESULTS, row, seconds, write_result
from projbank import ProjectionBank
from projbank.cluster import ClusterRows, cluster
from projbank.features.coder import MediaCoder
from projbank.features.extractor import photo_extractor
from projbank.features.listing import open_listing
from projbank.features.straight import code_files, learn_describer, vectors_of
from projbank.npyfile import create_npy, open_npy
from projbank.rows.source import ArrayRows, row_blocks
from projbank.threads import blas_threads

D, ROWS, BITS, TASK, TURNS = 64_000, 8192, 1000, 64 << 20, 3
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


def vectors(work: Path) -> list[dict[str, Any]]:
    path, rng = work / "x.npy", np.random.default_rng(0)
    with open(path, "wb") as file:
        npy.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": (ROWS, D)})
        for _ in range(ROWS // 1024):
            rng.standard_normal((1024, D), np.float32).tofile(file)
    X = open_npy(path)[0]
    bank = ProjectionBank(BITS, max_iter=2, train_size=1000, n_jobs=1).fit(X[:1000])
    spans = row_blocks(ROWS, D, TASK)
    expected = np.empty((ROWS, bank.code_bytes), np.uint8)
    best: dict[str, tuple[float, float]] = {}

    def timed(name: str, run: Callable[[], Any], pids: list[int]) -> None:
        before = core_seconds(pids)
        wall = seconds(run)
        found = wall, core_seconds(pids) - before
        best[name] = min(best.get(name, found), found)
        print(name, [round(value, 2) for value in found], flush=True)

    few = np.array(X[: TASK // (4 * D) * 4])
    with multiprocessing.get_context("spawn").Pool(2, start, (path, bank)) as pool, cluster("local:2") as client:
        workers = list(client.run(os.getpid).values())
        rows = ClusterRows(path, client)
        own = [os.getpid()]
        pooled = [process.pid for process in pool._pool]  # type: ignore[attr-defined]

        def by_pool() -> None:
            for (low, high), part in zip(spans, pool.imap(code, spans), strict=True):
                expected[low:high] = part

        def by_dask() -> None:
            np.testing.assert_array_equal(bank.transform(rows), expected)

        def from_disk() -> None:
            out = create_npy(work / "codes.npy", expected.shape, np.uint8)
            bank.write(X, out)
            out.flush()  # type: ignore[attr-defined]

        by_pool()
        by_dask()
        for _ in range(TURNS):
            timed("two processes", by_pool, own + pooled)
            timed("two Dask workers", by_dask, own + workers)
            forget(path)
            timed("plain read from the disk", lambda: read(path), own)
            forget(path)
            timed("one process, one thread, from the disk", from_disk, own)
            timed("coding alone, of 256 MB", lambda: bank.transform(few), own)
    path.unlink()
    coding = best["coding alone, of 256 MB"][0] * ROWS / len(few)
    disk, whole = best["plain read from the disk"][0], best["one process, one thread, from the disk"][0]
    plain, dask = best["two processes"], best["two Dask workers"]
    print(f"{ROWS * D * 4 / 1e9 / whole:.2f} GB/s from the disk to codes", flush=True)
    return [
        row("Dask beside plain processes, tasks of 64 MB: time", dask[0] / plain[0], most=1.15),
        row("Dask beside plain processes, tasks of 64 MB: core seconds", dask[1] / plain[1], most=1.15),
        row("one process: rate, of the slower of disk and coding on one thread", max(disk, coding) / whole, least=0.8),
        {"what": "GB/s: plain read", "ratio": round(ROWS * D * 4 / 1e9 / disk, 3)},
        {"what": "GB/s: coding on one thread", "ratio": round(ROWS * D * 4 / 1e9 / coding, 3)},
        {"what": "GB/s: one process, from the disk to codes", "ratio": round(ROWS * D * 4 / 1e9 / whole, 3)},
        {"what": "GB per core second: coding", "ratio": round(ROWS * D * 4 / 1e9 / plain[1], 3)},
    ]


def pictures(folder: Path, work: Path) -> list[dict[str, Any]]:
    listing = open_listing(folder)
    drawn = listing.draw(200, 0)
    describer = learn_describer(listing, photo_extractor(descriptor="dense-sift", components=64), drawn)
    bank = ProjectionBank(BITS, max_iter=2).fit(vectors_of(listing, describer, drawn))
    coder, times = MediaCoder(describer, bank), {1: np.inf, 2: np.inf}
    for _ in range(TURNS):
        for n in times:
            run = seconds(lambda n=n: code_files(listing, coder, work / "codes.npy", n_jobs=n))  # type: ignore[misc]
            times[n] = min(times[n], run)
            print(f"pictures, {n} processes: {run:.1f} s", flush=True)
    return [row("pictures: two processes beside one", times[1] / times[2], least=1.6)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--pictures", type=Path, required=True, help="a folder of some thousand pictures")
    parser.add_argument("--output", type=Path, default=RESULTS / "cluster.json")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    rows = vectors(args.work) + pictures(args.pictures, args.work)
    for one in rows:
        print(one)
    write_result(args.output, {"benchmark": "cluster", "seconds": round(time.perf_counter() - started), "rows": rows})
    shutil.rmtree(args.work)


if __name__ == "__main__":
    main()
