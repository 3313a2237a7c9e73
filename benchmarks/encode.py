"""What does coding cost, in plain reads of the vectors and next to other projections? D = 64,000, one run.

    python -m benchmarks.encode

Vectors do not fit in the cache (2,000 rows, 512 MB). One thread, unless said. Peers code fewer rows, scaled per row.
Two threads share one memory: what a plain read gains by the second bounds what coding can gain.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.fft
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from benchmarks.common import as_words, best_seconds, plain_read, report, result_path, row, write_result
from projbank import ProjectionBank
from projbank.kernels.encode import code_rows, margin_rows, transposed_product
from projbank.threads import run_all

DIMENSIONS, ROWS, PEER_ROWS, DENSE_ROWS = 64_000, 2_000, 200, 64


def random_bank(n_bits: int, rng: np.random.Generator) -> ProjectionBank:
    """A fitted bank of random groups; how long coding takes does not depend on what was learnt."""
    bank = ProjectionBank(n_bits, solver="paper", grouping="random", n_neighbors=3, max_iter=1, n_jobs=1)
    return bank.fit(rng.standard_normal((8, DIMENSIONS), dtype=np.float32))


def measure(n_bits: int, X: Any, rng: np.random.Generator) -> list[dict[str, Any]]:
    bank = random_bank(n_bits, rng)
    arrays = bank.labels_.view(np.uint32), bank.weights_, bank.biases_
    codes = np.empty((ROWS, (n_bits + 7) // 8), np.uint8)
    margins = np.empty((ROWS, n_bits), np.float32)
    slopes = np.empty(DIMENSIONS, np.float32)
    two = ProjectionBank(n_jobs=2)
    two.__dict__.update({name: value for name, value in vars(bank).items() if name != "n_jobs"})
    words = as_words(X)
    halves = [(words[: len(words) // 2],), (words[len(words) // 2 :],)]
    one_row = np.ascontiguousarray(X[:1])

    matrix = sp.csr_array((bank.weights_, (bank.labels_, np.arange(DIMENSIONS))), shape=(n_bits, DIMENSIONS))
    spectrum = scipy.fft.rfft(rng.standard_normal(DIMENSIONS, dtype=np.float32))
    signs = rng.choice(np.array([-1, 1], np.float32), DIMENSIONS)
    projection = rng.standard_normal((DIMENSIONS, n_bits), dtype=np.float32)

    def circulant() -> Any:
        product = scipy.fft.rfft(X[:PEER_ROWS] * signs, axis=1) * spectrum
        return np.packbits(scipy.fft.irfft(product, DIMENSIONS, axis=1)[:, :n_bits] > 0, axis=1)

    with threadpool_limits(1):
        per_row = {
            "read": ROWS,
            "read, two threads": ROWS,
            "codes": ROWS,
            "margins": ROWS,
            "transposed": ROWS,
            "transform": ROWS,
            "two threads": ROWS,
            "one row, kernel": 1,
            "one row, transform": 1,
            "sparse": PEER_ROWS,
            "circulant": PEER_ROWS,
            "dense": DENSE_ROWS,
        }
        times = best_seconds(
            {
                "read": lambda: plain_read(words),
                "read, two threads": lambda: list(run_all(plain_read, halves, 2)),
                "codes": lambda: code_rows(X, *arrays, codes),
                "margins": lambda: margin_rows(X, *arrays, margins),
                "transposed": lambda: transposed_product(X, arrays[0], margins, 0, DIMENSIONS, slopes),
                "transform": lambda: bank.transform(X),
                "two threads": lambda: two.transform(X),
                "one row, kernel": lambda: [code_rows(one_row, *arrays, codes[:1]) for _ in range(200)],
                "one row, transform": lambda: [bank.transform(one_row) for _ in range(200)],
                "sparse": lambda: np.packbits((matrix @ X[:PEER_ROWS].T).T > 0, axis=1),
                "circulant": circulant,
                "dense": lambda: np.packbits(X[:DENSE_ROWS] @ projection > 0, axis=1),
            },
            turns=15,
        )
    cost = {name: seconds / per_row[name] / (200 if "one row" in name else 1) for name, seconds in times.items()}
    read, bits, many = cost["read"], f"{n_bits} bits", n_bits == 8000
    print(f"plain read {1e6 * read:.1f} us per vector, {4e-9 * DIMENSIONS / read:.1f} GB/s")
    return [
        row(f"{bits}: codes / plain read", cost["codes"] / read, most=2.3 if many else 1.7),
        row(f"{bits}: transform / plain read", cost["transform"] / read),
        row(f"{bits}: margins / plain read", cost["margins"] / read),
        row(f"{bits}: transposed product / plain read", cost["transposed"] / read),
        row(f"{bits}: a single row, kernel / plain read", cost["one row, kernel"] / read, most=6),
        row(f"{bits}: a single row, transform / plain read", cost["one row, transform"] / read, most=15),
        row(f"{bits}: plain read, one thread / two threads", read / cost["read, two threads"]),
        row(f"{bits}: one thread / two threads", cost["transform"] / cost["two threads"], least=1.7),
        row(f"{bits}: scipy.sparse / codes", cost["sparse"] / cost["codes"], least=15),
        row(f"{bits}: CBE by scipy.fft / codes", cost["circulant"] / cost["codes"], least=20),
        row(f"{bits}: dense projection (BLAS) / codes", cost["dense"] / cost["codes"], least=500 if many else None),
    ]


def main() -> None:
    path = result_path("encode")
    rng = np.random.default_rng(0)
    X = rng.standard_normal((ROWS, DIMENSIONS), dtype=np.float32)
    rows = [one for n_bits in (1000, 8000) for one in measure(n_bits, X, rng)]
    report(rows)
    write_result(path, {"dimensions": DIMENSIONS, "rows": ROWS, "ratios": rows})


if __name__ == "__main__":
    main()
