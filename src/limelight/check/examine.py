"""Checks one object: finds a way of calling it, then tests each promise of its kind."""

import inspect
import linecache
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any

import torch

from limelight.check.discover import kind_of, line_of
from limelight.check.harness.crash import crash_finding
from limelight.check.harness.find_call import find_call
from limelight.check.harness.inputs import CannotCall, Form
from limelight.check.harness.subject import Subject
from limelight.check.instruments.causal_behaviour import CAUSAL_NAME
from limelight.check.instruments.find_mask_format import find_mask_formats
from limelight.check.instruments.influence import influence
from limelight.check.kinds import KINDS, Kind
from limelight.check.promises.consequences import without_consequences
from limelight.check.promises.promise import Promise, inapplicable
from limelight.check.promises.registry import PROMISES
from limelight.check.report import Finding, Report
from limelight.errors import unknown, wrong

WORST_FIRST = ("FAIL", "warn", "pass", "n/a")


def examine(target: Any, name: str, kind: Kind, namespace: dict[str, Any] | None = None) -> Report:
    """Check a class, a function or a module; `namespace` has the other objects of its file."""
    # The fast path would hide the operations of torch's layers.
    torch.backends.mha.set_fastpath_enabled(False)
    with warnings.catch_warnings(), _defined_memory():
        warnings.simplefilter("ignore")  # so that warnings of the checked code are no errors
        return _examine(target, name, kind, namespace or {})


@contextmanager
def _defined_memory() -> Iterator[None]:
    """Inside this context, torch.empty gives NaN, so that every check gives the same report."""
    before = torch.get_deterministic_debug_mode()
    torch.set_deterministic_debug_mode("warn")  # use_deterministic_algorithms would import the compiler
    try:
        yield
    finally:
        torch.set_deterministic_debug_mode(before)


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
    subject = Subject(target, name, kind, namespace)
    report = Report(name=name, kind=kind.name, line=line_of(target))
    with ExitStack() as stack:
        try:
            _find_call_and_masks(subject, stack)
        except CannotCall as error:
            if error.crash is not None:
                return report.model_copy(update={"findings": (_with_code(error.crash, target),)})
            return report.model_copy(update={"trouble": str(error)})
        keys = kind.table_promises if subject.returns_table and kind.table_promises else kind.promises
        # Several tests of one promise are listed one after the other and give one finding.
        by_name = groupby((PROMISES[key] for key in keys), key=lambda promise: promise.name)
        findings = [_with_code(_finding(list(promises), subject), target) for _, promises in by_name]
        if subject.crash is not None:
            findings.insert(0, _with_code(crash_finding(subject.crash), target))
    return report.model_copy(
        update={"notes": tuple(subject.notes), "findings": without_consequences(findings)}
    )


def _find_call_and_masks(subject: Subject, stack: ExitStack) -> None:
    subject.constructor_arguments = _causal_flag(subject)
    find_call(subject, stack)
    if subject.form.inputs == "size":
        return
    _use_all_keys(subject)
    find_mask_formats(subject)
    if subject.kind.reads_scores and not subject.masks:
        # Its mask may be for scores of several heads.
        subject.form = Form(heads_axis=True)
        subject.masks = subject.mask_arguments()
        find_mask_formats(subject)


def _causal_flag(subject: Subject) -> dict[str, bool]:
    """`mask=True` for the constructor of an attention whose name says that it is causal, if it takes that.

    If its call takes a mask, the caller can make it causal.
    """
    if not subject.kind.is_attention or not subject.is_constructed or not CAUSAL_NAME.search(subject.name):
        return {}
    masks = [name for name, role in subject.roles.items() if role == "mask" and "pad" not in name.lower()]
    flags = [p.name for p in inspect.signature(subject.target).parameters.values() if p.default is False]
    names = [name for name in flags if re.fullmatch("(is_|use_)?(causal|mask(ed)?)", name)]
    return {} if masks else dict.fromkeys(names[:1], True)


def _use_all_keys(subject: Subject) -> None:
    """Code that loops over the queries ignores the last keys, unless there are as many keys as queries."""
    sizes = subject.sizes
    if not subject.kind.is_attention or not subject.has_source or subject.form.query != "BTD":
        return
    if _all_keys_matter(subject):
        return
    subject.sizes = sizes.replace(keys=sizes.queries)
    try:
        if _all_keys_matter(subject):
            subject.notes.append("called with as many keys as queries: it ignores further keys")
            return
    except Exception:  # the checked code may raise anything
        pass
    subject.sizes = sizes


def _all_keys_matter(subject: Subject) -> bool:
    found = influence(subject, subject.model(), subject.case())
    return bool(found.any(1).any(0).all())


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


def _with_code(finding: Finding, target: Any) -> Finding:
    """The finding with the text of its line; the name of the file is kept if it is not that of the target."""
    if not finding.line:
        return finding
    try:
        own = inspect.getsourcefile(inspect.unwrap(target) if hasattr(target, "__name__") else type(target))
    except (OSError, TypeError):
        own = None
    code = linecache.getline(finding.file, finding.line).strip()
    file = "" if finding.file == own else Path(finding.file).name
    return finding.model_copy(update={"code": code, "file": file})
