"""ASGI middleware of the explorer that refuses requests of other origins and adds security headers to responses.

Without this middleware, a page of another site could open a WebSocket to a server on this machine, or show the explorer
in a frame and catch clicks. Browsers send the header `Origin` when they open a WebSocket. A request is refused if its
origin is not the host in its header `Host`. The content security policy restricts scripts, connections and pictures to
this server, and forbids frames. Inline scripts and `eval` are allowed, because NiceGUI needs them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_POLICY = {
    "default-src": "'self'",
    "script-src": "'self' 'unsafe-inline' 'unsafe-eval'",
    "style-src": "'self' 'unsafe-inline'",
    "img-src": "'self' data: blob:",
    "font-src": "'self' data:",
    "object-src": "'none'",
    "base-uri": "'none'",
    "form-action": "'none'",
    "frame-ancestors": "'none'",
}
HEADERS = {
    "Content-Security-Policy": "; ".join(f"{name} {sources}" for name, sources in _POLICY.items()),
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


class OwnOriginMiddleware:
    """Middleware that refuses requests and WebSockets of another origin with 403, and adds `HEADERS` to responses."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        from starlette.datastructures import Headers, MutableHeaders
        from starlette.responses import PlainTextResponse

        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        asked = Headers(scope=scope)
        if "origin" in asked and not is_own(asked["origin"], asked.get("host", "")):
            if scope["type"] == "websocket":  # the server responds with 403 if a WebSocket is closed without accepting
                await send({"type": "websocket.close", "code": 1008})
            else:
                await PlainTextResponse("requests of another origin are refused", 403)(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        await self._app(scope, receive, with_headers)


def is_own(origin: str, host: str) -> bool:
    """Return whether the header `Origin` of a browser names the same host as the header `Host`."""
    try:
        found = urlsplit(origin)
    except ValueError:
        return False
    return found.scheme in ("http", "https") and found.netloc != "" and found.netloc.lower() == host.lower()
