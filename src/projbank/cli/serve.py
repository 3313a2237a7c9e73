"""`projbank serve`: the page of an album."""

from __future__ import annotations

import ipaddress
import secrets
import socket
import sys
from typing import Annotated

import typer

from projbank.cli.album import Folder
from projbank.cli.bank import Jobs


def serve(
    folder: Folder,
    port: Annotated[int, typer.Option(help="Port; 0 takes any that is free.")] = 8765,
    host: Annotated[
        str, typer.Option(help="Address to listen at. Any but this machine's own is served only with a token.")
    ] = "127.0.0.1",
    no_update: Annotated[bool, typer.Option("--no-update", help="Do not look for new photos at the start.")] = False,
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
