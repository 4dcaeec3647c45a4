"""What each size is in numbers, by name: for arguments, and for configurations that are handed in."""

import dataclasses
import math
import re
from typing import Any

from limelight.check.harness.argument_names import build_role
from limelight.check.harness.sizes import Sizes

HIDDEN_NAME = re.compile(r"(n|num|d|dim)?_?hid(den)?s?(_?(dim|size|units|features|channels))?", re.IGNORECASE)


def number_of(role: str | None, kind: str, sizes: Sizes) -> Any:
    bare = kind in ("scaled-dot-product", "dot-product-attention")
    if kind == "additive-attention" and role == "head_width":
        role = "width"
    return {
        "dropout": sizes.dropout,
        "head_width": sizes.head_width,
        "heads": sizes.heads,
        "depth": sizes.depth,
        "expansion": 5,
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
        "width": sizes.head_width if bare else sizes.width,
    }.get(role or "")


def number_for(name: str, kind: str, sizes: Sizes) -> Any:
    """What an argument of a call is given that is neither a sequence nor a mask: a patch's size, say."""
    role = build_role(name, is_layerless=True)
    if role == "patch" or (kind == "patch-embedding" and role in ("dropout", None)):
        return sizes.patch
    return number_of(role, kind, sizes)


class Settings:
    """Answers to any name that a size is known by, and remembers which were asked for."""

    def __init__(self, kind: str, sizes: Sizes, told: dict[str, Any]) -> None:
        self._kind, self._sizes, self._told = kind, sizes, told
        self._asked: dict[str, str | None] = {}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        role = build_role(name, is_layerless=True)
        self._asked[name] = role
        if name in self._told:
            return self._told[name]
        if role == "image":
            return self._sizes.image[0]
        if role == "patch":
            return self._sizes.patch
        if role == "flag":
            return True
        if role == "width" and HIDDEN_NAME.fullmatch(name) and not name.startswith("hidden_size"):
            role = "hidden"
        value = number_of(role, self._kind, self._sizes)
        if value is None:
            raise AttributeError(name)
        return value


class Watched:
    """A configuration of theirs that remembers what was read."""

    def __init__(self, theirs: Any) -> None:
        self._theirs = theirs
        self._asked: dict[str, None] = {}

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_"):
            self._asked[name] = None
        return getattr(self._theirs, name)


def filled(cls: type, arguments: dict[str, Any], kind: str, sizes: Sizes) -> Any:
    """A configuration of theirs; a class of plain attributes gets them set."""
    made = cls(**arguments)
    if dataclasses.is_dataclass(cls):
        return made
    for name, value in vars(cls).items():
        role = None if name.startswith("_") or callable(value) else build_role(name, is_layerless=True)
        number = number_of(role, kind, sizes)
        if number is not None and not isinstance(value, (bool, str)):
            setattr(made, name, number)
    return made
