"""What commands share: options, how vectors, banks and outputs are opened, and how results are written."""

from __future__ import annotations

import contextlib
import json
import sys
import warnings
from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from typer import Option

Force = Annotated[bool, Option("--force", help="Replace a file of another kind.")]
Jobs = Annotated[int | None, Option("--jobs", "-j", help="Threads; all cores if not given.")]
Quiet = Annotated[bool, Option("--quiet", "-q", help="No progress bars.")]
Verbose = Annotated[int, Option("--verbose", "-v", count=True, help="Print the course of the work.")]
Table = Annotated[str, Option(help="Table, index or collection; a folder of FAISS has none.")]
To = Annotated[str, Option("--to", help="Folder, database file, address of PostgreSQL, or file to write.")]
AsJson = Annotated[bool, Option("--json", help="Print JSON.")]
Metric = StrEnum("Metric", ["l2", "cosine"])
OnError = StrEnum("OnError", ["fail", "skip"])
Unreadable = Annotated[OnError, Option(help="A picture or video that can't be decoded: fail, or skip it.")]


@contextlib.contextmanager
def output_file(
    path: Path, kind: str | None = None, inputs: Iterable[Path | str | None] = (), force: bool = False
) -> Iterator[Path]:
    """A temporary path that becomes `path` on success; Ctrl-C is told in one line.

    See `projbank.files.atomic_path` for what is refused.
    """
    from projbank.files import atomic_path

    try:
        with atomic_path(path, kind=kind, inputs=inputs, force=force) as temporary:
            yield temporary
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"interrupted; {path} was not written") from None


Normalization = StrEnum("Normalization", ["log1p"])


Dataset = Annotated[
    str | None, Option(help="Name of the array inside an .npz, HDF5 or zarr file, or of the column of a parquet.")
]
Layer = Annotated[str | None, Option(help="Layer of an AnnData file that is read instead of X.")]
FromObsm = Annotated[str | None, Option(help="Array of obsm of an AnnData file that is read instead of X.")]
Normalize = Annotated[
    Normalization | None,
    Option(help="log1p: counts are scaled to 10,000 per row, then log(1 + x). Nothing is done if not given."),
]


Cluster = Annotated[
    str | None, Option(help="Let a Dask cluster work: local:4 (processes of this machine), or tcp://scheduler:8786.")
]


class Reading(NamedTuple):
    """What is read of a file of vectors, and what is done to it."""

    dataset: str | None = None
    layer: str | None = None
    obsm: str | None = None
    normalize: Normalization | None = None

    def open(self, path: Path) -> Any:
        """Open a file of vectors, with its identity as `made_by` where it is known."""
        from projbank.rows.cells import Place
        from projbank.rows.files import open_vectors
        from projbank.rows.views import LogCounts

        X = open_vectors(path, self.dataset, Place(self.layer, self.obsm))
        return X if self.normalize is None else LogCounts(X)

    def on_cluster(self, path: Path, client: Any) -> Any:
        """Vectors of a file that the workers of a cluster read for themselves."""
        from projbank.cluster import ClusterRows, Opener
        from projbank.rows.cells import Place

        place = Place(self.layer, self.obsm)
        return ClusterRows(Opener(str(path.resolve()), self.dataset, place, self.normalize is not None), client)

    def made_by(self, path: Path, X: Any) -> str | None:
        """Identity of what made the vectors of a file: a codebook, or the genes that are their columns."""
        from projbank.integrity import read_note
        from projbank.rows.source import RowSource

        note = None if path.is_dir() else read_note(path)
        known = X.made_by if isinstance(X, RowSource) else None
        return known if note is None else note.get("made_by")

    def warn_of_counts(self, path: Path, X: Any) -> None:
        """Warn where cells are read as raw counts: their sizes would drown everything else."""
        from projbank.rows.cells import looks_like_counts
        from projbank.rows.source import RowSource

        if isinstance(X, RowSource) and (X.made_by or "").startswith("genes") and looks_like_counts(X):
            warnings.warn(f"{path}: holds raw counts, as it seems; --normalize log1p scales them.", stacklevel=2)

    def check(self, path: Path, X: Any, bank: Path, model: Any) -> None:
        """Raise where vectors do not fit a bank, or were made by something else than those it was trained on."""
        from projbank.integrity import check_made_by

        if X.shape[1] != model.n_features_in_:
            expected = f"but {bank} expects {model.n_features_in_}"
            raise ValueError(f"{path}: vectors have {X.shape[1]} dimensions, {expected}.")
        found, wanted = self.made_by(path, X), getattr(model, "trained_on_", None)
        if found is None or wanted is None:
            return
        if "genes" in found + wanted:
            mend = "take the same genes in the same order, and the same --normalize, or fit a bank to these"
            check_made_by(str(path), found, f"what {bank} was fitted to", wanted, mend)
            return
        mend = "describe them with the codebook of the bank's training vectors (--codebook), or fit a bank to these"
        check_made_by(str(path), found, f"the codebook of {bank}", wanted, mend)


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Name the file where an error is about its values."""
    try:
        yield
    except ValueError as error:
        if not str(error).startswith("X "):
            raise
        raise ValueError(f"{path}{str(error)[1:]}") from error


def verbosity(quiet: bool, verbose: int) -> int:
    """Progress bars on a terminal, nothing in a pipe, unless the user says otherwise."""
    return 0 if quiet else verbose or int(sys.stderr.isatty())


def load_bank(path: Path) -> Any:
    """A bank from its file; of one that describes pictures, the bank that it carries."""
    from projbank.models.file import load

    loaded = load(path)
    return getattr(loaded, "bank", loaded)


def read_settings(words: Iterable[str] | None, form: str = "NAME=VALUE") -> dict[str, Any]:
    """Parameters of --set from ``name=value``; a value is JSON where it can be read as such."""
    found: dict[str, Any] = {}
    for word in words or ():
        name, equals, text = word.partition("=")
        if not (name and equals):
            raise ValueError(f"--set must be {form}. Got {word!r} instead.")
        found[name] = read_value(text)
    return found


def read_value(text: str) -> Any:
    """JSON, or the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text
