"""Layers that are arguments of other layers: which class of the checked file is meant."""

import inspect
import re
import typing
from typing import Any

from torch import nn

from limelight.check.harness.argument_names import constructor_role
from limelight.check.kinds import Kind, kind_of_name

LISTS = (list, tuple, typing.Sequence, typing.Iterable, nn.ModuleList, nn.Sequential)
KINDS_OF_ROLES = {
    "attention-part": "multi-head-attention",
    "cross-part": "multi-head-attention",
    "feed-forward-part": "feed-forward",
    "decoder-layer-part": "decoder-block",
    "encoder-part": "encoder",
    "decoder-part": "decoder",
    "positions-part": "positional-encoding",
    "model-part": "sequence-model",
}
# Layers without a kind of their own, by the names of their classes.
NAMES_OF_ROLES = {
    "embedding-part": r"^(?!.*(pos|patch)).*embed",
    "generator-part": r"project|generator",
}


def annotation_of(parameter: inspect.Parameter, namespace: dict[str, Any]) -> Any:
    """The annotation of an argument; one that is a string is looked up in the file."""
    annotation = parameter.annotation
    if isinstance(annotation, str):
        annotation = {"int": int, "float": float, "bool": bool, "str": str}.get(
            annotation, namespace.get(annotation, parameter.empty)
        )
    return annotation


def is_list(annotation: Any) -> bool:
    """Whether an annotation is that of a list of layers."""
    return annotation in LISTS or typing.get_origin(annotation) in (list, tuple)


def layer_class(
    parameter: inspect.Parameter, role: str, kind: Kind, namespace: dict[str, Any]
) -> type | None:
    """The class of a layer that is an argument: by its annotation, or by its role."""
    annotation = annotation_of(parameter, namespace)
    elements = [one for one in typing.get_args(annotation) if isinstance(one, type)]
    for cls in [annotation, *elements]:
        is_layer = isinstance(cls, type) and issubclass(cls, nn.Module)
        if is_layer and cls.__module__.split(".")[0] != "torch":
            return cls
    if role in NAMES_OF_ROLES:
        return next(
            (cls for cls in layers(namespace) if re.search(NAMES_OF_ROLES[role], cls.__name__, re.I)), None
        )
    block = kind.block or ("decoder-block" if kind.is_decoder else "encoder-block")
    if role == "layers-part" and "dec" in parameter.name:
        block = "decoder-block"
    return class_of_kind(KINDS_OF_ROLES.get(role, block), namespace)


def class_for(parameter: inspect.Parameter, kind: Kind, namespace: dict[str, Any]) -> type | None:
    """The class that is meant by an argument such as `norm_cls: type[nn.Module]`."""
    name = re.sub(r"_?(cls|class|klass)$", "", parameter.name.lower())
    if "norm" in name:
        return nn.LayerNorm
    bases = [one for one in typing.get_args(parameter.annotation) if isinstance(one, type)]
    for cls in layers(namespace):
        if any(base is not nn.Module and issubclass(cls, base) for base in bases):
            return cls
    role = constructor_role(name, may_be_layer=True)
    return class_of_kind(KINDS_OF_ROLES.get(role or "", kind.block or "encoder-block"), namespace)


def class_of_kind(kind_name: str, namespace: dict[str, Any]) -> type | None:
    """The first class of this kind in the file."""
    for cls in layers(namespace):
        kind = kind_of_name(cls.__name__, is_class=True)
        if kind is not None and kind.name == kind_name:
            return cls
    return None


def layers(namespace: dict[str, Any]) -> list[type]:
    """The layers of the file, without torch's and without base classes of others."""
    found = [
        thing
        for thing in namespace.values()
        if isinstance(thing, type)
        and issubclass(thing, nn.Module)
        and thing.__module__.split(".")[0] != "torch"
    ]
    bases = {base for cls in found for base in cls.__mro__[1:]}
    return [cls for cls in found if cls not in bases]
