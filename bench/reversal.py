"""Reversal: steps per second, and CPU seconds until the validation accuracy is perfect.

Ours is `limelight train reverse` with its default settings: Trainer, journal, checkpoints and evaluations.
The implementation of the course (bench/course.py) runs in a plain loop, with Lightning's Trainer as in the
course, and with a minimal one; "our model, minimal Lightning" has the course's data and optimiser.
"""

import contextlib
import gc
import io
import logging
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytorch_lightning as lightning
import torch
from torch import Tensor, nn

from bench.course import EPOCHS, Predictor, loader, loss_and_accuracy, optimiser
from bench.rounds import machine, ratio, row
from limelight.experiment.config import experiment
from limelight.training.distributed import World
from limelight.training.folder import RunFolder
from limelight.training.loop import Trainer
from limelight.training.progress import Metrics, Watcher

STEPS, WARM = 200, 20
SEEDS = (1, 2, 3)


class Enough(Exception):
    """The requested number of steps is done."""


class Timer(Watcher):
    """Records the end of each step."""

    def __init__(self, stop: int = 0) -> None:
        self.stop, self.times = stop, list[float]()

    def step(self, step: int, tokens: int, metrics: Metrics) -> None:
        self.times.append(time.perf_counter())
        if len(self.times) == self.stop:
            raise Enough


def ours(seed: int, folder: Path, timer: Timer) -> Trainer:
    wanted = experiment("reverse", {"seed": seed, "train.perfect": 1})
    torch.manual_seed(seed)
    task, dataset = wanted.task.load(seed)
    return Trainer(
        wanted.train,
        task,
        dataset,
        wanted.model.build(task.sizes),
        RunFolder(folder),
        seed=seed,
        world=World(),
        environment={},
        watcher=timer,
    )


class Module(lightning.LightningModule):
    def __init__(self, model: nn.Module, steps: int, clock: list[float]) -> None:
        super().__init__()
        self.model, self.steps, self.clock = model, steps, clock

    def training_step(self, batch: tuple[Tensor, Tensor], number: int) -> Tensor:
        loss, accuracy = loss_and_accuracy(self.model, batch)
        self.log("train_loss", loss)
        self.log("train_acc", accuracy)
        return loss

    def on_train_batch_end(self, *_: Any) -> None:
        self.clock.append(time.perf_counter())

    def configure_optimizers(self) -> Any:
        adam, rate = optimiser(self.model, self.steps)
        return [adam], [{"scheduler": rate, "interval": "step"}]


def steps_of_lightning(model: nn.Module, rows: Tensor, *, minimal: bool) -> list[float]:
    """Minimal: no progress bar, logger and checkpoints. Otherwise the defaults, as in the course."""
    clock: list[float] = []
    switches = ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary")
    off = dict.fromkeys(switches, False)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        trainer = lightning.Trainer(
            max_steps=STEPS,
            accelerator="cpu",
            gradient_clip_val=5,
            default_root_dir=folder,
            **(off if minimal else {}),
        )
        trainer.fit(Module(model, STEPS, clock), loader(rows, train=True))
    return clock


def steps_of_course(model: nn.Module, rows: Tensor) -> list[float]:
    clock: list[float] = []
    for _ in course_steps(model, rows, STEPS):
        clock.append(time.perf_counter())
        if len(clock) == STEPS:
            break
    return clock


def course_steps(model: nn.Module, rows: Tensor, steps: int) -> Iterator[int]:
    adam, rate = optimiser(model, steps)
    data = loader(rows, train=True)
    step = 0
    while step < steps:
        for batch in data:
            loss, _ = loss_and_accuracy(model, batch)
            adam.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5)
            adam.step()
            rate.step()
            step += 1
            yield step


def steps_of_ours(seed: int) -> list[float]:
    timer = Timer(STEPS)
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(Enough):
        ours(seed, Path(folder), timer).fit()
    return timer.times


def rows_of(seed: int, split: str) -> Tensor:
    _, dataset = experiment("reverse", {"seed": seed}).task.load(seed)
    return dataset.examples(split).inputs.values.view(-1, 16)


def speeds(seconds: float) -> None:
    """The median step of each turn, so that evaluations and saves, which only ours does, do not count."""
    rows = rows_of(1, "train")

    def our_model() -> nn.Module:
        wanted = experiment("reverse")
        return wanted.model.build(wanted.task.load(1)[0].sizes)

    model = our_model()
    runs: dict[str, Callable[[], list[float]]] = {
        "limelight": lambda: steps_of_ours(1),
        "course, Lightning": lambda: steps_of_lightning(Predictor(), rows, minimal=False),
        "course, minimal Lightning": lambda: steps_of_lightning(Predictor(), rows, minimal=True),
        "course, plain loop": lambda: steps_of_course(Predictor(), rows),
        "our model, minimal Lightning": lambda: steps_of_lightning(model, rows, minimal=True),
    }
    times: dict[str, list[float]] = {name: [] for name in runs}
    end = time.perf_counter() + 6 * seconds
    names = list(runs)
    while time.perf_counter() < end or len(times[names[0]]) < 7:
        for name in names:
            gc.collect()  # no contender pays for the garbage of another
            clock = runs[name]()
            times[name].append(statistics.median(b - a for a, b in pairwise(clock[WARM:])))
        names.append(names.pop(0))
    mine = times.pop("limelight")
    print(row("", "steps/s", "time per step divided by ours"), row(*["---"] * 3), sep="\n")
    print(row("limelight", f"{1 / statistics.median(mine):.0f}", ""))
    for name, theirs in times.items():
        print(row(name, f"{1 / statistics.median(theirs):.0f}", ratio(theirs, mine)), flush=True)


def seconds_of_ours(seed: int) -> tuple[float, int, float]:
    """CPU seconds, steps and test accuracy; the creation of data and model does not count, all else does."""
    with tempfile.TemporaryDirectory() as folder:
        trainer = ours(seed, Path(folder), Timer())
        begin = time.process_time()
        progress = trainer.fit()
        used = time.process_time() - begin
        right = sum(
            float(trainer.task.loss(trainer.model.eval(), piece).sums["accuracy"]) for piece in tests(trainer)
        )
        return used, progress.step, right / (16 * len(trainer.dataset.lengths("test")))


def tests(trainer: Trainer) -> Iterator[Any]:
    for index in torch.arange(len(trainer.dataset.lengths("test"))).split(1000):
        yield trainer.dataset.batch("test", index)


@torch.no_grad()
def accuracy(model: nn.Module, rows: Tensor) -> float:
    model.eval()
    right = sum((model(part).argmax(-1) == part.flip(1)).sum().item() for part in rows.split(1000))
    model.train()
    return right / rows.numel()


def seconds_of_course(seed: int) -> tuple[float, int, float]:
    """CPU seconds of ten epochs until validation is perfect; validation every 50 steps does not count."""
    rows, validation, test = (rows_of(seed, split) for split in ("train", "validation", "test"))
    torch.manual_seed(seed)
    model = Predictor()
    used, begin, step = 0.0, time.process_time(), 0
    for step in course_steps(model, rows, EPOCHS * (len(rows) // 128)):
        if step % 50 == 0:
            used += time.process_time() - begin
            if accuracy(model, validation) == 1.0:
                break
            begin = time.process_time()
    return used, step, accuracy(model, test)


def main(seconds: float) -> None:
    warnings.filterwarnings("ignore")
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    print(f"\n## Reversal, as in the recipe\n\n{machine()}\n")
    speeds(seconds)
    print()
    titles = (
        "seed",
        "ours: CPU s",
        "steps",
        "test",
        "course: CPU s",
        "steps",
        "test",
        "course / ours",
    )
    print(row(*titles), row(*["---"] * len(titles)), sep="\n")
    for seed in SEEDS:
        mine, theirs = seconds_of_ours(seed), seconds_of_course(seed)
        cells = [
            f"{value:.2%}" if i == 2 else f"{value:.1f}" if i == 0 else value
            for one in (mine, theirs)
            for i, value in enumerate(one)
        ]
        print(row(seed, *cells, f"{theirs[0] / mine[0]:.1f}"), flush=True)
