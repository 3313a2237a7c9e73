"""What does joint learning cost, against the other learnt codes that fit such vectors? Two cores.

    python -m benchmarks.learn_joint [--vectors fv.npy]

D = 64,000, 4,000 bits, 4,000 training vectors: generated ones, or the first 4,000 of a file. Every method learns in a
process of its own, all in turn, twice; the shorter time counts. Memory is what a process took at most above what it
held when the vectors were in memory.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.common import RESULTS, report, row, write_result
from benchmarks.learn_paper import vectors

N_TRAINING = 4000
N_BITS = 4000
ROUNDS = 2

FIT = """
import json, resource, sys, time
import numpy as np
from projbank.methods import METHODS
X = np.load(sys.argv[2])
method = METHODS[sys.argv[1]](n_bits=int(sys.argv[3]), n_jobs=2)
METHODS[sys.argv[1]](n_bits=64, n_jobs=2).fit(X[:300, :4096])  # compile
held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start = time.perf_counter()
method.fit(X)
seconds = time.perf_counter() - start
print(json.dumps([seconds, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - held) / 1024]))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vectors", type=Path)
    parser.add_argument("--output", type=Path, default=RESULTS / "learn_joint.json")
    options = parser.parse_args()
    costs: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        training = Path(folder) / "training.npy"
        if options.vectors:
            X = np.load(options.vectors, mmap_mode="r")[:N_TRAINING]
        else:
            X = vectors(N_TRAINING, 64_000, np.random.default_rng(0))
        np.save(training, X)
        shape = X.shape
        del X
        for name in ROUNDS * ("joint", "bpbc", "cbe"):
            command = [sys.executable, "-c", FIT, name, str(training), str(N_BITS)]
            out = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
            seconds, megabytes = json.loads(out)
            print(f"{name}: {seconds:.1f} s, {megabytes:.0f} MB", flush=True)
            known = costs.setdefault(name, {"seconds": np.inf, "megabytes above the data": 0})
            known["seconds"] = min(known["seconds"], round(seconds, 1))
            known["megabytes above the data"] = max(known["megabytes above the data"], round(megabytes))
    rows = [
        row(f"joint / {name}, training time", costs["joint"]["seconds"] / costs[name]["seconds"], most=1)
        for name in ("bpbc", "cbe")
    ]
    rows.append(row("joint: megabytes above the training data", costs["joint"]["megabytes above the data"], most=2048))
    report(rows)
    source = options.vectors.name if options.vectors else "generated"
    result = {"vectors": source, "shape": shape, "bits": N_BITS, "costs": costs, "ratios": rows}
    write_result(options.output, result)


if __name__ == "__main__":
    main()
