"""Shared by the tests of the server: a real, tiny model, and a client that needs no network."""

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

from limelight.data.images.decode import read_image
from limelight.errors import WrongInput
from limelight.nn import BlockConfig, Encoder
from limelight.view import watch
from limelight.view.changes import Changed
from limelight.view.prompt import Prompt
from limelight.view.record import AttentionMap, Record, pack
from limelight.view.server.app import About
from limelight.view.server.queue import Input

PORT = 8011
TEXT = About(name="letters", kind="text", sample="abc", longest=23, examples=("abc", "cab"))
GROWING = TEXT.model_copy(update={"generates": True})
IMAGE = About(name="pixels", kind="image", sample="an image file", longest=1)
JSON = (b"content-type", b"application/json")
HOST = (b"host", b"127.0.0.1")
IMAGE_SIZE = 3  # images are resized to 3 × 3 pixels; each pixel is a token
ATTENTION = "blocks.0.self_attention.weights"


class TinyModel:
    """A Transformer with one layer and the same weights in every process; each input is computed alone."""

    def __init__(self) -> None:
        torch.manual_seed(7)
        self.embedding, self.encoder = nn.Embedding(256, D), Encoder(1, BlockConfig(D, H, HIDDEN)).eval()

    def __call__(self, inputs: Sequence[Input]) -> list[Record | WrongInput]:
        return [self.record(given) for given in inputs]

    def record(self, given: Input) -> Record | WrongInput:
        try:
            values = self.values(given)
        except WrongInput as error:
            return error
        with torch.inference_mode(), watch(self.encoder) as captured:
            output = self.encoder(self.embedding(torch.tensor([values])))
        attention = AttentionMap(
            name=ATTENTION, part="encoder", layer=0, heads=H, queries="input", keys="input"
        )
        return Record(
            name="tiny",
            given="an image" if isinstance(given, bytes) else str(given),
            answer=f"{output.sum():.5f}",
            sides={"input": tuple(map(str, values))},
            maps=(attention,),
            weights=pack([captured[ATTENTION][0][0]]),
        )

    def values(self, given: Input) -> list[int]:
        if isinstance(given, bytes):
            return read_image(given, (IMAGE_SIZE, IMAGE_SIZE), 1).flatten().tolist()
        if isinstance(given, Changed):  # a model with changed attention sees an input of its own
            return [*self.values(given.given), len(given.changes)]
        text, tokens = (given.given, given.tokens) if isinstance(given, Prompt) else (given, ())
        if not 0 < len(text) <= TEXT.longest:
            raise WrongInput(f"the input has {len(text)} letters; allowed: 1 to {TEXT.longest}")
        return [*(ord(letter) % 256 for letter in text), *tokens]


@dataclass(frozen=True)
class HttpResponse:
    """The response to one request."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """Calls the application as uvicorn would call it."""

    def __init__(self, app: Starlette) -> None:
        self._app = app

    async def send(
        self,
        method: str,
        target: str,
        body: bytes | None = None,
        headers: Sequence[tuple[bytes, bytes]] = (HOST,),
    ) -> HttpResponse:
        """Send a request; if `body` is None, its body never arrives."""
        messages: list[dict[str, Any]] = []
        to_send = [] if body is None else [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> dict[str, Any]:
            return to_send.pop() if to_send else await asyncio.Future()

        async def send(message: Any) -> None:
            messages.append(message)

        await self._app(scope(method, target, headers), receive, send)
        start, *rest = messages
        received = {name.decode(): value.decode() for name, value in start["headers"]}
        assert len(received) == len(start["headers"]), "duplicate header"
        return HttpResponse(start["status"], received, b"".join(message.get("body", b"") for message in rest))

    async def get(self, target: str) -> HttpResponse:
        return await self.send("GET", target, b"")

    async def predict(self, given: str) -> HttpResponse:
        return await self.send("POST", "/api/record", json.dumps({"given": given}).encode(), (HOST, JSON))


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


Scenario = Callable[[Client], Coroutine[Any, Any, Any]]


@asynccontextmanager
async def started(app: Starlette) -> AsyncIterator[Client]:
    """Run the startup and shutdown of the application around a client."""
    async with app.router.lifespan_context(app):
        yield Client(app)


def run_client(app: Starlette, scenario: Scenario) -> Any:
    """Run the scenario with a client of the application, and return its result."""

    async def run() -> Any:
        async with started(app) as client:
            return await scenario(client)

    return asyncio.run(run())


class GatedModel(TinyModel):
    """Waits until its gate is opened, and keeps its batches."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.batches = threading.Event(), list[list[Input]]()

    def __call__(self, inputs: Sequence[Input]) -> list[Record | WrongInput]:
        self.batches.append(list(inputs))
        assert self.gate.wait(10)
        return super().__call__(inputs)


class FailingModel(TinyModel):
    """Fails on the input "poison", and so on the whole batch that contains it."""

    def record(self, given: Input) -> Record | WrongInput:
        if given == "poison":
            raise KeyError("a\nbug")
        return super().record(given)


async def wait_until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < end
        await asyncio.sleep(0.002)


async def wait_for_queue(client: Client, count: int) -> None:
    end = time.monotonic() + 10
    while (await client.get("/api/health")).json != {"status": "ok", "waiting": count}:
        assert time.monotonic() < end
        await asyncio.sleep(0.002)
