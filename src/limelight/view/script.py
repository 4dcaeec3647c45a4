"""A model in a Python file, for `limelight see FILE.py::NAME`."""

import importlib.util
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from limelight.errors import WrongInput, wrong
from limelight.view.explorer import Explorer
from limelight.view.see import see

EXPECTED = "a model, or a function that returns (model, inputs) or (model, inputs, tokens)"


def is_script(target: str) -> bool:
    """Whether a command means FILE.py::NAME, and not a run folder."""
    return "::" in target or target.endswith(".py")


def see_script(target: str, given: str | None = None) -> Explorer:
    """The attention of FILE.py::NAME; the token ids `given` are the input of a model without inputs.

    The file is executed in this process.
    """
    file, _, name = target.partition("::")
    path = Path(file)
    if not path.is_file():
        raise WrongInput(f"{file}: No such file")
    with _errors_of(path):
        found = getattr(_load(path), name, None) if name else None
    if found is None:
        raise wrong("the name", repr(name), f"{file}::NAME, where NAME is {EXPECTED}")
    if isinstance(found, nn.Module):
        model, inputs, tokens = found, _ids(given), given and given.split()
    elif callable(found) and not isinstance(found, type):
        with _errors_of(path):
            model, inputs, tokens = _unpack(found(), target)
    else:
        raise wrong(target, f"a {type(found).__name__}", EXPECTED)
    with _errors_of(path):
        return see(model, inputs, tokens or None, title=name)


def _load(path: Path) -> Any:
    """The module; it can import others from its own folder."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # for classes that look up their own module, such as dataclasses
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.pop(0)
    return module


def _unpack(returned: Any, target: str) -> tuple[nn.Module, Any, Any]:
    is_valid = isinstance(returned, tuple) and len(returned) in (2, 3) and isinstance(returned[0], nn.Module)
    if not is_valid:
        raise wrong(
            f"{target}()", f"a {type(returned).__name__}", "(model, inputs) or (model, inputs, tokens)"
        )
    return returned if len(returned) == 3 else (*returned, None)


def _ids(given: str | None) -> Tensor:
    """(1, T)"""
    words = (given or "").split()
    if not words or not all(word.isdigit() for word in words):
        allowed = 'token ids, such as "5 3 9"; or use a function that returns (model, inputs, tokens)'
        raise wrong("the input of the model", repr(given or ""), allowed)
    return torch.tensor([[int(word) for word in words]])


@contextmanager
def _errors_of(path: Path) -> Iterator[None]:
    """An exception in the file becomes one line that names the line of the file, if there is one."""
    try:
        yield
    except WrongInput:
        raise
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if Path(frame.filename).resolve() == path.resolve()]
        place = f"{path}, line {lines[-1]}" if lines else str(path)
        raise WrongInput(f"{place}: {type(error).__name__}: {error}") from error
