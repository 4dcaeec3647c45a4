"""Constructs an object of a class in the checked file: each argument gets a value by its name."""

import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice, product
from typing import Any

import torch
from torch import nn

from limelight.check.harness.argument_names import constructor_role
from limelight.check.harness.argument_roles import roles_of_arguments
from limelight.check.harness.argument_values import (
    HIDDEN_NAME,
    RecordingConfig,
    Settings,
    filled_config,
    filled_dict,
    value_of_role,
)
from limelight.check.harness.composed import with_forward
from limelight.check.harness.layers import annotation_of, class_for, class_of_kind, is_list, layer_class
from limelight.check.harness.signature import Roles
from limelight.check.harness.sizes import Sizes
from limelight.check.kinds import KINDS, Kind, kind_of_name

MAXIMUM_TRIES = 120
# The roles of configuration values that a promise may set.
SETTABLE = ("dropout", "hidden", "depth", "expansion", "pad")
NOT_INTEGERS = ("dropout", "eps", "expansion", "temperature", "rate", "base", "index")


class CannotConstruct(Exception):
    """No arguments were found that the constructor accepts."""


@dataclass
class Constructor:
    """Constructs objects; other classes of the file, in `namespace`, may be needed as arguments."""

    namespace: dict[str, Any]
    keep_defaults: bool = False  # only arguments without a default get values
    fill_options: bool = False  # arguments with the default None get values, too
    under_construction: list[type] = field(default_factory=list)  # the layers around this one

    def instances(
        self,
        target: Callable[..., Any],
        kind: Kind,
        sizes: Sizes,
        seed: int = 1,
    ) -> Iterator[tuple[int, Any]]:
        """All objects that can be constructed, with the number of their arguments; the most likely first."""
        error: Exception | None = None
        found = False
        for number in range(MAXIMUM_TRIES):
            try:
                instance = self.instance(target, kind, sizes, seed, number=number)
            except StopIteration:
                break
            except Exception as raised:  # the checked code may raise anything
                error = error or raised
                continue
            found = True
            yield number, instance
        if not found:
            raise CannotConstruct("no values are known for its arguments") from error

    def instance(
        self,
        target: Callable[..., Any],
        kind: Kind,
        sizes: Sizes,
        seed: int = 1,
        given: dict[str, Any] | None = None,
        number: int = 0,
    ) -> Any:
        """The object with one of the possible sets of arguments; StopIteration if there are fewer.

        `given` arguments are fixed.
        """
        given = given or {}
        named = {name: value for name, value in given.items() if name in inspect.signature(target).parameters}
        arguments = next(islice(self.arguments(target, kind, sizes, given), number, None))
        torch.default_generator.manual_seed(seed)
        instance = target(**(arguments | named))
        if isinstance(instance, nn.Module):
            instance.__class__ = with_forward(type(instance))
        return instance

    def arguments(
        self, target: Callable[..., Any], kind: Kind, sizes: Sizes, given: dict[str, Any] | None = None
    ) -> Iterator[dict[str, Any]]:
        """The possible sets of arguments, the most likely first."""
        parameters = list(inspect.signature(target).parameters.values())
        roles = roles_of_arguments(target, parameters, kind, self.namespace)
        fixed: dict[str, Any] = {}
        alternatives: dict[str, list[Any]] = {}
        for parameter in parameters:
            if parameter.kind == parameter.VAR_KEYWORD:
                fixed |= self._block_arguments(target, kind, sizes, set(roles))
            if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
                continue
            if roles[parameter.name] == "config" and not isinstance(parameter.default, (int, float)):
                values = self.configs(parameter, kind, sizes, given or {})
            else:
                values = self._values(parameter, roles[parameter.name], kind, sizes)
            if roles[parameter.name] == "layers-part" and len(values) > 1:
                values.sort(key=lambda value: isinstance(value, int) != _is_counted(target, parameter.name))
            if len(values) == 1:
                fixed[parameter.name] = values[0]
            elif values:
                alternatives[parameter.name] = values
        # Two arguments of unknown names rarely have the same value, except the widths of additive attention.
        choices = list(islice(product(*alternatives.values()), 10 * MAXIMUM_TRIES))
        if not kind.is_additive:
            choices.sort(key=lambda choice: len(set(map(str, choice))) < len(choice))
        for choice in choices:
            yield fixed | dict(zip(alternatives, choice, strict=True))

    def _values(self, parameter: inspect.Parameter, role: str | None, kind: Kind, sizes: Sizes) -> list[Any]:
        """The possible values of an argument; none if its default is used."""
        default, annotation = parameter.default, annotation_of(parameter, self.namespace)
        has_default = default is not parameter.empty
        is_size = isinstance(default, (int, float, tuple)) and not isinstance(default, bool)
        if has_default and default is not None and not is_size:
            is_device = role == "device" and isinstance(default, str)
            return [True] if role == "batch_first" else ["cpu"] if is_device else []
        # An argument with the default None is an option, except widths that are derived from others.
        if default is None and role not in ("hidden", "head_width") and not self.fill_options:
            return []
        if has_default and self.keep_defaults:
            return []
        if role == "class":
            cls = class_for(parameter, kind, self.namespace)
            return [] if cls is None else [cls]
        if role is not None and role.endswith("-part"):
            return self._layers(parameter, role, kind, sizes)
        if role in ("image", "patch"):
            return _image_values(parameter, role, sizes)
        if role not in NOT_INTEGERS and (isinstance(default, float) or annotation is float):
            return [] if isinstance(default, float) and default >= 1 else [sizes.dropout]
        if annotation is bool and not has_default:
            return [False, True]
        if role == "longest" and kind.reads_images:
            return [sizes.patches + 1, sizes.patches]
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

    def configs(
        self, parameter: inspect.Parameter, kind: Kind, sizes: Sizes, given: dict[str, Any]
    ) -> list[Any]:
        """Configuration objects: of a class in the file, a dictionary of it, or one that knows many names."""
        annotated = parameter.annotation if isinstance(parameter.annotation, type) else None
        is_known = any(annotated is thing for thing in self.namespace.values())
        classes = [annotated] if annotated is not None and is_known else []
        classes += [
            thing
            for name, thing in self.namespace.items()
            if isinstance(thing, type) and re.search(r"config|args|params|cfg|opt", name, re.IGNORECASE)
        ]
        found: list[Any] = []
        for cls in classes:
            assert isinstance(cls, type)
            if issubclass(cls, nn.Module):
                continue
            try:
                arguments = {} if self.keep_defaults else next(self.arguments(cls, kind, sizes))
                config = filled_config(cls, arguments, kind, sizes)
            except Exception:  # a class that is no configuration of sizes
                continue
            for name, value in given.items():
                object.__setattr__(config, name, value)
            found.append(config)
        dictionaries = [
            value
            for name, value in self.namespace.items()
            if isinstance(value, dict) and re.search(r"config|args|params|cfg", name, re.IGNORECASE)
        ]
        found += [filled_dict(values, kind, sizes) | given for values in dictionaries]
        return [*found, Settings(kind, sizes, given), Settings(kind, sizes, given, nested=True)]

    def _block_arguments(
        self, target: Callable[..., Any], kind: Kind, sizes: Sizes, taken: set[str]
    ) -> dict[str, Any]:
        """The `**block_args` of a stack are the arguments of its blocks."""
        block = class_of_kind(kind.block, self.namespace) if kind.block else None
        if kind.block is None or block is None or block is target:
            return {}
        parameters = inspect.signature(block).parameters
        arguments = next(self.arguments(block, KINDS[kind.block], sizes))
        required = [name for name in arguments if parameters[name].default is parameters[name].empty]
        index = [name for name in required if constructor_role(name) == "index"]
        return {name: value for name, value in arguments.items() if name not in {*taken, *index}}

    def _layers(self, parameter: inspect.Parameter, role: str, kind: Kind, sizes: Sizes) -> list[Any]:
        """The possible values of an argument that is a layer, or a list of layers."""
        has_default = parameter.default is not parameter.empty
        cls = layer_class(parameter, role, kind, self.namespace)
        if role == "embedding-part" and cls is None:
            return [nn.Embedding(sizes.vocabulary, sizes.width)]
        if role == "generator-part" and cls is None:
            return [nn.Linear(sizes.width, sizes.vocabulary)]
        count = sizes.depth if role == "layers-part" or is_list(parameter.annotation) else 1
        layers = [self._layer(cls, sizes, seed) for seed in range(count)] if cls is not None else []
        if not layers or layers[0] is None:
            known = value_of_role(constructor_role(parameter.name), kind, sizes)
            return [] if has_default else [known if known is not None else sizes.width]
        if role != "layers-part" and not is_list(parameter.annotation):
            return layers
        annotated = parameter.annotation is not parameter.empty
        return [nn.ModuleList(layers)] if annotated else [sizes.depth, nn.ModuleList(layers)]

    def _layer(self, cls: type, sizes: Sizes, seed: int) -> Any:
        if cls in self.under_construction:
            return None
        kind = kind_of_name(cls.__name__, is_class=True) or KINDS["encoder-block"]
        self.under_construction.append(cls)
        try:
            _, layer = next(self.instances(cls, kind, sizes.replace(dropout=0.0), seed=10 + seed))
        except (CannotConstruct, StopIteration):
            return None
        finally:
            self.under_construction.pop()
        return layer


def _is_counted(target: Callable[..., Any], name: str) -> bool:
    """Whether an argument such as `layers` is a number, not a list: `for _ in range(layers)`."""
    try:
        return bool(re.search(rf"range\(\s*(self\.)?{name}\b", inspect.getsource(target)))
    except (OSError, TypeError):
        return True


def _image_values(parameter: inspect.Parameter, role: str, sizes: Sizes) -> list[Any]:
    if role == "image" and isinstance(parameter.default, tuple) and len(parameter.default) == 3:
        return [(sizes.channels, *sizes.image)]
    if role == "image" and sizes.image[0] != sizes.image[1]:
        return [sizes.image]
    side = sizes.image[0] if role == "image" else sizes.patch
    if isinstance(parameter.default, int):
        return [side]
    if isinstance(parameter.default, tuple):
        return [(side, side)]
    shapes = [(sizes.channels, side, side)] if role == "image" else []
    return [side, (side, side), *shapes]


def constructor_roles(
    target: Callable[..., Any], kind: Kind, namespace: dict[str, Any], sizes: Sizes
) -> Roles:
    """The arguments of a constructor, and the values that it reads from a configuration, with their roles."""
    try:
        parameters = list(inspect.signature(target).parameters.values())
    except (TypeError, ValueError):
        return {}
    roles = roles_of_arguments(target, parameters, kind, namespace)
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
    config = constructor.configs(parameter, kind, sizes, {})[0]
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
