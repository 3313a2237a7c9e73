"""A growing file of codes and the names of the files they belong to, taken up where a kill left it."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Self

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from projbank.features.rowfile import HEADER_BYTES, journal_line


class CodeFile:
    """Codes in `folder`/codes.npy, and a journal with a line for every file that is done, in order.

    Nothing of either is held in memory. A line is written after its code: what lacks a line is done again.

    Parameters
    ----------
    folder : where both files are; it exists
    width : bytes of a code
    """

    def __init__(self, folder: Path, width: int) -> None:
        self.codes_path, self.journal_path = folder / "codes.npy", folder / "journal.jsonl"
        self._width = width
        self.n_codes = 0
        self._codes: IO[bytes] = open(self.codes_path, "r+b" if self.codes_path.exists() else "w+b")  # noqa: SIM115
        self._journal: IO[bytes] = open(self.journal_path, "a+b")  # noqa: SIM115

    def resume(self, stamps: Iterator[list[Any]]) -> tuple[int, Iterator[list[Any]]]:
        """Keep what is done of the files listed, as far as it agrees with them.

        `stamps` are [name, ...] of all files, in order. Returns how many are done, and the stamps of the others.
        """
        whole = max(0, self._codes.seek(0, os.SEEK_END) - HEADER_BYTES) // self._width
        n_done, end = 0, 0
        self._journal.seek(0)
        for text in self._journal:
            line = journal_line(text)
            if line is None or self.n_codes + line["ok"] > whole:
                break
            stamp = next(stamps, None)
            if stamp != line.get("stamp"):
                stamps = stamps if stamp is None else itertools.chain([stamp], stamps)
                break
            n_done, end, self.n_codes = n_done + 1, end + len(text), self.n_codes + line["ok"]
        self._journal.truncate(end)
        self._journal.seek(0, os.SEEK_END)
        self._codes.truncate(HEADER_BYTES + self.n_codes * self._width)
        self._codes.seek(0, os.SEEK_END)
        return n_done, stamps

    def append(self, stamp: list[Any], code: NDArray[np.uint8] | None, reason: str = "") -> None:
        """Add a file's code, or that it has none and why."""
        if code is not None:
            self._codes.write(code.tobytes())
            self._codes.flush()
            self.n_codes += 1
        line = {"ok": code is not None, "stamp": stamp} | ({"reason": reason} if reason else {})
        self._journal.write(json.dumps(line).encode() + b"\n")
        self._journal.flush()

    def reasons(self) -> Iterator[tuple[bool, str]]:
        """Whether it has a code, and what is to be said, of every file that something is to be said about."""
        for line in self._lines():
            if "reason" in line:
                yield line["ok"], line["reason"]

    def finish(self, names: Path) -> None:
        """Write the header, so that the codes are a whole `.npy`, and the names of the files of its rows."""
        self._codes.seek(0)
        shape = (self.n_codes, self._width)
        npy.write_array_header_1_0(self._codes, {"descr": "|u1", "fortran_order": False, "shape": shape})
        if self._codes.tell() != HEADER_BYTES:
            raise OSError(f"{self.codes_path}: unexpected length of the .npy header.")
        with open(names, "w", encoding="utf-8") as file:
            file.writelines(line["stamp"][0] + "\n" for line in self._lines() if line["ok"])
            file.flush()
            os.fsync(file.fileno())
        self._codes.flush()
        os.fsync(self._codes.fileno())

    def _lines(self) -> Iterator[dict[str, Any]]:
        with open(self.journal_path, "rb") as file:
            yield from map(json.loads, file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._codes.close()
        self._journal.close()
