"""Which classes and functions of a file are checked, and as what kind."""

import dis
import inspect
import re
from collections.abc import Iterator
from types import CodeType
from typing import Any

import torch

from limelight.check.harness.subject import Subject
from limelight.check.kinds import KINDS, Kind, kind_of_name

# A class with such a name is multi-head attention; another attention is recognised by its code.
CLEAR_NAME = re.compile(r"multihead|headed|mha|self|cross|causal")


def kind_of(name: str, thing: Any) -> Kind | None:
    """The kind of an object: by its name, and by its arguments if the name is not clear."""
    is_class = isinstance(thing, type)
    if is_class and not issubclass(thing, torch.nn.Module):
        return None
    kind = kind_of_name(name, is_class=is_class)
    if kind is None or not is_class:
        return kind
    if kind.with_heads and _takes(thing, "heads"):
        return KINDS[kind.with_heads]
    if kind.name == "multi-head-attention" and not CLEAR_NAME.search(name.lower().replace("_", "")):
        return _kind_of_attention(thing)
    if kind.without_source and not Subject(thing, thing.__name__, kind).has_source:
        return KINDS[kind.without_source]
    return kind


def _kind_of_attention(cls: type) -> Kind:
    """The kind of a class that is simply called Attention."""
    multi_head = KINDS["multi-head-attention"]
    if _takes(cls, "head") or not Subject(cls, cls.__name__, multi_head).has_source:
        return multi_head
    is_additive = "tanh" in inspect.getsource(cls)
    return KINDS["additive-attention" if is_additive else "dot-product-attention"]


def _takes(cls: type, word: str) -> bool:
    return any(word in name.lower() for name in inspect.signature(cls).parameters)


def candidates(namespace: dict[str, Any], module: str) -> dict[str, tuple[Any, Kind]]:
    """All objects of a known kind that the module defines, in the order of their definitions."""
    found = {}
    for name, thing in namespace.items():
        if not (inspect.isclass(thing) or inspect.isfunction(thing)) or thing.__module__ != module:
            continue
        kind = kind_of(name, thing)
        if kind is not None:
            found[name] = (thing, kind)
    return dict(sorted(found.items(), key=lambda item: line_of(item[1][0])))


def dependencies(thing: Any, namespace: dict[str, Any]) -> list[str]:
    """The names of all objects of the same file that a class or function uses, directly or indirectly."""
    found: dict[str, None] = {}
    pending = [thing]
    while pending:
        for name in used_names(pending.pop()):
            other = namespace.get(name)
            is_own = getattr(other, "__module__", None) == thing.__module__
            if is_own and other is not thing and name not in found:
                found[name] = None
                pending.append(other)
    return list(found)


def used_names(thing: Any) -> Iterator[str]:
    """The global names that a class or function reads, and the names of its base classes."""
    parts = [thing, *vars(thing).values()] if isinstance(thing, type) else [thing]
    codes = [inspect.unwrap(part).__code__ for part in parts if inspect.isfunction(part)]
    while codes:
        code = codes.pop()
        yield from (one.argval for one in dis.get_instructions(code) if one.opname == "LOAD_GLOBAL")
        codes += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    if isinstance(thing, type):
        yield from (base.__name__ for base in thing.__bases__)


def line_of(thing: Any) -> int:
    """The line of its definition; 0 if it is unknown."""
    try:
        return inspect.getsourcelines(thing)[1]
    except (OSError, TypeError):
        return 0
