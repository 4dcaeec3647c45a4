"""A run folder: the journal, and checkpoints of weights, optimiser state and the state of the task."""

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
from limelight.training.journal import EMPTY_JOURNAL, Journal, JournalState
from limelight.training.lock import Lock
from limelight.training.weights import from_bytes, to_bytes

CHECKPOINTS, JOURNAL = "checkpoints", "metrics.jsonl"
WEIGHTS, TRAINING, DATA = "weights.safetensors", "training.safetensors", "data.json"


@dataclass
class Progress:
    """The position of a run. Together with weights and optimiser state it determines all further steps."""

    step: int = 0
    evaluated: int = 0  # the step of the last evaluation
    best: float | None = None  # the best value of the task's metric on the validation split
    best_step: int = 0
    stale: int = 0  # evaluations since the best
    perfect: int = 0  # consecutive perfect evaluations
    seconds: float = 0.0  # training time
    count: int = 0  # predictions since the last evaluation
    sums: dict[str, float] = field(default_factory=dict)  # sums of the training metrics over them


@dataclass(frozen=True)
class Saved:
    """The content of one checkpoint of a run."""

    weights: dict[str, Tensor]
    training: dict[str, Tensor]  # the state of the optimiser
    data: str  # the state of the task, as JSON: vocabulary, classes, ...
    progress: Progress
    environment: dict[str, Any]  # versions, settings and data, to detect differences when resuming
    score: float | None = None  # higher is better; None if it was not evaluated
    journal: JournalState = EMPTY_JOURNAL


class _Facts(Config):
    """The `facts` in the manifest of a checkpoint."""

    model_config = ConfigDict(allow_inf_nan=True)  # a metric may be infinite

    progress: Progress
    environment: dict[str, Any]
    score: float | None
    journal: int
    journal_sha256: str = ""  # missing in runs of version 0.8.1 and earlier


class RunFolder:
    """Writes and reads the journal and the checkpoints of a run; writing is guarded by `lock`."""

    def __init__(self, path: Path, lock: Lock | None = None) -> None:
        self.path = path
        self.checkpoints = path / CHECKPOINTS
        self.journal = Journal(path / JOURNAL)
        self._lock = lock

    def check_held(self) -> None:
        """Raise `Stopped` if the folder was removed or another process has locked it since."""
        if self._lock is not None:
            self._lock.check()

    def append(self, line: dict[str, Any]) -> None:
        """Add one evaluation to the journal."""
        self.check_held()
        self.journal.append(line)

    def save(self, step: int, saved: Saved) -> None:
        """Write a checkpoint, then remove those that are no longer needed."""
        self.check_held()
        try:
            journal = self.journal.sync()
            facts = {
                "progress": asdict(saved.progress),
                "environment": saved.environment,
                "score": saved.score,
                "journal": journal.size,
                "journal_sha256": journal.sha256,
            }
            contents = {
                WEIGHTS: to_bytes(saved.weights),
                TRAINING: to_bytes(saved.training),
                DATA: saved.data.encode(),
            }
            checkpoint.save(self.checkpoints, Checkpoint(step, facts, contents))
        except OSError as error:
            self.check_held()  # if the folder was removed, that is the real reason
            where = f"step {step} could not be saved in {self.checkpoints}: {error.strerror}"
            raise Stopped(f"{where}; older checkpoints are intact: --resume continues from them") from error

    def newest(self, world: World) -> Iterator[Saved]:
        """All readable checkpoints, the newest first. Rank 0 reads them and sends them to all processes."""
        found: Iterator[Checkpoint] = iter(())
        if world.first:
            files.remove_unfinished(self.checkpoints)
            found = checkpoint.newest_first(self.checkpoints)
        while True:
            one = next(found, None)
            step = world.broadcast(str(one.step).encode() if one else b"")
            if not step:
                return
            facts = world.broadcast(json.dumps(one.facts).encode() if one else b"")
            contents = {}
            for name in (WEIGHTS, TRAINING, DATA):
                contents[name] = world.broadcast(one.files.get(name, b"") if one else b"")
            yield from _open(self.checkpoints, Checkpoint(int(step), json.loads(facts), contents))

    def best(self) -> Iterator[Saved]:
        """All readable checkpoints, the best first."""
        for found in checkpoint.best_first(self.checkpoints):
            yield from _open(self.checkpoints, found)


def _open(folder: Path, found: Checkpoint) -> Iterator[Saved]:
    """Decode a checkpoint; if its content is invalid despite correct checksums, warn and yield nothing."""
    place = folder / f"step-{found.step:08d}"
    try:
        facts = read_json(_Facts, json.dumps(found.facts), checkpoint.MANIFEST)
        if facts.progress.step != found.step:
            raise ValueError(f"its progress belongs to step {facts.progress.step}")
        saved = Saved(
            from_bytes(found.files[WEIGHTS]),
            from_bytes(found.files[TRAINING]),
            found.files[DATA].decode(),
            facts.progress,
            facts.environment,
            facts.score,
            JournalState(size=facts.journal, sha256=facts.journal_sha256),
        )
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        reason = " ".join(str(error).split())
        checkpoint.not_used(Damaged(f"{place} is not a valid checkpoint: {reason}"))
        return
    yield saved
