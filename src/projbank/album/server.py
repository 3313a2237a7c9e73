"""The web page of an album: what it answers. Who may ask is decided in `projbank.album.guard`."""

from __future__ import annotations

import threading
from importlib import resources
from pathlib import PurePosixPath
from typing import Any

import anyio.to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from projbank.album.album import Album, Hit, gone
from projbank.album.duplicates import find_duplicates
from projbank.album.guard import Guard, limited_body
from projbank.album.store import AlbumError
from projbank.album.thumbs import photo_bytes, small, thumbnail
from projbank.features.media import MediaError, read_photo

MAX_UPLOAD_PIXELS = 64_000_000
MOST_RESULTS = 5000
PAGE = 200
SHOWN_AS_THEY_ARE = {
    ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".png": "image/png", ".gif": "image/gif", ".webp": "image/webp",
    ".bmp": "image/bmp",
}  # fmt: skip
"""Endings of photos that browsers show; others are sent as JPEG."""
LARGE = 2048
FOR_EVER = {"Cache-Control": "private, max-age=31536000, immutable"}
_AT_ONCE = 2
"""Pictures that are decoded at the same time: each may take a good deal of memory."""


class _Stopped(Exception):  # noqa: N818 - nothing went wrong
    """The server ends, and with it an update that is under way."""


class Site:
    """The answers of one album's page.

    Parameters
    ----------
    album : the album
    update_first : whether to bring it up to date when the server starts
    """

    def __init__(self, album: Album, *, update_first: bool = True) -> None:
        self.album = album
        self._decoding: anyio.CapacityLimiter | None = None
        self._work: dict[str, Any] = {"running": False, "stage": "", "done": 0, "total": 0, "error": ""}
        self._lock = threading.Lock()
        self._comparing = threading.Lock()
        self._duplicates: tuple[int, list[dict[str, Any]]] | None = None
        self._updating: threading.Thread | None = None
        self._stopping = False
        if update_first:
            self.start_update()

    def start_update(self) -> bool:
        """Bring the album up to date in the background; False where that is under way."""
        with self._lock:
            if self._work["running"]:
                return False
            self._work.update(running=True, stage="looking at the folder", done=0, total=0, error="")
            self._updating = threading.Thread(target=self._update, daemon=True)
            self._updating.start()
        return True

    def stop(self) -> None:
        """End an update that is under way, and wait for it; the next one goes on from there."""
        self._stopping = True
        if self._updating is not None:
            self._updating.join()
        self.album.close()

    def _update(self) -> None:
        def report(stage: str, done: int, total: int) -> None:
            if self._stopping:
                raise _Stopped
            self._work.update(stage=stage, done=done, total=total)

        try:
            self.album.update(report=report)
        except _Stopped:
            pass
        except (OSError, ValueError, ImportError, MemoryError) as error:
            self._work["error"] = str(error)
        finally:
            self._work["running"] = False

    async def page(self, request: Request) -> Response:
        """The page itself."""
        return HTMLResponse(resources.files("projbank.album").joinpath("page.html").read_text("utf-8"))

    async def status(self, request: Request) -> Response:
        """How many photos there are, what is not in the album, and how far an update is."""
        return JSONResponse(await anyio.to_thread.run_sync(self._status))

    def _status(self) -> dict[str, Any]:
        found: dict[str, Any] = {"folder": self.album.root.name or str(self.album.root), "work": dict(self._work)}
        try:
            with self.album.busy:
                store = self.album.store
                model, problems = store.model(), store.problems()
                found |= {"photos": store.count(), "state": store.changes()}
        except AlbumError:
            return found | {"photos": 0, "describer": "", "problems": [], "state": 0}
        named = [{"path": path, "reason": reason} for path, reason in problems[:PAGE]]
        describer = "" if model is None else f"{model.describer}, {model.n_bits} bits"
        return found | {"describer": describer, "problems": named, "n_problems": len(problems)}

    async def photos(self, request: Request) -> Response:
        """One page of all photos, in the order of their paths."""
        start = _number(request, "start", 0, 0, 1 << 40)

        def read() -> list[dict[str, Any]]:
            with self.album.busy:
                rows = self.album.store.page(start, PAGE)
            return [{"id": number, "path": path, "width": w, "height": h} for number, path, w, h in rows]

        try:
            return JSONResponse(await anyio.to_thread.run_sync(read))
        except AlbumError:
            return JSONResponse([])

    async def find(self, request: Request) -> Response:
        """Photos like the picture that is sent."""
        data = await limited_body(request)
        k = _number(request, "k", 200, 1, MOST_RESULTS)

        def work() -> list[dict[str, Any]]:
            read_photo(data, "the picture", 16, max_pixels=MAX_UPLOAD_PIXELS)
            return [_hit(hit) for hit in self.album.find(data, k)]

        if self._decoding is None:
            self._decoding = anyio.CapacityLimiter(_AT_ONCE)
        try:
            return JSONResponse(await anyio.to_thread.run_sync(work, limiter=self._decoding))
        except (MediaError, AlbumError) as error:
            raise HTTPException(422, str(error)) from error

    async def like(self, request: Request) -> Response:
        """Photos like one of the album."""
        content, k = request.path_params["content"], _number(request, "k", 200, 1, MOST_RESULTS)

        def work() -> list[dict[str, Any]]:
            return [_hit(hit) for hit in self.album.like(content, k, include_self=True)]

        return JSONResponse(await _found(work))

    async def duplicates(self, request: Request) -> Response:
        """Groups of duplicates; compared once for every state of the album."""

        def work() -> list[dict[str, Any]]:
            with self._comparing:
                state = self.album.codes().state
                if self._duplicates is None or self._duplicates[0] != state:
                    groups = find_duplicates(self.album)
                    self._duplicates = (state, [_group(group) for group in groups])
                return self._duplicates[1]

        try:
            return JSONResponse(await anyio.to_thread.run_sync(work))
        except AlbumError as error:
            raise HTTPException(422, str(error)) from error

    async def thumb(self, request: Request) -> Response:
        """A small picture of a photo."""
        content = request.path_params["content"]
        made = await _found(lambda: thumbnail(self.album, content))
        return Response(made, media_type="image/jpeg", headers=FOR_EVER)

    async def photo(self, request: Request) -> Response:
        """A photo as it is, or as a JPEG where browsers do not show its format."""
        content = request.path_params["content"]

        def work() -> tuple[bytes, str]:
            with self.album.busy:
                known, files = self.album.store.content(content), self.album.store.files_of(content)
            if known is None or not files:
                raise gone(content)
            data = photo_bytes(self.album, content, known.hash)
            kind = SHOWN_AS_THEY_ARE.get(PurePosixPath(files[0].path).suffix.lower())
            return (small(data, LARGE), "image/jpeg") if kind is None else (data, kind)

        data, kind = await _found(work)
        return Response(data, media_type=kind, headers=FOR_EVER)

    async def update(self, request: Request) -> Response:
        """Begin an update."""
        return JSONResponse({"started": self.start_update()})


def build_app(site: Site, *, token: str | None, hosts: frozenset[str] | None) -> Starlette:
    """Return the application.

    Parameters
    ----------
    site : what is answered
    token : a secret that must be known, or None
    hosts : names by which the server may be addressed; None allows any, for which there must be a token
    """
    number = "{content:int}"
    routes = [
        Route("/", site.page),
        Route("/api/status", site.status),
        Route("/api/photos", site.photos),
        Route("/api/find", site.find, methods=["POST"]),
        Route(f"/api/like/{number}", site.like),
        Route("/api/duplicates", site.duplicates),
        Route("/api/update", site.update, methods=["POST"]),
        Route(f"/thumbnail/{number}", site.thumb),
        Route(f"/photo/{number}", site.photo),
    ]
    guard = Middleware(Guard, token=token, hosts=hosts)
    return Starlette(routes=routes, middleware=[guard], exception_handlers={HTTPException: _error})


async def _error(request: Request, error: Exception) -> Response:
    """Errors are JSON with one line of text."""
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code)


async def _found(work: Any) -> Any:
    """Do something in a thread; what the album does not have is 404."""
    try:
        return await anyio.to_thread.run_sync(work)
    except (FileNotFoundError, OverflowError):
        raise HTTPException(404, "this photo is not in the album, or has changed since its last update") from None
    except (MediaError, AlbumError) as error:
        raise HTTPException(422, str(error)) from error


def _number(request: Request, name: str, default: int, low: int, high: int) -> int:
    text = request.query_params.get(name, str(default))
    if not (text.isascii() and text.isdigit() and len(text) < 16 and low <= int(text) <= high):
        raise HTTPException(400, f"{name} must be a whole number from {low} to {high}")
    return int(text)


def _hit(hit: Hit) -> dict[str, Any]:
    return {"id": hit.content, "path": hit.path, "score": round(hit.score, 4)}


def _group(group: Any) -> dict[str, Any]:
    photos = [{"id": number, "path": path} for number, path in zip(group.contents, group.paths, strict=True)]
    return {"kind": group.kind, "photos": photos}
