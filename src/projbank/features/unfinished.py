"""A run that survives a kill: the folder of its unfinished files, and a `.npy` file that grows row by row."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Self

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from projbank.files import check_output, reserve, try_lock

HEADER_BYTES = 128
"""Length of the header of a `.npy` file of any number of rows."""
SYNC_ROWS = 64
"""How many rows go to the operating system before they are forced to the disk."""
READY = "ready"
"""Name of the file that says that a run is finished, and its files only have to be moved."""


class Unfinished:
    """The folder `<output>.partial`, where the files of a run are until all are whole.

    Parameters
    ----------
    output : the file that the run is for
    targets : names in the folder, and the paths that these files go to, in order
    sign : name of a file in the folder: where it is, an unfinished run came far enough to be worth going on with
    """

    def __init__(self, output: Path, targets: Mapping[str, Path], sign: str) -> None:
        self.output, self.folder = output, output.with_name(output.name + ".partial")
        self._targets, self._sign = targets, sign

    def check(self, inputs: Iterable[Path] = ()) -> None:
        """Raise where the output can't be written."""
        if self.output.suffix != ".npy":
            raise ValueError(
                f"The 'output' parameter must be a path that ends in .npy. Got {str(self.output)!r} instead."
            )
        check_output(self.output, inputs=inputs)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other runs away; the lock is on the folder and ends with the process.

        Files that a run had finished but not moved when it was killed are moved first.
        """
        handle = self._lock()
        try:
            if (self.folder / READY).exists():
                self._move()
            yield
        finally:
            if not self.is_begun():
                self.discard()
                self.folder.rmdir()
            if handle is not None:
                os.close(handle)

    def is_begun(self) -> bool:
        """Whether an earlier run left something to go on from."""
        return (self.folder / self._sign).exists()

    def is_of(self, job: str) -> bool:
        """Whether what is there belongs to a job, a text that tells all that its files depend on."""
        note = self.folder / "job.txt"
        return note.exists() and note.read_text() == job

    def start(self, job: str) -> None:
        """Begin a job from nothing."""
        self.discard()
        (self.folder / "job.txt").write_text(job)

    def publish(self) -> None:
        """Move the finished files into place; a kill in between is made good by the next run."""
        (self.folder / READY).touch()
        self._move()

    def discard(self) -> None:
        """Remove what an unfinished run left."""
        for path in self.folder.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def _move(self) -> None:
        for name, target in self._targets.items():
            with contextlib.suppress(FileNotFoundError):  # moved before a kill
                os.replace(self.folder / name, target)
        self.discard()

    def _lock(self) -> int | None:
        while True:
            try:
                self.folder.mkdir(exist_ok=True)
                if os.name == "nt":  # a folder can't be opened there
                    return None
                handle = os.open(self.folder, os.O_RDONLY)
            except FileNotFoundError:  # another run has just removed it
                continue
            except OSError as error:
                raise type(error)(f"cannot write {self.output}: {error.strerror or error}") from error
            if try_lock(handle) is False:
                os.close(handle)
                raise BlockingIOError(f"{self.output}: another run is writing it; wait until it has ended.")
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(handle), os.stat(self.folder)):
                    return handle
            os.close(handle)  # it was removed meanwhile


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
