"""Does drift give false alarms as often as it says, and does it see a class that was absent? What is foretold of bits?

    python -m benchmarks.check vectors.npy labels.npy [--output FILE]

False alarms: banks learnt from random rows; batches of rows that they were not learnt from, none of which is in two
batches of a bank. Power: banks learnt from half of the classes; batches of one other class each, and batches of known
classes among which a share is of others. More bits: recall that is foretold from half and quarter of the bits, beside
that of banks that have so many.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import RESULTS, write_result
from projbank import ProjectionBank, check
from projbank.methods import METHODS
from projbank.models.reference import Reference
from projbank.rows.source import as_rows
from projbank.upkeep.drift import compare

N_BANKS, N_BATCHES, BATCH = 20, 50, 100
N_TRAIN, ASIDE, N_BITS = 2_000, 500, 500
LEAST = 20
"""Rows of a class, at least, to be a batch of its own; at most `BATCH` of them are."""


def part(seen: Reference, rows: Any) -> Reference:
    """What is known of some rows."""
    return Reference(seen.codes[rows], seen.certainty[rows], seen.recall[rows])


def false_alarms(X: Any, level: float) -> dict[str, Any]:
    alarms: list[bool] = []
    for seed in range(N_BANKS):
        order = np.random.default_rng(seed).permutation(len(X))
        bank = fitted(X[np.sort(order[: N_TRAIN + ASIDE])], seed)
        seen = looked_at(bank, X[np.sort(order[N_TRAIN + ASIDE :][: N_BATCHES * BATCH])])
        places = np.random.default_rng([seed, 1]).permutation(len(seen))
        for i in range(N_BATCHES):
            batch = part(seen, places[i * BATCH : (i + 1) * BATCH])
            alarms.append(compare(bank.reference_, batch, N_BITS, level=level, seed=i).alarm)
        print(f"bank {seed}: false alarms so far {np.mean(alarms):.4f}", flush=True)
    by_bank = np.reshape(alarms, (N_BANKS, N_BATCHES)).mean(axis=1)
    return {"batches": len(alarms), "false alarms": float(np.mean(alarms)), "most of one bank": float(by_bank.max())}


def fitted(X: Any, seed: int) -> ProjectionBank:
    return ProjectionBank(N_BITS, solver="mixed", random_state=seed).fit(X, set_aside=ASIDE)


def looked_at(bank: Any, rows: Any) -> Reference:
    """Codes, certainty and recall of all rows, however many."""
    blocks = [rows[start : start + 1000] for start in range(0, len(rows), 1000)]
    parts = [Reference.of(bank, as_rows(block), np.arange(len(block))) for block in blocks]
    names = ("codes", "certainty", "recall")
    return Reference(*(np.concatenate([getattr(one, name) for one in parts]) for name in names))


def power(X: Any, y: Any, level: float) -> dict[str, Any]:
    found: dict[str, list[bool]] = {"one absent class": []}
    found |= {f"{share:.0%} of absent classes": [] for share in (0.1, 0.25, 0.5)}
    for seed in range(3):
        rng = np.random.default_rng(seed)
        classes = rng.permutation(np.unique(y))
        known = np.flatnonzero(np.isin(y, classes[: len(classes) // 2]))
        absent = np.flatnonzero(~np.isin(y, classes[: len(classes) // 2]))
        order = rng.permutation(known)
        bank = fitted(X[np.sort(order[: N_TRAIN + ASIDE])], seed)
        unseen, reference = order[N_TRAIN + ASIDE :], bank.reference_
        for label in classes[len(classes) // 2 :]:
            own = np.flatnonzero(y == label)[:BATCH]
            if len(own) >= LEAST:
                batch = Reference.of(bank, as_rows(X[own]), np.arange(len(own)))
                found["one absent class"].append(compare(reference, batch, N_BITS, level=level, seed=seed).alarm)
        for share in (0.1, 0.25, 0.5):
            for i in range(20):
                n_new = round(share * BATCH)
                rows = np.concatenate([rng.choice(absent, n_new, False), rng.choice(unseen, BATCH - n_new, False)])
                batch = Reference.of(bank, as_rows(X[np.sort(rows)]), np.arange(BATCH))
                alarm = compare(reference, batch, N_BITS, level=level, seed=i).alarm
                found[f"{share:.0%} of absent classes"].append(alarm)
        print({name: float(np.mean(values)) for name, values in found.items()}, flush=True)
    return {name: {"batches": len(values), "alarms": float(np.mean(values))} for name, values in found.items()}


def foretold(X: Any) -> list[dict[str, Any]]:
    order = np.random.default_rng(0).permutation(len(X))
    train, gallery = X[np.sort(order[:N_TRAIN])], X[np.sort(order[N_TRAIN : 3 * N_TRAIN])]
    rows = []
    for name in ("lsh", "mixed"):
        made = {n: METHODS[name](n_bits=n, random_state=0).fit(train) for n in (N_BITS, 2 * N_BITS, 4 * N_BITS)}
        results = {n: check(bank, gallery) for n, bank in made.items()}
        for n, told in results[N_BITS].more_bits.items():
            measured = results[n].recall[10].value
            rows.append({"method": name, "from bits": N_BITS, "to bits": n, "foretold": told, "measured": measured})
            print(rows[-1], flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vectors", type=Path)
    parser.add_argument("labels", type=Path)
    parser.add_argument("--output", type=Path, default=RESULTS / "check.json")
    given = parser.parse_args()
    X, y = np.load(given.vectors, mmap_mode="r"), np.load(given.labels)
    result = {
        "data": given.vectors.stem,
        "bits": N_BITS,
        "training": N_TRAIN,
        "set aside": ASIDE,
        "rows of a batch": BATCH,
        "level": 0.01,
    }
    result |= {"false alarms": false_alarms(X, 0.01), "power": power(X, y, 0.01), "more bits": foretold(X)}
    write_result(given.output, result)


if __name__ == "__main__":
    main()
