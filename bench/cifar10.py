"""Ten minutes of CIFAR-10 each: test accuracy of `limelight train cifar10`, and of others in a plain loop.

All have the same width, depth and patch, the weights that their library gives them, the same 45,000 training
images, and the same crops and flips (made by our augmentation, so that nobody waits for them). The others run
under AdamW: batches of 128, warm-up, then a cosine down to zero at the end of their time; finding the test
accuracy does not count. Ours is the recipe as it is, with as many epochs as ten minutes hold; its
evaluations and checkpoints count. Where the set lies: CIFAR10=folder.
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
from limelight.experiment.config import Experiment, experiment
from limelight.tasks.images.task import ClassifyImages
from limelight.training.distributed import World
from limelight.training.folder import RunFolder
from limelight.training.loop import Trainer
from limelight.training.progress import Watcher

SECONDS = 600.0
BATCH, RATE, DECAY, WARM = 128, 1e-3, 0.05, 0.05
TRIED = 40  # steps, to know how many epochs there is time for
JUDGED = 0.1  # of the time, about, goes into evaluations and checkpoints


def recipe(epochs: float = 1) -> Experiment:
    settings = {"train.epochs": epochs, "task.data.path": os.environ.get("CIFAR10", "")}
    wanted = experiment("cifar10", {key: value for key, value in settings.items() if value})
    sizes = {name: getattr(wanted.model, name) for name in ("patch", "width", "depth", "heads", "hidden")}
    assert sizes == {name: getattr(CONFIG, name) for name in sizes}, "the recipe has another size"
    return wanted


@torch.no_grad()
def accuracy(model: nn.Module, task: ClassifyImages) -> float:
    model.eval()
    test = torch.arange(len(task.lengths("test"))).split(500)
    right = sum(float(task.score(model, task.batch("test", index)).sums["accuracy"]) for index in test)
    return right / len(task.lengths("test"))


def trainer(task: ClassifyImages, epochs: float, folder: str, watcher: Watcher | None = None) -> Trainer:
    wanted = recipe(epochs)
    torch.manual_seed(wanted.seed)
    model = wanted.model.build(task.sizes)
    return Trainer(
        wanted.train,
        task,
        model,
        RunFolder(Path(folder)),
        seed=wanted.seed,
        world=World(),
        environment={},
        watcher=watcher,
    )


def ours(task: ClassifyImages) -> tuple[float, float, float]:
    """Test accuracy, epochs, seconds."""
    timer = Timer(TRIED)
    with tempfile.TemporaryDirectory() as folder:
        trying = trainer(task, 1, folder, timer)
        try:
            trying.fit()
        except Enough:
            step = (timer.times[-1] - timer.times[TRIED // 2 - 1]) / (TRIED // 2)
    epochs = round(SECONDS * (1 - JUDGED) / (step * trying.steps_per_epoch), 1)
    with tempfile.TemporaryDirectory() as folder:
        whole = trainer(task, epochs, folder)
        begin = time.perf_counter()
        whole.fit()
        used = time.perf_counter() - begin
        with whole.optimiser.averaged():
            return accuracy(whole.model, task), epochs, used


def plain_loop(model: nn.Module, task: ClassifyImages) -> tuple[float, float, float]:
    """Test accuracy, epochs, seconds."""
    adam = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=DECAY, fused=True)
    train, changes = task.examples("train"), AugmentConfig(crop=4, flip=True)
    model.train()
    begin = time.perf_counter()
    for step in count():
        done = (time.perf_counter() - begin) / SECONDS
        if done >= 1:
            return accuracy(model, task), step * BATCH / len(train), done * SECONDS
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
    task = recipe().task.load(1)
    print(f"\n## CIFAR-10, ten minutes each\n\n{machine()}\n")
    titles = ("", "test accuracy", "epochs", "seconds")
    print(row(*titles), row(*["---"] * len(titles)), sep="\n")
    for name, model in vits(alike=False).items():
        found = ours(task) if name == "limelight" else plain_loop(model, task)
        print(row(name, f"{found[0]:.2%}", f"{found[1]:.2f}", f"{found[2]:.0f}"), flush=True)
