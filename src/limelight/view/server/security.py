"""Which requests are let in, and what every answer carries."""

import asyncio
import json
import sys
from collections.abc import Mapping

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

NAMES = ("127.0.0.1", "localhost", "[::1]")
LONGEST_LINE = 300  # of what is said about an error: what was given may be part of it
RETRY = {"retry-after": "1"}
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
ENCODED = [(name.encode(), value.encode()) for name, value in HEADERS.items()]


def error(status: int, reason: str, headers: Mapping[str, str] | None = None) -> Response:
    """One line, as JSON in ASCII: no reason can fail to be encoded."""
    line = " ".join(reason.split())[:LONGEST_LINE]
    return Response(json.dumps({"error": line}), status, headers, "application/json")


def stranger(headers: Headers, port: int) -> str:
    """Why a request is not from a page of this server, nor from a program that asks for it; "" if it is.

    A page elsewhere can have its own name point to 127.0.0.1, but not send another Host than that name; it
    can send what it likes to our address, but not without an Origin, or Sec-Fetch-Site, that tells.
    """
    hosts = {host for name in NAMES for host in (name, f"{name}:{port}")}
    if [host.lower() in hosts for host in headers.getlist("host")] != [True]:
        return f"the Host is not one of {', '.join(NAMES)}, with port {port} or none"
    # Without a port, an origin is what listens on port 80.
    origins = {f"http://{name}" + (f":{port}" if port != 80 else "") for name in NAMES}
    if not all(origin.lower() in origins for origin in headers.getlist("origin")):
        return "the Origin is not this server"
    if "cross-site" in map(str.lower, headers.getlist("sec-fetch-site")):
        return "the request comes from another site; to open the page, enter its address"
    return ""


class Guard:
    """Around the whole application, so that errors get the headers too, and no error gets out."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *ENCODED]
            await send(message)

        if reason := stranger(Headers(scope=scope), scope["server"][1]):
            await error(403, reason)(scope, receive, send_guarded)
            return
        try:
            await self._app(scope, receive, send_guarded)
        except asyncio.CancelledError:  # the server ends, and has waited as long as it may
            await error(503, "the server has been stopped", RETRY)(scope, receive, send_guarded)
        except Exception as failure:
            said = " ".join(f"{type(failure).__name__}: {failure}".split())[:LONGEST_LINE]
            print(f"limelight: {scope['method']} {scope['path']!r}: {said}", file=sys.stderr, flush=True)
            await error(500, "this request failed; the server's log says why")(scope, receive, send_guarded)
