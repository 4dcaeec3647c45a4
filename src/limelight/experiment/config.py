"""An experiment: what is learned, by which model, how. Recipes are experiments that come with the package."""

import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

import tomli_w
from pydantic import Field

from limelight.config import Config, read
from limelight.errors import WrongInput, unknown, wrong
from limelight.models.classifier import ClassifierConfig
from limelight.models.labeller import LabellerConfig
from limelight.models.recurrent import RecurrentConfig
from limelight.models.transformer import TransformerConfig
from limelight.models.vit import ViTConfig
from limelight.tasks.classify import ClassifyConfig
from limelight.tasks.images import ImagesConfig
from limelight.tasks.label import LabelConfig
from limelight.tasks.translate import TranslateConfig
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
    seed: int = Field(1, ge=0)
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
    if made.model.kind not in MODELS[made.task.kind]:
        allowed = " or ".join(map(repr, MODELS[made.task.kind]))
        raise wrong("model.kind", repr(made.model.kind), f"{allowed} for the task {made.task.kind!r}")
    return made


def setting(text: str) -> tuple[str, Any]:
    """`a.b=v` -> ("a.b", v), with v as TOML reads it; a word alone needs no quotes."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise wrong("--set", repr(text), "KEY=VALUE, as in model.heads=2")
    try:
        return key.strip(), tomllib.loads(f"value = {value.strip()}")["value"]
    except (ValueError, RecursionError):  # TOML's own error is a ValueError, and so are too many digits
        return key.strip(), value.strip()


def differences(one: Experiment, other: Experiment) -> list[str]:
    """What differs, by full key; where the data lies does not count."""
    ours, theirs = (_flat(e.model_dump(exclude={"name", "about"})) for e in (one, other))
    keys = [key for key in ours | theirs if ours.get(key) != theirs.get(key) and key != "task.data.path"]
    return [f"{key} was {ours.get(key)}, is {theirs.get(key)}" for key in keys]


def _read_source(source: str | Path) -> dict[str, Any]:
    path = Path(source)
    if path.is_dir() and (path / FILE).is_file():
        path = path / FILE
    packaged = files("limelight.recipes").joinpath(f"{source}.toml")
    if path.suffix == ".toml":
        try:
            return _parse(path.read_text(encoding="utf-8-sig"), str(path))
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
            raise WrongInput(f"{path}: {reason}") from None
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


def _flat(values: dict[str, Any], above: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= _flat(value, f"{above}{key}.") if isinstance(value, dict) else {above + key: value}
    return flat
