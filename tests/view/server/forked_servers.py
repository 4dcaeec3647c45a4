"""Run as a program: imports torch once, then forks servers, as lines of JSON on stdin ask for them.

    {"kind": "text", "log": FILE, ...}   prints the process and the address of a new server
    {"wait": PROCESS}                    prints its exit code, when it has ended

A process of its own, because a process with threads must not fork.
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

from app_client import IMAGE, TEXT, TinyLook
from PIL import Image
from starlette.types import ASGIApp

from limelight.errors import WrongInput
from limelight.view.record import Record
from limelight.view.server import app, connection
from limelight.view.server.queue import Given, Limits, Line, Place


class SlowLook(TinyLook):
    """Takes its time, and says more than it must."""

    def __init__(self, seconds: float = 0, size: int = 0) -> None:
        super().__init__()
        self.seconds, self.size = seconds, size

    def __call__(self, several: Sequence[Given]) -> list[Record | WrongInput]:
        time.sleep(self.seconds)
        return super().__call__(several)

    def look(self, given: Given) -> Record | WrongInput:
        found = super().look(given)
        if self.size and isinstance(found, Record):
            return found.model_copy(update={"truth": "x" * self.size})
        return found


class SwappingLook(SlowLook):
    """The broken variant: answers that came together are handed to each other's owners."""

    def __call__(self, several: Sequence[Given]) -> list[Record | WrongInput]:
        return super().__call__(several)[::-1]


class TrustingLook(SlowLook):
    """The broken variant: decodes whatever an image file says it is."""

    def values(self, given: Given) -> list[int]:
        Image.MAX_IMAGE_PIXELS = None
        return list(Image.open(io.BytesIO(given)).convert("L").resize((3, 3)).tobytes())


class BlockingLine(Line):
    """The broken variant: looks where all requests are answered, so that they wait for it."""

    async def ask(self, place: Place, given: Given) -> Record:
        return self._look([given])[0]


def unguarded(app: ASGIApp) -> ASGIApp:
    """The broken variant: whoever asks is answered."""
    return app


LOOKS = {"swapping": SwappingLook, "trusting": TrustingLook}


def serve_as(wanted: dict[str, Any]) -> None:
    log = os.open(wanted["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, sys.stderr.fileno())
    for name, value in wanted.get("constants", {}).items():
        setattr(connection, name, value)
    if wanted.get("broken") == "unguarded":
        app.Guard = unguarded
    if wanted.get("broken") == "blocking":
        app.Line = BlockingLine
    look = LOOKS.get(wanted.get("broken", ""), SlowLook)(wanted.get("seconds", 0), wanted.get("size", 0))
    print(os.getpid(), end=" ", flush=True)
    about = IMAGE if wanted["kind"] == "image" else TEXT
    app.serve(look, about, wanted.get("port", 0), Limits(**wanted.get("limits", {})))


for line in sys.stdin:
    wanted = json.loads(line)
    if "wait" in wanted:
        print(os.waitstatus_to_exitcode(os.waitpid(wanted["wait"], 0)[1]), flush=True)
    elif not os.fork():
        serve_as(wanted)
        break
