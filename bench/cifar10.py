"""CIFAR-10, ten minutes each: test accuracy of `limelight train cifar10`, and of other ViTs in a plain loop.

All have the same width, depth and patch size, the initial weights of their library, the same 45,000 training
images, and the same crops and flips (computed by our augmentation, which is fast). The others use AdamW with
batches of 128, warm-up, then a cosine down to zero at the end of their time; the computation of the test
accuracy does not count. Ours is the recipe with its default settings and as many epochs as fit into ten
minutes; its evaluations and checkpoints count. The environment variable CIFAR10 is the folder of the data.
"""

import math
import os
import tempfile
import time
from itertools import count
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from bench.reversal import Enough, Timer
from bench.rounds import machine, row
from bench.vits import CONFIG, vits
from limelight.data.images.augment import AugmentConfig, augment
from limelight.data.images.image_data import ImageData
from limelight.experiment.config import Experiment, experiment
from limelight.tasks.images.task import ClassifyImages
from limelight.training.distributed import World
from limelight.training.folder import RunFolder
from limelight.training.loop import Trainer
from limelight.training.progress import Watcher

SECONDS = 600.0
BATCH, RATE, DECAY, WARM = 128, 1e-3, 0.05, 0.05
TRIED = 40  # steps that are timed to compute the number of epochs
JUDGED = 0.1  # share of the time for evaluations and checkpoints


def recipe(epochs: float = 1) -> Experiment:
    settings = {"train.epochs": epochs, "task.data.path": os.environ.get("CIFAR10", "")}
    wanted = experiment("cifar10", {key: value for key, value in settings.items() if value})
    sizes = {name: getattr(wanted.model, name) for name in ("patch", "width", "depth", "heads", "hidden")}
    assert sizes == {name: getattr(CONFIG, name) for name in sizes}, "the recipe has other sizes"
    return wanted


@torch.no_grad()
def accuracy(model: nn.Module, task: ClassifyImages, data: ImageData) -> float:
    model.eval()
    test = torch.arange(len(data.examples("test"))).split(500)
    right = sum(float(task.loss(model, data.batch("test", index)).sums["accuracy"]) for index in test)
    return right / len(data.examples("test"))


def trainer(
    task: ClassifyImages, data: ImageData, epochs: float, folder: str, watcher: Watcher | None = None
) -> Trainer:
    wanted = recipe(epochs)
    torch.manual_seed(wanted.seed)
    model = wanted.model.build(task.sizes)
    return Trainer(
        wanted.train,
        task,
        data,
        model,
        RunFolder(Path(folder)),
        seed=wanted.seed,
        world=World(),
        environment={},
        watcher=watcher,
    )


def ours(task: ClassifyImages, data: ImageData) -> tuple[float, float, float]:
    """Test accuracy, epochs, seconds."""
    timer = Timer(TRIED)
    with tempfile.TemporaryDirectory() as folder:
        trying = trainer(task, data, 1, folder, timer)
        try:
            trying.fit()
        except Enough:
            step = (timer.times[-1] - timer.times[TRIED // 2 - 1]) / (TRIED // 2)
    epochs = round(SECONDS * (1 - JUDGED) / (step * trying.steps_per_epoch), 1)
    with tempfile.TemporaryDirectory() as folder:
        whole = trainer(task, data, epochs, folder)
        begin = time.perf_counter()
        whole.fit()
        used = time.perf_counter() - begin
        with whole.optimiser.averaged():
            return accuracy(whole.model, task, data), epochs, used


def plain_loop(model: nn.Module, task: ClassifyImages, data: ImageData) -> tuple[float, float, float]:
    """Test accuracy, epochs, seconds."""
    adam = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=DECAY, fused=True)
    train, changes = data.examples("train"), AugmentConfig(crop=4, flip=True)
    model.train()
    begin = time.perf_counter()
    for step in count():
        done = (time.perf_counter() - begin) / SECONDS
        if done >= 1:
            return accuracy(model, task, data), step * BATCH / len(train), done * SECONDS
        if step * BATCH % len(train) < BATCH:
            order = torch.randperm(len(train))
        index = order[torch.arange(step * BATCH, (step + 1) * BATCH) % len(train)]
        images = task.normalise(augment(train.pixels[index], changes).float() / 255)
        adam.param_groups[0]["lr"] = RATE * min(done / WARM, 0.5 * (1 + math.cos(math.pi * done)))
        adam.zero_grad()
        F.cross_entropy(model(images), train.labels[index]).backward()
        adam.step()
    raise AssertionError  # count() does not end


def main(seconds: float) -> None:
    torch.manual_seed(1)
    task, data = recipe().task.load(1)
    print(f"\n## CIFAR-10, ten minutes each\n\n{machine()}\n")
    titles = ("", "test accuracy", "epochs", "seconds")
    print(row(*titles), row(*["---"] * len(titles)), sep="\n")
    for name, model in vits(alike=False).items():
        found = ours(task, data) if name == "limelight" else plain_loop(model, task, data)
        print(row(name, f"{found[0]:.2%}", f"{found[1]:.2f}", f"{found[2]:.0f}"), flush=True)
