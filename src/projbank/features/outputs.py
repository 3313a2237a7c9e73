"""The files of one extraction: their names, the lock on them, and how they are moved into place."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from projbank.files import check_output
from projbank.locks import try_lock

READY = "ready"
"""Name of the file that says that a run is finished, and its files only have to be moved."""


@dataclass(frozen=True)
class Outputs:
    """The files of one extraction.

    Beside `vectors.npy` stand `labels.npy`, `files.txt` and so on; beside any other name, say `q.npy`, they are
    `q.labels.npy` and so on, so that several sets can share a folder.
    """

    vectors: Path

    @property
    def labels(self) -> Path:
        """Label of each row, int64; -1 where there is none."""
        return self._beside("labels.npy")

    @property
    def files(self) -> Path:
        """File of each row, one per line."""
        return self._beside("files.txt")

    @property
    def classes(self) -> Path:
        """Label and name of each class, one per line with a tab between."""
        return self._beside("classes.txt")

    @property
    def record(self) -> Path:
        """What the rows were made from: the codebook's identity, then size, time and checksum of each file."""
        return self._beside("record.jsonl")

    @property
    def codebook(self) -> Path:
        """Descriptor settings and codebook, for `FeatureExtractor` and `--codebook`."""
        return self.vectors.with_name(self.vectors.stem + ".codebook.safetensors")

    @property
    def partial(self) -> Path:
        """Folder of a run that is not finished."""
        return self.vectors.with_name(self.vectors.name + ".partial")

    def check(self) -> None:
        """Raise where the vectors can't be written."""
        if self.vectors.suffix != ".npy":
            raise ValueError(
                f"The 'output' parameter must be a path that ends in .npy. Got {str(self.vectors)!r} instead."
            )
        if self.vectors.is_dir():
            raise IsADirectoryError(f"cannot write {self.vectors}: it is a directory")
        if not self.vectors.parent.is_dir():
            raise FileNotFoundError(f"cannot write {self.vectors}: there is no folder {self.vectors.parent}")

    def check_kinds(self) -> None:
        """Raise where a file that no earlier run has written stands in the way of an output."""
        check_output(self.vectors, kind="vectors")
        check_output(self.codebook, kind="codebook")
        if self.vectors.exists() or self.codebook.exists():
            return
        for path in (self.labels, self.files, self.classes, self.record):
            if path.exists() and path.stat().st_size:
                raise FileExistsError(
                    f"cannot write {path}: a file of this name is there and was not made for {self.vectors.name}; name "
                    "another output, move the file, or give --force."
                )

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other runs away from these files; the lock is on the folder `partial` and ends with the process.

        Files that a run had finished but not moved when it was killed are moved first.
        """
        self.check()
        handle = self._lock()
        try:
            if (self.partial / READY).exists():
                self._move()
            yield
        finally:
            if not self.has_codebook():  # otherwise it holds what the next run goes on from
                self.discard()
                self.partial.rmdir()
            if handle is not None:
                os.close(handle)

    def has_codebook(self) -> bool:
        """Whether an unfinished run came far enough to be worth going on with."""
        return (self.partial / "codebook.safetensors").exists()

    def publish(self) -> None:
        """Move the finished files into place, the vectors last; a kill in between is made good by the next run."""
        (self.partial / READY).touch()
        self._move()

    def discard(self) -> None:
        """Remove what an unfinished run left."""
        for path in self.partial.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def _move(self) -> None:
        targets = {
            "labels.npy": self.labels,
            "files.txt": self.files,
            "classes.txt": self.classes,
            "codebook.safetensors": self.codebook,
            "record.jsonl": self.record,
            "rows.npy": self.vectors,
        }
        for name, target in targets.items():
            with contextlib.suppress(FileNotFoundError):  # moved before a kill
                os.replace(self.partial / name, target)
        self.discard()

    def _beside(self, name: str) -> Path:
        stem = self.vectors.stem
        return self.vectors.with_name(name if stem == "vectors" else f"{stem}.{name}")

    def _lock(self) -> int | None:
        while True:
            try:
                self.partial.mkdir(exist_ok=True)
                if os.name == "nt":  # a folder can't be opened there
                    return None
                handle = os.open(self.partial, os.O_RDONLY)
            except FileNotFoundError:  # another run has just removed it
                continue
            except OSError as error:
                raise type(error)(f"cannot write {self.vectors}: {error.strerror or error}") from error
            if not try_lock(handle):
                os.close(handle)
                raise BlockingIOError(f"{self.vectors}: another run is writing it; wait until it has ended.")
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(handle), os.stat(self.partial)):
                    return handle
            os.close(handle)  # it was removed meanwhile
