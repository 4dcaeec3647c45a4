"""A run folder: the journal, and checkpoints of weights, training state and what the data told."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ConfigDict
from safetensors import SafetensorError
from torch import Tensor

from limelight.config import Config, read_json
from limelight.errors import Stopped
from limelight.training import checkpoint, files
from limelight.training.checkpoint import Checkpoint, Damaged
from limelight.training.distributed import World
from limelight.training.journal import NOTHING_KEPT, Journal, Kept
from limelight.training.lock import Lock
from limelight.training.weights import from_bytes, to_bytes

WEIGHTS, TRAINING, DATA = "weights.safetensors", "training.safetensors", "data.json"


@dataclass
class Progress:
    """Where a run stands: with the weights and the optimiser's state, all that a checkpoint must know."""

    step: int = 0
    evaluated: int = 0  # the step of the last evaluation
    best: float | None = None
    best_step: int = 0
    stale: int = 0  # evaluations since the best
    perfect: int = 0  # perfect evaluations in a row
    seconds: float = 0.0
    count: int = 0  # predictions since the last evaluation, and sums over them
    sums: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Saved:
    """One checkpoint, as a trainer understands it."""

    weights: dict[str, Tensor]
    training: dict[str, Tensor]
    data: str
    progress: Progress
    environment: dict[str, Any]
    score: float | None = None
    journal: Kept = NOTHING_KEPT


class _Facts(Config):
    """What the manifest of a checkpoint says beside its files."""

    model_config = ConfigDict(allow_inf_nan=True)  # a metric may be infinite

    progress: Progress
    environment: dict[str, Any]
    score: float | None
    journal: int
    journal_sha256: str = ""  # runs of 0.8.1 and before do not have it


class RunFolder:
    """Writes and reads what a run leaves behind; with the `lock` that it is written under."""

    def __init__(self, path: Path, lock: Lock | None = None) -> None:
        self.path = path
        self.checkpoints = path / "checkpoints"
        self.journal = Journal(path / "metrics.jsonl")
        self._lock = lock

    def check_held(self) -> None:
        """Raise `Stopped` if the folder was removed or belongs to another run by now."""
        if self._lock is not None:
            self._lock.check()

    def note(self, line: dict[str, Any]) -> None:
        """Add one evaluation to the journal."""
        self.check_held()
        self.journal.write(line)

    def save(self, step: int, saved: Saved) -> None:
        """Write a checkpoint, and remove those that are no longer needed."""
        self.check_held()
        try:
            kept = self.journal.keep()
            facts = {
                "progress": asdict(saved.progress),
                "environment": saved.environment,
                "score": saved.score,
                "journal": kept.size,
                "journal_sha256": kept.sha256,
            }
            contents = {
                WEIGHTS: to_bytes(saved.weights),
                TRAINING: to_bytes(saved.training),
                DATA: saved.data.encode(),
            }
            checkpoint.save(self.checkpoints, Checkpoint(step, facts, contents))
        except OSError as error:
            self.check_held()  # a folder that is gone is the better reason
            where = f"step {step} could not be saved in {self.checkpoints}: {error.strerror}"
            raise Stopped(f"{where}; older checkpoints are whole, and --resume goes on from them") from error

    def newest(self, world: World) -> Iterator[Saved]:
        """Every checkpoint that can be read, the newest first. Rank 0 reads for all."""
        found: Iterator[Checkpoint] = iter(())
        if world.first:
            files.remove_unfinished(self.checkpoints)
            found = checkpoint.newest_first(self.checkpoints)
        while True:
            one = next(found, None)
            step = world.hand_out(str(one.step).encode() if one else b"")
            if not step:
                return
            facts = world.hand_out(json.dumps(one.facts).encode() if one else b"")
            contents = {}
            for name in (WEIGHTS, TRAINING, DATA):
                contents[name] = world.hand_out(one.files.get(name, b"") if one else b"")
            yield from _open(self.checkpoints, Checkpoint(int(step), json.loads(facts), contents))

    def best(self) -> Iterator[Saved]:
        """Every checkpoint that can be read, the best first."""
        for found in checkpoint.best_first(self.checkpoints):
            yield from _open(self.checkpoints, found)


def _open(folder: Path, found: Checkpoint) -> Iterator[Saved]:
    """The checkpoint, unless it has checksums that are right and content that is not; then a warning."""
    place = folder / f"step-{found.step:08d}"
    try:
        facts = read_json(_Facts, json.dumps(found.facts), checkpoint.MANIFEST)
        if facts.progress.step != found.step:
            raise ValueError(f"its progress is that of step {facts.progress.step}")
        saved = Saved(
            from_bytes(found.files[WEIGHTS]),
            from_bytes(found.files[TRAINING]),
            found.files[DATA].decode(),
            facts.progress,
            facts.environment,
            facts.score,
            Kept(size=facts.journal, sha256=facts.journal_sha256),
        )
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        reason = " ".join(str(error).split())
        checkpoint.not_used(Damaged(f"{place} was not written by a run: {reason}"))
        return
    yield saved
