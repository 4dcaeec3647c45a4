"""Plug-ins: Python files of users that define and register a task."""

import hashlib
import importlib.util
import sys
from dataclasses import dataclass
from importlib.abc import SourceLoader
from pathlib import Path
from types import ModuleType
from typing import Any

from limelight.errors import WrongInput
from limelight.tasks.registry import register
from limelight.tasks.task import TaskConfig

COPY = "plugin.py"  # the name of the copy in a run folder


@dataclass(frozen=True)
class Plugin:
    """A plug-in file that was imported, and its SHA-256 digest."""

    path: Path
    module: ModuleType
    digest: str

    def recipe(self) -> dict[str, Any]:
        """The experiment in its variable RECIPE, with which the file can be trained without a TOML file."""
        recipe = getattr(self.module, "RECIPE", None)
        if not isinstance(recipe, dict):
            hint = "a dict with the settings of a TOML recipe"
            raise WrongInput(f"{self.path} has no RECIPE; allowed: {hint}, or name the file in a TOML file")
        return recipe


class _Loader(SourceLoader):
    """Runs exactly the bytes whose digest was computed: the file is not read again, and no .pyc is used."""

    def __init__(self, path: Path, content: bytes) -> None:
        self._path, self._content = path, content

    def get_filename(self, fullname: str) -> str:
        return str(self._path)

    def get_data(self, path: str) -> bytes:
        return self._content


def load_plugin(path: Path, digest: str | None = None) -> Plugin:
    """Import a plug-in, whose code registers its task. If `digest` is given, the file must have it."""
    if not path.is_file():
        raise WrongInput(f"plugin is {str(path)!r}, and there is no such file; allowed: a Python file")
    content = path.read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if digest and digest != found:
        raise WrongInput(f"{path} has changed: its SHA-256 is {found}, that of the run is {digest}")
    name = f"limelight_plugin_{found[:16]}"
    if name not in sys.modules:
        _import(name, _Loader(path, content))
    for value in vars(sys.modules[name]).values():  # again, because another version may have replaced it
        if isinstance(value, type) and issubclass(value, TaskConfig) and value.__module__ == name:
            register(value)
    return Plugin(path, sys.modules[name], found)


def _import(name: str, loader: _Loader) -> None:
    spec = importlib.util.spec_from_loader(name, loader)
    assert spec is not None
    sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        loader.exec_module(sys.modules[name])
    except Exception as error:
        del sys.modules[name]
        raise WrongInput(f"{loader.get_filename(name)}: {type(error).__name__}: {error}") from error
