"""Which classes and functions of a file are checked, and as what kind."""

import inspect
import re
from functools import cache
from types import ModuleType
from typing import Any

import torch

from limelight.check.harness.subject import Subject
from limelight.check.kinds import KINDS, Kind, kind_of_name
from limelight.check.used_names import used_globals

# A class with such a name is multi-head attention; another attention is recognised by its code.
CLEAR_NAME = re.compile(r"mu[lit]+head|headed|mha|msa|self|cross|causal")
SEVERAL_HEADS = re.compile(
    r"multi|mha|mhsa|msa|heads|\bn_?head|num_?head|\bnhead|self\.h\b|,\s*h\s*[,)]", re.IGNORECASE
)
STACKS = re.compile(r"ModuleList|Sequential|range\(|clones|layers|blocks|depth", re.IGNORECASE)


def kind_of(name: str, thing: Any) -> Kind | None:
    """The kind of an object: by its name, and by its arguments if the name is not clear."""
    is_class = isinstance(thing, type)
    if is_class and not issubclass(thing, torch.nn.Module):
        return None
    kind = kind_of_name(name, is_class=is_class)
    if kind is None:
        return None
    if not is_class:
        return None if _uses_numpy_only(thing) else _kind_of_function(kind, thing)
    if not kind.is_decoder and kind.is_stack and not kind.reads_images and _is_recurrent(thing):
        return None
    if kind.with_heads and _takes(thing, "heads"):
        return KINDS[kind.with_heads]
    if kind.name == "multi-head-attention" and _takes(thing, "vocab"):
        return KINDS["sequence-model"]
    if kind.block is not None and _is_one_block(thing):
        kind = KINDS[kind.block]
    if kind.name == "multi-head-attention" and not CLEAR_NAME.search(name.lower().replace("_", "")):
        kind = _kind_of_attention(thing)
    if kind.without_heads and _has_one_head(name, thing):
        return KINDS[kind.without_heads]
    if kind.without_source and not Subject(thing, thing.__name__, kind).has_source:
        return KINDS[kind.without_source]
    return kind


def _kind_of_function(kind: Kind, function: Any) -> Kind | None:
    """The kind of a function; one of attention takes queries and keys, not only a number of positions."""
    parameters = list(inspect.signature(function).parameters.values())
    if kind.name == "scaled-dot-product" and len(parameters) == 1 and parameters[0].annotation is int:
        return KINDS["causal-mask"]
    return kind


def _is_one_block(cls: type) -> bool:
    """Whether a class called Encoder or Decoder is one block: its own attention, and no list of blocks."""
    code = _code(cls)
    return bool(re.search(r"att\w*\(", code, re.IGNORECASE)) and not STACKS.search(code)


def _uses_numpy_only(function: Any) -> bool:
    """Whether a function computes with arrays of NumPy, and not with tensors."""
    used = used_globals(function).values()
    modules = {value.__name__.split(".")[0] for value in used if isinstance(value, ModuleType)}
    return "numpy" in modules and "torch" not in modules and ".numpy()" not in _source(function)


def _kind_of_attention(cls: type) -> Kind:
    """The kind of a class that is simply called Attention."""
    multi_head = KINDS["multi-head-attention"]
    if _takes(cls, "head") or not Subject(cls, cls.__name__, multi_head).has_source:
        return multi_head
    is_additive = "tanh" in inspect.getsource(cls)
    return KINDS["additive-attention" if is_additive else "dot-product-attention"]


def _has_one_head(name: str, cls: type) -> bool:
    """Whether neither the name nor the code of an attention class mentions several heads."""
    code = _code(cls)
    return bool(code) and not SEVERAL_HEADS.search(f"{name} {code}")


def _is_recurrent(cls: type) -> bool:
    """Whether its code, or that of the classes which it uses, has recurrent layers."""
    used = [cls, *(value for value in used_globals(cls).values() if isinstance(value, type))]
    return any(re.search(r"nn\.(GRU|LSTM|RNN)(Cell)?\b", _source(one)) for one in used)


def _code(cls: type) -> str:
    """Its source without docstrings and comments."""
    return re.sub(r"#.*", "", re.sub(r'"""(.|\n)*?"""', "", _source(cls)))


@cache
def _source(thing: Any) -> str:
    try:
        return inspect.getsource(thing)
    except (OSError, TypeError):
        return ""


def is_layer_of_kind(name: str, thing: Any) -> bool:
    """Whether it is a module whose name fits a kind, although it may not be checked."""
    is_layer = isinstance(thing, type) and issubclass(thing, torch.nn.Module)
    return is_layer and kind_of_name(name, is_class=True) is not None


def _is_interface(thing: Any, others: list[Any]) -> bool:
    """Whether it is a base class without a forward of its own: its subclasses are checked."""
    if not isinstance(thing, type) or not issubclass(thing, torch.nn.Module):
        return False
    if inspect.isabstract(thing):
        return True
    has_subclass = any(
        isinstance(one, type) and issubclass(one, thing) and one is not thing for one in others
    )
    forward = vars(thing).get("forward")
    return has_subclass and (forward is None or "NotImplementedError" in forward.__code__.co_names)


def _takes(cls: type, word: str) -> bool:
    return any(word in name.lower() for name in inspect.signature(cls).parameters)


def candidates(namespace: dict[str, Any], module: str) -> dict[str, tuple[Any, Kind]]:
    """All objects of a known kind that the module defines, in the order of their definitions."""
    found = {}
    own = [thing for thing in namespace.values() if getattr(thing, "__module__", None) == module]
    for name, thing in namespace.items():
        if not (inspect.isclass(thing) or inspect.isfunction(thing)) or thing.__module__ != module:
            continue
        if _is_interface(thing, own):
            continue
        kind = kind_of(name, thing)
        if kind is not None:
            found[name] = (thing, kind)
    return dict(sorted(found.items(), key=lambda item: line_of(item[1][0])))


def line_of(thing: Any) -> int:
    """The line of its definition; 0 if it is unknown."""
    try:
        return inspect.getsourcelines(thing)[1]
    except (OSError, TypeError):
        return 0
