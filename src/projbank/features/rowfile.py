"""A `.npy` file that grows row by row, with a journal of what became of each input."""

from __future__ import annotations

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
    """Rows in `folder`/`name`, and a journal with a line for every input that is done, in order.

    Nothing of either is held in memory. A line is written after its row: what lacks a line is done again.

    Parameters
    ----------
    folder : where both files are; it exists
    width : numbers per row
    dtype : their type
    holds : whether a line that an earlier run wrote still holds; from the first that does not, inputs are done anew
    """

    def __init__(
        self,
        folder: Path,
        width: int,
        dtype: str = "<f4",
        name: str = "rows.npy",
        *,
        holds: Callable[[dict[str, Any]], bool] = bool,
    ) -> None:
        self.rows_path, self.journal_path = folder / name, folder / "journal.jsonl"
        self._width, self._dtype = width, np.dtype(dtype)
        self._row_bytes = width * self._dtype.itemsize
        self.n_done = self.n_rows = 0
        self._rows: IO[bytes] = open(self.rows_path, "r+b" if self.rows_path.exists() else "w+b")  # noqa: SIM115
        self._journal: IO[bytes] = open(self.journal_path, "a+b")  # noqa: SIM115
        self._resume(holds)

    def _resume(self, holds: Callable[[dict[str, Any]], bool]) -> None:
        """Keep what an earlier run has done, as far as it holds and is whole."""
        whole = max(0, self._rows.seek(0, os.SEEK_END) - HEADER_BYTES) // self._row_bytes
        end = 0
        self._journal.seek(0)
        for text in self._journal:
            line = journal_line(text)
            if line is None or self.n_rows + line["ok"] > whole or not holds(line):
                break
            self.n_done, self.n_rows, end = self.n_done + 1, self.n_rows + line["ok"], end + len(text)
        self._journal.truncate(end)
        self._journal.seek(0, os.SEEK_END)
        self._rows.truncate(HEADER_BYTES + self.n_rows * self._row_bytes)
        self._rows.seek(0, os.SEEK_END)

    def reserve(self, n_rows: int) -> None:
        """Reserve room on the disk for so many more rows; OSError where there is not enough."""
        end = self._rows.tell()
        try:
            reserve(self.rows_path, end + n_rows * self._row_bytes)
        except OSError:
            self._rows.truncate(end)
            raise

    def append(self, row: NDArray[Any] | None, reason: str = "", **facts: Any) -> None:
        """Add the row of the next input, or note that it has none and why; the journal keeps `facts` about it."""
        if row is not None:
            if row.shape != (self._width,):
                raise ValueError(f"a row must have {self._width} numbers. Got shape {row.shape}.")
            self._rows.write(np.ascontiguousarray(row, dtype=self._dtype).tobytes())
            self._rows.flush()
            self.n_rows += 1
        line = {"ok": row is not None, **facts} | ({"reason": reason} if reason else {})
        self._journal.write(json.dumps(line).encode() + b"\n")
        self._journal.flush()
        self.n_done += 1
        if self.n_done % SYNC_ROWS == 0:
            os.fsync(self._rows.fileno())

    def lines(self) -> Iterator[dict[str, Any]]:
        """Lines of the journal, read anew."""
        with open(self.journal_path, "rb") as file:
            yield from map(json.loads, file)

    def finish(self) -> None:
        """Write the header of the rows that are there: the file is now a whole `.npy`."""
        shape = (self.n_rows, self._width)
        self._rows.seek(0)
        descr = npy.dtype_to_descr(self._dtype)
        npy.write_array_header_1_0(self._rows, {"descr": descr, "fortran_order": False, "shape": shape})
        if self._rows.tell() != HEADER_BYTES:
            raise OSError(f"{self.rows_path}: unexpected length of the .npy header.")
        self._rows.truncate(HEADER_BYTES + self.n_rows * self._row_bytes)
        os.fsync(self._rows.fileno())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._rows.close()
        self._journal.close()


def journal_line(text: bytes) -> dict[str, Any] | None:
    """A whole line of a journal; None for one that a kill has cut, and for damage."""
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not text.endswith(b"\n") or not isinstance(line, dict) or not isinstance(line.get("ok"), bool):
        return None
    return line if isinstance(line.get("reason", "" if line["ok"] else None), str) else None
