"""What the tests of the server share: a real, tiny model to ask, and a client without a network."""

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import torch
from starlette.applications import Starlette
from support import HIDDEN, D, H
from torch import nn

from limelight.data.images.decode import read_picture
from limelight.errors import WrongInput
from limelight.nn import Encoder
from limelight.view import watch
from limelight.view.record import AttentionMap, Record, pack
from limelight.view.server.app import About
from limelight.view.server.queue import Given

PORT = 8011
TEXT = About(name="letters", kind="text", sample="abc", longest=23, examples=("abc", "cab"))
IMAGE = About(name="pixels", kind="image", sample="an image file", longest=1)
JSON = (b"content-type", b"application/json")
HOST = (b"host", b"127.0.0.1")
SIDE = 3  # of what an image is shrunk to: each pixel is a token
ATTENTION = "blocks.0.self_attention.weights"


class TinyLook:
    """A Transformer of one layer, the same in every process; an input alone is an input among others."""

    def __init__(self) -> None:
        torch.manual_seed(7)
        self.embedding, self.encoder = nn.Embedding(256, D), Encoder(1, D, H, HIDDEN).eval()

    def __call__(self, several: Sequence[Given]) -> list[Record | WrongInput]:
        return [self.look(given) for given in several]

    def look(self, given: Given) -> Record | WrongInput:
        try:
            values = self.values(given)
        except WrongInput as refusal:
            return refusal
        with torch.inference_mode(), watch(self.encoder) as seen:
            output = self.encoder(self.embedding(torch.tensor([values])))
        one = AttentionMap(name=ATTENTION, part="encoder", layer=0, heads=H, queries="input", keys="input")
        return Record(
            name="tiny",
            given=given if isinstance(given, str) else "an image",
            answer=f"{output.sum():.5f}",
            sides={"input": tuple(map(str, values))},
            maps=(one,),
            weights=pack([seen[ATTENTION][0][0]]),
        )

    def values(self, given: Given) -> list[int]:
        if isinstance(given, bytes):
            return read_picture(given, (SIDE, SIDE), 1).flatten().tolist()
        if not 0 < len(given) <= TEXT.longest:
            raise WrongInput(f"the input has {len(given)} letters; allowed: 1 to {TEXT.longest}")
        return [ord(letter) % 256 for letter in given]


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """Sends the application what uvicorn would send it."""

    def __init__(self, app: Starlette) -> None:
        self._app = app

    async def send(
        self,
        method: str,
        target: str,
        body: bytes | None = None,
        headers: Sequence[tuple[bytes, bytes]] = (HOST,),
    ) -> Answer:
        """Without a body, it is never complete."""
        messages: list[dict[str, Any]] = []
        to_send = [] if body is None else [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> dict[str, Any]:
            return to_send.pop() if to_send else await asyncio.Future()

        async def send(message: Any) -> None:
            messages.append(message)

        await self._app(scope(method, target, headers), receive, send)
        start, *rest = messages
        carried = {name.decode(): value.decode() for name, value in start["headers"]}
        assert len(carried) == len(start["headers"]), "a header is there twice"
        return Answer(start["status"], carried, b"".join(message.get("body", b"") for message in rest))

    async def get(self, target: str) -> Answer:
        return await self.send("GET", target, b"")

    async def ask(self, given: str) -> Answer:
        return await self.send("POST", "/api/look", json.dumps({"given": given}).encode(), (HOST, JSON))


def scope(method: str, target: str, headers: Sequence[tuple[bytes, bytes]]) -> dict[str, Any]:
    path, _, query = target.partition("?")
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode("utf-8", "surrogateescape"),
        "query_string": query.encode("utf-8", "surrogateescape"),
        "root_path": "",
        "headers": list(headers),
        "server": ("127.0.0.1", PORT),
        "client": ("127.0.0.1", 40_009),
    }


Talk = Callable[[Client], Coroutine[Any, Any, Any]]


@asynccontextmanager
async def started(app: Starlette) -> AsyncIterator[Client]:
    async with app.router.lifespan_context(app):
        yield Client(app)


def talk(app: Starlette, conversation: Talk) -> Any:
    async def whole() -> Any:
        async with started(app) as client:
            return await conversation(client)

    return asyncio.run(whole())


class GatedLook(TinyLook):
    """Waits at a gate, and keeps what it was given together."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.seen = threading.Event(), []

    def __call__(self, several: Sequence[Given]) -> list[Record | WrongInput]:
        self.seen.append(list(several))
        assert self.gate.wait(10)
        return super().__call__(several)


class FrailLook(TinyLook):
    """Fails on one word, and with it on all that came together."""

    def look(self, given: Given) -> Record | WrongInput:
        if given == "poison":
            raise KeyError("a\nbug")
        return super().look(given)


async def until(happened: Callable[[], object]) -> None:
    end = time.monotonic() + 5
    while not happened():
        assert time.monotonic() < end
        await asyncio.sleep(0.002)


async def until_waiting(client: Client, count: int) -> None:
    end = time.monotonic() + 10
    while (await client.get("/api/health")).json != {"status": "ok", "waiting": count}:
        assert time.monotonic() < end
        await asyncio.sleep(0.002)
