"""`projbank find`: photos of an album that are like a picture."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from projbank.cli.album import AsJson, Folder


def find(
    folder: Folder,
    pictures: Annotated[list[Path], typer.Argument(help="Picture; of several, what is like all of them is found.")],
    k: Annotated[int, typer.Option("-k", help="Number of photos.")] = 12,
    min_similarity: Annotated[
        float, typer.Option("--min-similarity", "-s", help="Leave out photos of a lower score; 1 is the same.")
    ] = -1.0,
    picture: Annotated[
        Path | None, typer.Option("--picture", "-p", help="Draw what was found into this file (.png or .jpg).")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Find the photos of an album that are like a picture: a score and a path a line, the best first."""
    from projbank.album import Album
    from projbank.album.sheet import check_sheet, write_sheet
    from projbank.progress import plain

    album = Album(folder)
    if picture is not None:
        check_sheet(picture, album, pictures)
    hits = album.find(list(pictures), k, min_similarity=min_similarity)
    if as_json:
        print(json.dumps([{"path": str(album.root / hit.path), "score": round(hit.score, 4)} for hit in hits]))
    else:
        for hit in hits:
            print(f"{hit.score:7.4f}  {plain(album.root / hit.path)}")
    if picture is not None:
        write_sheet(picture, album, hits)
