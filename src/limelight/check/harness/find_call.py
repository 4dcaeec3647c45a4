"""How someone's code wants to be called: which form its tensors have, and which axis is the positions'."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch

from limelight.check.harness.construct import Builder, CannotBuild
from limelight.check.harness.inputs import BARE, Case, NotUnderstood, Result
from limelight.check.harness.mask_formats import Way, ways_for
from limelight.check.harness.signature import BEGIN, forms
from limelight.check.harness.subject import Subject


def understand(subject: Subject) -> None:
    """Finds a form in which it can be called, or says that there is none."""
    trouble: Exception | None = None
    try:
        subject.masks = subject.mask_arguments()
        recurrent = BEGIN in subject.roles.values()
        for form in forms(subject.kind, has_source=subject.has_source, recurrent=recurrent):
            subject.form = form
            for choice, _ in enumerate(_candidates(subject)):
                subject.choice = choice
                try:
                    _try_to_call(subject)
                except Exception as error:  # whatever their code raises
                    trouble = trouble or error
                else:
                    _find_layout(subject)
                    return
    except CannotBuild as error:
        raise NotUnderstood(f"its constructor could not be called: {error}") from None
    raise NotUnderstood(f"it could not be called: {_in_words(trouble)}")


@torch.no_grad()
def _find_layout(subject: Subject) -> None:
    """Whether it takes (T, B, …): then its first axis is what looks at itself."""
    if subject.form.inputs not in ("vectors", "tokens") or subject.form != replace(subject.form, query="BTD"):
        return
    if subject.kind in ("masked-softmax", "feed-forward", *BARE):
        return
    over_batch, over_positions = (_mixes(subject, axis) for axis in (0, 1))
    if not over_batch or over_positions:
        return
    form, subject.form = subject.form, replace(subject.form, time_first=True)
    try:
        if not _mixes(subject, 0):
            subject.notes.append("the first axis of its tensors is that of the positions: (T, B, D)")
            return
    except Exception:  # the other axis does not fit
        pass
    subject.form = form


def _mixes(subject: Subject, axis: int) -> bool:
    """Whether what stands at one place of an axis changes what comes out at another one."""
    model, case = subject.model(), subject.case()
    x = case.x.clone()
    first = x.select(axis, 0)
    if subject.kind == "positional-encoding" and x.is_floating_point():
        out = subject.call(model, Case(torch.zeros_like(x))).out
        return not torch.allclose(out.select(axis, 0), out.select(axis, 1))
    if x.is_floating_point():
        first += torch.randn(first.shape)
    else:
        first.copy_(1 + first % (subject.sizes.vocabulary - 1))
    before, after = subject.call(model, case).out, subject.call(model, replace(case, x=x)).out
    if before.dim() <= axis:
        return True
    rest = [t.narrow(axis, 1, t.shape[axis] - 1) for t in (before, after)]
    return not torch.allclose(rest[0], rest[1], atol=1e-5, equal_nan=True)


@torch.no_grad()
def _try_to_call(subject: Subject) -> None:
    case = subject.case()
    needed = [p.name for p in subject.parameters if p.default is p.empty]
    asked = [mask for mask in subject.masks if mask.name in needed and mask.role != "state"]
    trouble: Exception | None = None
    # Where masks must be given, all that say "everything may be seen" are tried.
    for way in [None, *(ways_for("mask", "mask") if asked else [])]:
        for mask in asked:
            lengths = way is not None and mask.role == "lengths"
            mask.required, mask.way = way is not None, Way("lengths", "B") if lengths else way
        try:
            result = subject.call(subject.model(), case)
            _check_shape(subject, result, case)
        except Exception as error:  # whatever their code raises
            trouble = trouble or error
        else:
            return
    assert trouble is not None
    raise trouble


def _candidates(subject: Subject) -> Iterator[Any]:
    if not subject.is_made:
        yield subject.target
        return
    yield from Builder(subject.namespace).instances(subject.target, subject.kind, subject.sizes)


def _check_shape(subject: Subject, result: Result, case: Case) -> None:
    if subject.form.inputs in ("images", "size"):
        return
    out, x = result.out, case.x
    if out.dim() < 2 or out.shape[:2] != x.shape[:2]:
        raise NotUnderstood(f"it gives {tuple(out.shape)} of {tuple(x.shape)}")


def _in_words(error: Exception | None) -> str:
    return (
        "" if error is None else f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    )
