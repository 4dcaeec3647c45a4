"""Metrics of a model on a split."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from limelight.data.batching import even_batches
from limelight.data.dataset import Dataset
from limelight.progress import track
from limelight.tasks.task import Task
from limelight.training.distributed import World
from limelight.training.progress import Metrics

BATCH = 500  # examples per batch of an evaluation


class Aborted(Exception):
    """`evaluate` was asked to stop."""


@torch.no_grad()
def evaluate(
    task: Task[Any],
    dataset: Dataset[Any],
    model: nn.Module,
    split: str,
    world: World,
    stop: Callable[[], object] = lambda: False,
    chosen: Tensor | None = None,
) -> Metrics:
    """Loss and main metric of the task, as means over all predictions of the split, or of `chosen` examples.

    `stop` is called before each batch; `Aborted` is raised when it returns a true value.
    """
    model.eval()
    names = ("loss", task.goal.metric)
    totals = [0.0] * (1 + len(names))
    lengths = dataset.lengths(split)
    if chosen is None:
        batches = even_batches(lengths, BATCH)
    else:
        batches = [chosen[index] for index in even_batches(lengths[chosen], BATCH)]
    for index in track(batches, len(batches)):
        if stop():
            raise Aborted
        piece = dataset.batch(split, index).split(world.size)[world.rank]
        if len(piece):
            sums = task.loss(model, piece.to(world.device)).sums
            found = [float(task.predictions(piece)), *(float(sums[name]) for name in names)]
            totals = [a + b for a, b in zip(totals, found, strict=True)]
    count, *sums_of = world.all_reduce(totals)
    return {name: total / count for name, total in zip(names, sums_of, strict=True)}
