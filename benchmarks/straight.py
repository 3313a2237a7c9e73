"""Straight to codes: peak memory of `projbank fit` and `encode` on pictures, which must not grow with their number.

python -m benchmarks.straight --work FOLDER [--numbers 2000,20000]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from benchmarks.common import RESULTS
from projbank.evaluate.results import stamp

N_DIFFERENT, PER_FOLDER, SIDE = 100, 500, 32


def pictures(work: Path, n: int) -> Path:
    """A folder of n names of a hundred small pictures."""
    folder, rng = work / f"small-{n}", np.random.default_rng(0)
    work.mkdir(parents=True, exist_ok=True)
    for i in range(N_DIFFERENT):
        noise = rng.integers(0, 256, (SIDE // 4, SIDE // 4)).astype(np.uint8)
        cv2.imwrite(str(work / f"{i}.png"), cv2.resize(noise, (SIDE, SIDE), interpolation=cv2.INTER_CUBIC))
    for i in range(n):
        path = folder / f"{i // PER_FOLDER:04d}" / f"{i:07d}.png"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            os.link(work / f"{i % N_DIFFERENT}.png", path)
    return folder


def peak_of(*words: str | Path) -> dict[str, float]:
    """Seconds and peak memory of a command, in MB."""
    started = time.perf_counter()
    run = subprocess.Popen([sys.executable, "-m", "projbank", *map(str, words)], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(run.pid, 0)
    if status:
        raise RuntimeError(f"projbank {words[0]} has failed.")
    return {"seconds": round(time.perf_counter() - started, 1), "peak MB": round(usage.ru_maxrss / 1024, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--numbers", default="2000,20000")
    parser.add_argument("--output", type=Path, default=RESULTS / "straight.json")
    given = parser.parse_args()
    found: dict[str, Any] = {}
    for n in map(int, given.numbers.split(",")):
        folder, bank, codes = pictures(given.work, n), given.work / "bank.safetensors", given.work / "codes.npy"
        fit = ("fit", folder, "--components", "8", "--sample", "200", "--bits", "256", "-j", "1", "-o", bank)
        found[f"{n} pictures"] = {
            "fit": peak_of(*fit),
            "encode": peak_of("encode", bank, folder, "-j", "1", "-o", codes),
            "bytes written": codes.stat().st_size + codes.with_suffix(".files.txt").stat().st_size,
        }
        print(n, found[f"{n} pictures"], flush=True)
    given.output.write_text(json.dumps(stamp() | found, indent=1) + "\n")


if __name__ == "__main__":
    main()
