"""A run that is small enough for tests with hundreds of runs.

It has everything that could make a resumed run differ: dropout, batches of several lengths, a learning rate
schedule, clipping, and checkpoints between two evaluations.
"""

import hashlib
import os
import signal
from pathlib import Path
from typing import Any

import torch

from limelight.experiment.config import Experiment, experiment
from limelight.randomness import derive
from limelight.tasks.sequence.shared import SequenceTask
from limelight.training.distributed import World
from limelight.training.folder import Progress, RunFolder
from limelight.training.interrupt import Interrupted
from limelight.training.loop import Trainer
from limelight.training.progress import Metrics, Watcher

STEPS = 60
SETTINGS = {
    "model.width": 8,
    "model.hidden": 13,
    "model.dropout": 0.2,
    "train.epochs": 4,
    "train.batch": 10,
    "train.warmup": 7,
    "train.evaluate_every": "7 steps",
    "train.save_every": "5 steps",
    "train.perfect": 0,
}
GENERATED = {"task.data.train": 149, "task.data.validation": 23, "task.data.test": 29}
RECIPES: dict[str, dict[str, Any]] = {
    "majority": GENERATED | {"task.data.longest": 11},
    "language": {"task.data.limit": 149, "task.data.context": 7, "model.depth": 1, "model.heads": 2},
    "tag": GENERATED | {"model.depth": 1, "model.unknown": 0.3, "train.epoch_steps": 1},
}
ENVIRONMENT: dict[str, Any] = {"torch": "the same"}


class StopAt(Watcher):
    """Sends SIGINT to this process at the end of a step."""

    def __init__(self, step: int) -> None:
        self.at = step

    def step(self, step: int, tokens: int, metrics: Metrics) -> None:
        if step == self.at:
            os.kill(os.getpid(), signal.SIGINT)


def tiny(settings: dict[str, Any] | None = None, recipe: str = "majority") -> Experiment:
    """The experiment of a tiny run."""
    return experiment(recipe, SETTINGS | RECIPES[recipe] | (settings or {}))


def trainer(
    path: Path,
    settings: dict[str, Any] | None = None,
    *,
    recipe: str = "majority",
    kind: type[Trainer] = Trainer,
    task: SequenceTask | None = None,
    world: World | None = None,
    watcher: Watcher | None = None,
) -> Trainer:
    """The trainer of a tiny run in the folder `path`."""
    wanted = tiny(settings, recipe)
    path.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(derive(wanted.seed, "weights"))
    made, dataset = wanted.task.load(wanted.seed)
    used = task or made
    return kind(
        wanted.train,
        used,
        dataset,
        wanted.model.build(used.sizes),
        RunFolder(path),
        seed=wanted.seed,
        world=world or World(),
        environment=ENVIRONMENT,
        watcher=watcher,
    )


def fit(
    path: Path, settings: dict[str, Any] | None = None, *, resume: bool = False, **options: Any
) -> Progress | None:
    """Train to the end; returns None if a signal interrupts the run."""
    made = trainer(path, settings, **options)
    if resume:
        made.resume()
    try:
        return made.fit()
    except Interrupted:
        return None


def result(path: Path) -> tuple[str, str]:
    """SHA-256 of the final weights and of the journal."""
    weights = path / "checkpoints" / f"step-{STEPS:08d}" / "weights.safetensors"
    files = (weights, path / "metrics.jsonl")
    return tuple(hashlib.sha256(file.read_bytes()).hexdigest() for file in files)  # type: ignore[return-value]
