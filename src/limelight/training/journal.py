"""metrics.jsonl: one line per evaluation, and nothing in it but what the run computed."""

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ConfigDict

from limelight.config import Config
from limelight.errors import WrongInput
from limelight.training import files


class Kept(Config):
    """The part of the journal that belongs to a checkpoint: its bytes, and their SHA-256 ("" in old runs)."""

    size: int
    sha256: str = ""


NOTHING_KEPT = Kept(size=0)


class Line(Config):
    """What one evaluation found."""

    model_config = ConfigDict(allow_inf_nan=True)  # a loss may be infinite

    step: int
    epoch: float
    train: dict[str, float]
    validation: dict[str, float]


class Journal:
    """Appends lines. A checkpoint notes how long the file was, and resuming cuts it back to that."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, line: dict[str, Any]) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")

    def keep(self) -> Kept:
        """What is on the disk now."""
        with self.path.open("a+b") as file:
            files.perform(os.fsync, file.fileno())
            file.seek(0)
            content = file.read()
        return Kept(size=len(content), sha256=hashlib.sha256(content).hexdigest())

    def cut(self, kept: Kept) -> None:
        """Remove what came after a checkpoint; what came before must be as it was written."""
        with self.path.open("a+b") as file:
            file.seek(0)
            content = file.read(kept.size)
            if len(content) < kept.size:
                raise WrongInput(
                    f"{self.path} is shorter than when its checkpoint was saved; put it back first"
                )
            if kept.sha256 and hashlib.sha256(content).hexdigest() != kept.sha256:
                raise WrongInput(
                    f"{self.path} is not as it was when its checkpoint was saved; put it back first"
                )
            file.truncate(kept.size)


def read_journal(path: Path, metrics: Sequence[str] = ()) -> list[dict[str, Any]]:
    """The lines of a journal, each with these metrics; one that is not as it was written is named."""
    entries = []
    try:
        text = path.read_text(encoding="utf-8").removesuffix("\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise WrongInput(f"{path}: {reason}") from None
    for number, line in enumerate(text.split("\n") if text else [], 1):
        try:
            values = json.loads(line)
            found = Line.model_validate(values)
            if not all(name in split for split in (found.train, found.validation) for name in metrics):
                raise ValueError("a metric is missing")
        except (ValueError, RecursionError):
            raise WrongInput(f"{path}:{number} is not as it was written") from None
        entries.append(values)
    return entries
