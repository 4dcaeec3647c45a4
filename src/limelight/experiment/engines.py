"""Other programs that compute the answers of a run: engines. They read a model that was exported before."""

import hashlib
import shlex
from importlib import import_module
from pathlib import Path
from typing import Any

from pydantic import Field
from torch import nn

from limelight.config import Config, read_json
from limelight.errors import WrongInput, wrong
from limelight.invocation import program
from limelight.tasks.task import Task
from limelight.training.weights import to_bytes, weights_of

MANIFEST = "export.json"
ENGINES = ("torch", "onnx", "ctranslate2")  # the fastest last
# Each module has `write`, which exports a model, and those of engines have `load`. It needs the packages of
# the extra of this name.
FORMATS = {
    "onnx": "limelight.bridge.onnx",
    "ctranslate2": "limelight.bridge.ctranslate2",
}


class Exported(Config):
    """The content of `export.json`: what an exported model was made from, and how it was verified."""

    format: str = Field(description="the format")
    weights: str = Field(description="SHA-256 of the weights that were exported")
    quantize: str = Field("", description="type of the weights if they were quantized")
    limelight: str = Field(description="version of limelight")
    notes: tuple[str, ...] = Field(description="what was verified, with the differences that were found")
    files: dict[str, str] = Field(description="SHA-256 of each file")


def export_folder(run: Path, format: str) -> Path:
    """The folder of a run in which engines look for an export."""
    return run / "exports" / format


def engine_model(run: Path, task: Task[Any], model: nn.Module, engine: str) -> nn.Module:
    """The model of a run with another engine, from its export; "auto": the fastest that is exported.

    The result is called like the model, and computes everything that the engine cannot with torch.
    """
    if engine == "auto":
        found = [name for name in ENGINES[1:] if is_current(export_folder(run, name), model)]
        engine = found[-1] if found else "torch"
    if engine not in ENGINES:
        raise wrong("--engine", repr(engine), ", ".join(map(repr, (*ENGINES, "auto"))))
    if engine == "torch":
        return model
    place = export_folder(run, engine)
    hint = f"{program()} export {shlex.quote(str(run))} --to {engine}"
    if not (place / MANIFEST).is_file():
        raise WrongInput(f"{run} was not exported to {engine}; first run `{hint}`")
    if not is_current(place, model):
        raise WrongInput(f"{place} has other weights than the run; run `{hint}` again")
    for name, expected in read_manifest(place).files.items():
        if not (place / name).is_file() or digest_of_file(place / name) != expected:
            raise WrongInput(f"{place / name} is damaged: its checksum is wrong; run `{hint}` again")
    loaded: nn.Module = format_module(engine).load(task, model, place)
    return loaded.eval()


def is_current(place: Path, model: nn.Module) -> bool:
    """Whether a folder contains an export of the present weights of a model."""
    return (place / MANIFEST).is_file() and read_manifest(place).weights == digest_of(model)


def read_manifest(place: Path) -> Exported:
    """What an export was made from."""
    path = place / MANIFEST
    return read_json(Exported, path.read_bytes().decode(errors="replace"), f"{path} is damaged")


def digest_of(model: nn.Module) -> str:
    """The SHA-256 of the weights of a model, which is that of their file."""
    return hashlib.sha256(to_bytes(weights_of(model))).hexdigest()


def digest_of_file(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def format_module(format: str) -> Any:
    """The module that writes and reads a format; refused if a package that it needs is missing."""
    return bridge_module(FORMATS[format], format)


def bridge_module(name: str, format: str) -> Any:
    """A module of `bridge` that needs the packages of the extra `format`; refused if one is missing."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("limelight"):
            raise
        extra = f"pip install 'limelight[{format}]'"
        package = (error.name or "").partition(".")[0]
        raise WrongInput(f"{format} needs the package {package}; install it with: {extra}") from None
