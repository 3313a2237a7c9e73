"""What do an allow-list, a distance limit and a store cost against a scan, and what does a second thread bring?

    python -m benchmarks.search_conditions

200,000 random codes of 1,000 bytes (the store: 50,000 codes of 8 to 1,000 bytes), top 10. Times are CPU seconds of one
thread, best of three; those of two threads are wall seconds, beside two threads that only read the codes.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import as_words, best_seconds, plain_read, report, result_path, row, write_result
from benchmarks.search_recall import cpu_seconds
from projbank import HammingIndex
from projbank.stores import SqliteStore
from projbank.threads import run_each

N_CODES, N_BYTES, N_QUERIES, K, TURNS = 200_000, 1000, 50, 10, 5
STORE_CODES, STORE_BYTES = 50_000, (8, 64, 1000)


def conditions(index: HammingIndex, queries: Any) -> list[dict[str, Any]]:
    some = np.sort(np.random.default_rng(1).choice(N_CODES, N_CODES // 100, replace=False))
    mask = np.zeros(N_CODES, bool)
    mask[some] = True
    full = cpu_seconds(lambda: index.search(queries, K, n_jobs=1))
    runs: dict[str, Callable[[], object]] = {
        "allow, 1 % of the ids": lambda: index.search(queries, K, allow=some, n_jobs=1),
        "allow, a mask of 1 %": lambda: index.search(queries, K, allow=mask, n_jobs=1),
        "max_distance": lambda: index.search(queries, K, max_distance=3900, n_jobs=1),
        "range_search, few found": lambda: index.range_search(queries, 3800, n_jobs=1),
    }
    return [row(f"{what} / scan, batch of {N_QUERIES}", cpu_seconds(run) / full) for what, run in runs.items()]


def threads(index: HammingIndex, queries: Any, codes: Any) -> list[dict[str, Any]]:
    words = as_words(codes)
    half = len(words) // 2
    times = best_seconds(
        {
            "one": lambda: index.search(queries, K, n_jobs=1),
            "two": lambda: index.search(queries, K, n_jobs=2),
            "read one": lambda: plain_read(words),
            "read two": lambda: run_each(plain_read, [(words[:half],), (words[half:],)], 2),
        },
        TURNS,
    )
    cpu = {n_jobs: cpu_seconds(lambda n_jobs=n_jobs: index.search(queries, K, n_jobs=n_jobs)) for n_jobs in (1, 2)}  # type: ignore[misc]
    return [
        row("batch, CPU seconds of 2 threads / of 1", cpu[2] / cpu[1]),
        row("batch, 1 thread / 2 threads", times["one"] / times["two"]),
        row("plain read, 1 thread / 2 threads", times["read one"] / times["read two"]),
    ]


def store(n_bytes: int) -> dict[str, Any]:
    rng = np.random.default_rng(n_bytes)
    codes = rng.integers(0, 256, (STORE_CODES, n_bytes), dtype=np.uint8)
    index = HammingIndex(codes)
    with tempfile.TemporaryDirectory() as folder, SqliteStore(Path(folder) / "codes.db") as opened:
        opened.create(8 * n_bytes).add(codes)
        np.testing.assert_array_equal(opened.search(codes[:2], K)[1], index.search(codes[:2], K)[1])
        own = cpu_seconds(lambda: index.search(codes[:5], K, n_jobs=1))
        ratio = cpu_seconds(lambda: opened.search(codes[:5], K)) / own
    return row(f"{n_bytes} bytes: SqliteStore / HammingIndex", ratio)


def main() -> None:
    path = result_path("search_conditions")
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 256, (N_CODES, N_BYTES), dtype=np.uint8)
    queries = rng.integers(0, 256, (N_QUERIES, N_BYTES), dtype=np.uint8)
    index = HammingIndex(codes)
    rows = conditions(index, queries) + threads(index, queries, codes) + [store(n_bytes) for n_bytes in STORE_BYTES]
    report(rows)
    write_result(path, {"codes": N_CODES, "bytes": N_BYTES, "ratios": rows})


if __name__ == "__main__":
    main()
