"""A folder with the weights, the settings and the vocabulary of a model."""

import json
from importlib.metadata import version
from pathlib import Path, PurePath
from typing import Any

from pydantic import create_model
from safetensors.torch import load_file, save
from torch import Tensor

from limelight.bridge.huggingface.folder import WEIGHTS, ModelFolder
from limelight.bridge.huggingface.imported import Imported, shapes_of
from limelight.config import Config, read_json
from limelight.errors import Stopped, WrongInput
from limelight.models.config import ModelConfig
from limelight.tasks import registry
from limelight.tasks.task import TaskConfig

LIBRARY = "limelight"  # the `library_name` in the config.json of these folders
SETTINGS, STATE = "config.json", "data.json"


def write_folder(
    folder: Path,
    weights: dict[str, Tensor],
    task: TaskConfig,
    model: ModelConfig,
    state: str,
    about: dict[str, Any],
) -> tuple[str, ...]:
    """Write weights, settings and the state of a task, and return notes; all tensors are read back.

    The settings have the name of the data, but not the folder that contains it.
    """
    weights = {name: tensor.detach().contiguous().cpu() for name, tensor in weights.items()}
    (folder / WEIGHTS).write_bytes(save(weights, metadata={"format": "pt"}))
    settings = task.model_dump(mode="json")
    if settings["data"].get("path"):
        settings["data"]["path"] = PurePath(settings["data"]["path"]).name
    content = {
        "library_name": LIBRARY,
        "version": version(LIBRARY),
        **about,
        "task": settings,
        "model": model.model_dump(mode="json"),
    }
    (folder / SETTINGS).write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    (folder / STATE).write_text(state, encoding="utf-8")
    check_written(folder, weights)
    return (f"{len(weights):,} tensors, read back and equal in every bit",)


def check_written(folder: Path, weights: dict[str, Tensor]) -> None:
    """Raise `Stopped` if a tensor in the file differs from the one that was written."""
    found = load_file(folder / WEIGHTS)
    for name in weights.keys() | found.keys():
        if name not in found or name not in weights or not _is_equal(found[name], weights[name]):
            raise Stopped(f"{WEIGHTS}: {name} differs after it was written; nothing was exported")


def _is_equal(one: Tensor, other: Tensor) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return one.numpy().tobytes() == other.numpy().tobytes()


def is_own(folder: ModelFolder) -> bool:
    """Whether a folder was written by `write_folder`."""
    return folder.config.get("library_name") == LIBRARY


def read_folder(folder: ModelFolder, wanted: str) -> Imported:
    """The model in a folder that was written by `write_folder`; `wanted` is the task, if it was chosen."""
    place, state = folder.path / SETTINGS, folder.text(STATE)
    if state is None:
        raise WrongInput(f"{folder.path} has no {STATE}")
    given = json.dumps({key: folder.config.get(key) for key in ("task", "model")})
    settings: Any = read_json(_settings_type(), given, str(place))
    if not isinstance(settings.model, settings.task.models):
        raise WrongInput(f"{place}: a {settings.model.kind} is no model for the task {settings.task.kind!r}")
    if wanted not in ("", settings.task.kind):
        raise WrongInput(f"--task is {wanted!r}; allowed for this model: {settings.task.kind}")
    expected = shapes_of(settings.model, settings.task.restore(state))
    weights = folder.tensors()
    for name in expected.keys() | weights.keys():
        if name not in weights:
            raise WrongInput(f"{folder.path} has no tensor {name}")
        found = tuple(weights[name].shape)
        if found != expected.get(name):
            raise WrongInput(
                f"{folder.path}: {name} has shape {found}; allowed: {expected.get(name, 'none')}"
            )
    notes = (f"{sum(one.numel() for one in weights.values()):,} weights",)
    return Imported(settings.task, settings.model, state, weights, notes)


def _settings_type() -> type[Config]:
    registry.load_installed()
    fields: dict[str, Any] = {"task": (registry.task_type(), ...), "model": (registry.model_type(), ...)}
    return create_model("Settings", __base__=Config, **fields)
