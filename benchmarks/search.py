"""What does a search cost, in plain reads of the codes and next to FAISS? Six code lengths, one run.

    python -m benchmarks.search

Each length has 200 MB of random codes (200,000 of 1,000 bytes), more than the caches hold; 100 random queries, top 100.
One thread, unless said; times are per query. Before timing, distances are compared with FAISS, and one thread with two.
"""

from __future__ import annotations

from typing import Any

import faiss
import numpy as np

from benchmarks.common import as_words, best_seconds, plain_read, report, result_path, row, write_result
from projbank import HammingIndex

LENGTHS = (125, 250, 500, 1000, 1250, 8000)
GALLERY_BYTES = 200_000_000
N_QUERIES, K, TURNS = 100, 100, 5
SINGLES = 10
"""Single queries and plain reads per turn: they are short, so a turn takes the mean of several."""
GOALS: dict[str, dict[str, float]] = {
    "batch / plain read": {"most": 1.15},
    "faiss.IndexBinaryFlat / batch": {"least": 2.3},
    "single query / plain read": {"most": 1.4},
    "asymmetric, 4-bit query / batch": {"most": 5},
}
"""Asked of 1,000-byte codes."""


def measure(n_bytes: int) -> dict[str, Any]:
    rng = np.random.default_rng(n_bytes)
    codes = rng.integers(0, 256, (GALLERY_BYTES // n_bytes, n_bytes), dtype=np.uint8)
    queries = rng.integers(0, 256, (N_QUERIES, n_bytes), dtype=np.uint8)
    margins = rng.standard_normal((N_QUERIES, 8 * n_bytes), dtype=np.float32)
    words = as_words(codes)
    index = HammingIndex(codes)
    peer = faiss.IndexBinaryFlat(8 * n_bytes)
    peer.add(codes)
    check(index, peer, queries, margins)
    times = best_seconds(
        {
            "read": lambda: [plain_read(words) for _ in range(SINGLES)],
            "single": lambda: [index.search(queries[i : i + 1], K, n_jobs=1) for i in range(SINGLES)],
            "batch": lambda: index.search(queries, K, n_jobs=1),
            "two threads": lambda: index.search(queries, K, n_jobs=2),
            "4 bits": lambda: index.search(margins, K, n_jobs=1, query_bits=4),
            "8 bits": lambda: index.search(margins, K, n_jobs=1, query_bits=8),
            "faiss": lambda: peer.search(queries, K),
        },
        TURNS,
    )
    times = {name: time / (SINGLES if name in ("read", "single") else N_QUERIES) for name, time in times.items()}
    ratios = {
        "batch / plain read": times["batch"] / times["read"],
        "faiss.IndexBinaryFlat / batch": times["faiss"] / times["batch"],
        "single query / plain read": times["single"] / times["read"],
        "asymmetric, 4-bit query / batch": times["4 bits"] / times["batch"],
        "asymmetric, 8-bit query / batch": times["8 bits"] / times["batch"],
        "batch, 1 thread / 2 threads": times["batch"] / times["two threads"],
    }
    goals = GOALS if n_bytes == 1000 else {}
    rows = [row(f"{n_bytes} bytes: {what}", ratio, **goals.get(what, {})) for what, ratio in ratios.items()]
    report(rows)
    per_query = {f"{name} [ms]": round(1e3 * time, 4) for name, time in times.items()}
    return {"bytes": n_bytes, "codes": len(codes), "times per query": per_query, "rows": rows}


def check(index: HammingIndex, peer: Any, queries: Any, margins: Any) -> None:
    distances, ids = index.search(queries, K, n_jobs=1)
    np.testing.assert_array_equal(distances, peer.search(queries, K)[0])
    np.testing.assert_array_equal(ids, index.search(queries, K, n_jobs=2)[1])
    one, two = (index.search(margins, K, n_jobs=n_jobs) for n_jobs in (1, 2))
    np.testing.assert_array_equal(one[0], two[0])
    np.testing.assert_array_equal(one[1], two[1])


def main() -> None:
    path = result_path("search")
    faiss.omp_set_num_threads(1)
    results = [measure(n_bytes) for n_bytes in LENGTHS]
    write_result(path, {"queries": N_QUERIES, "k": K, "threads": 1, "results": results})


if __name__ == "__main__":
    main()
