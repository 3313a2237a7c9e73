"""What examples/descriptors.py tells of vectors with labels: some are drawn as queries, the others are the gallery.

A result is right where it has the query's label. What is measured replaces the figures of vectors of the same name in
the file of results.

    python -m benchmarks.descriptors caltech_conv320.npy [--queries 1000] [--bits 4096]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import RESULTS, write_result
from projbank.evaluate.results import stamp

EXAMPLE = Path(__file__).parents[1] / "examples" / "descriptors.py"


def split(path: Path, n_queries: int, folder: Path) -> list[Path]:
    """Write gallery and queries, and their labels; returns the four files."""
    X, labels = np.load(path, mmap_mode="r"), np.load(path.with_suffix(".labels.npy"))
    order = np.random.default_rng(0).permutation(len(X))
    parts = np.sort(order[n_queries:]), np.sort(order[:n_queries])
    files = [folder / name for name in ("gallery.npy", "queries.npy", "gallery_labels.npy", "query_labels.npy")]
    for file, array, rows in zip(files, (X, X, labels, labels), parts * 2, strict=True):
        np.save(file, array[rows])
    return files


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vectors", type=Path, help=".npy, with labels beside it in .labels.npy")
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--bits", type=int, default=4096)
    parser.add_argument("--output", type=Path, default=RESULTS / "descriptors.json")
    args = parser.parse_args()
    sets: dict[str, Any] = json.loads(args.output.read_text())["sets"] if args.output.exists() else {}
    ways: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        files = split(args.vectors, args.queries, Path(folder))
        words = [sys.executable, str(EXAMPLE), *map(str, files), "--bits", str(args.bits)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as child:
            for line in child.stdout or ():
                print(line, end="", flush=True)
                *name, n_bytes, first, fifth, tenth = line.split()
                if n_bytes != "bytes":
                    recalls = {"R@1": float(first), "R@5": float(fifth), "R@10": float(tenth)}
                    ways.append({"way": " ".join(name), "bytes": int(n_bytes.replace(",", ""))} | recalls)
    if child.returncode:
        raise RuntimeError(f"{EXAMPLE} has failed.")
    n, n_numbers = np.load(args.vectors, mmap_mode="r").shape
    about = {"numbers": n_numbers, "gallery": n - args.queries, "queries": args.queries}
    sets[args.vectors.stem] = stamp() | about | {"ways": ways}
    write_result(args.output, {"benchmark": "descriptors", "sets": sets})


if __name__ == "__main__":
    main()
