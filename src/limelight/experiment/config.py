"""An experiment: a task, a model and the settings of training. Recipes are built-in experiments."""

import json
import tomllib
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import tomli_w
from pydantic import Field, create_model

from limelight.config import Config, flatten, read, read_json, schema_of
from limelight.data.text.text_files import read_text
from limelight.errors import WrongInput, unknown, wrong
from limelight.experiment.plugins import load_plugin
from limelight.models.config import ModelConfig
from limelight.recipes import recipe_text, recipes
from limelight.settings import Section, sections
from limelight.tasks import registry
from limelight.tasks.task import TaskConfig
from limelight.training.config import TrainConfig

FILE = "experiment.toml"


class Experiment(Config):
    """All settings of a training run."""

    name: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$",
        description="name of the experiment; the default run folder is runs/NAME",
    )
    about: str = Field("", description="one-line description")
    plugin: str = Field("", description="Python file that defines and registers the task")
    plugin_digest: str = Field("", description="SHA-256 of that file, which must not change within a run")
    start: str = Field("", description="run folder whose weights and vocabulary training starts from")
    start_digest: str = Field("", description="SHA-256 of these weights, which must not change within a run")
    imported: str = Field("", description="name of the pre-trained model whose weights these are")
    seed: int = Field(1, ge=0, le=2**63 - 1, description="seed of the data, the weights and all random draws")
    task: TaskConfig = Field(description="the task and its data")
    model: ModelConfig = Field(description="the model")
    train: TrainConfig = Field(TrainConfig(), description="settings of training")

    def to_toml(self) -> str:
        """The experiment as a TOML file."""
        without = set() if self.plugin else {"plugin", "plugin_digest"}
        without |= set() if self.start else {"start", "start_digest"}
        without |= set() if self.imported else {"imported"}
        return tomli_w.dumps(self.model_dump(exclude_none=True, exclude=without))


def experiment_type() -> type[Experiment]:
    """`Experiment` with the tasks and models that are currently registered."""
    return _experiment_type(registry.registered())


@cache
def _experiment_type(tasks: tuple[type[TaskConfig], ...]) -> type[Experiment]:
    return create_model(
        "Experiment",
        __base__=Experiment,
        task=(registry.task_type(), Field(description=Experiment.model_fields["task"].description)),
        model=(registry.model_type(), Field(description=Experiment.model_fields["model"].description)),
    )


def sections_of(experiment: Experiment | None = None) -> list[Section]:
    """All settings, with their values in an experiment; without one, those of all tasks and models."""
    registry.load_installed()
    values = None if experiment is None else experiment.model_dump(mode="json")
    return sections(schema_of(experiment_type()), values)


def for_pretrained(source: str | Path) -> dict[str, Any]:
    """The settings of a recipe that differ when training starts from a pre-trained model, by dotted key."""
    found = _read_source(source).get("pretrained", {})
    if not isinstance(found, dict):
        raise WrongInput(f"{source}: pretrained is not a table")
    return flatten(found)


def experiment(
    source: str | Path, settings: dict[str, Any] | None = None, data: str | Path | None = None
) -> Experiment:
    """A recipe by name, a TOML file, a plug-in with its recipe, or the experiment of a run folder.

    Settings have dotted keys: {"train.epochs": 1, "model.heads": 2}. `data` is the path of the data.
    """
    values = _read_source(source)
    values.pop("pretrained", None)
    if data is not None:
        _point_to(values, Path(data))
    for key, value in (settings or {}).items():
        _set(values, key, value)
    made = _read_values(values, "" if settings or data else str(source))
    for key, value in flatten(made.model_dump()).items():
        if isinstance(value, str) and not _is_text(value):
            raise wrong(key, ascii(value), "text in UTF-8; rename the file")
    if not isinstance(made.model, made.task.models):
        allowed = " or ".join(repr(model.model_fields["kind"].default) for model in made.task.models)
        raise wrong("model.kind", repr(made.model.kind), f"{allowed} for the task {made.task.kind!r}")
    return made


def _read_values(values: dict[str, Any], source: str) -> Experiment:
    """Validate the values; an error names the file that they are from."""
    try:
        return read(experiment_type(), values)
    except WrongInput as error:
        if not source.endswith(".toml"):
            raise
        raise WrongInput(f"{source}: {error}") from None


def _is_text(value: str) -> bool:
    """Whether the value can be written to a UTF-8 file; a path with other bytes cannot."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def setting(text: str) -> tuple[str, Any]:
    """`a.b=v` -> ("a.b", v), with v parsed as TOML; a word without quotes is a string."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise wrong("--set", repr(text), "KEY=VALUE, as in model.heads=2")
    try:
        return key.strip(), tomllib.loads(f"value = {value.strip()}")["value"]
    except (ValueError, RecursionError):  # invalid TOML, or a number with too many digits
        return key.strip(), value.strip()


def settings_of(experiment: Experiment) -> dict[str, Any]:
    """All settings that affect the results, as JSON values; without the paths of data and start."""
    excluded: dict[str, Any] = {"task": {"data": {"path"}}}
    excluded |= dict.fromkeys(("name", "about", "plugin", "start", "imported"), True)
    excluded |= {} if experiment.plugin else {"plugin_digest": True}
    excluded |= {} if experiment.start else {"start_digest": True}
    return experiment.model_dump(mode="json", exclude=excluded)


def with_settings(written: Experiment, settings: dict[str, Any]) -> Experiment:
    """The experiment with settings from `settings_of`; name and paths are those of `written`."""
    values = written.model_dump(mode="json") | deepcopy(settings)
    path = getattr(written.task.data, "path", None)
    if path is not None:
        values["task"]["data"]["path"] = path
    return read_json(experiment_type(), json.dumps(values), "the settings of the checkpoint")


def _read_source(source: str | Path) -> dict[str, Any]:
    registry.load_installed()
    path = Path(source)
    if path.is_dir() and (path / FILE).is_file():
        path = path / FILE
    if path.suffix == ".py":
        plugin = load_plugin(path)
        return {**plugin.recipe(), "plugin": str(path.absolute()), "plugin_digest": plugin.digest}
    if path.suffix == ".toml":
        values = _parse(read_text(path), str(path))
        if isinstance(values.get("plugin"), str) and values["plugin"]:
            # The path of the plug-in is relative to the TOML file.
            plugin = load_plugin((path.parent / values["plugin"]).absolute(), values.get("plugin_digest"))
            values |= {"plugin": str(plugin.path), "plugin_digest": plugin.digest}
        return values
    if str(source).isidentifier() or "/" not in str(source):
        if str(source) not in recipes():
            raise unknown("recipe", str(source), recipes())
        return _parse(recipe_text(str(source)), f"{source}.toml")
    raise WrongInput(f"{source} is not a recipe, a TOML file, a plug-in (.py) or a run folder")


def _parse(text: str, name: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise WrongInput(f"{name}: {error}") from None


def _point_to(values: dict[str, Any], data: Path) -> None:
    """Make the experiment read its data from this path."""
    recipe = read(experiment_type(), values)
    if "path" not in type(recipe.task.data).model_fields:
        if not recipe.task.path_data:
            raise WrongInput(f"{recipe.name} generates its own data; omit --data")
        values["task"]["data"] = {"kind": recipe.task.path_data}
    _set(values, "task.data.path", str(data.absolute()))


def _set(values: dict[str, Any], key: str, value: Any) -> None:
    *path, last = key.split(".")
    place = values
    for part in path:
        place = place.setdefault(part, {})
        if not isinstance(place, dict):
            raise WrongInput(f"{key}: {part} is a single value and has no keys")
    place[last] = value
