"""Do bits that bend pay under a head? The default learner on the sums of linear and of kernel groups.

    python -m benchmarks.kernel_head ucf101.npy ucf101.labels.npy --bits 320
    python -m benchmarks.kernel_head ucf101.npy ucf101.labels.npy --bits 320 --lam 0.001     # kernel banks alone

A bank of the paper gives one number for each group; the headed bank learns codes from these numbers alone, as from any
vectors. Labels only judge. One split of 1,000 queries, P@10 and P@50 by Hamming distance.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.common import RESULTS, write_result
from projbank import HammingIndex
from projbank.evaluate.data import DataSet, draw_split, split_sizes
from projbank.methods import METHODS
from projbank.metrics import precision_at_k
from projbank.rows.files import open_array, open_vectors

KS = (10, 50)
KERNEL_BANKS = ("kbpb-rbf", "kbpb-rbf-equal")
BANKS = ("bpb", "bpb-equal", *KERNEL_BANKS)
QUERIES = 1000


def main() -> None:
    """Measure and write the result, set by set."""
    parser = argparse.ArgumentParser(description="A head on the sums of linear and kernel groups.")
    parser.add_argument("vectors", type=Path)
    parser.add_argument("labels", type=Path)
    parser.add_argument("--bits", type=int, required=True, help="groups of the bank, and bits of all codes")
    parser.add_argument("--train", type=int, default=None)
    parser.add_argument("--lam", type=float, default=None, help="measure kernel banks of this lambda, keep the rest")
    parser.add_argument("--jobs", type=int, default=None)
    parser.add_argument("--output", type=Path, default=RESULTS / "kernel_head.json")
    given = parser.parse_args()
    data = DataSet(given.vectors.stem, open_vectors(given.vectors), open_array(given.labels))
    split = draw_split(data.vectors.shape[0], *split_sizes(data.vectors.shape[0], QUERIES, given.train), 0)
    labels = np.asarray(data.labels)
    training, gallery, queries = (data.take(ids) for ids in (split.training, split.gallery, split.queries))

    def judge(name: str, coder: Any, coded: NDArray[np.float32], asked: NDArray[np.float32]) -> None:
        ids = HammingIndex(coder.transform(coded), n_bits=given.bits).search(coder.transform(asked), max(KS))[1]
        values = [precision_at_k(ids, labels[split.gallery], labels[split.queries], k) for k in KS]
        found[name] = [round(value, 4) for value in values]
        print(data.name, name, found[name], flush=True)

    found: dict[str, list[float]] = {}
    if given.lam is None:
        judge("head", METHODS["mixed"](given.bits, n_jobs=given.jobs).fit(training), gallery, queries)
    own, after = ({}, "") if given.lam is None else ({"lam": given.lam}, f" lam={given.lam:g}")
    for name in BANKS if given.lam is None else KERNEL_BANKS:
        bank = METHODS[name](given.bits, n_jobs=given.jobs, **own).fit(training)
        judge(name + after, bank, gallery, queries)
        sums = [bank.decision_function(rows) for rows in (training, gallery, queries)]
        judge(f"head on {name}{after}", METHODS["mixed"](given.bits, n_jobs=given.jobs).fit(sums[0]), *sums[1:])
    known = json.loads(given.output.read_text(encoding="utf-8"))["sets"] if given.output.exists() else {}
    cell = {"data": data.identity, "bits": given.bits, "training": len(training)}
    before = known.get(data.name, {})
    same = all(before.get(word) == value for word, value in cell.items())
    cell["precision"] = (before["precision"] if same else {}) | found
    write_result(given.output, {"sets": known | {data.name: cell}})


if __name__ == "__main__":
    main()
