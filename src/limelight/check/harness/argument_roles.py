"""The roles of the arguments of a constructor: by their names, their annotations, and how they are used."""

import ast
import inspect
import re
import textwrap
from collections.abc import Callable
from types import NoneType
from typing import Any

from torch import nn

from limelight.check.harness.argument_names import constructor_role
from limelight.check.harness.argument_values import HIDDEN_NAME
from limelight.check.harness.layers import annotation_of, is_list
from limelight.check.harness.signature import Roles
from limelight.check.kinds import Kind

# Attributes of embeddings and linear layers. An argument that has them is a layer, not a configuration.
OF_EMBEDDINGS = ("embedding_dim", "num_embeddings", "weight")
# Attributes of tensors, strings, lists, devices and layers.
OF_OTHERS = {
    *("shape", "size", "dim", "device", "dtype", "type", "lower", "upper", "split", "value", "name", "copy"),
    *("append", "forward", "parameters", "modules", "children", "to", "in_features", "out_features"),
}


def _uses(target: Callable[..., Any]) -> dict[str, str]:
    """The roles of arguments that are used as a configuration, `args["heads"]`, or as an embedding."""
    code = getattr(target, "__init__", target) if isinstance(target, type) else target
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(code)))
    except (OSError, TypeError, SyntaxError):
        return {}
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr=attribute) if attribute in OF_EMBEDDINGS:
                found.setdefault(name, "embedding-part")
            case ast.Attribute(value=ast.Name(id=name), attr=attribute) if attribute not in OF_OTHERS:
                found[name] = "config"
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str())):
                found[name] = "config"
    return found


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


def roles_of_arguments(
    target: Callable[..., Any], parameters: list[inspect.Parameter], kind: Kind, namespace: dict[str, Any]
) -> Roles:
    """The role of each argument of a constructor; beside a width, `hidden_dim` is the hidden width."""
    named = [p for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    names = [p.name for p in named]
    used = _uses(target)
    roles: Roles = {}
    for p in named:
        annotation = annotation_of(p, namespace)
        is_number = isinstance(p.default, int | float) or annotation in (int, float, bool)
        is_layer = is_list(annotation) or _is_layer(annotation)
        may_be_layer = (kind.takes_layers or is_layer) and not is_number
        role = constructor_role(p.name, may_be_layer=may_be_layer)
        if is_layer and (role is None or not role.endswith("-part")):
            role = "layers-part" if is_list(annotation) else "layer-part"
        is_part = role is not None and role.endswith("-part")
        if not (is_number or is_part or isinstance(p.default, (str, NoneType))):
            role = role if role == "config" else used.get(p.name, role)
        roles[p.name] = role
    if kind.reads_images and roles.get("p") == "dropout" and "patch" not in roles.values():
        roles["p"] = "patch"
    if kind.has_feed_forward and not _is_recurrent(target) and "hidden" not in roles.values():
        others = [name for name in names if roles[name] == "width" and not HIDDEN_NAME.fullmatch(name)]
        for name in names:
            if roles[name] == "width" and HIDDEN_NAME.fullmatch(name) and others:
                roles[name] = "hidden"
    return roles


def _is_layer(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, nn.Module)
