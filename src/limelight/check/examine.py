"""Checks one object: finds a way of calling it, then tests each promise of its kind."""

import sys
import warnings
from itertools import groupby
from typing import Any

import torch

from limelight.check.discover import kind_of, line_of
from limelight.check.harness.find_call import find_call
from limelight.check.harness.inputs import CannotCall, Form
from limelight.check.harness.sizes import SIZES
from limelight.check.harness.subject import Subject
from limelight.check.instruments.find_mask_format import find_mask_formats
from limelight.check.kinds import KINDS, Kind
from limelight.check.promises.promise import Promise, inapplicable
from limelight.check.promises.registry import PROMISES
from limelight.check.report import Finding, Report
from limelight.errors import unknown, wrong

WORST_FIRST = ("FAIL", "warn", "pass", "n/a")


def examine(target: Any, name: str, kind: Kind, namespace: dict[str, Any] | None = None) -> Report:
    """Check a class, a function or a module; `namespace` has the other objects of its file."""
    torch.backends.mha.set_fastpath_enabled(
        False
    )  # the fast path would hide the operations of torch's layers
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so that warnings of the checked code are no errors
        return _examine(target, name, kind, namespace or {})


def examine_object(thing: Any, kind_name: str | None = None) -> Report:
    """Check a class, a function or a constructed module of this process."""
    named = thing if hasattr(thing, "__name__") else type(thing)
    name = named.__name__
    if kind_name is not None and kind_name not in KINDS:
        raise unknown("kind", kind_name, KINDS)
    kind = kind_of(name, named) if kind_name is None else KINDS[kind_name]
    if kind is None:
        allowed = f"one of {', '.join(sorted(KINDS))}; it cannot be derived from the name {name}"
        raise wrong("kind", repr(kind_name), allowed)
    module = sys.modules.get(named.__module__)
    return examine(thing, name, kind, dict(vars(module)) if module else {})


def _examine(target: Any, name: str, kind: Kind, namespace: dict[str, Any]) -> Report:
    line = line_of(target)
    try:
        subject = _prepared(target, name, kind, namespace)
    except CannotCall as error:
        return Report(name=name, kind=kind.name, line=line, trouble=str(error))
    keys = kind.table_promises if subject.returns_table and kind.table_promises else kind.promises
    # Several tests of one promise are listed one after the other and give one finding.
    by_name = groupby((PROMISES[key] for key in keys), key=lambda promise: promise.name)
    findings = tuple(_finding(list(promises), subject) for _, promises in by_name)
    return Report(name=name, kind=kind.name, line=line, notes=tuple(subject.notes), findings=findings)


def _prepared(target: Any, name: str, kind: Kind, namespace: dict[str, Any]) -> Subject:
    """The object with a way of calling it, and the formats of its masks."""
    subject = Subject(target, name, kind, namespace)
    try:
        _find_call_and_masks(subject)
    except CannotCall:
        if not kind.is_positional:
            raise
        # A table that is added as a whole fits inputs of its own length only.
        subject = Subject(target, name, kind, namespace, SIZES.replace(queries=SIZES.longest))
        _find_call_and_masks(subject)
    return subject


def _find_call_and_masks(subject: Subject) -> None:
    find_call(subject)
    if subject.form.inputs == "size":
        return
    find_mask_formats(subject)
    if subject.kind.reads_scores and not subject.masks:
        # Its mask may be for scores of several heads.
        subject.form = Form(heads_axis=True)
        subject.masks = subject.mask_arguments()
        find_mask_formats(subject)


def _finding(promises: list[Promise], subject: Subject) -> Finding:
    """The result of one promise; of several tests, the worst result counts."""
    results: list[tuple[Promise, Finding]] = []
    try:
        for promise in promises:
            results.append((promise, promise.test(subject)))
            if results[-1][1].verdict == "FAIL":
                break
    except Exception as error:  # the checked code may raise anything
        first = str(error).splitlines()[0] if str(error) else ""
        results = [(promises[0], inapplicable(f"it could not be tested: {type(error).__name__}: {first}"))]
    promise, result = min(results, key=lambda one: WORST_FIRST.index(one[1].verdict))
    hint = result.hint or (promise.hint if result.verdict in ("FAIL", "warn") else "")
    return result.model_copy(update={"promise": promise.name, "statement": promise.statement, "hint": hint})
