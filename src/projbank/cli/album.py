"""The album's commands: `projbank album`, `find`, `duplicates` and `serve`."""

from __future__ import annotations

import ipaddress
import json
import secrets
import socket
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from projbank.cli.options import AsJson, Jobs, Quiet, Verbose, verbosity

if TYPE_CHECKING:
    from projbank.album.update import Update

MOST_LISTED = 20
"""Files that are named; more are counted, unless all are asked for."""

TITLES = {"same": "the same picture", "near": "near-duplicates", "similar": "similar"}


Describer = StrEnum("Describer", ["auto", "sift", "net"])


Folder = Annotated[Path, Argument(help="Folder of photos.")]


def album(
    folder: Folder,
    describer: Annotated[
        Describer, Option(help="What photos are described by, when the album learns. auto: the net if it is installed.")
    ] = Describer.auto,
    bits: Annotated[int, Option("--bits", "-b", help="Bits of a code, when the album learns.")] = 1024,
    relearn: Annotated[
        bool, Option("--relearn", help="Learn codebook and bank anew; until that is whole, the old ones answer.")
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


def find(
    folder: Folder,
    pictures: Annotated[list[Path], Argument(help="Picture; of several, what is like all of them is found.")],
    k: Annotated[int, Option("-k", help="Number of photos.")] = 12,
    min_similarity: Annotated[
        float, Option("--min-similarity", "-s", help="Leave out photos of a lower score; 1 is the same.")
    ] = -1.0,
    picture: Annotated[
        Path | None, Option("--picture", "-p", help="Draw what was found into this file (.png or .jpg).")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Find the photos of an album that are like a picture: a score and a path a line, the best first."""
    from projbank.album import Album
    from projbank.album.thumbs import check_sheet, write_sheet
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


def duplicates(
    folder: Folder,
    similar: Annotated[
        float, Option("--similar", "-s", help="Least similarity of photos that are called similar; 2: none are.")
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


def serve(
    folder: Folder,
    port: Annotated[int, Option(help="Port; 0 takes any that is free.")] = 8765,
    host: Annotated[
        str, Option(help="Address to listen at. Any but this machine's own is served only with a token.")
    ] = "127.0.0.1",
    no_update: Annotated[bool, Option("--no-update", help="Do not look for new photos at the start.")] = False,
    jobs: Jobs = None,
) -> None:
    """Open a page at 127.0.0.1: drop or click a picture, and see what is like it. Ctrl-C ends it."""
    from projbank.album import Album
    from projbank.extras import install

    try:
        import uvicorn

        from projbank.album.server import Site, build_app
    except ImportError as error:
        raise ImportError(f"the page needs more packages ({error.name}): {install('serve')}.") from error

    if not 0 <= port <= 65_535:
        raise ValueError(f"--port must be in the range [0, 65535]. Got {port} instead.")
    own = _is_own(host)
    album = Album(folder, n_jobs=jobs)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
            listener.listen()  # whoever reads the address below may connect at once
        except OSError as error:
            raise OSError(f"cannot listen at {host}, port {port}: {error.strerror or error}") from error
        port = listener.getsockname()[1]
        token = None if own else secrets.token_urlsafe(24)
        names = ("127.0.0.1", "localhost", "[::1]")
        hosts = frozenset(f"{name}:{port}" for name in names) if own else None
        site = Site(album, update_first=not no_update)
        app = build_app(site, token=token, hosts=hosts)
        shown = f"[{host}]" if ":" in host else host
        print(f"http://{shown}:{port}/" + (f"?token={token}" if token else ""), flush=True)
        if token:
            print("whoever knows this address sees all photos of the album", file=sys.stderr)
        try:
            uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=2)).run([listener])
        finally:
            site.stop()


def _is_own(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        raise ValueError(f"--host must be an IP address or localhost. Got {host!r} instead.") from None
