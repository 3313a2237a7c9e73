"""The price of coding with a headed bank, in plain reads of the vectors, on one thread.

    python -m benchmarks.head

Beside it the least that the same products take in BLAS, and other methods. A batch is 240 vectors; single vectors are
coded one call after the other. What a batch reads once for many vectors, a single one reads for itself: labels, weights
and both matrices. How long it takes just to read them stands beside it. Times are those of the processor, so that other
work on the machine counts little.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.common import as_words, plain_read, report, result_path, row, write_result
from projbank.methods import METHODS
from projbank.models.bank import Bank, HeadedBank
from projbank.rows.source import as_rows
from projbank.threads import blas_threads

D, N_BITS, N_ROWS, N_SINGLE = 64_000, 4_000, 240, 24
SIZES = ((8192, 256), (4096, 256), (1024, 64))
PEERS = ("cbe-rand", "lsh")


def best_seconds(runs: dict[str, Callable[[], object]], turns: int) -> dict[str, float]:
    """Best processor time of each run; all are timed in turns."""

    def seconds(run: Callable[[], object]) -> float:
        start = time.process_time()
        run()
        return time.process_time() - start

    for run in runs.values():
        run()  # compile, fill caches
    times = [{name: seconds(run) for name, run in runs.items()} for _ in range(turns)]
    return {name: min(turn[name] for turn in times) for name in runs}


def headed(rng: Any, m: int, rank: int) -> HeadedBank:
    shapes = (D, m, (m, rank), (rank, N_BITS), N_BITS)
    floats = (rng.standard_normal(shape, np.float32) for shape in shapes)
    return HeadedBank(rng.permutation(np.arange(D) % m).astype(np.int32), *floats)


def main() -> None:
    path = result_path("head")
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N_ROWS, D), np.float32)
    codes = np.empty((N_ROWS, N_BITS // 8), np.uint8)
    words = as_words(X)
    found = []
    labels = rng.permutation(np.arange(D) % N_BITS).astype(np.int32)
    plain = Bank(labels, rng.standard_normal(D, np.float32), np.zeros(N_BITS, np.float32))
    with blas_threads(1):
        for m, rank in SIZES:
            bank = headed(rng, m, rank)
            sums = rng.standard_normal((N_ROWS, m), np.float32)
            rows, singles = as_rows(X), [as_rows(X[i : i + 1]) for i in range(N_SINGLE)]

            def one_by_one(model: Any, singles: Any = singles) -> None:
                for i, single in enumerate(singles):
                    model.write(single, codes[i : i + 1])

            def read(_: Any = None) -> Any:
                return plain_read(words)

            def products(sums: Any = sums, bank: HeadedBank = bank) -> Any:
                return (sums @ bank.inner) @ bank.outer

            own = as_words(np.concatenate([bank.inner.ravel(), bank.outer.ravel(), bank.weights, bank.weights, X[0]]))

            def read_all(own: Any = own) -> None:
                for _ in range(N_SINGLE):
                    plain_read(own)

            def batch(bank: HeadedBank = bank, rows: Any = rows) -> None:
                bank.write(rows, codes)

            runs: dict[str, Callable[[], object]] = {
                "read": read,
                "products": products,
                "batch": batch,
                "read all": read_all,
                "single": partial(one_by_one, bank),
                "plain bank": partial(plain.write, rows, codes),
                "plain single": partial(one_by_one, plain),
            }
            times = best_seconds(runs, turns=5)
            per_read, single = times["read"] / N_ROWS, times["single"] / N_SINGLE
            per_batch, least = times["batch"] / N_ROWS, per_read + times["products"] / N_ROWS
            size = f"{m} x {rank}"
            found += [
                row(f"{size}: products by BLAS, in reads", times["products"] / times["read"]),
                row(f"{size}: batch, in reads", per_batch / per_read, **({"most": 2.5} if m == 1024 else {})),
                row(f"{size}: batch, in a read and the products", per_batch / least, most=1.3),
                row(f"{size}: one by one, in batches", single / per_batch, most=1.5),
                row(f"{size}: just to read bank and matrices, in batches", times["read all"] / N_SINGLE / per_batch),
            ]
        found.append(row("plain bank: batch, in reads", times["plain bank"] / times["read"]))
        found.append(row("plain bank: one by one, in reads", times["plain single"] / N_SINGLE / per_read))
        few = X[:48]
        for name in PEERS:
            params = {"n_bits": N_BITS, "n_jobs": 1}
            cls = METHODS[name]
            method = cls(**{key: params[key] for key in params if key in cls().get_params()}).fit(few)
            seconds = best_seconds({"read": read, name: partial(method.transform, few)}, turns=2)
            found.append(row(f"{name}: batch, in reads", seconds[name] / len(few) / (seconds["read"] / N_ROWS)))
    report(found)
    write_result(path, {"dimensions": D, "bits": N_BITS, "rows": found})


if __name__ == "__main__":
    main()
