"""The Trainer: it moves weights, judges them, saves them, and has never heard of attention."""

import math
import shlex
import signal
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from limelight.config import differences, flatten
from limelight.data.batching import Batch, epoch_batches
from limelight.errors import Stopped, WrongInput
from limelight.randomness import derive, seed
from limelight.tasks.task import Task
from limelight.training.checkpoint import not_used
from limelight.training.config import TrainConfig
from limelight.training.distributed import World
from limelight.training.evaluate import Aborted, evaluate
from limelight.training.folder import Progress, RunFolder, Saved
from limelight.training.interrupt import Interrupted, Signals, deferred
from limelight.training.journal import NOTHING_KEPT
from limelight.training.optimise import SCHEDULES, Optimiser
from limelight.training.progress import Watcher
from limelight.training.weights import check_finite, load_weights, weights_of

SETTINGS = "settings"  # the part of an environment that stands in the experiment file


def another_run(differences: list[str]) -> WrongInput:
    hint = "--allow-inexact goes on, where weights, optimiser and data still fit"
    return WrongInput(f"not the same run any more: {'; '.join(differences)}; {hint}")


def _flat_environment(environment: dict[str, Any]) -> dict[str, Any]:
    """Settings go by their own keys, as in the experiment file."""
    rest = {key: value for key, value in environment.items() if key != SETTINGS}
    return rest | flatten(environment.get(SETTINGS) or {})


class Trainer:
    def __init__(
        self,
        config: TrainConfig,
        task: Task,
        model: nn.Module,
        folder: RunFolder,
        *,
        seed: int,
        world: World,
        environment: dict[str, Any],
        compiled: bool = False,
        watcher: Watcher | None = None,
    ) -> None:
        self.config, self.task, self.folder, self.seed, self.world = config, task, folder, seed, world
        self.environment = environment
        self.model = model.to(world.device)
        self._forward: nn.Module = torch.compile(self.model) if compiled else self.model  # type: ignore[assignment]
        self.watcher = watcher if watcher and world.first else Watcher()
        self.optimiser = Optimiser(
            self.model, config.decay, muon=config.optimiser == "muon", average=config.average
        )
        self.progress = Progress()
        self._names = ("loss", task.goal.metric)
        self._lengths = task.lengths("train")
        self.steps_per_epoch = math.ceil(len(self._lengths) / config.batch)
        self.total = max(1, round(self.steps_per_epoch * config.epochs))
        self._epoch, self._batches = -1, list[Tensor]()
        self._evaluate_every = config.in_steps(config.evaluate_every, self.steps_per_epoch)
        self._save_every = config.in_steps(config.save_every, self.steps_per_epoch)
        self._schedule = SCHEDULES[config.schedule]
        self._warmup = min(config.warmup, self.total // 4)  # a short run must arrive at its rate, too
        self._saved = (-1, -1)  # step and last evaluation of what was saved last
        self._stop = 0  # the signal that all processes agreed on

    def resume(self, *, inexact: bool = False) -> None:
        """Go on from the newest checkpoint that fits, or from the beginning where there is none."""
        refusals = list[WrongInput]()
        for saved in self.folder.newest(self.world):
            self._check_environment(saved.environment, inexact)
            try:
                load_weights(self.model, saved.weights)
                self.optimiser.restore(saved.training)
                break
            except WrongInput as error:
                refusals.append(error)
        else:
            if refusals:
                raise refusals[0]
            saved = None
        for refusal in refusals:
            not_used(refusal)
        if saved is None:
            self.watcher.note(f"{self.folder.path} has no checkpoint to resume from: beginning at step 0")
        if self.world.first:
            self.folder.journal.cut(saved.journal if saved else NOTHING_KEPT)
        if saved is not None:
            self.progress = saved.progress
            self._saved = (self.progress.step, self.progress.evaluated)

    def _check_environment(self, before: dict[str, Any], inexact: bool) -> None:
        settings = before.get(SETTINGS, self.environment.get(SETTINGS))  # 0.8.1 did not note them
        found = differences(
            _flat_environment(before | {SETTINGS: settings}), _flat_environment(self.environment)
        )
        # Other data may have other words and classes: weights would mean something else, and scores, too.
        if self.environment.get("data") != before.get("data"):
            others = "; ".join(one for one in found if not one.startswith("data "))
            why = f" ({others})" if others else ""
            raise WrongInput(f"the data is no longer that of the run{why}; begin another one with --out")
        if found and not inexact:
            raise another_run(found)

    @property
    def ending(self) -> str:
        """Why the run ends here; empty as long as it goes on."""
        progress, config = self.progress, self.config
        if progress.step >= self.total:
            return "all steps are done"
        if config.perfect and progress.perfect >= config.perfect:
            return f"{progress.perfect} perfect evaluations in a row, as train.perfect asks for"
        if config.patience and progress.stale >= config.patience:
            return f"{progress.stale} evaluations without a better one, as many as train.patience allows"
        return ""

    @property
    def finished(self) -> bool:
        return bool(self.ending)

    def fit(self) -> Progress:
        """Train to the end. What was saved is whole at every moment."""
        progress = self.progress
        begin = time.perf_counter() - progress.seconds
        self.watcher.begin(progress.step, self.total, self.task.unit)
        try:
            with deferred() as signals:
                while True:
                    best = self._evaluation_due() and self._evaluate(signals)
                    progress.seconds = time.perf_counter() - begin
                    stop = signals.number if self.world.size == 1 else self._stop
                    due = progress.step > 0 and progress.step % self._save_every == 0
                    if best or due or stop or self.finished:
                        self._save()
                    if stop:
                        raise Interrupted(stop, self._about_the_stop())
                    if self.finished:
                        return progress
                    self._step(signals)
        finally:
            self.watcher.end()

    def _step(self, signals: Signals) -> None:
        """One batch, one update. The batch may be computed in pieces and by many processes."""
        config, progress, world = self.config, self.progress, self.world
        batch = self._batch(progress.step)
        count = self.task.predictions(batch)
        sums = [0.0] * len(self._names)
        seed(derive(self.seed, "step", progress.step, world.rank), world.device)
        if not self._forward.training:
            self._forward.train()
        self.optimiser.clear()
        first = world.rank * config.accumulate
        for piece in batch.split(world.size * config.accumulate)[first : first + config.accumulate]:
            if not len(piece):
                continue
            with self._autocast():
                scores = self.task.score(self._forward, piece.to(world.device), config.smoothing)
            (scores.loss / count).backward()
            sums = [total + float(scores.sums[name]) for total, name in zip(sums, self._names, strict=True)]
        *sums, stop = world.add_up([*sums, float(signals.number > 0)])
        if not math.isfinite(sums[0]):
            raise Stopped(self._about_the_loss(sums[0] / count, batch))
        world.add_up_gradient(self.optimiser.gradient)
        if config.clip:
            self.optimiser.clip(config.clip)
        self.optimiser.step(config.rate * self._schedule(progress.step, self._warmup, self.total))
        progress.step += 1
        progress.count += count
        now = dict(zip(self._names, sums, strict=True))
        progress.sums = {name: progress.sums.get(name, 0.0) + total for name, total in now.items()}
        self._stop = (signals.number or signal.SIGTERM) if stop else 0
        self.watcher.step(progress.step, batch.tokens, {name: total / count for name, total in now.items()})

    def _batch(self, step: int) -> Batch:
        epoch, number = divmod(step, self.steps_per_epoch)
        if epoch != self._epoch:
            self._batches = epoch_batches(self._lengths, self.config.batch, self.seed, epoch)
            self._epoch = epoch
        return self.task.batch("train", self._batches[number])

    def _autocast(self) -> AbstractContextManager[Any]:
        if self.config.precision == "float32":
            return nullcontext()
        return torch.autocast(self.world.device.type, torch.bfloat16)

    def _about_the_stop(self) -> str:
        where = f"stopped and saved at step {self.progress.step} of {self.total}"
        return f"{where}; go on: limelight train {shlex.quote(str(self.folder.path))} --resume"

    def _about_the_loss(self, loss: float, batch: Batch) -> str:
        some = ", ".join(map(str, batch.index[:8].tolist())) + (", …" if len(batch) > 8 else "")
        where = f"step {self.progress.step + 1}: the loss is {loss} on the batch of training examples {some}"
        return f"{where}; nothing was updated. A smaller train.rate, or train.clip, may help"

    def _evaluation_due(self) -> bool:
        step = self.progress.step
        return step > self.progress.evaluated and (step % self._evaluate_every == 0 or step >= self.total)

    def _evaluate(self, signals: Signals) -> bool:
        """Judge and note it; -> whether nothing before was better."""
        progress, goal = self.progress, self.task.goal
        stop = (lambda: signals.number) if self.world.size == 1 else (lambda: 0)
        try:
            with self.optimiser.averaged():
                validation = evaluate(self.task, self._forward, "validation", self.world, stop)
        except Aborted:  # the step is saved as not evaluated: resuming begins with it
            return False
        train = {name: progress.sums[name] / progress.count for name in self._names}
        epoch = progress.step / self.steps_per_epoch
        if self.world.first:
            line = {"step": progress.step, "epoch": epoch, "train": train, "validation": validation}
            self.folder.note(line)
        self.watcher.evaluated(progress.step, epoch, train, validation)
        value = validation[goal.metric]
        better = progress.best is None or goal.rank(value) > goal.rank(progress.best)
        best = better or value == progress.best
        progress.stale = 0 if better else progress.stale + 1
        if best:  # of equals, the one that learned longer
            progress.best, progress.best_step = value, progress.step
        progress.perfect = progress.perfect + 1 if value == goal.perfect else 0
        progress.evaluated, progress.count, progress.sums = progress.step, 0, {}
        return best

    def _save(self) -> None:
        progress = self.progress
        now = (progress.step, progress.evaluated)
        if not self.world.first or self._saved == now:
            return
        judged = progress.evaluated == progress.step and progress.best_step == progress.step
        score = self.task.goal.rank(progress.best) if judged and progress.best is not None else None
        state = self.optimiser.state()
        with self.optimiser.averaged():
            weights = weights_of(self.model)
            check_finite(weights, progress.step)
            saved = Saved(weights, state, self.task.state, replace(progress), self.environment, score)
            self.folder.save(progress.step, saved)
        self._saved = now
