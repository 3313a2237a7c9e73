"""What does a step of KBPB's solver cost where its time goes, in products with kernel matrices? One thread.

    python -m benchmarks.learn_kernel

16 matrices of 1,500 basis samples, 144 MB in all, more than the caches hold.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg.blas import ssymv
from threadpoolctl import threadpool_limits

from benchmarks.common import as_words, best_seconds, plain_read, report, result_path, row, write_result
from projbank.kernels.mercer_groups import multiply_symmetric
from projbank.kernels.pairs import project_groups

GROUPS, BASIS = 16, 1500


def main() -> None:
    path = result_path("learn_kernel")
    rng = np.random.default_rng(0)
    K = rng.standard_normal((GROUPS, BASIS, BASIS), dtype=np.float32)
    K += K.transpose(0, 2, 1).copy()
    stacked, starts = K.reshape(-1, BASIS), BASIS * np.arange(GROUPS + 1)
    W = rng.standard_normal((GROUPS, BASIS), dtype=np.float32)
    zeros, F = np.zeros(GROUPS, np.float32), np.empty_like(W)
    words = as_words(K)
    with threadpool_limits(1):
        times = best_seconds(
            {
                "read": lambda: plain_read(words[: words.size // 2]),
                "halves": lambda: multiply_symmetric(stacked, starts[:-1], W, F),
                "whole": lambda: project_groups(stacked, starts[:-1], starts, W.ravel(), zeros, F),
                "scipy": lambda: [ssymv(1.0, matrix.T, w) for matrix, w in zip(K, W, strict=True)],
            },
            turns=15,
        )
    rows = [
        row("product / plain read of half of the matrices", times["halves"] / times["read"]),
        row("product that reads whole matrices / product", times["whole"] / times["halves"]),
        row("SciPy's ssymv / product", times["scipy"] / times["halves"]),
    ]
    report(rows)
    milliseconds = {name: round(1e3 * seconds, 2) for name, seconds in times.items()}
    write_result(path, {"groups": GROUPS, "basis": BASIS, "milliseconds": milliseconds, "ratios": rows})


if __name__ == "__main__":
    main()
