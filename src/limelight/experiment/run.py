"""A trained run, opened for prediction, evaluation and figures."""

import shlex
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import torch
from pydantic import ConfigDict, Field
from torch import Tensor, nn

from limelight.config import Config, differences, flatten, read_json
from limelight.data.dataset import Dataset
from limelight.errors import WrongInput, wrong
from limelight.experiment.build import build_model
from limelight.experiment.config import FILE, Experiment, experiment, settings_of, with_settings
from limelight.experiment.devices import choose
from limelight.experiment.engines import engine_model
from limelight.invocation import program
from limelight.openmp import adaptive_spinning
from limelight.tasks.metrics import Baseline, Judgement
from limelight.tasks.task import Answer, Input, Task
from limelight.training.checkpoint import not_used
from limelight.training.distributed import World
from limelight.training.evaluate import evaluate
from limelight.training.folder import RunFolder, Saved
from limelight.training.journal import read_journal
from limelight.training.loop import SETTINGS
from limelight.training.progress import Metrics
from limelight.training.weights import load_weights
from limelight.view.changes import Changed, changing
from limelight.view.explorer import Explorer
from limelight.view.prompt import Prompt
from limelight.view.record import Record


class Report(Config):
    """The content of `report.json`: the results of a finished run."""

    model_config = ConfigDict(allow_inf_nan=True)  # a metric may be infinite

    experiment: str = Field(description="name of the experiment")
    data: tuple[str, ...] = Field(description="notes on the data")
    start: str = Field("", description="run folder that training started from")
    start_digest: str = Field("", description="SHA-256 of its weights")
    metrics: dict[str, dict[str, float]] = Field(description="metrics by split")
    signatures: dict[str, str] = Field(description="signatures of the metrics that have one")
    steps: int = Field(description="training steps")
    best_step: int = Field(description="step of the best checkpoint")
    seconds: float = Field(description="training time in seconds")
    parameters: int = Field(description="number of parameters of the model")
    baseline: Baseline | None = Field(None, description="a simple model on the last split, to compare with")
    classes: dict[str, dict[str, float]] = Field({}, description="metrics by class on the last split")
    confusion: list[list[int]] = Field([], description="predictions by true class, on the last split")


def read_report(folder: Path) -> Report:
    """The report of a finished run."""
    path = folder / "report.json"
    return read_json(Report, path.read_bytes().decode(errors="replace"), f"{path} is damaged")


def restored(path: Path) -> Iterator[tuple[Experiment, Task[Any], Saved]]:
    """Each checkpoint of a run folder that can be read, the best first, with the experiment and the task.

    The experiment is the one that the checkpoint was trained with, even if the file was changed since.
    """
    written = experiment(path)
    for saved in RunFolder(path).best():
        settings = saved.environment.get(SETTINGS, settings_of(written))  # version 0.8.1 did not save them
        try:
            trained = with_settings(written, settings)
            task = trained.task.restore(saved.data)
        except (WrongInput, TypeError) as error:
            not_used(_unusable(path, saved, error))
            continue
        changed = differences(flatten(settings_of(trained)), flatten(settings_of(written)))
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


def _several(inputs: Sequence[Input] | Input) -> Sequence[Input]:
    """The inputs as a sequence; other types than those of inputs are refused."""
    found = [inputs] if isinstance(inputs, str | Path | bytes) else list(inputs)
    for number, one in enumerate(found, 1):
        if not isinstance(one, str | Path | bytes | Tensor):
            allowed = "a line of text, the path or the bytes of an image, or a tensor"
            raise wrong(f"input {number}", f"{one!r:.40} ({type(one).__name__})", allowed)
    return found


class Run:
    """The best weights of a run folder, and what is needed to use them. They are loaded on first use."""

    def __init__(
        self, path: Path, device: torch.device, dataset: Dataset[Any] | None = None, engine: str = "torch"
    ) -> None:
        self.path, self.device, self._engine = path, device, engine
        self._given = dataset

    @cached_property
    def _best(self) -> tuple[Experiment, Task[Any], nn.Module, str | None]:
        """Experiment, task, model and digest of the data of the best checkpoint that can be used."""
        for trained, task, saved in restored(self.path):
            try:
                model = build_model(trained.model, task.sizes)
                load_weights(model, saved.weights)
            except (ValueError, RuntimeError, TypeError) as error:
                not_used(_unusable(self.path, saved, error))
                continue
            return trained, task, model.to(self.device).eval(), saved.environment.get("data")
        hint = f"{program()} train {shlex.quote(str(self.path))} --resume"
        raise WrongInput(f"{self.path} has no valid checkpoint; train it first: {hint}")

    @property
    def experiment(self) -> Experiment:
        """The experiment that the model was trained with."""
        return self._best[0]

    @property
    def task(self) -> Task[Any]:
        """The task, restored without its data."""
        return self._best[1]

    @property
    def model(self) -> nn.Module:
        """The model with the best weights, in evaluation mode."""
        return self._best[2]

    @cached_property
    def answering(self) -> nn.Module:
        """The model, or its export to another engine, which is called in the same way."""
        return engine_model(self.path, self.task, self.model, self._engine)

    @cached_property
    def dataset(self) -> Dataset[Any]:
        """The data that the run was trained on; refused if it has changed."""
        if self.experiment.imported and self._given is None:
            hint = "give an input, as in `limelight see RUN INPUT`, or data with --data"
            raise WrongInput(f"{self.path} was imported and has no data of its own: {hint}")
        dataset = self._given or self._load()
        if dataset.digest != self._best[3]:
            raise WrongInput(f"the data of {self.path} has changed since the run was trained")
        return dataset

    def _load(self) -> Dataset[Any]:
        """The data, read with the vocabulary of another run if training started from one."""
        config, seed = self.experiment.task, self.experiment.seed
        return (config.load_from(seed, self.task) if self.experiment.start else config.load(seed))[1]

    def predict(self, inputs: Sequence[Input] | Input, *, first: int = 1, **options: Any) -> list[Answer]:
        """One answer per input, in order; inputs are lines of text, paths of image files, or tensors.

        A single line or path is one input.

            run.predict(["She is tired."], beam=5, alignment=True)

        Options are those of the task; translation has beam, n_best, length_penalty, temperature, top_k,
        top_p, seed and alignment. Errors count the inputs from `first` on.
        """
        inputs = _several(inputs)
        if not inputs:
            return []
        read = self.task.read_options(options)
        with adaptive_spinning():
            return self.task.predict(self.answering, inputs, read, first=first)

    def generate(self, prompt: str = "", **options: Any) -> Iterator[str]:
        """A continuation of the prompt, in pieces, each as soon as it is known.

            print("".join(run.generate("The ", length=200, temperature=0.8)))

        Options are those of the task: length, temperature, top_k, top_p, repetition, stop and seed.
        """
        return self.task.generate(self.answering, prompt, options)

    def see(self, *inputs: Input) -> Explorer:
        """The answer to each input, and the attention maps of every layer and head.

        In a notebook, the last line of a cell shows it: run.see("I am home .")
        """
        found = self.record(inputs or (self.sample or self._first(),))
        for one in found:
            if isinstance(one, WrongInput):
                raise one
        return Explorer(tuple(one for one in found if isinstance(one, Record)))

    def _first(self) -> Tensor:
        return self.dataset.batch(self.dataset.held_out, torch.tensor([0])).inputs[0]

    def record(self, inputs: Sequence[Input | Prompt | Changed]) -> list[Record | WrongInput]:
        """One record per input, in order; for an invalid input, its error."""
        if any(isinstance(one, Changed) for one in inputs):
            return [found for one in inputs for found in self._record_changed(one)]
        if not self.task.reads_prompts and any(isinstance(one, Prompt) for one in inputs):
            raise WrongInput("only a language model reads a Prompt; give a text")
        name = {"name": self.experiment.name}
        records = self.task.record(self.answering, cast(Sequence[Input], inputs))
        return [one if isinstance(one, WrongInput) else one.model_copy(update=name) for one in records]

    def _record_changed(self, one: Input | Prompt | Changed) -> list[Record | WrongInput]:
        if not isinstance(one, Changed):
            return self.record([one])
        try:
            with changing(self.answering, one.changes):
                return self.record([one.given])
        except WrongInput as refusal:
            return [refusal]

    def evaluate(
        self, split: str | None = None, *, data: str | Path | None = None, **options: Any
    ) -> Metrics:
        """All metrics of a split, by default of the held-out one; options as in `predict`.

        `data` is other data than that of training: run.evaluate(data="new.csv")
        """
        return self.judge(split, dataset=None if data is None else self.load_other(data), **options).values

    def load_other(self, path: str | Path) -> Dataset[Any]:
        """Other data than that of training, from a user's files, encoded for this model."""
        return self.experiment.task.load_other(self.task, Path(path))

    def judge(
        self, split: str | None = None, *, dataset: Dataset[Any] | None = None, **options: Any
    ) -> Judgement:
        """All metrics of a split, with their signatures and those of each class; options as in `predict`."""
        read = self.task.read_options(options, evaluating=True)
        dataset = dataset or self.dataset
        split = split or dataset.held_out
        with adaptive_spinning():
            means = evaluate(self.task, dataset, self.answering, split, World(device=self.device))
            judged = self.task.evaluate_answers(self.answering, dataset, split, read)
        derived = self.task.derived(means, dataset, split)
        return replace(judged, values=means | derived | judged.values)

    @property
    def sample(self) -> str:
        """A held-out input to try `predict` with; empty if inputs cannot be typed."""
        return self.task.sample(self.dataset, self.dataset.held_out)

    @property
    def report(self) -> dict[str, Any]:
        """The results of a finished run."""
        return read_report(self.path).model_dump()

    @property
    def journal(self) -> list[dict[str, Any]]:
        """One entry per evaluation."""
        return read_journal(self.path / "metrics.jsonl", ("loss", self.task.goal.metric))


def check_run_folder(path: str | Path) -> None:
    """Refuse a path that is not a run folder."""
    if not (Path(path) / FILE).is_file():
        likely = Path("runs") / path
        hint = f"; did you mean {likely}?" if (likely / FILE).is_file() else ""
        raise WrongInput(f"{path} is not a run folder: it has no {FILE}{hint}")


def open_run(path: str | Path, *, device: str = "auto", engine: str = "torch") -> Run:
    """Open a run folder. One that was trained with a plug-in runs the code of its copy, with a warning.

    With another `engine`, its answers are computed from the export of that format; "auto": the fastest one.
    """
    check_run_folder(path)
    run = Run(Path(path), choose(device), engine=engine)
    if run.experiment.plugin:
        warnings.warn(f"{path} runs the code of its plug-in {run.experiment.plugin}", stacklevel=2)
    return run
