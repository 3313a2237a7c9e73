"""What do `import projbank` and a first call cost, and how much memory does coding a mapped file take?

    python -m benchmarks.startup

Import times are those of fresh processes. The mapped file has 4 GB (a sparse file of zeros) and is read in blocks.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.common import report, result_path, row, write_result

PEAK = """
import resource, sys
import numpy as np
from projbank import ProjectionBank
bank = ProjectionBank(4000, solver="paper", grouping="random", n_neighbors=3, max_iter=1, n_jobs=2)
bank.fit(np.random.default_rng(0).standard_normal((16, 64_000), dtype=np.float32))
np.lib.format.open_memmap(sys.argv[1], mode="w+", dtype=np.float32, shape=(16_000, 64_000))
X = np.load(sys.argv[1], mmap_mode="r")
bank.transform(X[:8])
start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
bank.transform(X)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - start) / 1024)
"""


def import_seconds(*modules: str) -> float:
    code = f"import time; start = time.perf_counter(); import {', '.join(modules)}; print(time.perf_counter() - start)"
    return min(float(_run(code)) for _ in range(9))


def _run(code: str, *arguments: str) -> str:
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True).stdout


def main() -> None:
    path = result_path("startup")
    own = import_seconds("projbank")
    others = import_seconds("numba", "sklearn.base", "sklearn.utils.validation")
    with tempfile.TemporaryDirectory() as folder:
        peak = float(_run(PEAK, str(Path(folder) / "x.npy")))
    rows = [
        row("import projbank / import numba and sklearn", own / others, most=1.3),
        row("coding a mapped file of 4 GB: megabytes above the start", peak, most=500),
    ]
    report(rows)
    write_result(path, {"import seconds": {"projbank": own, "numba and sklearn": others}, "ratios": rows})


if __name__ == "__main__":
    main()
