"""Does a kernel bank that is learnt together reach the uncompressed vectors? P@50 as by `projbank evaluate`.

    python -m benchmarks.kernel_joint vectors.npy labels.npy --bits 8000 --seeds 5 --output result.json

1,000 queries, the rest is the gallery, two thirds of it train the bank; seeds draw all three. The result is written
after each seed, and seeds that the file has are not measured again.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import RESULTS, write_result
from projbank import HammingIndex, KernelProjectionBank
from projbank.evaluate.data import draw_split, split_sizes
from projbank.methods.search import nearest_vectors
from projbank.metrics import precision_at_k
from projbank.rows.source import take_rows


def measure(X: Any, y: Any, n_bits: int, seed: int) -> dict[str, float]:
    split = draw_split(len(X), *split_sizes(len(X), 1000, None), seed)
    training, gallery, queries = (_take(X, ids) for ids in (split.training, split.gallery, split.queries))

    def precision(ids: Any) -> float:
        return float(precision_at_k(ids, y[split.gallery], y[split.queries], 50))

    floats = precision(nearest_vectors(queries, gallery, 50)[1])
    start = time.perf_counter()
    bank = KernelProjectionBank(n_bits, solver="joint", random_state=seed).fit(training)
    seconds = time.perf_counter() - start
    index = HammingIndex(bank.transform(gallery), n_bits=n_bits)
    return {
        "floats": floats,
        "hamming": precision(index.search(bank.transform(queries), 50)[1]),
        "asymmetric": precision(index.search(bank.query_values(queries), 50)[1]),
        "fit_seconds": round(seconds, 1),
    }


def _take(X: Any, ids: Any) -> Any:
    rows = np.empty((len(ids), X.shape[1]), np.float32)
    take_rows(X, ids, rows)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description="P@50 of kernel banks that are learnt together.")
    parser.add_argument("vectors", type=Path)
    parser.add_argument("labels", type=Path)
    parser.add_argument("--bits", type=int, required=True)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    path = options.output or RESULTS / f"kernel_joint_{options.vectors.stem}_{options.bits}.json"
    X, y = np.load(options.vectors, mmap_mode="r"), np.load(options.labels)
    found: dict[str, Any] = json.loads(path.read_text())["seeds"] if path.exists() else {}
    for seed in range(options.seeds):
        if str(seed) in found:
            continue
        found[str(seed)] = measure(X, y, options.bits, seed)
        print(seed, found[str(seed)], flush=True)
        means = {name: float(np.mean([one[name] for one in found.values()])) for name in found["0"]}
        write_result(path, {"vectors": options.vectors.name, "n_bits": options.bits, "means": means, "seeds": found})


if __name__ == "__main__":
    main()
