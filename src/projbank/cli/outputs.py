"""What commands share about outputs: they replace nothing by mistake."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

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
