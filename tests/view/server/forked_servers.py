"""A program that imports torch once and then forks servers. Its commands are lines of JSON on stdin:

    {"kind": "text", "log": FILE, ...}   starts a server; prints its process id and its address
    {"wait": PROCESS}                    waits for the end of a server; prints its exit code

It is a separate process because a process with threads must not fork.
"""

import io
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(0, str(Path(__file__).parent))

from app_client import IMAGE, TEXT, TinyModel
from PIL import Image
from starlette.types import ASGIApp

from limelight.errors import WrongInput
from limelight.view.record import Record
from limelight.view.server import app, connection
from limelight.view.server.queue import Input, Limits, RequestQueue, Slot


class SlowModel(TinyModel):
    """Sleeps for `seconds` per batch, and adds `size` characters to each record."""

    def __init__(self, seconds: float = 0, size: int = 0) -> None:
        super().__init__()
        self.seconds, self.size = seconds, size

    def __call__(self, inputs: Sequence[Input]) -> list[Record | WrongInput]:
        time.sleep(self.seconds)
        return super().__call__(inputs)

    def record(self, given: Input) -> Record | WrongInput:
        result = super().record(given)
        if self.size and isinstance(result, Record):
            return result.model_copy(update={"truth": "x" * self.size})
        return result


class SwappingModel(SlowModel):
    """A broken variant: returns the results of a batch in the wrong order."""

    def __call__(self, inputs: Sequence[Input]) -> list[Record | WrongInput]:
        return super().__call__(inputs)[::-1]


class UncheckedModel(SlowModel):
    """A broken variant: decodes images of any size."""

    def values(self, given: Any) -> list[int]:
        Image.MAX_IMAGE_PIXELS = None
        return list(Image.open(io.BytesIO(given)).convert("L").resize((3, 3)).tobytes())


class BlockingQueue(RequestQueue):
    """A broken variant: computes in the event loop, so that all other requests have to wait."""

    async def compute(self, slot: Slot) -> Record:
        (record,) = self._make_records([slot.input])
        if isinstance(record, WrongInput):
            raise record
        return record


def unguarded(app: ASGIApp, token: str) -> ASGIApp:
    """A broken variant: accepts every request."""
    return app


BROKEN_MODELS = {"swapping": SwappingModel, "unchecked": UncheckedModel}


def serve(options: dict[str, Any]) -> None:
    log = os.open(options["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, sys.stderr.fileno())
    for name, value in options.get("constants", {}).items():
        setattr(connection, name, value)
    if options.get("broken") == "unguarded":
        app.Guard = unguarded  # type: ignore[attr-defined,assignment]
    if options.get("broken") == "blocking":
        app.RequestQueue = BlockingQueue  # type: ignore[attr-defined]
    model_class = BROKEN_MODELS.get(options.get("broken", ""), SlowModel)
    model = model_class(options.get("seconds", 0), options.get("size", 0))
    print(os.getpid(), end=" ", flush=True)
    about = IMAGE if options["kind"] == "image" else TEXT
    app.serve(model, about, options.get("port", 0), Limits(**options.get("limits", {})))


for line in sys.stdin:
    command = json.loads(line)
    if "wait" in command:
        print(os.waitstatus_to_exitcode(os.waitpid(command["wait"], 0)[1]), flush=True)
    elif not os.fork():
        serve(command)
        break
