"""The local server: the page, and a model that looks at what the page sends. 127.0.0.1 only.

    GET  /api/about     what can be asked: `About`
    GET  /api/health    {"status": "ok", "waiting": 0}
    POST /api/look      {"given": "some text"} as application/json, or an image file as image/* -> `Record`

Whatever is not answered so gets {"error": "one line"}. 400: the input is wrong. 403: a page elsewhere asks.
404, 405: there is no such thing. 408: the body came too slowly. 413: it is too large. 415: it is of another
type. 503: too many are waiting, Retry-After says when to try again. 504: the answer took too long.
"""

import asyncio
from collections.abc import Coroutine
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from limelight.config import Config
from limelight.errors import WrongInput
from limelight.view.page import WEB
from limelight.view.record import Record
from limelight.view.server.connection import run
from limelight.view.server.queue import LIMITS, Full, Given, Limits, Line, Look
from limelight.view.server.security import RETRY, Guard, error

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
}


class About(Config):
    """What a page needs to know before it asks."""

    name: str  # of the experiment
    kind: Literal["text", "image"]  # of what is given
    sample: str  # what an input looks like
    longest: int  # input that the model takes, in its tokens
    examples: tuple[str, ...] = ()
    first: Record | None = None  # to begin with, where nothing can be typed


class Asked(Config):
    given: str


def serve(look: Look, about: About, port: int, limits: Limits = LIMITS) -> None:
    """Until SIGTERM or SIGINT; the address is printed as soon as it can be asked. Port 0 is any free one."""
    run(application(look, about, limits), port)


def application(look: Look, about: About, limits: Limits = LIMITS) -> Starlette:
    line = Line(look, limits)
    desk = Desk(line, about, limits)
    app = Starlette(
        routes=[
            *(Route(path, partial(_send, file)) for path, file in read_files(WEB).items()),
            Route("/api/about", desk.about),
            Route("/api/health", desk.health),
            Route("/api/look", desk.look, methods=["POST"]),
        ],
        middleware=[Middleware(Guard)],
        exception_handlers={
            HTTPException: _refuse,
            WrongInput: _refuse_input,
            ClientDisconnect: _answer_nobody,
        },
        lifespan=lambda _: line.open(),
    )
    app.router.redirect_slashes = False  # a redirect would repeat what the request says of its Host
    return app


def read_files(folder: Path) -> dict[str, Response]:
    """The answer to each path; what is not in it cannot be asked for, whatever a path looks like."""
    files = {
        f"/{path.relative_to(folder).as_posix()}": Response(path.read_bytes(), media_type=TYPES[path.suffix])
        for path in sorted(folder.rglob("*"))
        if path.suffix in TYPES
    }
    return files | {"/": files["/index.html"]}


class Desk:
    """Where requests are read and answered."""

    def __init__(self, line: Line, about: About, limits: Limits) -> None:
        self._line, self._about, self._limits = line, about, limits

    async def about(self, _: Request) -> Response:
        return _as_json(self._about)

    async def health(self, _: Request) -> Response:
        return JSONResponse({"status": "ok", "waiting": self._line.waiting})

    async def look(self, request: Request) -> Response:
        self._check_type(request.headers.get("content-type", ""))
        try:
            with self._line.place() as place:
                given = await self._read(request)
                return _as_json(await _while_there(request, self._line.ask(place, given)))
        except Full:
            raise HTTPException(503, "too many requests are waiting; try again", RETRY) from None
        except TimeoutError:
            seconds = self._limits.seconds
            raise HTTPException(504, f"there was no answer within {seconds:g} seconds") from None

    def _check_type(self, header: str) -> None:
        kind = header.partition(";")[0].strip().lower()
        if self._about.kind == "text" and kind != "application/json":
            raise HTTPException(415, 'send JSON, as application/json: {"given": "..."}')
        is_image = kind.startswith("image/") or kind == "application/octet-stream"
        if self._about.kind == "image" and not is_image:
            raise HTTPException(415, "send an image file, as image/* or application/octet-stream")

    async def _read(self, request: Request) -> Given:
        if self._about.kind == "image":
            return await self._read_body(request, self._limits.image_bytes)
        body = await self._read_body(request, self._limits.text_bytes)
        try:
            return Asked.model_validate_json(body).given
        except ValidationError as refusal:
            first = refusal.errors(include_input=False, include_url=False)[0]
            place = ".".join(map(str, first["loc"])) or "the body"
            raise WrongInput(f"{place}: {first['msg']}") from None

    async def _read_body(self, request: Request, most: int) -> bytes:
        body = bytearray()
        try:
            async with asyncio.timeout(self._limits.body_seconds), aclosing(request.stream()) as parts:
                async for part in parts:
                    body += part
                    if len(body) > most:
                        raise HTTPException(413, f"the body has more than {most:,} bytes")
        except TimeoutError:
            seconds = self._limits.body_seconds
            raise HTTPException(408, f"the body did not arrive within {seconds:g} seconds") from None
        return bytes(body)


async def _while_there(request: Request, work: Coroutine[Any, Any, Record]) -> Record:
    """The result, unless whoever asked goes first: a page may ask anew with every key that is pressed."""
    working, leaving = asyncio.create_task(work), asyncio.create_task(_leave(request))
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:
        working.cancel()
        leaving.cancel()


async def _leave(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _send(file: Response, _: Request) -> Response:
    return file


def _as_json(value: Config) -> Response:
    return Response(value.model_dump_json(), media_type="application/json")


async def _refuse(_: Request, refusal: Exception) -> Response:
    assert isinstance(refusal, HTTPException)
    return error(refusal.status_code, refusal.detail, refusal.headers)


async def _refuse_input(_: Request, refusal: Exception) -> Response:
    return error(400, str(refusal))


async def _answer_nobody(_: Request, __: Exception) -> Response:
    return error(400, "whoever asked has gone")
