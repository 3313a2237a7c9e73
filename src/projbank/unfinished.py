"""A run that survives a kill: the folder of its unfinished files, from which the next run of the same job goes on."""

from __future__ import annotations

import contextlib
import math
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import DTypeLike, NDArray

from projbank.files import DiskFullError, check_output, try_lock
from projbank.integrity import create_npy

Write = Callable[[int, NDArray[Any]], None]
"""Takes the first row number of a block, and its rows; blocks come one after the other."""
READY = "ready"
"""Name of the file that says that a run is finished, and its files only have to be moved."""


class Unfinished:
    """The folder `<output>.partial`, where the files of a run are until all are whole.

    Parameters
    ----------
    output : the file that the run is for
    targets : names in the folder, and the paths that these files go to, in order
    sign : name of a file in the folder: where it is, an unfinished run came far enough to be worth going on with
    folder : another folder for them
    """

    def __init__(
        self, output: Path, targets: Mapping[str, Path], sign: str = "rows.txt", *, folder: Path | None = None
    ) -> None:
        self.output, self.folder = output, folder or output.with_name(output.name + ".partial")
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

    @contextlib.contextmanager
    def rows(self, name: str, shape: tuple[int, ...], dtype: DTypeLike, job: str) -> Iterator[tuple[Write, int]]:
        """Write `name` in the folder, a `.npy` file of known length, block by block.

        Also gives the number of rows that a run of the same job wrote which was cut off; what another one left is
        discarded.
        """
        path, journal, job = self.folder / name, self.folder / "rows.txt", f"{job} {shape} {np.dtype(dtype)}"
        text = journal.read_text() if self.is_of(job) and journal.exists() and path.exists() else ""
        n_done = int(text) if text.isdigit() else 0
        if not n_done:
            self.start(job)
            try:
                create_npy(path, shape, dtype)
            except DiskFullError as error:
                raise DiskFullError(self.output, error.needed, error.reason) from error
        row_bytes = np.dtype(dtype).itemsize * math.prod(shape[1:])
        with open(path, "r+b") as file, open(journal, "r+b" if n_done else "w+b", buffering=0) as done:
            npy.read_magic(file)
            npy.read_array_header_1_0(file)
            origin = file.tell()

            def write(start: int, rows: NDArray[Any]) -> None:
                file.seek(origin + row_bytes * start)
                file.write(np.ascontiguousarray(rows).data)
                file.flush()
                os.fsync(file.fileno())
                done.seek(0)
                done.write(b"%020d" % (start + len(rows)))

            yield write, n_done

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
