"""``python -m tests.fuzz --n 100000 [--seed 0] [--only NAME] [--case 17 --keep FILE] [--out FILE.json]``."""

import argparse
import json
import os
import tempfile
import time
from pathlib import Path

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[_name] = "1"  # a fork has one thread


def main():
    from tests.fuzz.run import BATCH, Fuzz, summary, tell

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--batch", type=int, default=BATCH, help="cases that a child takes in turn")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="formats with one of these in their names, with commas between")
    parser.add_argument("--case", type=int, help="one case, again")
    parser.add_argument("--keep", type=Path, help="where to write its file")
    parser.add_argument("--out", type=Path, help="where to write the figures (JSON)")
    parser.add_argument("--words", action="store_true", help="print refusals too")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        fuzz = Fuzz(folder, given.seed, given.only)
        if given.case is not None:
            if given.keep:
                given.keep.write_bytes(fuzz.change(given.case))
            tell(next(fuzz.run([given.case])))
            return 0
        started, outcomes, seen = time.perf_counter(), [], set()
        for outcome in fuzz.run(range(given.first, given.first + given.n), given.batch):
            if outcome.failed or (given.words and outcome.kind == "refused" and _gist(outcome) not in seen):
                seen.add(_gist(outcome))
                tell(outcome)
            outcome.words = ""
            outcomes.append(outcome)
    failures = sum(outcome.failed for outcome in outcomes)
    found = {"cases": given.n, "seed": given.seed, "failures": failures, **summary(outcomes)}
    print(json.dumps(found["outcomes"]), f"{time.perf_counter() - started:.0f} s")
    if given.out:
        given.out.write_text(json.dumps(found, indent=1) + "\n")
    return 1 if failures else 0


def _gist(outcome):
    return outcome.format.split(",")[0], "".join(letter for letter in outcome.words if not letter.isdigit())[:60]


if __name__ == "__main__":
    raise SystemExit(main())
