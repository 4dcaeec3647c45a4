"""A run folder: the journal, and checkpoints of weights, training state and what the data told."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from limelight.errors import Stopped
from limelight.training import checkpoint, files
from limelight.training.checkpoint import Checkpoint
from limelight.training.distributed import World
from limelight.training.journal import Journal
from limelight.training.weights import from_bytes, to_bytes

WEIGHTS, TRAINING, DATA = "weights.safetensors", "training.safetensors", "data.json"


@dataclass(frozen=True)
class Saved:
    """One checkpoint, as a trainer understands it."""

    weights: dict[str, Tensor]
    training: dict[str, Tensor]
    data: str
    progress: dict[str, Any]
    environment: dict[str, Any]
    score: float | None = None
    journal: int = 0  # bytes that the journal had


class RunFolder:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = path / "checkpoints"
        self.journal = Journal(path / "metrics.jsonl")

    def save(self, step: int, saved: Saved) -> None:
        try:
            facts = {
                "progress": saved.progress,
                "environment": saved.environment,
                "score": saved.score,
                "journal": self.journal.keep(),
            }
            contents = {
                WEIGHTS: to_bytes(saved.weights),
                TRAINING: to_bytes(saved.training),
                DATA: saved.data.encode(),
            }
            checkpoint.save(self.checkpoints, Checkpoint(step, facts, contents))
        except OSError as error:
            where = f"step {step} could not be saved in {self.checkpoints}: {error.strerror}"
            raise Stopped(f"{where}; older checkpoints are whole, and --resume goes on from them") from error

    def newest(self, world: World) -> Saved | None:
        """Read by rank 0 for all."""
        if world.first:
            files.remove_unfinished(self.checkpoints)
            found = checkpoint.newest(self.checkpoints)
        else:
            found = None
        facts = world.hand_out(json.dumps(found.facts).encode() if found else b"")
        contents = {
            name: world.hand_out(found.files[name] if found else b"") for name in (WEIGHTS, TRAINING, DATA)
        }
        return _open(json.loads(facts), contents) if facts else None

    def best(self) -> Saved | None:
        found = checkpoint.best(self.checkpoints)
        return _open(found.facts, found.files) if found else None


def _open(facts: dict[str, Any], contents: dict[str, bytes]) -> Saved:
    return Saved(
        from_bytes(contents[WEIGHTS]),
        from_bytes(contents[TRAINING]),
        contents[DATA].decode(),
        facts["progress"],
        facts["environment"],
        facts["score"],
        facts["journal"],
    )
