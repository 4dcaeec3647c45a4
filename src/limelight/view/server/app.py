"""The server: the live page, and an HTTP API that computes attention records. docs/serve.md describes it.

    GET  /                  the page; its scripts and styles are below /
    GET  /api/about         what the model accepts -> `About` as JSON
    GET  /api/health        -> {"status": "ok", "waiting": 0}; `waiting` is the number of queued requests
    POST /api/record        one input -> `Record` as JSON

The body of POST /api/record is {"given": "some text"} with Content-Type application/json for a text model,
and an image file with Content-Type image/* or application/octet-stream for an image model. A model that
generates text also takes the other fields of `Prompt`: {"given": "Once", "tokens": [5], "temperature": 0.8}.

    POST /api/record?changes=[{"name": "encoder.blocks.0.self_attention", "head": 1}]

The same with changed attention: a list of `Change` as JSON, encoded for a URL.

An error response has the body {"error": "one line"} and one of these status codes:

    400  the input is invalid, or this is not a valid HTTP request
    401  the token is missing or wrong
    403  the request comes from a page of another site
    404  unknown path
    405  method not allowed for this path
    408  the body did not arrive in time
    413  the body is too large
    415  wrong Content-Type
    500  the model failed; the reason is in the server's log
    503  too many requests or connections, or the server is stopping; retry after the seconds in Retry-After
    504  the model did not answer in time
"""

import asyncio
from collections.abc import Coroutine
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from limelight.config import Config
from limelight.errors import WrongInput
from limelight.view.changes import Changed, read_changes
from limelight.view.page import WEB_FOLDER
from limelight.view.prompt import Prompt
from limelight.view.record import Record
from limelight.view.server.connection import HOST, run_server
from limelight.view.server.queue import LIMITS, Limits, MakeRecords, QueueFull, RequestQueue
from limelight.view.server.security import RETRY_AFTER, TOKEN, Guard, error_response, is_local

CONTENT_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
}


class About(Config):
    """The model and its inputs, as the page needs them before the first request."""

    name: str = Field(description="name of the experiment")
    kind: Literal["text", "image"] = Field(description="kind of input")
    sample: str = Field(description="an example of a valid input")
    longest: int = Field(description="maximum length of an input, in tokens")
    generates: bool = Field(False, description="whether the text can grow token by token")
    examples: tuple[str, ...] = Field((), description="inputs that the page offers")
    first: Record | None = Field(
        None, description="record shown at the start if inputs cannot be typed; None for text models"
    )


class PredictRequest(Config):
    """The JSON body of POST /api/record for a text model that does not generate text."""

    given: str = Field(description="the input text")


def serve(
    make_records: MakeRecords,
    about: About,
    port: int,
    limits: Limits = LIMITS,
    *,
    host: str = HOST,
    token: str = "",
) -> None:
    """Serve the page until SIGTERM or SIGINT.

    The address is printed as soon as the server accepts connections. Port 0 chooses any free port. A host
    that other machines can reach requires a token, which every request must have.
    """
    check_access(host, token)
    run_server(create_app(make_records, about, limits, token), port, host, token)


def check_access(host: str, token: str) -> None:
    """Refuse an address that other machines can reach without a token, and a token that is easy to guess."""
    if token and not TOKEN.fullmatch(token):
        raise WrongInput("--token must have at least 16 letters, digits, - or _")
    if not token and not is_local(host):
        raise WrongInput(f"other machines can reach --host {host}: protect it with --token TOKEN")


def create_app(
    make_records: MakeRecords, about: About, limits: Limits = LIMITS, token: str = ""
) -> Starlette:
    """Return the ASGI application of the page and its API; with a token, every request must have it."""
    queue = RequestQueue(make_records, limits)
    handlers = Handlers(queue, about, limits)
    app = Starlette(
        routes=[
            *(Route(path, partial(_send, response)) for path, response in read_files(WEB_FOLDER).items()),
            Route("/api/about", handlers.about),
            Route("/api/health", handlers.health),
            Route("/api/record", handlers.record, methods=["POST"]),
        ],
        middleware=[Middleware(Guard, token=token)],
        exception_handlers={
            HTTPException: _http_error,
            WrongInput: _invalid_input,
            ClientDisconnect: _client_disconnected,
        },
        lifespan=lambda _: queue.running(),
    )
    app.router.redirect_slashes = False  # a redirect would repeat the Host header of the request
    return app


def read_files(folder: Path) -> dict[str, Response]:
    """Return a response for the URL path of each file in `folder`.

    Only these paths are served, so that no path can lead to a file outside `folder`.
    """
    files = {
        f"/{path.relative_to(folder).as_posix()}": Response(
            path.read_bytes(), media_type=CONTENT_TYPES[path.suffix]
        )
        for path in sorted(folder.rglob("*"))
        if path.suffix in CONTENT_TYPES
    }
    return files | {"/": files["/index.html"]}


class Handlers:
    """The handlers of the API routes."""

    def __init__(self, queue: RequestQueue, about: About, limits: Limits) -> None:
        self._queue, self._about, self._limits = queue, about, limits

    async def about(self, _: Request) -> Response:
        """GET /api/about"""
        return _as_json(self._about)

    async def health(self, _: Request) -> Response:
        """GET /api/health"""
        return JSONResponse({"status": "ok", "waiting": self._queue.waiting})

    async def record(self, request: Request) -> Response:
        """POST /api/record"""
        self._check_content_type(request.headers.get("content-type", ""))
        try:
            with self._queue.reserve() as slot:
                changes = read_changes(request.query_params.get("changes", "[]"))
                given = await self._read(request)
                slot.input = Changed(given, changes) if changes else given
                return _as_json(await _unless_disconnected(request, self._queue.compute(slot)))
        except QueueFull:
            raise HTTPException(503, "too many requests are waiting; try again later", RETRY_AFTER) from None
        except TimeoutError:
            seconds = self._limits.seconds
            raise HTTPException(504, f"the model did not answer within {seconds:g} seconds") from None

    def _check_content_type(self, header: str) -> None:
        kind = header.partition(";")[0].strip().lower()
        if self._about.kind == "text" and kind != "application/json":
            raise HTTPException(415, 'send JSON as application/json: {"given": "..."}')
        is_image = kind.startswith("image/") or kind == "application/octet-stream"
        if self._about.kind == "image" and not is_image:
            raise HTTPException(415, "send an image file as image/* or application/octet-stream")

    async def _read(self, request: Request) -> str | bytes | Prompt:
        if self._about.kind == "image":
            return await self._read_body(request, self._limits.image_bytes)
        body = await self._read_body(request, self._limits.text_bytes)
        try:
            if self._about.generates:
                return Prompt.model_validate_json(body)
            return PredictRequest.model_validate_json(body).given
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False)[0]
            place = ".".join(map(str, first["loc"])) or "the body"
            raise WrongInput(f"{place}: {first['msg']}") from None

    async def _read_body(self, request: Request, max_bytes: int) -> bytes:
        body = bytearray()
        try:
            async with asyncio.timeout(self._limits.body_seconds), aclosing(request.stream()) as parts:
                async for part in parts:
                    body += part
                    if len(body) > max_bytes:
                        raise HTTPException(413, f"the body has more than {max_bytes:,} bytes")
        except TimeoutError:
            seconds = self._limits.body_seconds
            raise HTTPException(408, f"the body did not arrive within {seconds:g} seconds") from None
        return bytes(body)


async def _unless_disconnected(request: Request, work: Coroutine[Any, Any, Record]) -> Record:
    """Cancel the work if the client disconnects: the page may send a new request after every keystroke."""
    working = asyncio.create_task(work)
    disconnecting = asyncio.create_task(_wait_for_disconnect(request))
    try:
        await asyncio.wait((working, disconnecting), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:
        working.cancel()
        disconnecting.cancel()


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _send(response: Response, _: Request) -> Response:
    return response


def _as_json(value: Config) -> Response:
    return Response(value.model_dump_json(), media_type="application/json")


async def _http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return error_response(error.status_code, error.detail, error.headers)


async def _invalid_input(_: Request, error: Exception) -> Response:
    return error_response(400, str(error))


async def _client_disconnected(_: Request, __: Exception) -> Response:
    return error_response(400, "the client closed the connection")
