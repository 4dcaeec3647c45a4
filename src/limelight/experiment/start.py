"""A run that starts from the weights of another run: its model and its vocabulary are those of that run."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from limelight.data.dataset import Dataset
from limelight.data.text.pretrained_tokenizer import PretrainedTokenizer
from limelight.errors import WrongInput, wrong
from limelight.experiment.config import FILE, Experiment, experiment, for_pretrained
from limelight.experiment.engines import digest_of
from limelight.experiment.run import Run, open_run, restored
from limelight.models.config import ModelConfig
from limelight.tasks.task import Task
from limelight.training.start import take_weights
from limelight.training.weights import weights_of


@dataclass(frozen=True)
class Start:
    """What a run starts from: a task with its vocabulary; unless it is resumed, also the weights of a run."""

    task: Task[Any]
    run: Run | None = None
    notes: tuple[str, ...] = ()

    def take(self, model: nn.Module, config: ModelConfig) -> list[str]:
        """Copy the weights that fit into a model; returns notes on them."""
        if self.run is None:
            return []
        weights = _renamed(weights_of(self.run.model), self.run.experiment.model.parts, config.parts)
        return [*self.notes, *take_weights(model, weights, str(self.run.path))]


def resolve(
    recipe: str | Path, settings: dict[str, Any], data: str | Path | None, start: str | Path | None
) -> tuple[Experiment, Start | None]:
    """The experiment, and what it starts from if a run was given now.

    The model has the settings of that run where both models have them, unless they are in `settings`.
    """
    if start is None:
        wanted = experiment(recipe, settings, data)
        if not wanted.start or wanted.start_digest:
            return wanted, None
        start = wanted.start
    run = open_run(start, device="cpu")
    tuned = for_pretrained(recipe) if isinstance(run.task.reader, PretrainedTokenizer) else {}
    settings = {**tuned, **settings}
    own = experiment(recipe, {key: settings[key] for key in settings.keys() & {"model.kind"}}, data).model
    like = {f"model.{key}": value for key, value in own.settings_like(run.experiment.model).items()}
    width = like.get("model.width")
    if settings.get("model.width", width) != width:
        raise wrong("model.width", settings["model.width"], f"{width}, the width of {run.path}")
    source = {"start": str(run.path.absolute()), "start_digest": digest_of(run.model)}
    wanted = experiment(recipe, {**like, **settings, **source}, data)
    changed = [
        f"{key} = {value}"
        for key, value in like.items()
        if key not in settings and value != getattr(own, key.removeprefix("model."))
    ]
    notes = [f"settings of {run.path}: {', '.join(changed)}"] if changed else []
    if tuned:
        shown = ", ".join(f"{key} = {settings[key]}" for key in tuned)
        notes.append(f"settings for a pre-trained model: {shown}")
    return wanted, Start(run.task, run, tuple(notes))


def find_start(wanted: Experiment, folder: Path) -> Start | None:
    """What an experiment starts from: the task of its own checkpoints, or else the run that it names."""
    if not wanted.start:
        return None
    same = (folder / FILE).is_file() and experiment(folder).start_digest == wanted.start_digest
    for _, task, _ in restored(folder) if same else ():
        return Start(task)
    run = open_run(wanted.start, device="cpu")
    if digest_of(run.model) != wanted.start_digest:
        raise WrongInput(f"the weights of {run.path} have changed; start from them again with --from")
    return Start(run.task, run)


def load(wanted: Experiment, start: Start | None) -> tuple[Task[Any], Dataset[Any]]:
    """The task and the data set of an experiment; inputs mean the same as in the task to start from."""
    if start is None:
        return wanted.task.load(wanted.seed)
    return wanted.task.load_from(wanted.seed, start.task)


def _renamed(
    weights: dict[str, Tensor], there: Mapping[str, str], here: Mapping[str, str]
) -> dict[str, Tensor]:
    """The weights with the names that the same parts have in another kind of model."""
    moved = {f"{there[part]}.": f"{here[part]}." for part in there.keys() & here.keys()}
    found = dict[str, Tensor]()
    for name, tensor in weights.items():
        old = next((old for old in moved if name.startswith(old)), "")
        found[moved.get(old, "") + name.removeprefix(old)] = tensor
    return found
