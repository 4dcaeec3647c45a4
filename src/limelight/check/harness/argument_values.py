"""The value for each argument of a constructor, and configuration objects that provide these values."""

import dataclasses
import math
import re
from contextlib import suppress
from typing import Any

from limelight.check.harness.argument_names import constructor_role
from limelight.check.harness.sizes import Sizes
from limelight.check.kinds import Kind

HIDDEN_NAME = re.compile(r"(n|num|d|dim)?_?hid(den)?s?(_?(dim|size|units|features|channels))?", re.IGNORECASE)
EXPANSION = 5  # the factor for arguments such as mlp_ratio


def value_of_role(role: str | None, kind: Kind, sizes: Sizes) -> Any:
    """The value for an argument of this role, or None if the role has no value of its own."""
    if (kind.is_additive or kind.is_positional) and role == "head_width":
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
        "patches": sizes.image[0] // sizes.patch if sizes.patches_per_side else sizes.patches,
        "channels": sizes.channels,
        "classes": sizes.classes,
        "temperature": math.sqrt(sizes.head_width),
        "eps": 1e-5,
        "base": 10000.0,  # of rotary positions
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
    """A configuration with a value for every name of a known role, as attribute and as item.

    Other names are None, or the configuration itself if configurations are nested: `cfg.encoder.layers`. It
    records which names were read.
    """

    def __init__(self, kind: Kind, sizes: Sizes, values: dict[str, Any], *, nested: bool = False) -> None:
        self._kind, self._sizes, self._values, self._nested = kind, sizes, values, nested
        self._read: dict[str, None] = {}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        self._read[name] = None
        value = self._values[name] if name in self._values else setting(name, self._kind, self._sizes)
        return self if value is None and self._nested else value

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)

    def __contains__(self, name: str) -> bool:
        return getattr(self, name) is not None

    def get(self, name: str, default: Any = None) -> Any:
        """The value of a name, or the default if it is unknown."""
        value = getattr(self, name)
        return default if value is None else value


def setting(name: str, kind: Kind, sizes: Sizes) -> Any:
    """The value of a configuration by its name; None if the name is unknown."""
    role = constructor_role(name)
    if role == "image":
        return sizes.image[0]
    if role == "patch":
        return sizes.patch
    if role == "flag":
        return True
    if role == "width" and HIDDEN_NAME.fullmatch(name) and not name.startswith("hidden_size"):
        role = "hidden"
    return value_of_role(role, kind, sizes)


class RecordingConfig:
    """A configuration object of the checked file; records which names were read."""

    def __init__(self, config: Any) -> None:
        self._config = config
        self._read: dict[str, None] = {}

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_"):
            self._read[name] = None
        return getattr(self._config, name)

    def __getitem__(self, name: str) -> Any:
        self._read[name] = None
        return self._config[name]


def filled_config(cls: type, arguments: dict[str, Any], kind: Kind, sizes: Sizes) -> Any:
    """An object of a configuration class of the file; names that it does not have get values by their roles.

    If it is no dataclass, its class attributes are replaced by our sizes.
    """
    config = cls(**arguments)
    if not dataclasses.is_dataclass(cls):
        for name, default in vars(cls).items():
            role = None if name.startswith("_") or callable(default) else constructor_role(name)
            value = value_of_role(role, kind, sizes)
            if value is not None and not isinstance(default, (bool, str)):
                setattr(config, name, value)

    def missing(_: Any, name: str) -> Any:
        value = None if name.startswith("_") else setting(name, kind, sizes)
        if value is None:
            raise AttributeError(f"{cls.__name__!r} object has no attribute {name!r}")
        return value

    with suppress(TypeError):  # a class with __slots__
        object.__setattr__(config, "__class__", type(cls.__name__, (cls,), {"__getattr__": missing}))
    return config


def filled_dict(values: dict[str, Any], kind: Kind, sizes: Sizes) -> dict[str, Any]:
    """A dictionary of the file with our sizes."""
    replaced = {}
    for name, value in values.items():
        ours = setting(name, kind, sizes) if type(value) in (int, float) else None
        replaced[name] = (
            value if ours is None or isinstance(value, float) != isinstance(ours, float) else ours
        )
    return replaced
