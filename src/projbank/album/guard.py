"""Who may ask the page of an album: nobody from elsewhere, and no other page in the same browser."""

from __future__ import annotations

import secrets
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_UPLOAD_BYTES = 32 << 20
COOKIE = "projbank_token"
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' blob: data:; style-src 'self' 'unsafe-inline'; "
    "script-src 'self' 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""Nothing is loaded from elsewhere, and no other page may show or read this one."""


class Guard:
    """Refuses requests by another name (DNS rebinding), from another page, or without the token.

    Parameters
    ----------
    app : what answers the others
    token : a secret, taken from the query (``/?token=...``, which sets a cookie) or the cookie; None: none is needed
    hosts : names in the Host header that are allowed; None: any
    """

    def __init__(self, app: ASGIApp, token: str | None, hosts: frozenset[str] | None) -> None:
        self._app = app
        self._token = token
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        app = self._refusal(scope) or self._app
        await app(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope) -> ASGIApp | None:
        """What answers instead of the page, if anything does."""
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if self._hosts is not None and host not in self._hosts:
            return JSONResponse({"error": "this name is not served here"}, 421)
        origin = headers.get("origin")
        if origin is not None and origin != f"http://{host}" and origin != f"https://{host}":
            return JSONResponse({"error": "requests from other pages are refused"}, 403)
        if headers.get("sec-fetch-site") in ("cross-site", "same-site") and scope["path"] != "/":
            return JSONResponse({"error": "requests from other pages are refused"}, 403)
        if self._token is None or self._knows(_cookie(headers)):
            return None
        given = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("token", [""])[0]
        if not self._knows(given):
            return JSONResponse({"error": "the address must hold the token that the server printed"}, 401)
        answer = RedirectResponse("/", 303)
        answer.set_cookie(COOKIE, given, httponly=True, samesite="strict")
        return answer

    def _knows(self, given: str) -> bool:
        return self._token is not None and secrets.compare_digest(given.encode(), self._token.encode())


def _cookie(headers: Headers) -> str:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return "" if found is None else found.value


async def limited_body(request: Request) -> bytes:
    """Body of a request, not longer than `MAX_UPLOAD_BYTES`; what is longer is not read to its end."""
    if int(request.headers.get("content-length") or 0) > MAX_UPLOAD_BYTES:
        raise HTTPException(413, f"a picture may have {MAX_UPLOAD_BYTES >> 20} MB at most")
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > MAX_UPLOAD_BYTES:
            raise HTTPException(413, f"a picture may have {MAX_UPLOAD_BYTES >> 20} MB at most")
        parts.append(part)
    return b"".join(parts)
