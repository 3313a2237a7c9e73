"""``python -m tests.kill --n 200 [--seed 0] [--only fit] [--out FILE.json]``."""

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[_name] = "1"  # a fork has one thread


def main():
    from tests.kill.run import Kills

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="names of scenarios with commas between")
    parser.add_argument("--out", type=Path, help="where to write the figures (JSON)")
    given = parser.parse_args()
    started, counts, failures = time.perf_counter(), {}, 0
    with tempfile.TemporaryDirectory() as folder:
        kills = Kills(Path(folder).resolve(), given.seed, given.only)
        for number in range(given.n):
            name, share, wrong, was_killed = kills.run(number)
            count = counts.setdefault(name, {"runs": 0, "killed": 0, "failures": 0})
            count["runs"] += 1
            count["killed"] += was_killed
            if wrong:
                failures += 1
                count["failures"] += 1
                print(f"{number}, {name}, killed at {share:.0%} of its time: {wrong}", file=sys.stderr, flush=True)
            killed = sum(count["killed"] for count in counts.values())
            found = {"runs": number + 1, "killed": killed, "seed": given.seed, "failures": failures}
            if given.out:  # after every run: it may be stopped at any time
                given.out.write_text(json.dumps(found | {"scenarios": counts}, indent=1) + "\n")
    print(json.dumps(found), f"{time.perf_counter() - started:.0f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
