"""One object of someone's file, examined: what it is, how it is called, which promises it keeps."""

import inspect
import re
import sys
import warnings
from collections.abc import Iterator
from types import CodeType
from typing import Any

import torch

from limelight.check.harness.argument_names import kind_of_name
from limelight.check.harness.find_call import understand
from limelight.check.harness.inputs import Form, NotUnderstood
from limelight.check.harness.sizes import SIZES
from limelight.check.harness.subject import Subject
from limelight.check.instruments.influence import find_ways
from limelight.check.kinds import PROMISES, TABLES
from limelight.check.promises.positional_encoding import is_table, takes_size
from limelight.check.promises.promise import Outcome, Promise, inapplicable
from limelight.check.report import Finding, Report
from limelight.errors import unknown, wrong


def kind_of(name: str, thing: Any) -> str | None:
    """What an object is, by its name; and where that says nothing, by what it takes."""
    is_class = isinstance(thing, type)
    if is_class and not issubclass(thing, torch.nn.Module):
        return None
    kind = kind_of_name(name, is_class=is_class)
    if kind == "dot-product-attention" and is_class and _takes(thing, "heads"):
        return "multi-head-attention"
    told = re.search(r"multihead|headed|mha|self|cross|causal", name.lower().replace("_", ""))
    if is_class and kind == "multi-head-attention" and not told:
        return _of_attention(thing)
    if kind in ("decoder", "decoder-block") and is_class and not _has_source(thing, kind):
        return {"decoder": "sequence-model", "decoder-block": "encoder-block"}[kind]
    return kind


def _of_attention(cls: type) -> str:
    """A class that is just called Attention: the additive one bends its scores by tanh, and has no heads."""
    if _takes(cls, "head") or not _has_source(cls, "multi-head-attention"):
        return "multi-head-attention"
    return "additive-attention" if "tanh" in inspect.getsource(cls) else "dot-product-attention"


def _has_source(cls: type, kind: str) -> bool:
    """Whether a decoder reads something: one that does not is a language model."""
    return Subject(cls, cls.__name__, kind).has_source


def _takes(cls: type, word: str) -> bool:
    return any(word in name.lower() for name in inspect.signature(cls).parameters)


def candidates(namespace: dict[str, Any], module: str) -> dict[str, tuple[Any, str]]:
    """Everything in a file that looks like a known kind, in the order in which it stands there."""
    found = {}
    for name, thing in namespace.items():
        if not (inspect.isclass(thing) or inspect.isfunction(thing)) or thing.__module__ != module:
            continue
        kind = kind_of(name, thing)
        if kind is not None:
            found[name] = (thing, kind)
    return dict(sorted(found.items(), key=lambda item: _line(item[1][0])))


def parts_of(thing: Any, namespace: dict[str, Any]) -> list[str]:
    """What a class or function is made of: all that its code names, and what that names in turn."""
    found: dict[str, None] = {}
    open_ones = [thing]
    while open_ones:
        for name in _named_by(open_ones.pop()):
            other = namespace.get(name)
            is_own = getattr(other, "__module__", None) == thing.__module__
            if is_own and other is not thing and name not in found:
                found[name] = None
                open_ones.append(other)
    return list(found)


def _named_by(thing: Any) -> Iterator[str]:
    parts = [thing, *vars(thing).values()] if isinstance(thing, type) else [thing]
    codes = [inspect.unwrap(part).__code__ for part in parts if inspect.isfunction(part)]
    while codes:
        code = codes.pop()
        yield from code.co_names
        codes += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    if isinstance(thing, type):
        yield from (base.__name__ for base in thing.__bases__)


def _line(thing: Any) -> int:
    try:
        return inspect.getsourcelines(thing)[1]
    except (OSError, TypeError):
        return 0


def examine(target: Any, name: str, kind: str, namespace: dict[str, Any] | None = None) -> Report:
    torch.backends.mha.set_fastpath_enabled(False)  # so that what torch's own layers compute can be seen
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # where warnings are errors, theirs would be ours
        return _examined(target, name, kind, namespace)


def _examined(target: Any, name: str, kind: str, namespace: dict[str, Any] | None) -> Report:
    line = _line(target)
    try:
        subject = _understood(target, name, kind, namespace or {})
    except NotUnderstood as trouble:
        return Report(name=name, kind=kind, line=line, trouble=str(trouble))
    promises = TABLES if kind == "positional-encoding" and is_table(subject) else PROMISES[kind]
    findings = tuple(_finding(promise, subject) for promise in promises)
    return Report(name=name, kind=kind, line=line, notes=tuple(subject.notes), findings=findings)


def _understood(target: Any, name: str, kind: str, namespace: dict[str, Any]) -> Subject:
    subject = Subject(target, name, kind, namespace)
    try:
        _understand(subject)
    except NotUnderstood:
        if kind != "positional-encoding":
            raise
        # A table that is added as a whole fits no other length than its own.
        subject = Subject(target, name, kind, namespace, SIZES.but(queries=SIZES.longest))
        _understand(subject)
    return subject


def _understand(subject: Subject) -> None:
    if subject.kind == "causal-mask" or (
        subject.kind == "positional-encoding" and not subject.is_module and takes_size(subject.target)
    ):
        subject.form = Form("size")
        return
    understand(subject)
    find_ways(subject)
    if subject.kind == "masked-softmax" and not subject.masks:
        # Its mask may be for scores of several heads.
        subject.form = Form(heads_axis=True)
        subject.masks = subject.mask_arguments()
        find_ways(subject)


def _finding(promise: Promise, subject: Subject) -> Finding:
    outcome = _tried(promise, subject)
    hint = outcome.hint or (promise.hint if outcome.verdict in ("FAIL", "warn") else "")
    return Finding(
        promise=promise.name,
        says=promise.says,
        verdict=outcome.verdict,
        example=outcome.example,
        expected=outcome.expected,
        came=outcome.came,
        hint=hint,
    )


def _tried(promise: Promise, subject: Subject) -> Outcome:
    try:
        return promise.tried(subject)
    except Exception as error:  # their code, in a case that this promise needs
        first = str(error).splitlines()[0] if str(error) else ""
        return inapplicable(f"it could not be tried: {type(error).__name__}: {first}")


def examine_any(thing: Any, kind: str | None = None) -> Report:
    """An object at hand: a class, a function, or a module that is made already."""
    named = thing if hasattr(thing, "__name__") else type(thing)
    name = named.__name__
    kind = kind or kind_of(name, named)
    if kind is None:
        raise wrong("kind", repr(kind), f"one of {', '.join(PROMISES)}: the name {name} does not tell")
    if kind not in PROMISES:
        raise unknown("kind", kind, PROMISES)
    around = vars(sys.modules[named.__module__]) if named.__module__ in sys.modules else {}
    return examine(thing, name, kind, dict(around))
