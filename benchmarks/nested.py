"""Are the first bits of codes for distances a good code, and what does that cost the whole code?

    python -m benchmarks.nested ucf101.npy --bits 320,1280

Vectors are split as `benchmarks.fidelity` does. Recorded is the share of the floats' ten nearest among the first ten,
Hamming and asymmetric: of the first 64, 128, 256, ... bits of a code, of codes that were learnt with so many bits, of
the whole code, and of one that was learnt for all of its bits alone.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import RESULTS, write_result
from benchmarks.fidelity import NEAREST, Floats, Task, bits_found, make_task
from projbank import ProjectionBank
from projbank.learn import distances
from projbank.learn.run import Memo
from projbank.metrics import neighbor_recall
from projbank.models import dense


@contextmanager
def whole_alone() -> Iterator[None]:
    """Learn codes in whose first bits nobody is interested."""
    kept = distances._SLOPE, dense._SHARE
    distances._SLOPE, dense._SHARE = 0, 1e-4
    try:
        yield
    finally:
        distances._SLOPE, dense._SHARE = kept


def learnt(task: Task, n_bits: int, memo: Memo) -> tuple[np.ndarray, Floats]:
    """Codes of the gallery and values of the queries."""
    with memo.use():
        bank = ProjectionBank(n_bits, preserve="distances").fit(task.gallery)
    return bank.transform(task.gallery), bank.query_values(task.queries)


def shares(task: Task, codes: np.ndarray, values: Floats) -> list[float]:
    """What Hamming and asymmetric search find by the first bits, as many as there are values."""
    first = np.ascontiguousarray(codes[:, : -(-values.shape[1] // 8)])
    return [round(neighbor_recall(ids[:, :NEAREST], task.true), 4) for _, ids in bits_found(first, values)]


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the first bits of codes for distances.")
    parser.add_argument("vectors", type=Path, help=".npy or .npz; a data set is called like its file")
    parser.add_argument("--bits", required=True, help="comma-separated")
    parser.add_argument("--output", type=Path, default=RESULTS / "nested.json")
    given = parser.parse_args()
    task = make_task(given.vectors)
    own: dict[Any, Any] = {}
    memo = Memo(task.gallery)
    for n_bits in map(int, given.bits.split(",")):
        codes, values = learnt(task, n_bits, memo)
        cell = {"whole": shares(task, codes, values)}
        with whole_alone():
            cell["whole, learnt alone"] = shares(task, *learnt(task, n_bits, memo))
        for n in (64 << i for i in range(n_bits.bit_length()) if 64 << i < n_bits):
            own[n] = own.get(n) or shares(task, *learnt(task, n, memo))
            cell |= {f"first {n}": shares(task, codes, np.ascontiguousarray(values[:, :n])), f"own {n}": own[n]}
        print(given.vectors.stem, n_bits, cell, flush=True)
        sets = json.loads(given.output.read_text())["sets"] if given.output.exists() else {}
        sets.setdefault(given.vectors.stem, {})[str(n_bits)] = cell
        write_result(given.output, {"recall of 10 among the first 10": ["Hamming", "asymmetric"], "sets": sets})


if __name__ == "__main__":
    main()
