"""What does a head on the bent sums of a kernel bank win over one on straight sums?

    python -m benchmarks.kernel_head ucf101.npy ucf101.labels.npy

Precision after 10 and 50 results of the headed bank on the vectors, of a kernel bank whose groups are equally large,
and of the headed bank on the margins of that kernel bank, as many as the dimensions by `--ratio`. One split.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.common import RESULTS, write_result
from projbank import HammingIndex, KernelProjectionBank, ProjectionBank
from projbank.evaluate.data import DataSet, draw_split, split_sizes
from projbank.metrics import precision_at_k
from projbank.rows.files import open_array, open_vectors

KS = (10, 50)


def main() -> None:
    """Measure and write the result."""
    parser = argparse.ArgumentParser(description="A head on the margins of a kernel bank.")
    parser.add_argument("vectors", type=Path)
    parser.add_argument("labels", type=Path)
    parser.add_argument("--bits", type=int, default=320)
    parser.add_argument("--ratio", type=int, default=8, help="dimensions of a group of the kernel bank")
    parser.add_argument("--sigma-factor", type=float, default=8.0)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=None)
    parser.add_argument("--output", type=Path, default=RESULTS / "kernel_head.json")
    given = parser.parse_args()
    data = DataSet(given.vectors.stem, open_vectors(given.vectors, None), open_array(given.labels))
    n_rows, n_features = data.vectors.shape
    split = draw_split(n_rows, *split_sizes(n_rows, given.queries), 0)
    labels = np.asarray(data.labels)
    parts = [data.take(ids) for ids in (split.training, split.gallery, split.queries)]

    def judge(coder: Any, training: NDArray, gallery: NDArray, queries: NDArray) -> dict[str, float]:
        coder.fit(training)
        _, ids = HammingIndex(coder.transform(gallery)).search(coder.transform(queries), max(KS))
        return {f"P@{k}": precision_at_k(ids, labels[split.gallery], labels[split.queries], k) for k in KS}

    def headed(**settings: Any) -> ProjectionBank:
        return ProjectionBank(given.bits, solver="mixed", n_jobs=given.jobs, **settings)

    m = n_features // given.ratio
    bent = KernelProjectionBank(m, grouping="kmeans-equal", sigma_factor=given.sigma_factor, n_jobs=given.jobs)
    found = {
        "headed bank": judge(headed(), *parts),
        f"headed bank, {m} sums": judge(headed(n_sums=m), *parts),
        f"kernel bank, {m} bits": judge(bent, *parts),
    }
    margins = [bent.decision_function(part) for part in parts]
    straight = {"n_sums": m, "grouping": np.arange(m)}  # a sum is a margin
    found[f"headed bank on {m} margins of the kernel bank"] = judge(headed(**straight), *margins)
    for name, values in found.items():
        print(f"{name}: {', '.join(f'{word} {value:.3f}' for word, value in values.items())}")
    settings = {"bits": given.bits, "sigma_factor": given.sigma_factor, "training": len(split.training)}
    write_result(given.output, {"data": data.name, **settings, "found": found})


if __name__ == "__main__":
    main()
