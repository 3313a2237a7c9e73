"""What do checksums cost, as shares of reading the same file from the disk, and from memory?

    python -m benchmarks.checks

The file has 64 MB. Before it is read from the disk, the system is told to forget it. The checksum of a model is that
of what was just read, block by block; that of codes is taken while they are read.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import best_seconds, report, result_path, row, write_result
from projbank.integrity import add_note, checksum, open_npy
from projbank.tensorfile import read_header, read_tensors, write_tensors

MEGABYTES = 64
BLOCK = 1 << 20
TURNS = 60


def read(path: Path, block: memoryview) -> None:
    """Read a file through one block of memory."""
    with open(path, "rb", buffering=0) as file:
        while file.readinto(block):
            pass


def forgotten(path: Path) -> Path:
    """Ask the system to drop a file from its cache, and return it."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return path


def read_anew(path: Path, block: memoryview) -> None:
    read(forgotten(path), block)


def small_files(folder: Path, array: Any) -> dict[str, float]:
    """A model of a bank of 64,000 dimensions, half a megabyte: reading it, and its checksum."""
    path = folder / "small"
    path.touch()
    write_tensors(path, {"a": array[: 1 << 19]}, {})
    data = np.fromfile(path, np.uint8)
    header = read_header(path)
    runs: dict[str, Callable[[], object]] = {
        "read": lambda: np.fromfile(path, np.uint8),
        "checksum": lambda: checksum(header.canonical, data),
        "read_tensors": lambda: read_tensors(path),
    }
    return best_seconds(runs, 30)


def main() -> None:
    output = result_path("checks")
    array = np.random.default_rng(0).integers(0, 256, MEGABYTES << 20, np.uint8)
    with tempfile.TemporaryDirectory() as folder:
        model, codes = Path(folder) / "model", Path(folder) / "codes.npy"
        model.touch()
        write_tensors(model, {"a": array}, {})
        np.save(codes, array.reshape(-1, 512))
        add_note(codes, kind="codes")
        block = memoryview(bytearray(BLOCK))
        runs: dict[str, Callable[[], object]] = {
            "plain read from the disk": lambda: read_anew(codes, block),
            "plain read from memory": lambda: read(codes, block),
            "checksum": lambda: checksum(array),
            "read an array from memory": lambda: np.fromfile(codes, np.uint8),
            "read an array from the disk": lambda: np.fromfile(forgotten(model), np.uint8),
            "read a model from the disk": lambda: read_tensors(forgotten(model)),
            "read a model from memory": lambda: read_tensors(model),
            "open codes, compared": lambda: open_npy(codes, verify=True),
        }
        times = best_seconds(runs, TURNS)
        small = small_files(Path(folder), array)
    disk, memory, array_read = (
        times[f"{name} from {place}"]
        for name, place in (("plain read", "the disk"), ("plain read", "memory"), ("read an array", "memory"))
    )
    rows = [
        row("checksum / reading the file from the disk", times["checksum"] / disk),
        row(
            "checksum / reading the file from memory into an array",
            times["checksum"] / array_read,
        ),
        row("opening codes with their checksum / plain read from memory", times["open codes, compared"] / memory),
        row(
            "reading a model with all checks / reading an array",
            times["read a model from memory"] / array_read,
        ),
        row(
            "from the disk: reading a model with all checks / reading an array",
            times["read a model from the disk"] / times["read an array from the disk"],
        ),
        row("half a megabyte: checksum / read", small["checksum"] / small["read"]),
    ]
    report(rows)
    gigabytes = {name: round(MEGABYTES / 1024 / seconds, 2) for name, seconds in times.items()}
    write_result(output, {"megabytes": MEGABYTES, "GB per second": gigabytes, "ratios": rows})


if __name__ == "__main__":
    main()
