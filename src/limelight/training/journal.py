"""metrics.jsonl: one line an evaluation, and nothing in it but what the run computed."""

import json
import os
from pathlib import Path
from typing import Any

from limelight.errors import WrongInput
from limelight.training import files


class Journal:
    """Appends lines. A checkpoint notes how long the file was, and resuming cuts it back to that."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, line: dict[str, Any]) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")

    def keep(self) -> int:
        """Bytes that are on the disk now."""
        with self.path.open("ab") as file:
            files.perform(os.fsync, file.fileno())
            return file.tell()

    def cut(self, size: int) -> None:
        with self.path.open("ab") as file:
            if file.tell() < size:
                raise WrongInput(
                    f"{self.path} is shorter than when its checkpoint was saved; put it back first"
                )
            file.truncate(size)


def read_journal(path: Path) -> list[dict[str, Any]]:
    try:
        return [json.loads(line) for line in path.read_text().splitlines()]
    except ValueError:
        raise WrongInput(f"{path} is not as it was written") from None
