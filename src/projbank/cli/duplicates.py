"""`projbank duplicates`: photos of an album that are there more than once."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from projbank.cli.album import AsJson, Folder
from projbank.cli.bank import Quiet, verbosity

TITLES = {"same": "the same picture", "near": "near-duplicates", "similar": "similar"}


def duplicates(
    folder: Folder,
    similar: Annotated[
        float, typer.Option("--similar", "-s", help="Least similarity of photos that are called similar; 2: none are.")
    ] = 0.5,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Group photos that are there more than once; a * marks the one best kept.

    The same picture: the same bytes. Near-duplicates: scaled, cropped, compressed, mirrored or brightened. Similar: not
    the same, but alike. Nothing is deleted.
    """
    from projbank.album import Album
    from projbank.album.duplicates import find_duplicates
    from projbank.progress import plain

    album = Album(folder)
    groups = find_duplicates(album, similar_from=similar, verbose=verbosity(quiet, 0))
    if as_json:
        print(
            json.dumps(
                [
                    {
                        "kind": group.kind,
                        "best": str(album.root / group.best),
                        "paths": [str(album.root / path) for path in group.paths],
                    }
                    for group in groups
                ]
            )
        )
        return
    for group in groups:
        print(f"{TITLES[group.kind]}:")
        for path in group.paths:
            print(f"  {'*' if path == group.best else ' '} {plain(album.root / path)}")
    counts = [f"{sum(group.kind == kind for group in groups)} of {title}" for kind, title in TITLES.items()]
    print(f"{len(groups)} groups: {', '.join(counts)}")
