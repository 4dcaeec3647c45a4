"""metrics.jsonl: the metrics of a run, one JSON object per evaluation."""

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, Field

from limelight.config import Config
from limelight.errors import WrongInput
from limelight.training import files


class JournalState(Config):
    """The length and checksum of the journal at the time of a checkpoint."""

    size: int = Field(description="Length in bytes.")
    sha256: str = Field("", description="SHA-256 of these bytes; empty in runs of version 0.8.1 and earlier.")


EMPTY_JOURNAL = JournalState(size=0)


class Line(Config):
    """The metrics of one evaluation."""

    model_config = ConfigDict(allow_inf_nan=True)  # a loss may be infinite

    step: int = Field(description="Optimiser steps so far.")
    epoch: float = Field(description="Passes over the training data so far.")
    train: dict[str, float] = Field(description="Metrics of the training batches since the last evaluation.")
    validation: dict[str, float] = Field(description="Metrics on the validation split.")


class Journal:
    """Appends lines to metrics.jsonl. A checkpoint stores its length, and resuming truncates it to that."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, line: dict[str, Any]) -> None:
        """Add one line at the end."""
        with self.path.open("ab") as file:  # bytes: the checksum must not depend on the system's line ends
            file.write(json.dumps(line).encode() + b"\n")

    def sync(self) -> JournalState:
        """Write the file to the disk; return its length and checksum."""
        with self.path.open("a+b") as file:
            files.perform(os.fsync, file.fileno())
            file.seek(0)
            content = file.read()
        return JournalState(size=len(content), sha256=hashlib.sha256(content).hexdigest())

    def truncate(self, state: JournalState) -> None:
        """Remove all lines written after a checkpoint; raise `WrongInput` if earlier lines were changed."""
        with self.path.open("a+b") as file:
            file.seek(0)
            content = file.read(state.size)
            if len(content) < state.size:
                raise WrongInput(
                    f"{self.path} is shorter than when the checkpoint was saved; restore the file first"
                )
            if state.sha256 and hashlib.sha256(content).hexdigest() != state.sha256:
                raise WrongInput(
                    f"{self.path} was changed after the checkpoint was saved; restore the file first"
                )
            file.truncate(state.size)


def read_journal(path: Path, metrics: Sequence[str] = ()) -> list[dict[str, Any]]:
    """The lines of a journal; raise `WrongInput` for an invalid line or one without all of `metrics`."""
    entries = []
    try:
        text = path.read_text(encoding="utf-8").removesuffix("\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise WrongInput(f"{path}: {reason}") from None
    for number, line in enumerate(text.split("\n") if text else [], 1):
        try:
            values = json.loads(line)
            Line.model_validate(values)
            for split in (values["train"], values["validation"]):
                if "mae" in metrics and "error" in split:  # its name up to version 0.8.2
                    split["mae"] = split.pop("error")
                if not all(name in split for name in metrics):
                    raise ValueError("a metric is missing")
        except (ValueError, RecursionError):
            raise WrongInput(f"{path}:{number} is damaged: not a line of metrics") from None
        entries.append(values)
    return entries
