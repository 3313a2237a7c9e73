"""The files of one extraction: their names, and whether they may be written."""

from __future__ import annotations

from pathlib import Path

from projbank.files import check_output
from projbank.unfinished import Unfinished


class Outputs:
    """The files of one extraction.

    Beside `vectors.npy` stand `labels.npy`, `files.txt` and so on; beside any other name, say `q.npy`, they are
    `q.labels.npy` and so on, so that several sets can share a folder.

    Attributes
    ----------
    vectors : the vectors, a row per file
    labels : label of each row, int64; -1 where there is none
    files : file of each row, one per line
    classes : label and name of each class, one per line with a tab between
    record : what the rows were made from: the codebook's identity, then size, time and checksum of each file
    codebook : descriptor settings and codebook, for `FeatureExtractor` and `--codebook`
    """

    def __init__(self, vectors: Path) -> None:
        stem = vectors.stem
        prefix = "" if stem == "vectors" else f"{stem}."
        self.vectors = vectors
        self.labels = vectors.with_name(f"{prefix}labels.npy")
        self.files = vectors.with_name(f"{prefix}files.txt")
        self.classes = vectors.with_name(f"{prefix}classes.txt")
        self.record = vectors.with_name(f"{prefix}record.jsonl")
        self.codebook = vectors.with_name(f"{stem}.codebook.safetensors")

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

    def unfinished(self) -> Unfinished:
        """The folder of a run that is not finished; it is worth going on with once there is a codebook."""
        targets = {
            "labels.npy": self.labels,
            "files.txt": self.files,
            "classes.txt": self.classes,
            "codebook.safetensors": self.codebook,
            "record.jsonl": self.record,
            "rows.npy": self.vectors,
        }
        return Unfinished(self.vectors, targets, "codebook.safetensors")
