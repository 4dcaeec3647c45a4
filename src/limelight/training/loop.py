"""The Trainer: optimiser steps, evaluation, checkpoints, early stopping. It works with any task and model."""

import math
import shlex
import signal
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from limelight.config import differences, flatten
from limelight.data.batching import Batch
from limelight.data.dataset import Dataset
from limelight.errors import Diverged, WrongInput
from limelight.invocation import program
from limelight.randomness import derive, seed
from limelight.tasks.task import Task
from limelight.training.checkpoint import not_used
from limelight.training.config import TrainConfig
from limelight.training.distributed import World
from limelight.training.evaluate import Aborted, evaluate
from limelight.training.folder import Progress, RunFolder, Saved
from limelight.training.interrupt import Interrupted, Signals, deferred_signals
from limelight.training.journal import EMPTY_JOURNAL
from limelight.training.optimise import Optimiser, rate_at
from limelight.training.parts import freeze, learning_rates
from limelight.training.progress import Watcher
from limelight.training.weights import check_finite, load_weights, weights_of

SETTINGS = "settings"  # the key of the experiment's settings in an environment


def another_run(differences: list[str]) -> WrongInput:
    """The exception for resuming a run with other settings or versions."""
    hint = "--allow-inexact resumes nevertheless if weights, optimiser and data still fit"
    return WrongInput(f"this is not the same run: {'; '.join(differences)}; {hint}")


def _flat_environment(environment: dict[str, Any]) -> dict[str, Any]:
    """With the settings under their own dotted keys, as in the experiment file."""
    rest = {key: value for key, value in environment.items() if key != SETTINGS}
    return rest | flatten(environment.get(SETTINGS) or {})


class Trainer:
    """Trains a model on a task and saves it in a run folder.

    The same seed gives the same weights, bit for bit, also if the run is interrupted and resumed in between.
    A checkpoint stores `environment` (versions, settings, data); `resume` compares it with the present one.
    """

    def __init__(
        self,
        config: TrainConfig,
        task: Task[Any],
        dataset: Dataset[Any],
        model: nn.Module,
        folder: RunFolder,
        *,
        seed: int,
        world: World,
        environment: dict[str, Any],
        compiled: bool = False,
        watcher: Watcher | None = None,
    ) -> None:
        self.config, self.task, self.dataset = config, task, dataset
        self.folder, self.seed, self.world = folder, seed, world
        self.environment = environment
        self.model = model.to(world.device)
        self._forward: nn.Module = torch.compile(self.model) if compiled else self.model  # type: ignore[assignment]
        self.watcher = watcher if watcher and world.first else Watcher()
        freeze(self.model, config.freeze)
        self.optimiser = Optimiser(
            self.model,
            config.decay,
            muon=config.optimiser == "muon",
            average=config.average,
            rates=learning_rates(self.model, config.rates),
        )
        self.progress = Progress()
        self._names = ("loss", task.goal.metric)
        self._steps_per_pass = math.ceil(len(dataset.lengths("train")) / config.batch)
        self.steps_per_epoch = max(self._steps_per_pass, config.epoch_steps)
        self.total = max(1, round(self.steps_per_epoch * config.epochs))
        self._pass = -1
        self._batches: Sequence[Tensor] = ()
        self._evaluate_every = config.in_steps(config.evaluate_every, self.steps_per_epoch)
        self._save_every = config.in_steps(config.save_every, self.steps_per_epoch)
        self._saved = (-1, -1)  # step and last evaluation of the newest checkpoint
        self._stop = 0  # the signal that stops all processes; 0 if there is none

    def resume(self, *, inexact: bool = False) -> None:
        """Continue from the newest checkpoint that fits the model, or from the beginning if there is none.

        `inexact` allows other versions and settings; the result may then differ from an uninterrupted run.
        """
        errors = list[WrongInput]()
        for saved in self.folder.newest(self.world):
            self._check_environment(saved.environment, inexact)
            try:
                load_weights(self.model, saved.weights)
                self.optimiser.load_state_dict(saved.training)
                break
            except WrongInput as error:
                errors.append(error)
        else:
            if errors:
                raise errors[0]
            saved = None
        for mismatch in errors:
            not_used(mismatch)
        if saved is None:
            self.watcher.note(f"{self.folder.path} has no checkpoint; training starts at step 0")
        if self.world.first:
            self.folder.journal.truncate(saved.journal if saved else EMPTY_JOURNAL)
        if saved is not None:
            self.progress = saved.progress
            self._saved = (self.progress.step, self.progress.evaluated)

    def _check_environment(self, before: dict[str, Any], inexact: bool) -> None:
        settings = before.get(SETTINGS, self.environment.get(SETTINGS))  # version 0.8.1 did not save them
        found = differences(
            _flat_environment(before | {SETTINGS: settings}), _flat_environment(self.environment)
        )
        # With other data, the same weights may belong to other words or classes; scores are not comparable.
        if self.environment.get("data") != before.get("data"):
            others = "; ".join(one for one in found if not one.startswith("data "))
            why = f" ({others})" if others else ""
            raise WrongInput(f"the data of this run has changed{why}; start another run with --out")
        if found and not inexact:
            raise another_run(found)

    @property
    def ending(self) -> str:
        """The reason why the run ends here; empty while it has steps to do."""
        progress, config = self.progress, self.config
        if progress.step >= self.total:
            return "all steps are done"
        if config.perfect and progress.perfect >= config.perfect:
            return f"{progress.perfect} consecutive perfect evaluations (train.perfect = {config.perfect})"
        if config.patience and progress.stale >= config.patience:
            return f"{progress.stale} evaluations without improvement (train.patience = {config.patience})"
        return ""

    @property
    def finished(self) -> bool:
        """Whether the run has no more steps to do."""
        return bool(self.ending)

    def fit(self) -> Progress:
        """Train to the end; raise `Interrupted` after a signal, with a checkpoint of the last step."""
        progress = self.progress
        begin = time.perf_counter() - progress.seconds
        self.watcher.begin(progress.step, self.total, self.task.unit)
        try:
            with deferred_signals() as signals:
                while True:
                    best = self._evaluation_due() and self._evaluate(signals)
                    progress.seconds = time.perf_counter() - begin
                    stop = signals.number if self.world.size == 1 else self._stop
                    due = progress.step > 0 and progress.step % self._save_every == 0
                    if best or due or stop or self.finished:
                        self.save()
                    if stop:
                        raise Interrupted(stop, self._interruption_message())
                    if self.finished:
                        return progress
                    self._step(signals)
        finally:
            self.watcher.end()

    def _step(self, signals: Signals) -> None:
        """One update with one batch, which may be computed in parts and by several processes."""
        config, progress, world = self.config, self.progress, self.world
        batch = self._batch(progress.step)
        count = self.task.predictions(batch)
        sums = [0.0] * len(self._names)
        seed(derive(self.seed, "step", progress.step, world.rank), world.device)
        if not self._forward.training:
            self._forward.train()
        self.optimiser.zero_grad()
        first = world.rank * config.accumulate
        for piece in batch.split(world.size * config.accumulate)[first : first + config.accumulate]:
            if not len(piece):
                continue
            with self._autocast():
                scores = self.task.loss(self._forward, piece.to(world.device), config.smoothing)
            (scores.loss / count).backward()
            sums = [total + float(scores.sums[name]) for total, name in zip(sums, self._names, strict=True)]
        *sums, stop = world.all_reduce([*sums, float(signals.number > 0)])
        if not math.isfinite(sums[0]):
            raise Diverged(self._loss_message(sums[0] / count, batch))
        world.all_reduce_gradient(self.optimiser.gradient)
        if config.clip:
            self.optimiser.clip(config.clip)
        self.optimiser.step(rate_at(config, progress.step, self.total))
        progress.step += 1
        progress.count += count
        now = dict(zip(self._names, sums, strict=True))
        progress.sums = {name: progress.sums.get(name, 0.0) + total for name, total in now.items()}
        self._stop = (signals.number or signal.SIGTERM) if stop else 0
        self.watcher.step(progress.step, batch.tokens, {name: total / count for name, total in now.items()})

    def _batch(self, step: int) -> Batch:
        pass_number, batch_number = divmod(step, self._steps_per_pass)
        if pass_number != self._pass:
            self._batches = self.dataset.epoch(self.config.batch, self.seed, pass_number)
            self._pass = pass_number
        return self.dataset.batch("train", self._batches[batch_number])

    def _autocast(self) -> AbstractContextManager[Any]:
        if self.config.precision == "float32":
            return nullcontext()
        return torch.autocast(self.world.device.type, torch.bfloat16)

    def _interruption_message(self) -> str:
        where = f"stopped at step {self.progress.step} of {self.total} and saved"
        return f"{where}; resume with: {program()} train {shlex.quote(str(self.folder.path))} --resume"

    def _loss_message(self, loss: float, batch: Batch) -> str:
        some = ", ".join(map(str, batch.index[:8].tolist())) + (", …" if len(batch) > 8 else "")
        where = f"step {self.progress.step + 1}: the loss is {loss} on the batch of training examples {some}"
        return f"{where}; the weights were not updated. A smaller train.rate or train.clip may help"

    def _evaluation_due(self) -> bool:
        step = self.progress.step
        return step > self.progress.evaluated and (step % self._evaluate_every == 0 or step >= self.total)

    def _evaluate(self, signals: Signals) -> bool:
        """Evaluate, and write the metrics to the journal; returns whether this is the best result so far."""
        progress, goal = self.progress, self.task.goal
        stop = (lambda: signals.number) if self.world.size == 1 else (lambda: 0)
        try:
            with self.optimiser.averaged():
                validation = evaluate(self.task, self.dataset, self._forward, "validation", self.world, stop)
        except Aborted:  # the step is saved without its evaluation; resuming starts with it
            return False
        train = {name: progress.sums[name] / progress.count for name in self._names}
        epoch = progress.step / self.steps_per_epoch
        if self.world.first:
            line = {"step": progress.step, "epoch": epoch, "train": train, "validation": validation}
            self.folder.append(line)
        self.watcher.evaluated(progress.step, epoch, train, validation)
        value = validation[goal.metric]
        better = progress.best is None or goal.rank(value) > goal.rank(progress.best)
        best = better or value == progress.best
        progress.stale = 0 if better else progress.stale + 1
        if best:  # of equal results, the later one
            progress.best, progress.best_step = value, progress.step
        progress.perfect = progress.perfect + 1 if value == goal.perfect else 0
        progress.evaluated, progress.count, progress.sums = progress.step, 0, {}
        return best

    def save(self) -> None:
        """Save a checkpoint of the last step, unless there is one."""
        progress = self.progress
        now = (progress.step, progress.evaluated)
        if not self.world.first or self._saved == now:
            return
        evaluated = progress.evaluated == progress.step and progress.best_step == progress.step
        score = self.task.goal.rank(progress.best) if evaluated and progress.best is not None else None
        state = self.optimiser.state_dict()
        with self.optimiser.averaged():
            weights = weights_of(self.model)
            check_finite(weights, progress.step)
            saved = Saved(weights, state, self.task.state, replace(progress), self.environment, score)
            self.folder.save(progress.step, saved)
        self._saved = now
