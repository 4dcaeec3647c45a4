"""How good a model is on a split."""

from collections.abc import Callable

import torch
from torch import nn

from limelight.data.batching import even_batches
from limelight.tasks.task import Task
from limelight.training.distributed import World
from limelight.training.progress import Metrics

BATCH = 500


class Aborted(Exception):
    """Somebody asked to stop."""


@torch.no_grad()
def evaluate(
    task: Task, model: nn.Module, split: str, world: World, stop: Callable[[], object] = lambda: False
) -> Metrics:
    """The mean of each metric over all predictions of the split."""
    model.eval()
    names = ("loss", task.goal.metric)
    totals = [0.0] * (1 + len(names))
    for index in even_batches(task.lengths(split), BATCH):
        if stop():
            raise Aborted
        piece = task.batch(split, index).split(world.size)[world.rank]
        if len(piece):
            sums = task.score(model, piece.to(world.device)).sums
            found = [float(task.predictions(piece)), *(float(sums[name]) for name in names)]
            totals = [a + b for a, b in zip(totals, found, strict=True)]
    count, *sums_of = world.add_up(totals)
    return {name: total / count for name, total in zip(names, sums_of, strict=True)}
