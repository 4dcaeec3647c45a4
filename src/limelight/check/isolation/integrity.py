"""Whether the checked code has replaced functions of Python, torch or this package."""

import builtins
import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn

# Calling these must give true results; the modules of this package are added.
WATCHED = (
    builtins,
    torch,
    torch.Tensor,
    torch.nn.functional,
    nn.Module,
    nn.Linear,
    nn.LayerNorm,
    nn.Embedding,
)

TORCH = str(Path(torch.__file__).parent)


class Integrity:
    """The functions before the checked code was executed."""

    def __init__(self) -> None:
        own = [module for name, module in sys.modules.items() if name.startswith("limelight.")]
        classes = [value for module in own for value in vars(module).values() if isinstance(value, type)]
        places: list[Any] = [
            *WATCHED,
            *own,
            *(cls for cls in classes if cls.__module__.startswith("limelight.")),
        ]
        self._before = [(place, dict(vars(place))) for place in places]

    def changes(self) -> list[str]:
        """The names of the functions that were replaced or removed."""
        found = {
            f"{getattr(place, '__qualname__', place.__name__)}.{name}"
            for place, before in self._before
            for name, value in before.items()
            if _is_function(value) and not _is_same(vars(place).get(name), value)
        }
        return sorted(found)


def _is_same(now: Any, before: Any) -> bool:
    """Whether it is the same function; torch wraps some of its own when they are first called."""
    if now is before:
        return True
    code = getattr(now, "__code__", None)
    return (
        getattr(now, "__wrapped__", None) is before
        and code is not None
        and code.co_filename.startswith(TORCH)
    )


def _is_function(value: Any) -> bool:
    return callable(value) or isinstance(value, staticmethod | classmethod | property)
