"""What does coding with a kernel bank cost, and what do landmarks win? D = 64,000, 4,000 bits, a basis of 1,500.

    python -m benchmarks.kernel_bank [--vectors imagenette_fv.npy --labels imagenette_fv.labels.npy]

CPU time of one thread, the best of several turns. The literal coding is the paper's form by our own compiled kernels;
the NumPy form of the same (a matrix product, an exponential, a dot for each group) stands beside it. Coefficients are
random: the time does not depend on them. With labelled vectors, P@50 of one bank is measured in its literal and reduced
forms.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.common import RESULTS, as_words, plain_read, report, row, write_result
from projbank import HammingIndex, KernelProjectionBank
from projbank.evaluate.data import draw_split, split_sizes
from projbank.metrics import precision_at_k
from projbank.models.mercer import Groups
from projbank.models.mercer_bank import MercerBank
from projbank.rows.source import ArrayRows, as_rows

DIMENSIONS, BITS, BASIS, LANDMARKS = 64_000, 4_000, 1_500, (32, 64, 128)
ROWS, TURNS = 256, 5


def cpu_seconds(run: Callable[[], object]) -> float:
    """CPU time of this thread: other work on the machine counts less than in time by the clock."""
    start = time.thread_time()
    run()
    return time.thread_time() - start


def best(runs: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Best CPU time of each run, all timed in turns."""
    for run in runs.values():
        run()
    turns = [{name: cpu_seconds(run) for name, run in runs.items()} for _ in range(TURNS)]
    return {name: min(turn[name] for turn in turns) for name in runs}


def speed(rng: np.random.Generator) -> tuple[list[dict[str, Any]], dict[str, float]]:
    X = rng.standard_normal((ROWS, DIMENSIONS), dtype=np.float32)
    groups = Groups.from_labels(rng.permutation(np.arange(DIMENSIONS) % BITS), BITS)
    sigmas, biases = np.full(BITS, 5.0, np.float32), np.zeros(BITS, np.float32)
    codes = np.empty((ROWS, BITS // 8), np.uint8)
    basis = rng.standard_normal((BASIS, DIMENSIONS), dtype=np.float32)
    coefficients = rng.standard_normal((BITS, BASIS), dtype=np.float32)

    def bank(n: int) -> MercerBank:
        own, none = np.ascontiguousarray(coefficients[:, :n]), np.empty((0, 0), np.float32)
        means = np.zeros(DIMENSIONS, np.float32)
        return MercerBank("rbf", 0, groups.indptr, groups.columns, basis[:n], none, own, biases, sigmas, means)

    banks = {n: bank(n) for n in (BASIS, *LANDMARKS)}
    own = [groups.own(p) for p in range(BITS)]
    gathered = np.ascontiguousarray(basis)  # in the order of the groups already

    def numpy_form() -> Any:
        rows = X[:, groups.columns]
        F = np.empty((ROWS, BITS // 8), np.float32)  # an eighth of the groups
        for p in range(BITS // 8):
            left, right = rows[:, own[p]], gathered[:, own[p]]
            squares = (left**2).sum(axis=1)[:, None] - 2 * left @ right.T + (right**2).sum(axis=1)
            F[:, p] = np.exp(-squares / sigmas[p] ** 2) @ coefficients[p] - biases[p]
        return np.packbits(F > 0, axis=1, bitorder="little")

    runs: dict[str, Callable[[], object]] = {
        "read": lambda: plain_read(as_words(X)),
        "numpy": numpy_form,
    }
    for n, one in banks.items():
        runs[f"{n}"] = partial(one.write, ArrayRows(X), codes)
        runs[f"{n}, single row"] = partial(one.write, ArrayRows(X[:1]), codes[:1])
    with threadpool_limits(1):
        times = best(runs)
    per_row = {name: (1 if "single" in name else ROWS) for name in runs}
    micro = {name: 1e6 * seconds / per_row[name] * (8 if name == "numpy" else 1) for name, seconds in times.items()}
    rows = [row("NumPy's form / literal coding", micro["numpy"] / micro[str(BASIS)])]
    for n in LANDMARKS:
        goal = {"least": 10.0} if n == 64 else {}
        rows.append(row(f"literal coding / {n} landmarks", micro[str(BASIS)] / micro[str(n)], **goal))
        single = micro[f"{BASIS}, single row"] / micro[f"{n}, single row"]
        rows.append(row(f"literal coding / {n} landmarks, single row", single))
    rows.append(row("64 landmarks / plain read of the vector", micro["64"] / micro["read"]))
    return rows, {name: round(value, 1) for name, value in micro.items()}


def precision(vectors: Path, labels: Path, seed: int, n_bits: int) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """P@50 of one fitted bank, literal and with landmarks, by the protocol of `projbank evaluate`."""
    X, y = np.load(vectors, mmap_mode="r"), np.load(labels)
    split = draw_split(len(X), *split_sizes(len(X), 1000, None), seed)
    training, gallery, queries = (as_rows(X).read(ids) for ids in (split.training, split.gallery, split.queries))
    bank = KernelProjectionBank(n_bits, n_basis=BASIS, random_state=seed).fit(training)
    forms = {"literal": bank} | {f"{n} landmarks": bank.reduced(n) for n in LANDMARKS}
    found = {}
    for name, form in forms.items():
        index = HammingIndex(form.transform(gallery), n_bits=n_bits)
        both: dict[str, Any] = {"hamming": form.transform(queries), "asymmetric": form.decision_function(queries)}
        found[name] = {
            kind: precision_at_k(index.search(asked, 50)[1], y[split.gallery], y[split.queries], 50)
            for kind, asked in both.items()
        }
        print(name, found[name], flush=True)
    lost = 100 * (found["literal"]["hamming"] - found["64 landmarks"]["hamming"])
    rows = [row(f"points of P@50 lost by 64 landmarks, {n_bits} bits, {vectors.stem}", lost, most=0.3)]
    return rows, {"vectors": vectors.name, "n_bits": n_bits, "seed": seed, "precision": found}


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure coding with a kernel bank and write the result as JSON.")
    parser.add_argument("--output", type=Path, default=RESULTS / "kernel_bank.json")
    parser.add_argument("--vectors", type=Path)
    parser.add_argument("--labels", type=Path)
    parser.add_argument("--bits", type=int, default=BITS)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rows, micro = speed(np.random.default_rng(0))
    result: dict[str, Any] = {"dimensions": DIMENSIONS, "bits": BITS, "basis": BASIS, "microseconds": micro}
    report(rows)
    if options.vectors:
        more, result["retrieval"] = precision(options.vectors, options.labels, options.seed, options.bits)
        report(more)
        rows += more
    write_result(options.output, result | {"ratios": rows})


if __name__ == "__main__":
    main()
