"""A million long vectors with the commands alone: fit, encode, index and search; seconds and peak memory of each.

The vectors are generated: 1,000 kinds about centres of 64 hidden numbers, spread over all columns, with noise as large
as what they tell. They are written to a `.npy` file of float32 (16 GB for a million of 4,096), which the commands read.

    python -m benchmarks.million --work FOLDER [--numbers 10000 20000 100000 1000000]

With --distances only the fit of codes for distances is measured, from the rows that it takes by itself and from all.
What is measured replaces those figures of as many vectors in the file of results; others stay.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from benchmarks.common import RESULTS, run, write_result
from projbank.metrics import precision_at_k

D, KINDS, HIDDEN, BITS, QUERIES, K = 4096, 1000, 64, 512, 1000, 100


def generate(path: Path, n_rows: int, seed: int) -> np.ndarray[Any, Any]:
    """Write vectors block by block; returns their kinds. The kinds are the same for any seed."""
    fixed, rng = np.random.default_rng(0), np.random.default_rng([1, seed])
    centers = fixed.standard_normal((KINDS, HIDDEN), np.float32)
    spread = fixed.standard_normal((HIDDEN, D), np.float32) / np.float32(np.sqrt(HIDDEN))
    kinds = rng.integers(0, KINDS, n_rows)
    with open(path, "wb") as file:  # no memory map: its pages would count as memory of the commands that follow
        npy.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": (n_rows, D)})
        for start in range(0, n_rows, 2048):
            own = kinds[start : start + 2048]
            hidden = centers[own] + np.float32(0.7) * rng.standard_normal((len(own), HIDDEN), np.float32)
            (hidden @ spread + rng.standard_normal((len(own), D), np.float32)).tofile(file)
    return kinds


def plain_read(path: Path) -> float:
    """Seconds to read a file's bytes from the disk, without what the system has of it in memory."""
    with open(path, "rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        buffer = bytearray(32 << 20)
        started = time.perf_counter()
        while file.readinto(buffer):
            pass
        took = time.perf_counter() - started
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return took


def ids_of(path: Path) -> np.ndarray[Any, Any]:
    """Ids of the results that `projbank search --format csv` wrote, (n_queries, K)."""
    names = path.open().readline().strip().split(",")
    return np.loadtxt(path, np.int64, delimiter=",", skiprows=1, usecols=names.index("id")).reshape(-1, K)


def measure(work: Path, n_rows: int, queries: Path, query_kinds: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Go the whole way with n_rows vectors."""
    vectors, bank, codes, index, found = (
        work / name for name in ("x.npy", "bank.safetensors", "codes.npy", "codes.pbi", "found.csv")
    )
    kinds = generate(vectors, n_rows, n_rows)
    read = plain_read(vectors)
    result: dict[str, Any] = {
        "rows": n_rows,
        "GB of vectors": round(vectors.stat().st_size / 1e9, 2),
        "plain read": {"seconds": round(read, 1)},
        "fit from 10,000 rows": run("fit", vectors, "--bits", BITS, "--set", "train_size=10000", "-o", bank),
        "fit": run("fit", vectors, "--bits", BITS, "--force", "-o", bank),
        "encode": run("encode", bank, vectors, "-o", codes),
        "index": run("index", codes, "--bits", BITS, "-o", index),
        "search": run("search", index, queries, "--bank", bank, "-k", K, "--format", "csv", "-o", found),
    }
    steps = ("fit", "encode", "index", "search")
    ids = ids_of(found)
    result |= {
        "minutes in all": round(sum(result[step]["seconds"] for step in steps) / 60, 1),
        "core minutes in all": round(sum(result[step]["core seconds"] for step in steps) / 60, 1),
        "peak MB": max(result[step]["peak MB"] for step in steps),
        "MB written": round(sum(path.stat().st_size for path in (bank, codes, index)) / 1e6, 1),
        "rows encoded per second": round(n_rows / result["encode"]["seconds"]),
        "P@10": round(float(precision_at_k(ids, kinds, query_kinds, 10)), 4),
        "P@100": round(float(precision_at_k(ids, kinds, query_kinds, K)), 4),
    }
    for path in (vectors, bank, codes, index, found):
        path.unlink()
    return result


def measure_distances(work: Path, n_rows: int) -> dict[str, Any]:
    """Fit codes for distances to n_rows vectors."""
    vectors, bank = work / "x.npy", work / "bank.safetensors"
    generate(vectors, n_rows, n_rows)
    words = ("fit", vectors, "--bits", BITS, "--preserve", "distances", "-o", bank)
    result = {"rows": n_rows, "fit for distances": run(*words)}
    result["fit for distances, all rows"] = run(*words, "--set", f"train_size={n_rows}")
    for path in (vectors, bank):
        path.unlink()
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--numbers", type=int, nargs="+", default=[10_000, 20_000, 100_000, 1_000_000])
    parser.add_argument("--distances", action="store_true", help="fit codes for distances, and nothing else")
    parser.add_argument("--output", type=Path, default=RESULTS / "million.json")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    queries = args.work / "queries.npy"
    query_kinds = generate(queries, QUERIES, 0)
    sets = json.loads(args.output.read_text())["sets"] if args.output.exists() else []
    for n_rows in args.numbers:
        if args.distances:
            found = measure_distances(args.work, n_rows)
        else:
            found = measure(args.work, n_rows, queries, query_kinds)
        known: dict[str, Any] = next((one for one in sets if one["rows"] == n_rows), {})
        sets = sorted([*(one for one in sets if one["rows"] != n_rows), known | found], key=lambda one: one["rows"])
        print(found, flush=True)
        about = {"benchmark": "million", "columns": D, "bits": BITS, "queries": QUERIES, "results per query": K}
        write_result(args.output, about | {"sets": sets})


if __name__ == "__main__":
    main()
