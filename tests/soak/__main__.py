"""``python -m tests.soak --n 100000 [--seed 0] [--bits 52] [--out FILE.json]``."""

import argparse
import json
import resource
import tempfile
from collections import Counter
from pathlib import Path

from tests.soak.index import Soak


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--bits", type=int, default=52)
    parser.add_argument("--out", type=Path, help="where to write the figures (JSON)")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        soak, steps, grown = Soak(Path(folder) / "index.pbi", given.bits, given.seed), Counter(), 0
        for number in range(given.n):
            steps[soak.step()] += 1
            if number == given.n // 10:
                grown = -resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        grown += resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = {"operations": given.n, "seed": given.seed, "bits": given.bits, "kinds": dict(sorted(steps.items()))}
    found["megabytes grown after the first tenth"] = round(grown / 1024, 1)
    print(json.dumps(found))
    if given.out:
        given.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
