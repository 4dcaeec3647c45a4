"""The value for each argument of a constructor, and configuration objects that provide these values."""

import dataclasses
import math
import re
from typing import Any

from limelight.check.harness.argument_names import constructor_role
from limelight.check.harness.sizes import Sizes
from limelight.check.kinds import Kind

HIDDEN_NAME = re.compile(r"(n|num|d|dim)?_?hid(den)?s?(_?(dim|size|units|features|channels))?", re.IGNORECASE)
EXPANSION = 5  # the factor for arguments such as mlp_ratio


def value_of_role(role: str | None, kind: Kind, sizes: Sizes) -> Any:
    """The value for an argument of this role, or None if the role has no value of its own."""
    if kind.is_additive and role == "head_width":
        role = "width"
    return {
        "dropout": sizes.dropout,
        "head_width": sizes.head_width,
        "heads": sizes.heads,
        "depth": sizes.depth,
        "expansion": EXPANSION,
        "hidden": sizes.hidden,
        "pad": 0,
        "vocabulary": sizes.vocabulary,
        "longest": sizes.longest,
        "patches": sizes.patches,
        "channels": sizes.channels,
        "classes": sizes.classes,
        "temperature": math.sqrt(sizes.head_width),
        "index": 0,
        "rate": 10,
        "device": "cpu",
        "shape": [sizes.width],
        "batch_first": True,
        "width": sizes.head_width if kind.is_bare else sizes.width,
    }.get(role or "")


def value_of_call_argument(name: str, kind: Kind, sizes: Sizes) -> Any:
    """The value for a call argument that is neither a sequence nor a mask, such as a patch size."""
    role = constructor_role(name)
    if role == "patch" or (kind.is_patch_embedding and role in ("dropout", None)):
        return sizes.patch
    return value_of_role(role, kind, sizes)


class Settings:
    """A configuration with a value for every name of a known role; records which names were read."""

    def __init__(self, kind: Kind, sizes: Sizes, values: dict[str, Any]) -> None:
        self._kind, self._sizes, self._values = kind, sizes, values
        self._read: dict[str, None] = {}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        role = constructor_role(name)
        self._read[name] = None
        if name in self._values:
            return self._values[name]
        if role == "image":
            return self._sizes.image[0]
        if role == "patch":
            return self._sizes.patch
        if role == "flag":
            return True
        if role == "width" and HIDDEN_NAME.fullmatch(name) and not name.startswith("hidden_size"):
            role = "hidden"
        value = value_of_role(role, self._kind, self._sizes)
        if value is None:
            raise AttributeError(name)
        return value


class RecordingConfig:
    """A configuration object of the checked file; records which names were read."""

    def __init__(self, config: Any) -> None:
        self._config = config
        self._read: dict[str, None] = {}

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_"):
            self._read[name] = None
        return getattr(self._config, name)


def filled_config(cls: type, arguments: dict[str, Any], kind: Kind, sizes: Sizes) -> Any:
    """An object of a configuration class of the file; if it is no dataclass, its attributes are set."""
    config = cls(**arguments)
    if dataclasses.is_dataclass(cls):
        return config
    for name, default in vars(cls).items():
        role = None if name.startswith("_") or callable(default) else constructor_role(name)
        value = value_of_role(role, kind, sizes)
        if value is not None and not isinstance(default, (bool, str)):
            setattr(config, name, value)
    return config
