"""A run that was trained: opened again for prediction, evaluation and pictures."""

import shlex
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from pydantic import ConfigDict
from torch import Tensor, nn

from limelight.config import Config, differences, flatten, read_json
from limelight.errors import WrongInput
from limelight.experiment.alignment import align
from limelight.experiment.build import build_model
from limelight.experiment.config import FILE, Experiment, experiment, settings_of, with_settings
from limelight.experiment.devices import choose
from limelight.experiment.looking import AnyTask, Given, look
from limelight.openmp import adaptive_spinning
from limelight.tasks.images.task import ClassifyImages
from limelight.tasks.task import Answer, Judgement
from limelight.tasks.translate.search import Search
from limelight.tasks.translate.task import Translate
from limelight.training.checkpoint import not_used
from limelight.training.distributed import World
from limelight.training.evaluate import evaluate
from limelight.training.folder import RunFolder, Saved
from limelight.training.journal import read_journal
from limelight.training.loop import SETTINGS
from limelight.training.progress import Metrics
from limelight.training.weights import load_weights
from limelight.view.page import explorer, framed
from limelight.view.record import Record


@dataclass(frozen=True)
class Sight:
    """Records of what a model looked at; a notebook shows them as a page that can be explored."""

    records: tuple[Record, ...]

    def _repr_html_(self) -> str:
        return framed(explorer(self.records[0].name, self.records))


class Report(Config):
    """What `report.json` says: what a run reached when it was finished."""

    model_config = ConfigDict(allow_inf_nan=True)  # a metric may be infinite

    experiment: str
    data: tuple[str, ...]
    metrics: dict[str, dict[str, float]]
    signatures: dict[str, str]
    steps: int
    best_step: int
    seconds: float
    parameters: int


def restored(path: Path) -> Iterator[tuple[Experiment, AnyTask, Saved]]:
    """Each checkpoint of a run folder that can be read, the best first, with the experiment and the task.

    The experiment is the one that the checkpoint was trained with, whatever became of the file since.
    """
    written = experiment(path)
    for saved in RunFolder(path).best():
        settings = saved.environment.get(SETTINGS, settings_of(written))  # 0.8.1 did not note them
        try:
            trained = with_settings(written, settings)
            task = trained.task.restore(saved.data)
        except (WrongInput, TypeError) as error:
            not_used(_unusable(path, saved, error))
            continue
        changed = differences(flatten(settings), flatten(settings_of(written)))
        if changed:
            warnings.warn(
                f"{path / FILE} was changed after training: {'; '.join(changed)}; "
                "the settings of the checkpoint are used",
                stacklevel=2,
            )
        yield trained, task, saved


def _unusable(path: Path, saved: Saved, error: Exception) -> WrongInput:
    reason = " ".join(str(error).split())
    return WrongInput(f"{path / 'checkpoints'}, step {saved.progress.step}: {reason}")


class Run:
    """The best weights of a run folder, and what is needed to use them."""

    def __init__(self, path: Path, device: torch.device, task: AnyTask | None = None) -> None:
        self.path, self.device = path, device
        self._loaded = task
        for trained, reading, saved in restored(path):
            try:
                model = build_model(trained.model, reading.sizes)
                load_weights(model, saved.weights)
            except (ValueError, RuntimeError, TypeError) as error:
                not_used(_unusable(path, saved, error))
                continue
            self.experiment: Experiment = trained
            self.reading: AnyTask = reading  # without its examples
            self.model: nn.Module = model.to(device).eval()
            self._digest = saved.environment.get("data")
            return
        hint = f"limelight train {shlex.quote(str(path))} --resume"
        raise WrongInput(f"{path} has no checkpoint that is whole; train it first: {hint}")

    @cached_property
    def task(self) -> AnyTask:
        """The task with its examples, which must be those that the run was trained on."""
        task = self._loaded or self.experiment.task.load(self.experiment.seed)
        if task.digest != self._digest:
            raise WrongInput(f"the data of {self.path} is no longer what the run was trained on")
        return task

    def predict(
        self,
        inputs: Sequence[str | Path | Tensor],
        *,
        first: int = 1,
        search: Search | None = None,
        alignment: bool = False,
    ) -> list[Answer]:
        """One answer per input, in their order; inputs are lines of text, names of image files, or tensors.

        `first` is the number of the first one, by which what is wrong is named. `search` says how a
        translation is searched (four beams by default); `alignment` adds which words it comes from.
        """
        if not inputs:
            return []
        with adaptive_spinning():
            return self._predict(inputs, first, search, alignment)

    def _predict(
        self, inputs: Sequence[str | Path | Tensor], first: int, search: Search | None, alignment: bool
    ) -> list[Answer]:
        if not isinstance(self.reading, Translate):
            if search or alignment:
                raise self._does_not_translate()
            return self.reading.predict(self.model, inputs, first=first)
        if any(isinstance(one, Tensor) for one in inputs):
            raise WrongInput("this run reads lines of text, not tensors")
        lines = [str(line) for line in inputs]
        answers = self.reading.predict(self.model, lines, search, first=first)
        if alignment:
            answers = [align(self.model, self.reading, *pair) for pair in zip(lines, answers, strict=True)]
        return answers

    def see(self, *inputs: Given) -> Sight:
        """What the model says of each input, and what every layer and head looks at.

        In a notebook, the last line of a cell shows it: run.see("I am home .")
        """
        found = self.look(inputs or (self.sample or self._first(),))
        for one in found:
            if isinstance(one, WrongInput):
                raise one
        return Sight(tuple(one for one in found if isinstance(one, Record)))

    def _first(self) -> Tensor:
        return self.task.batch(self.held_out, torch.tensor([0])).inputs[0]

    def look(self, inputs: Sequence[Given]) -> list[Record | WrongInput]:
        """One record an input, in their order; what cannot be read has its refusal there."""
        return look(self.model, self.reading, inputs, self.experiment.name)

    def lines_of(self, path: Path) -> list[str]:
        """The inputs that a file has: its lines, or the column of a table that training read."""
        return self.reading.lines_of(path)

    @property
    def reads_images(self) -> bool:
        return isinstance(self.reading, ClassifyImages)

    @property
    def held_out(self) -> str:
        """The split that was looked at least: the test split, if there is one."""
        return self.task.splits[-1]

    def evaluate(self, split: str | None = None) -> Metrics:
        """Each metric over a split, the held-out one unless named."""
        return self.judge(split).values

    def judge(self, split: str | None = None, *, search: Search | None = None) -> Judgement:
        """Each metric over a split, and the rules that it goes by; `search` as in `predict`."""
        split, task = split or self.held_out, self.task
        if search and not isinstance(task, Translate):
            raise self._does_not_translate()
        with adaptive_spinning():
            means = evaluate(task, self.model, split, World(device=self.device))
            if isinstance(task, Translate):
                judged = task.judge(self.model, split, search)
            else:
                judged = task.judge(self.model, split)
        return Judgement(means | judged.values, judged.signatures)

    def _does_not_translate(self) -> WrongInput:
        return WrongInput(f"{self.path} does not translate: it has no beams and no alignment")

    @property
    def sample(self) -> str:
        """A held-out input to try `predict` on; empty where none can be typed."""
        return self.task.sample(self.held_out)

    @property
    def report(self) -> dict[str, Any]:
        """What was reached, when the run was finished."""
        path = self.path / "report.json"
        text = path.read_bytes().decode(errors="replace")
        return read_json(Report, text, f"{path} is not as it was written").model_dump()

    @property
    def journal(self) -> list[dict[str, Any]]:
        """One entry an evaluation."""
        return read_journal(self.path / "metrics.jsonl", ("loss", self.reading.goal.metric))


def open_run(path: str | Path, *, device: str = "auto", task: AnyTask | None = None) -> Run:
    """Open a run folder; `task` spares loading the examples where they are at hand."""
    if not (Path(path) / FILE).is_file():
        raise WrongInput(f"{path} is not a run folder: it has no {FILE}")
    return Run(Path(path), choose(device), task)
