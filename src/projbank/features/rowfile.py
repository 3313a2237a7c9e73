"""A `.npy` file that grows row by row and survives a kill: rows are appended, a journal says which are whole."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, Self

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from projbank.files import reserve

HEADER_BYTES = 128
"""Length of the header of a `.npy` file of any number of rows."""
SYNC_ROWS = 64
"""How many rows go to the operating system before they are forced to the disk."""


class RowFile:
    """Rows of float32 in `folder`/rows.npy, and a journal with one line per input that is done.

    A line is written after its row. On opening, rows without a line are cut off, lines without a row are forgotten:
    what is left is exactly the inputs that are done, in order.

    Parameters
    ----------
    folder : where both files are; it exists
    n_dims : numbers per row
    holds : whether a line of the journal still holds; from the first that does not, inputs are done anew
    """

    def __init__(self, folder: Path, n_dims: int, holds: Callable[[dict[str, Any]], bool] = bool) -> None:
        self.rows_path = folder / "rows.npy"
        self.n_dims = n_dims
        self.done = list(itertools.takewhile(holds, _whole_lines(folder / "journal.jsonl")))
        self._rows: IO[bytes] = open(self.rows_path, "r+b" if self.rows_path.exists() else "w+b")  # noqa: SIM115
        size = self._rows.seek(0, os.SEEK_END)
        whole = max(0, size - HEADER_BYTES) // self._row_bytes
        while sum(line["ok"] for line in self.done) > whole:
            self.done.pop()
        self.n_rows = sum(line["ok"] for line in self.done)
        self._rows.truncate(HEADER_BYTES + self.n_rows * self._row_bytes)
        self._rows.seek(0, os.SEEK_END)
        text = "".join(json.dumps(line) + "\n" for line in self.done)
        (folder / "journal.jsonl").write_text(text)
        self._journal: IO[str] = open(folder / "journal.jsonl", "a")  # noqa: SIM115

    @property
    def _row_bytes(self) -> int:
        return 4 * self.n_dims

    def reserve(self, n_rows: int) -> None:
        """Reserve room on the disk for so many more rows; OSError where there is not enough."""
        end = self._rows.tell()
        try:
            reserve(self.rows_path, end + n_rows * self._row_bytes)
        except OSError:
            self._rows.truncate(end)
            raise

    def append(self, row: NDArray[np.float32] | None, reason: str = "", **facts: Any) -> None:
        """Add the row of the next input, or note that it has none and why; the journal keeps `facts` about it."""
        if row is not None:
            if row.shape != (self.n_dims,):
                raise ValueError(f"a row must have {self.n_dims} numbers. Got shape {row.shape}.")
            self._rows.write(np.ascontiguousarray(row, dtype="<f4").tobytes())
            self._rows.flush()
            self.n_rows += 1
        line: dict[str, Any] = {"ok": row is not None, **facts}
        if reason:
            line["reason"] = reason
        self.done.append(line)
        self._journal.write(json.dumps(line) + "\n")
        self._journal.flush()
        if len(self.done) % SYNC_ROWS == 0:
            os.fsync(self._rows.fileno())

    def finish(self) -> None:
        """Write the header of the rows that are there: the file is now a whole `.npy`."""
        shape = (self.n_rows, self.n_dims)
        self._rows.seek(0)
        npy.write_array_header_1_0(self._rows, {"descr": "<f4", "fortran_order": False, "shape": shape})
        if self._rows.tell() != HEADER_BYTES:
            raise OSError(f"{self.rows_path}: unexpected length of the .npy header.")
        self._rows.truncate(HEADER_BYTES + self.n_rows * self._row_bytes)
        os.fsync(self._rows.fileno())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._rows.close()
        self._journal.close()


def _whole_lines(path: Path) -> Iterator[dict[str, Any]]:
    if path.exists():
        with open(path, "rb") as file:
            yield from itertools.takewhile(bool, map(journal_line, file))


def journal_line(text: bytes) -> dict[str, Any] | None:
    """A whole line of a journal; None for one that a kill has cut, and for damage."""
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not text.endswith(b"\n") or not isinstance(line, dict) or not isinstance(line.get("ok"), bool):
        return None
    return line if isinstance(line.get("reason", "" if line["ok"] else None), str) else None
