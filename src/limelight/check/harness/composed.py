"""A forward for models that have `encode` and `decode`, but no `forward`."""

import inspect
import re
from typing import Any

import torch
from torch import nn

from limelight.check.harness.argument_names import call_role

PROJECTIONS = ("project", "projection", "projection_layer", "generator", "output_projection")


def with_forward(cls: type) -> type:
    """The class itself, or a subclass whose forward calls `encode`, `decode` and `project`."""
    has_both = all(inspect.isfunction(getattr(cls, name, None)) for name in ("encode", "decode"))
    if getattr(cls, "forward", None) is not nn.Module.forward or not has_both:
        return cls
    encoded, decoded = (_parameters(getattr(cls, name)) for name in ("encode", "decode"))
    of_source = {name: _of_source(name) for name in encoded}  # the masks of `encode` are those of the source
    memory = _memory_name(decoded, encoded)
    if memory is None:
        return cls
    others = [p for name, p in decoded.items() if name != memory and name not in encoded]
    sources = [p.replace(name=of_source[name]) for name, p in encoded.items()]
    parameters = sorted([*sources, *others], key=lambda p: p.default is not p.empty)

    def forward(self: Any, **arguments: Any) -> torch.Tensor:
        found = self.encode(
            **{name: arguments[other] for name, other in of_source.items() if other in arguments}
        )
        given = {name: arguments[of_source.get(name, name)] for name in decoded if name != memory}
        out = self.decode(**{memory: found}, **given)
        project = next((getattr(self, name) for name in PROJECTIONS if hasattr(self, name)), None)
        return out if project is None else project(out)

    this = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    named = [p.replace(kind=p.KEYWORD_ONLY) for p in parameters]
    forward.__signature__ = inspect.Signature([this, *named])  # type: ignore[attr-defined]
    return type(cls.__name__, (cls,), {"forward": forward, "__module__": cls.__module__})


def _of_source(name: str) -> str:
    is_mask = call_role(name) in ("mask", "lengths")
    return f"src_{name.replace('self_', '')}" if is_mask and not re.search("src|source|enc", name) else name


def _parameters(method: Any) -> dict[str, inspect.Parameter]:
    return dict(list(inspect.signature(method).parameters.items())[1:])


def _memory_name(decoded: dict[str, inspect.Parameter], encoded: dict[str, inspect.Parameter]) -> str | None:
    """The argument of `decode` that is the output of `encode`."""
    roles = {name: call_role(name) for name in decoded if name not in encoded}
    found = [name for role in ("memory", "source") for name in roles if roles[name] == role]
    return found[0] if found else None
