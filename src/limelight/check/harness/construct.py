"""Makes an object of someone's class: each argument gets what its name asks for."""

import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice, product
from typing import Any

import torch
from torch import nn

from limelight.check.harness.argument_names import build_role, kind_of_name
from limelight.check.harness.argument_values import HIDDEN_NAME, Settings, Watched, filled, number_of
from limelight.check.harness.inputs import IMAGES, STACKS
from limelight.check.harness.sizes import Sizes

NO_HIDDEN = (
    "scaled-dot-product",
    "dot-product-attention",
    "multi-head-attention",
    "additive-attention",
    "positional-encoding",
    "patch-embedding",
)
NO_LAYERS = (
    "multi-head-attention",
    "additive-attention",
    "positional-encoding",
    "feed-forward",
    "patch-embedding",
)
MOST_TRIES = 120


class CannotBuild(Exception):
    """A constructor that asks for what nobody knows."""


class Builder:
    """Knows the file's other classes: a block may need an attention to be handed to it."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        self.namespace = namespace

    def instances(
        self,
        target: Callable[..., Any],
        kind: str,
        sizes: Sizes,
        seed: int = 1,
        told: dict[str, Any] | None = None,
    ) -> Iterator[Any]:
        """Every object that its constructor lets us make, the likeliest first; with what it is `told`."""
        last: Exception | None = None
        found = False
        told = told or {}
        named = {name: value for name, value in told.items() if name in inspect.signature(target).parameters}
        for arguments in islice(self._arguments(target, kind, sizes, told), MOST_TRIES):
            torch.manual_seed(seed)
            try:
                made = target(**(arguments | named))
            except Exception as error:  # whatever their code raises
                last = last or error
                continue
            found = True
            yield made
        if not found:
            raise CannotBuild(str(last) if last else "no arguments were found for its constructor")

    def _arguments(
        self, target: Callable[..., Any], kind: str, sizes: Sizes, told: dict[str, Any] | None = None
    ) -> Iterator[dict[str, Any]]:
        parameters = list(inspect.signature(target).parameters.values())
        roles = roles_of(parameters, kind, recurrent=is_recurrent(target))
        fixed: dict[str, Any] = {}
        open_ones: dict[str, list[Any]] = {}
        for parameter in parameters:
            if parameter.kind == parameter.VAR_KEYWORD:
                fixed |= self._of_block(target, kind, sizes, set(roles))
            if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
                continue
            if roles[parameter.name] == "config":
                fixed[parameter.name] = self._config(parameter, kind, sizes, told or {})
                continue
            values = self._values(parameter, roles[parameter.name], kind, sizes)
            if len(values) == 1:
                fixed[parameter.name] = values[0]
            elif values:
                open_ones[parameter.name] = values
        # Arguments of unknown names hardly ever mean the same, but for the widths of additive attention.
        choices = list(product(*open_ones.values()))
        if kind != "additive-attention":
            choices.sort(key=lambda choice: len(set(map(str, choice))) < len(choice))
        for choice in choices:
            yield fixed | dict(zip(open_ones, choice, strict=True))

    def _values(self, parameter: inspect.Parameter, role: str | None, kind: str, sizes: Sizes) -> list[Any]:
        """What an argument may be given; nothing where its default will do."""
        has_default = parameter.default is not parameter.empty
        is_size = isinstance(parameter.default, (int, float, tuple)) and not isinstance(
            parameter.default, bool
        )
        if has_default and parameter.default is not None and not is_size:
            return [True] if role == "batch_first" else []
        # What is None unless told is an extra, but for widths that follow from others.
        if parameter.default is None and role not in ("hidden", "head_width"):
            return []
        if role is not None and role.endswith("-part"):
            part = self._part(role, kind, sizes)
            if part is not None:
                return [part]
            return [] if has_default else [sizes.width]
        if role in ("image", "patch"):
            if role == "image" and sizes.image[0] != sizes.image[1]:
                return [sizes.image]
            side = sizes.image[0] if role == "image" else sizes.patch
            if isinstance(parameter.default, int):
                return [side]
            return [(side, side)] if isinstance(parameter.default, tuple) else [side, (side, side)]
        known = number_of(role, kind, sizes)
        if known is not None:
            return [known]
        if has_default:
            return []
        if role == "activation":
            return [nn.ReLU(), torch.relu, nn.ReLU, "relu"]
        if role == "flag":
            return [False, True]
        if kind in ("patch-embedding", "vision-transformer"):
            return [sizes.channels, sizes.patch, sizes.width, sizes.image[0]]
        return [sizes.width, sizes.heads, sizes.hidden, 0.0, sizes.longest]

    def _config(self, parameter: inspect.Parameter, kind: str, sizes: Sizes, told: dict[str, Any]) -> Any:
        named = parameter.annotation if isinstance(parameter.annotation, type) else None
        classes = [named] if named in self.namespace.values() else []
        classes += [
            thing
            for name, thing in self.namespace.items()
            if isinstance(thing, type) and re.search(r"config|args|params", name, re.IGNORECASE)
        ]
        for found in classes:
            assert isinstance(found, type)
            try:
                made = filled(found, next(self._arguments(found, kind, sizes)), kind, sizes)
            except Exception:  # one that is not made of sizes
                continue
            for name, value in told.items():
                object.__setattr__(made, name, value)
            return made
        return Settings(kind, sizes, told)

    def _of_block(
        self, target: Callable[..., Any], kind: str, sizes: Sizes, taken: set[str]
    ) -> dict[str, Any]:
        """`**block_args` go to the blocks of a stack."""
        wanted = {"encoder": "encoder-block", "decoder": "decoder-block"}.get(kind)
        block = self._class_of(wanted) if wanted else None
        if block is None or block is target:
            return {}
        return {
            name: value
            for name, value in next(self._arguments(block, wanted or kind, sizes)).items()
            if name not in taken
        }

    def _class_of(self, kind: str | None) -> type | None:
        for name, thing in self.namespace.items():
            is_layer = isinstance(thing, type) and issubclass(thing, nn.Module)
            if is_layer and kind_of_name(name, is_class=True) == kind:
                return thing
        return None

    def _part(self, role: str, kind: str, sizes: Sizes) -> Any:
        if role in ("embedding-part",):
            return nn.Embedding(sizes.vocabulary, sizes.width)
        if role == "generator-part":
            return nn.Linear(sizes.width, sizes.vocabulary)
        wanted = {
            "attention-part": "multi-head-attention",
            "cross-part": "multi-head-attention",
            "feed-forward-part": "feed-forward",
            "layer-part": "decoder-block" if kind == "decoder" else "encoder-block",
            "decoder-layer-part": "decoder-block",
            "encoder-part": "encoder",
            "decoder-part": "decoder",
        }[role]
        part = self._class_of(wanted)
        if part is None:
            return None
        try:
            return next(self.instances(part, wanted, sizes.but(dropout=0.0), seed=len(role)))
        except (CannotBuild, StopIteration):
            return None


def is_recurrent(target: Callable[..., Any]) -> bool:
    """Whether it must be given a hidden state, as wide as all the rest: then `hidden_dim` is the width."""
    try:
        called = inspect.signature(getattr(target, "forward", target)).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(
        p.default is p.empty and re.fullmatch(r"(dec_|prev_)?(hidden|state)|h_?0", p.name) for p in called
    )


def roles_of(
    parameters: list[inspect.Parameter], kind: str, *, recurrent: bool = False
) -> dict[str, str | None]:
    """What each argument of a constructor is for, seen together: beside a width, `hidden_dim` is another."""
    named = [p for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    names = [p.name for p in named]
    # What is a number unless told is no layer.
    roles = {
        p.name: build_role(p.name, is_layerless=kind in NO_LAYERS or isinstance(p.default, int | float))
        for p in named
    }
    if kind in IMAGES and roles.get("p") == "dropout" and "patch" not in roles.values():
        roles["p"] = "patch"
    if kind not in NO_HIDDEN and not recurrent and "hidden" not in roles.values():
        others = [name for name in names if roles[name] == "width" and not HIDDEN_NAME.fullmatch(name)]
        for name in names:
            if roles[name] == "width" and HIDDEN_NAME.fullmatch(name) and others:
                roles[name] = "hidden"
    return roles


def constructor_roles(
    target: Callable[..., Any], kind: str, namespace: dict[str, Any], sizes: Sizes
) -> dict[str, str | None]:
    """What a constructor can be told: its arguments, and those of a configuration that it takes."""
    try:
        parameters = list(inspect.signature(target).parameters.values())
    except (TypeError, ValueError):
        return {}
    roles = roles_of(parameters, kind, recurrent=is_recurrent(target))
    for parameter in parameters:
        if roles.get(parameter.name) == "config":
            roles |= _asked_of(target, parameter, kind, Builder(namespace), sizes)
    return roles


def _asked_of(
    target: Callable[..., Any], parameter: inspect.Parameter, kind: str, builder: Builder, sizes: Sizes
) -> dict[str, str | None]:
    """Which settings a constructor reads of its configuration."""
    settings = Settings(kind, sizes, {})
    theirs = builder._config(parameter, kind, sizes, {})
    watched = settings if isinstance(theirs, Settings) else Watched(theirs)
    with suppress(Exception):  # what it has read so far counts
        target(watched)
    read = [name for name in watched._asked if not name.startswith("_")]
    unread = [name for name in getattr(type(theirs), "__dataclass_fields__", {}) if name not in read]
    roles = {name: build_role(name, is_layerless=True) for name in (*read, *unread)}
    several = list(roles.values()).count("width") > 1
    for name, role in roles.items():
        if role == "width" and several and HIDDEN_NAME.fullmatch(name):
            roles[name] = "hidden"
    # A width that it has and nobody reads was accepted all the same; so was the depth of a stack.
    accepted = ["hidden", "expansion"]
    if kind in STACKS and "depth" not in [roles[name] for name in read]:
        accepted.append("depth")
    told = ("dropout", "hidden", "depth", "expansion", "pad")
    return {name: role for name, role in roles.items() if role in told and (name in read or role in accepted)}
