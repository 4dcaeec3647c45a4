"""Which requests are allowed, and the headers of every response."""

import asyncio
import hmac
import json
import re
import sys
from collections.abc import Mapping

from starlette.datastructures import Headers, QueryParams
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HOST_NAMES = ("127.0.0.1", "localhost", "[::1]")
MAX_ERROR_LENGTH = 300  # characters; an error message may quote the input
RETRY_AFTER = {"retry-after": "1"}
COOKIE = "limelight-token"
NEEDS_TOKEN = "open the address with ?token=TOKEN, or send the header Authorization: Bearer TOKEN"
TOKEN = re.compile(r"[A-Za-z0-9_-]{16,}")  # characters that need no escapes in an address or a cookie
RESPONSE_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
ENCODED_HEADERS = [(name.encode(), value.encode()) for name, value in RESPONSE_HEADERS.items()]


def error_response(status: int, reason: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return {"error": reason} as JSON in ASCII; the reason becomes one line of limited length."""
    line = " ".join(reason.split())[:MAX_ERROR_LENGTH]
    return Response(json.dumps({"error": line}), status, headers, "application/json")


def is_local(host: str) -> bool:
    """Whether only programs of this machine can reach a server that listens on this address."""
    return host in ("localhost", "::1") or host.startswith("127.")


def refusal_reason(headers: Headers, port: int, any_host: bool = False) -> str:
    """Return why a request is refused, or "" if it comes from our own page or from a program.

    Two attacks are stopped. DNS rebinding: a foreign site can let its own name point to 127.0.0.1, but then
    the browser sends that name as Host. Cross-site requests: a foreign page can send requests to our address,
    but the browser marks them with Origin or Sec-Fetch-Site. With `any_host`, a server that other machines
    can reach under any name, the token prevents the first attack.
    """
    if any_host:
        (host,) = headers.getlist("host")[:1] or ("",)
        if not all(origin.lower() == f"http://{host.lower()}" for origin in headers.getlist("origin")):
            return "the Origin header is not the address of this server"
        return _cross_site(headers)
    hosts = {host for name in HOST_NAMES for host in (name, f"{name}:{port}")}
    if [host.lower() in hosts for host in headers.getlist("host")] != [True]:
        return f"the Host header is not one of {', '.join(HOST_NAMES)}, with port {port} or without a port"
    # An origin without a port means port 80.
    origins = {f"http://{name}" + (f":{port}" if port != 80 else "") for name in HOST_NAMES}
    if not all(origin.lower() in origins for origin in headers.getlist("origin")):
        return "the Origin header is not the address of this server"
    return _cross_site(headers)


def _cross_site(headers: Headers) -> str:
    if "cross-site" in map(str.lower, headers.getlist("sec-fetch-site")):
        return "the request comes from another site; to open the page, enter its address"
    return ""


def given_token(scope: Scope) -> str:
    """The token of a request: in the header Authorization, in the cookie of the page, or in its address."""
    headers = Headers(scope=scope)
    kind, _, token = headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer":
        return token.strip()
    for cookie in headers.get("cookie", "").split(";"):
        name, _, value = cookie.strip().partition("=")
        if name == COOKIE:
            return value
    return QueryParams(scope["query_string"]).get("token", "")


class Guard:
    """ASGI middleware around the whole application: refuses foreign requests, adds the headers to every
    response (errors too), and turns exceptions into error responses."""

    def __init__(self, app: ASGIApp, token: str = "") -> None:
        self._app, self._token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection as ASGI defines it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        allowed = self._token and hmac.compare_digest(given_token(scope).encode(), self._token.encode())

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                cookie = f"{COOKIE}={self._token}; HttpOnly; SameSite=Strict; Path=/"
                own = [(b"set-cookie", cookie.encode())] if allowed else []
                message["headers"] = [*message["headers"], *ENCODED_HEADERS, *own]
            await send(message)

        if reason := refusal_reason(Headers(scope=scope), scope["server"][1], bool(self._token)):
            await error_response(403, reason)(scope, receive, send_with_headers)
            return
        if self._token and not allowed:
            response = error_response(401, NEEDS_TOKEN, {"www-authenticate": "Bearer"})
            await response(scope, receive, send_with_headers)
            return
        try:
            await self._app(scope, receive, send_with_headers)
        except asyncio.CancelledError:  # the time for a graceful shutdown is over
            response = error_response(503, "the server has been stopped", RETRY_AFTER)
            await response(scope, receive, send_with_headers)
        except Exception as error:
            text = " ".join(f"{type(error).__name__}: {error}".split())[:MAX_ERROR_LENGTH]
            print(f"limelight: {scope['method']} {scope['path']!r}: {text}", file=sys.stderr, flush=True)
            response = error_response(500, "the request failed; the reason is in the server's log")
            await response(scope, receive, send_with_headers)
