"""`projbank album`: make or update the album of a folder of photos."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from projbank.cli.bank import Jobs, Quiet, Verbose, verbosity

if TYPE_CHECKING:
    from projbank.album.update import Update

MOST_LISTED = 20
"""Files that are named; more are counted, unless all are asked for."""


class Describer(StrEnum):
    """Names of what describes photos."""

    auto = "auto"
    sift = "sift"
    net = "net"


Folder = Annotated[Path, typer.Argument(help="Folder of photos.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def album(
    folder: Folder,
    describer: Annotated[
        Describer,
        typer.Option(help="What photos are described by, when the album learns. auto: the net if it is installed."),
    ] = Describer.auto,
    bits: Annotated[int, typer.Option("--bits", "-b", help="Bits of a code, when the album learns.")] = 1024,
    relearn: Annotated[
        bool, typer.Option("--relearn", help="Learn codebook and bank anew; until that is whole, the old ones answer.")
    ] = False,
    jobs: Jobs = None,
    quiet: Quiet = False,
    verbose: Verbose = 0,
) -> None:
    """Make or update the album of a folder of photos, in FOLDER/.projbank; no photo is ever changed.

    A second run only looks at what is new, changed or gone. A run that was cut off goes on where it stopped. Files that
    can't be read are listed; -v lists all of them.
    """
    from projbank.album import Album

    made = Album(folder, describer=describer.value, n_bits=bits, n_jobs=jobs, verbose=verbosity(quiet, verbose))
    try:
        done = made.update(relearn=relearn)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("interrupted; the same command goes on from here") from None
    _tell(folder, done, verbose)


def _tell(folder: Path, done: Update, verbose: int) -> None:
    """Say in a few lines what was done, and what is not in the album and why."""
    from projbank.progress import plain

    codes = f", codes of {done.n_bits} bits ({done.describer})" if done.describer else ""
    print(f"{folder}: {done.photos} photos{codes}")
    counts = {"described": done.described, "moved or copied": done.copied, "gone": done.gone}
    changes = ", ".join(f"{number} {what}" for what, number in counts.items() if number)
    print(changes or "nothing has changed")
    if done.others:
        endings = ", ".join(f"{number} {plain(ending)}" for ending, number in sorted(done.others.items()))
        print(f"not photos: {endings}")
    most = len(done.problems) if verbose else MOST_LISTED
    if done.problems:
        print(f"{len(done.problems)} files are not in the album:")
    for path, reason in done.problems[:most]:
        print(f"  {plain(path)}: {plain(reason)}")
    if len(done.problems) > most:
        print(f"  and {len(done.problems) - most} more (-v lists all)")
    if done.outgrown:
        print(
            f"the album has outgrown its codes, which were learnt from {done.learnt_from} photos: "
            f"projbank album {folder} --relearn"
        )
