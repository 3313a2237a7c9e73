"""What does a second group per dimension cost in coding? D = 64,000, one thread, one run.

    python -m benchmarks.soft

A soft bank with r = 2 next to a plain read of the vectors, to one hard pass and to two hard passes, which do the same
number of multiply-adds; and to scipy.sparse, which codes the same CSR matrix. Vectors do not fit in the cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from benchmarks.common import as_words, best_seconds, plain_read, report, result_path, row, write_result
from projbank.kernels.encode import code_rows
from projbank.learn.grouping import overlaid_labels
from projbank.models.bank import group_columns

DIMENSIONS, ROWS, PEER_ROWS, CALLS = 64_000, 1_000, 100, 200


def measure(n_bits: int, X: Any, rng: np.random.Generator) -> list[dict[str, Any]]:
    labels = overlaid_labels(DIMENSIONS, n_bits, 4, rng)
    weights = rng.standard_normal(labels.shape, dtype=np.float32)
    biases = np.zeros(n_bits, np.float32)
    banks = {r: (labels[:r].T.ravel().view(np.uint32), weights[:r].T.ravel(), biases) for r in (1, 2, 4)}
    second = labels[1].view(np.uint32), weights[1], biases
    codes = np.empty((ROWS, (n_bits + 7) // 8), np.uint8)
    one_row = np.ascontiguousarray(X[:1])
    words = as_words(X)
    indptr, columns = group_columns(labels[:2], n_bits)
    order = np.argsort(banks[2][0], kind="stable")
    matrix = sp.csr_array((banks[2][1][order], columns, indptr), shape=(n_bits, DIMENSIONS))

    def two_passes() -> None:
        code_rows(X, *banks[1], codes)
        code_rows(X, *second, codes)

    with threadpool_limits(1):
        times = best_seconds(
            {
                "read": lambda: plain_read(words),
                "hard": lambda: code_rows(X, *banks[1], codes),
                "two passes": two_passes,
                "soft 2": lambda: code_rows(X, *banks[2], codes),
                "soft 4": lambda: code_rows(X, *banks[4], codes),
                "one row, hard": lambda: [code_rows(one_row, *banks[1], codes[:1]) for _ in range(CALLS)],
                "one row, soft 2": lambda: [code_rows(one_row, *banks[2], codes[:1]) for _ in range(CALLS)],
                "sparse": lambda: np.packbits((matrix @ X[:PEER_ROWS].T).T > 0, axis=1),
            },
            turns=11,
        )
    rows = {"one row, hard": CALLS, "one row, soft 2": CALLS, "sparse": PEER_ROWS}
    cost = {name: seconds / rows.get(name, ROWS) for name, seconds in times.items()}
    read, bits = cost["read"], f"{n_bits} bits"
    print(f"plain read {1e6 * read:.1f} us per vector, {4e-9 * DIMENSIONS / read:.1f} GB/s")
    return [
        row(f"{bits}: hard / plain read", cost["hard"] / read),
        row(f"{bits}: soft, r = 2 / plain read", cost["soft 2"] / read),
        row(f"{bits}: soft, r = 4 / plain read", cost["soft 4"] / read),
        row(f"{bits}: soft, r = 2 / two hard passes", cost["soft 2"] / cost["two passes"], most=1),
        row(f"{bits}: a single row, soft, r = 2 / hard", cost["one row, soft 2"] / cost["one row, hard"]),
        row(f"{bits}: a single row, soft, r = 2 / plain read", cost["one row, soft 2"] / read),
        row(f"{bits}: scipy.sparse / soft, r = 2", cost["sparse"] / cost["soft 2"]),
    ]


def main() -> None:
    path = result_path("soft")
    rng = np.random.default_rng(0)
    X = rng.standard_normal((ROWS, DIMENSIONS), dtype=np.float32)
    rows = [one for n_bits in (1000, 8000, DIMENSIONS) for one in measure(n_bits, X, rng)]
    report(rows)
    write_result(path, {"dimensions": DIMENSIONS, "rows": ROWS, "ratios": rows})


if __name__ == "__main__":
    main()
