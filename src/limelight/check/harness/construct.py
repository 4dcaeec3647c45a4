"""Constructs an object of a class in the checked file: each argument gets a value by its name."""

import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice, product
from typing import Any

import torch
from torch import nn

from limelight.check.harness.argument_names import constructor_role
from limelight.check.harness.argument_values import (
    HIDDEN_NAME,
    RecordingConfig,
    Settings,
    filled_config,
    value_of_role,
)
from limelight.check.harness.signature import Roles
from limelight.check.harness.sizes import Sizes
from limelight.check.kinds import KINDS, Kind, kind_of_name

MAXIMUM_TRIES = 120
# The roles of configuration values that a promise may set.
SETTABLE = ("dropout", "hidden", "depth", "expansion", "pad")


class CannotConstruct(Exception):
    """No arguments were found that the constructor accepts."""


class Constructor:
    """Constructs objects; other classes of the file, in `namespace`, may be needed as arguments."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        self.namespace = namespace

    def instances(
        self,
        target: Callable[..., Any],
        kind: Kind,
        sizes: Sizes,
        seed: int = 1,
        given: dict[str, Any] | None = None,
    ) -> Iterator[Any]:
        """All objects that can be constructed, the most likely first; `given` arguments are fixed."""
        error: Exception | None = None
        found = False
        given = given or {}
        named = {name: value for name, value in given.items() if name in inspect.signature(target).parameters}
        for arguments in islice(self._arguments(target, kind, sizes, given), MAXIMUM_TRIES):
            torch.default_generator.manual_seed(seed)
            try:
                instance = target(**(arguments | named))
            except Exception as raised:  # the checked code may raise anything
                error = error or raised
                continue
            found = True
            yield instance
        if not found:
            unknown = "no values are known for its arguments"
            raise CannotConstruct((str(error) or type(error).__name__) if error else unknown)

    def _arguments(
        self, target: Callable[..., Any], kind: Kind, sizes: Sizes, given: dict[str, Any] | None = None
    ) -> Iterator[dict[str, Any]]:
        parameters = list(inspect.signature(target).parameters.values())
        roles = _roles(parameters, kind, is_recurrent=_is_recurrent(target))
        fixed: dict[str, Any] = {}
        alternatives: dict[str, list[Any]] = {}
        for parameter in parameters:
            if parameter.kind == parameter.VAR_KEYWORD:
                fixed |= self._block_arguments(target, kind, sizes, set(roles))
            if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
                continue
            if roles[parameter.name] == "config":
                fixed[parameter.name] = self.config(parameter, kind, sizes, given or {})
                continue
            values = self._values(parameter, roles[parameter.name], kind, sizes)
            if len(values) == 1:
                fixed[parameter.name] = values[0]
            elif values:
                alternatives[parameter.name] = values
        # Two arguments of unknown names rarely have the same value, except the widths of additive attention.
        choices = list(product(*alternatives.values()))
        if not kind.is_additive:
            choices.sort(key=lambda choice: len(set(map(str, choice))) < len(choice))
        for choice in choices:
            yield fixed | dict(zip(alternatives, choice, strict=True))

    def _values(self, parameter: inspect.Parameter, role: str | None, kind: Kind, sizes: Sizes) -> list[Any]:
        """The possible values of an argument; none if its default is used."""
        has_default = parameter.default is not parameter.empty
        is_size = isinstance(parameter.default, (int, float, tuple)) and not isinstance(
            parameter.default, bool
        )
        if has_default and parameter.default is not None and not is_size:
            return [True] if role == "batch_first" else []
        # An argument with the default None is an option, except widths that are derived from others.
        if parameter.default is None and role not in ("hidden", "head_width"):
            return []
        if role is not None and role.endswith("-part"):
            part = self._part(role, kind, sizes)
            if part is not None:
                return [part]
            return [] if has_default else [sizes.width]
        if role in ("image", "patch"):
            return _image_values(parameter, role, sizes)
        known = value_of_role(role, kind, sizes)
        if known is not None:
            return [known]
        if has_default:
            return []
        if role == "activation":
            return [nn.ReLU(), torch.relu, nn.ReLU, "relu"]
        if role == "flag":
            return [False, True]
        if kind.reads_images:
            return [sizes.channels, sizes.patch, sizes.width, sizes.image[0]]
        return [sizes.width, sizes.heads, sizes.hidden, 0.0, sizes.longest]

    def config(self, parameter: inspect.Parameter, kind: Kind, sizes: Sizes, given: dict[str, Any]) -> Any:
        """A configuration object: of a class in the file, or one that has a value for each known name."""
        annotated = parameter.annotation if isinstance(parameter.annotation, type) else None
        classes = [annotated] if annotated in self.namespace.values() else []
        classes += [
            thing
            for name, thing in self.namespace.items()
            if isinstance(thing, type) and re.search(r"config|args|params", name, re.IGNORECASE)
        ]
        for cls in classes:
            assert isinstance(cls, type)
            try:
                config = filled_config(cls, next(self._arguments(cls, kind, sizes)), kind, sizes)
            except Exception:  # a class that is no configuration of sizes
                continue
            for name, value in given.items():
                object.__setattr__(config, name, value)
            return config
        return Settings(kind, sizes, given)

    def _block_arguments(
        self, target: Callable[..., Any], kind: Kind, sizes: Sizes, taken: set[str]
    ) -> dict[str, Any]:
        """The `**block_args` of a stack are the arguments of its blocks."""
        block = self._class_of_kind(kind.block) if kind.block else None
        if kind.block is None or block is None or block is target:
            return {}
        arguments = next(self._arguments(block, KINDS[kind.block], sizes))
        return {name: value for name, value in arguments.items() if name not in taken}

    def _class_of_kind(self, kind_name: str) -> type | None:
        for name, thing in self.namespace.items():
            if isinstance(thing, type) and issubclass(thing, nn.Module):
                kind = kind_of_name(name, is_class=True)
                if kind is not None and kind.name == kind_name:
                    return thing
        return None

    def _part(self, role: str, kind: Kind, sizes: Sizes) -> Any:
        """A layer that is an argument of another layer."""
        if role == "embedding-part":
            return nn.Embedding(sizes.vocabulary, sizes.width)
        if role == "generator-part":
            return nn.Linear(sizes.width, sizes.vocabulary)
        part_kind = {
            "attention-part": "multi-head-attention",
            "cross-part": "multi-head-attention",
            "feed-forward-part": "feed-forward",
            "layer-part": kind.block or "encoder-block",
            "decoder-layer-part": "decoder-block",
            "encoder-part": "encoder",
            "decoder-part": "decoder",
        }[role]
        cls = self._class_of_kind(part_kind)
        if cls is None:
            return None
        try:
            return next(self.instances(cls, KINDS[part_kind], sizes.replace(dropout=0.0), seed=len(role)))
        except (CannotConstruct, StopIteration):
            return None


def _image_values(parameter: inspect.Parameter, role: str, sizes: Sizes) -> list[Any]:
    if role == "image" and sizes.image[0] != sizes.image[1]:
        return [sizes.image]
    side = sizes.image[0] if role == "image" else sizes.patch
    if isinstance(parameter.default, int):
        return [side]
    return [(side, side)] if isinstance(parameter.default, tuple) else [side, (side, side)]


def _is_recurrent(target: Callable[..., Any]) -> bool:
    """Whether its call requires a hidden state; then `hidden_dim` is the width of the model."""
    if isinstance(target, type) and not hasattr(target, "forward"):  # a configuration
        return False
    try:
        parameters = inspect.signature(getattr(target, "forward", target)).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(
        p.default is p.empty and re.fullmatch(r"(dec_|prev_)?(hidden|state)|h_?0", p.name) for p in parameters
    )


def _roles(parameters: list[inspect.Parameter], kind: Kind, *, is_recurrent: bool) -> Roles:
    """The role of each argument of a constructor; beside a width, `hidden_dim` is the hidden width."""
    named = [p for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    names = [p.name for p in named]
    # An argument whose default is a number is no layer.
    roles = {
        p.name: constructor_role(
            p.name, may_be_layer=kind.takes_layers and not isinstance(p.default, int | float)
        )
        for p in named
    }
    if kind.reads_images and roles.get("p") == "dropout" and "patch" not in roles.values():
        roles["p"] = "patch"
    if kind.has_feed_forward and not is_recurrent and "hidden" not in roles.values():
        others = [name for name in names if roles[name] == "width" and not HIDDEN_NAME.fullmatch(name)]
        for name in names:
            if roles[name] == "width" and HIDDEN_NAME.fullmatch(name) and others:
                roles[name] = "hidden"
    return roles


def constructor_roles(
    target: Callable[..., Any], kind: Kind, namespace: dict[str, Any], sizes: Sizes
) -> Roles:
    """The arguments of a constructor, and the values that it reads from a configuration, with their roles."""
    try:
        parameters = list(inspect.signature(target).parameters.values())
    except (TypeError, ValueError):
        return {}
    roles = _roles(parameters, kind, is_recurrent=_is_recurrent(target))
    for parameter in parameters:
        if roles.get(parameter.name) == "config":
            roles |= _config_roles(target, parameter, kind, Constructor(namespace), sizes)
    return roles


def _config_roles(
    target: Callable[..., Any],
    parameter: inspect.Parameter,
    kind: Kind,
    constructor: Constructor,
    sizes: Sizes,
) -> Roles:
    """The values that a constructor reads from its configuration, with their roles."""
    config = constructor.config(parameter, kind, sizes, {})
    recording = Settings(kind, sizes, {}) if isinstance(config, Settings) else RecordingConfig(config)
    with suppress(Exception):  # the names that were read before the error count
        target(recording)
    read = [name for name in recording._read if not name.startswith("_")]
    unread = [name for name in getattr(type(config), "__dataclass_fields__", {}) if name not in read]
    roles = {name: constructor_role(name) for name in (*read, *unread)}
    has_several_widths = list(roles.values()).count("width") > 1
    for name, role in roles.items():
        if role == "width" and has_several_widths and HIDDEN_NAME.fullmatch(name):
            roles[name] = "hidden"
    # A hidden width or a depth that is accepted must have an effect, even if the constructor ignores it.
    accepted = ["hidden", "expansion"]
    if kind.is_stack and "depth" not in [roles[name] for name in read]:
        accepted.append("depth")
    return {
        name: role for name, role in roles.items() if role in SETTABLE and (name in read or role in accepted)
    }
