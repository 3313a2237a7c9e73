"""What commands share about files: outputs that replace nothing by mistake, and inputs that belong together."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

Force = Annotated[bool, typer.Option("--force", help="Replace a file of another kind.")]


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


def described_by(vectors: Path) -> str | None:
    """Identity of the codebook that described a file of vectors, if the file says so."""
    from projbank.npyfile import read_note

    note = read_note(vectors)
    return None if note is None else note.get("made_by")


def check_described_alike(vectors: Path, bank: Path, model: Any) -> None:
    """Raise where vectors come from another codebook than those that a bank was trained on, if both are known."""
    from projbank.integrity import check_made_by

    found, wanted = described_by(vectors), getattr(model, "trained_on_", None)
    if found is not None and wanted is not None:
        mend = "describe them with the codebook of the bank's training vectors (--codebook), or fit a bank to these"
        check_made_by(str(vectors), found, f"the codebook of {bank}", wanted, mend)
