"""Does learning on from a bank give what learning anew gives, and in what share of the processor time?

    python -m benchmarks.renewal vectors.npy labels.npy [--solvers mixed joint] [--turns 2] [--output FILE]

A bank is learnt from half of the classes. Then vectors of the other half come: measured is retrieval among these, by
queries that no bank has seen, with the old bank, with one learnt anew from them, with one learnt on from the old bank,
and with one that keeps old codes comparable, whose queries search among codes of the old bank, too.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import RESULTS, write_result
from projbank import HammingIndex, ProjectionBank
from projbank.metrics import precision_at_k

N_BITS, SEEDS = 500, 3
KS = (10, 50)


def precision(gallery: Any, queries: Any, y: Any, y_queries: Any) -> dict[str, float]:
    ids = HammingIndex(gallery, n_bits=N_BITS).search(queries, max(KS))[1]
    return {str(k): precision_at_k(ids, y, y_queries, k) for k in KS}


def seconds(run: Callable[[], Any]) -> tuple[Any, float]:
    """What is run, and its seconds of all processors: those of the clock say little on a machine with other work."""
    start = time.process_time()
    return run(), time.process_time() - start


def parts(y: Any, classes: Any, rng: Any) -> tuple[Any, Any, Any]:
    """Queries (a tenth), gallery, and training rows (two thirds of the gallery) of some classes."""
    ids = rng.permutation(np.flatnonzero(np.isin(y, classes)))
    queries, gallery = ids[: len(ids) // 10], ids[len(ids) // 10 :]
    return np.sort(queries), np.sort(gallery), np.sort(gallery[: 2 * len(gallery) // 3])


def measure(X: Any, y: Any, solver: str, seed: int, turns: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    classes = rng.permutation(np.unique(y))
    first, second = (parts(y, some, rng) for some in np.array_split(classes, 2))
    queries, gallery, train = (np.array(X[ids], np.float32) for ids in second)
    settings: dict[str, Any] = {"n_bits": N_BITS, "solver": solver, "random_state": seed}
    old = ProjectionBank(**settings).fit(np.array(X[first[2]], np.float32))
    ways: dict[str, Callable[[], ProjectionBank]] = {
        "anew": lambda: ProjectionBank(**settings).fit(train),
        "on": lambda: ProjectionBank(**settings).fit(train, start=old),
        "kept": lambda: ProjectionBank(**settings).fit(train, start=old, keep_codes=True),
    }
    times: dict[str, float] = dict.fromkeys(ways, np.inf)
    banks = {"old": old}
    for _ in range(turns):  # in turns, so that a noisy moment spoils one turn of each
        for name, way in ways.items():
            banks[name], taken = seconds(way)
            times[name] = min(times[name], taken)
    labels = y[second[1]], y[second[0]]
    found = {name: precision(bank.transform(gallery), bank.transform(queries), *labels) for name, bank in banks.items()}
    found["kept, old gallery"] = precision(old.transform(gallery), banks["kept"].transform(queries), *labels)
    gain = {k: (found["on"][k] - found["old"][k]) / (found["anew"][k] - found["old"][k]) for k in found["old"]}
    kept = banks["kept"].kept_
    assert kept is not None
    return {
        "solver": solver,
        "seed": seed,
        "rows": len(train),
        "precision": found,
        "share of the gain": gain,
        "share of the processor time": times["on"] / times["anew"],
        "processor seconds": times,
        "kept": kept._asdict(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vectors", type=Path)
    parser.add_argument("labels", type=Path)
    parser.add_argument("--solvers", nargs="+", default=["mixed", "joint"])
    parser.add_argument("--turns", type=int, default=2, help="the fastest counts")
    parser.add_argument("--output", type=Path, default=RESULTS / "renewal.json")
    given = parser.parse_args()
    X, y = np.load(given.vectors, mmap_mode="r"), np.load(given.labels)
    records: list[dict[str, Any]] = []
    for solver in given.solvers:
        for seed in range(SEEDS):
            records.append(measure(X, y, solver, seed, given.turns))
            print(records[-1], flush=True)
            write(given.output, given.vectors.stem, given.turns, records)


def write(path: Path, data: str, turns: int, records: list[dict[str, Any]]) -> None:
    """Write what was measured so far, and means over seeds."""
    means: dict[str, dict[str, float]] = {}
    for solver in dict.fromkeys(record["solver"] for record in records):
        own = [record for record in records if record["solver"] == solver]
        means[solver] = {
            f"share of the gain @{k}": float(np.mean([r["share of the gain"][str(k)] for r in own])) for k in KS
        }
        means[solver]["share of the processor time"] = float(np.mean([r["share of the processor time"] for r in own]))
    print(means)
    write_result(path, {"data": data, "bits": N_BITS, "turns": turns, "means": means, "records": records})


if __name__ == "__main__":
    main()
