"""An experiment: what is learned, by which model, how. Recipes are experiments that come with the package."""

import json
import tomllib
from copy import deepcopy
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

import tomli_w
from pydantic import Field

from limelight.config import Config, flatten, read, read_json
from limelight.data.text.text_files import read_text
from limelight.errors import WrongInput, unknown, wrong
from limelight.models.classifier import ClassifierConfig
from limelight.models.labeller import LabellerConfig
from limelight.models.recurrent import RecurrentConfig
from limelight.models.transformer import TransformerConfig
from limelight.models.vit import ViTConfig
from limelight.tasks.images.task import ImagesConfig
from limelight.tasks.sequence.classify import ClassifyConfig
from limelight.tasks.sequence.label import LabelConfig
from limelight.tasks.translate.task import TranslateConfig
from limelight.training.config import TrainConfig

FILE = "experiment.toml"

TaskConfig = Annotated[
    LabelConfig | ClassifyConfig | TranslateConfig | ImagesConfig, Field(discriminator="kind")
]
ModelConfig = Annotated[
    LabellerConfig | ClassifierConfig | TransformerConfig | RecurrentConfig | ViTConfig,
    Field(discriminator="kind"),
]
MODELS = {
    "label": ("labeller",),
    "classify": ("classifier",),
    "translate": ("transformer", "recurrent"),
    "images": ("vit",),
}
FILES = {"translate": "pairs", "images": "files"}  # what reads a path where a recipe makes its own data


class Experiment(Config):
    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    about: str = ""
    seed: int = Field(1, ge=0, le=2**63 - 1)
    task: TaskConfig
    model: ModelConfig
    train: TrainConfig = TrainConfig()

    def to_toml(self) -> str:
        return tomli_w.dumps(self.model_dump(exclude_none=True))


def recipes() -> dict[str, str]:
    """Name -> what it is about, of each recipe of the package."""
    folder = files("limelight.recipes")
    found = {
        path.name.removesuffix(".toml"): path for path in folder.iterdir() if path.name.endswith(".toml")
    }
    return {name: _parse(found[name].read_text(), f"{name}.toml")["about"] for name in sorted(found)}


def experiment(
    source: str | Path, settings: dict[str, Any] | None = None, data: str | Path | None = None
) -> Experiment:
    """A recipe by name, a TOML file, or a run folder's experiment, with some settings changed.

    Settings go by dotted keys: {"train.epochs": 1, "model.heads": 2}. `data` is where the data lies.
    """
    values = _read_source(source)
    if data is not None:
        _point_to(values, Path(data))
    for key, value in (settings or {}).items():
        _set(values, key, value)
    made = read(Experiment, values)
    for key, value in flatten(made.model_dump()).items():
        if isinstance(value, str) and not _is_text(value):
            raise wrong(key, ascii(value), "text in UTF-8; rename the file")
    if made.model.kind not in MODELS[made.task.kind]:
        allowed = " or ".join(map(repr, MODELS[made.task.kind]))
        raise wrong("model.kind", repr(made.model.kind), f"{allowed} for the task {made.task.kind!r}")
    return made


def _is_text(value: str) -> bool:
    """Whether it can be written to a file: bytes of a path that are no UTF-8 cannot."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def setting(text: str) -> tuple[str, Any]:
    """`a.b=v` -> ("a.b", v), with v as TOML reads it; a word alone needs no quotes."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise wrong("--set", repr(text), "KEY=VALUE, as in model.heads=2")
    try:
        return key.strip(), tomllib.loads(f"value = {value.strip()}")["value"]
    except (ValueError, RecursionError):  # TOML's own error is a ValueError, and so are too many digits
        return key.strip(), value.strip()


def settings_of(experiment: Experiment) -> dict[str, Any]:
    """Every setting that a result depends on, as JSON has them; where the data lies does not count."""
    return experiment.model_dump(
        mode="json", exclude={"name": True, "about": True, "task": {"data": {"path"}}}
    )


def with_settings(written: Experiment, settings: dict[str, Any]) -> Experiment:
    """The experiment as it was when `settings_of` gave these settings; its name and path are as written."""
    values = written.model_dump(mode="json") | deepcopy(settings)
    path = getattr(written.task.data, "path", None)
    if path is not None:
        values["task"]["data"]["path"] = path
    return read_json(Experiment, json.dumps(values), "the settings of the checkpoint")


def _read_source(source: str | Path) -> dict[str, Any]:
    path = Path(source)
    if path.is_dir() and (path / FILE).is_file():
        path = path / FILE
    packaged = files("limelight.recipes").joinpath(f"{source}.toml")
    if path.suffix == ".toml":
        return _parse(read_text(path), str(path))
    if str(source).isidentifier() or "/" not in str(source):
        if packaged.is_file():
            return _parse(packaged.read_text(), f"{source}.toml")
        raise unknown("recipe", str(source), recipes())
    raise WrongInput(f"{source} is neither a recipe nor a TOML file nor a run folder")


def _parse(text: str, name: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise WrongInput(f"{name}: {error}") from None


def _point_to(values: dict[str, Any], data: Path) -> None:
    """Let the experiment read its data from there."""
    recipe = read(Experiment, values)
    if "path" not in type(recipe.task.data).model_fields:
        if recipe.task.kind not in FILES:
            raise WrongInput(f"{recipe.name} makes its own data and reads none; leave out --data")
        values["task"]["data"] = {"kind": FILES[recipe.task.kind]}
    _set(values, "task.data.path", str(data.absolute()))


def _set(values: dict[str, Any], key: str, value: Any) -> None:
    *path, last = key.split(".")
    place = values
    for part in path:
        place = place.setdefault(part, {})
        if not isinstance(place, dict):
            raise WrongInput(f"{key}: {part} is one value and has nothing below it")
    place[last] = value
