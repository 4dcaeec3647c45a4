"""Promises about dropout: active in training, silent in evaluation."""

from typing import Any

import torch
from torch import Tensor, nn

from limelight.check.harness.inputs import Case
from limelight.check.harness.subject import Subject
from limelight.check.promises.promise import KEPT, Outcome, Promise, broken, inapplicable, numbers


def dropouts(subject: Subject) -> list[str]:
    """Arguments of its constructor that are a rate of dropout."""
    return [name for name, role in subject.told_by.items() if role == "dropout"]


def _twice(subject: Subject, model: Any, case: Case) -> tuple[Tensor, Tensor]:
    with torch.no_grad():
        torch.manual_seed(11)
        one = subject.call(model, case).out
        torch.manual_seed(12)
        return one, subject.call(model, case).out


def _flags(subject: Subject) -> list[str]:
    """Arguments of a call that tell training from evaluation."""
    return [p.name for p in subject.parameters if p.name in ("training", "train", "is_training")]


def _called_dropout(subject: Subject) -> Outcome:
    """Of a function that is handed its dropout with each call: as a rate, or as a layer."""
    names = [name for name, role in subject.roles.items() if role == "dropout"]
    if not names or subject.is_module:
        return inapplicable("it takes no dropout")
    case, ran = subject.case(), False
    for rate in (0.5, nn.Dropout(0.5)):
        try:
            with subject.asking(**{names[0]: rate}, **dict.fromkeys(_flags(subject), True)):
                one, other = _twice(subject, subject.model(), case)
        except Exception:  # the other of the two is meant
            continue
        ran = True
        if not torch.equal(one, other):
            return KEPT
    if not ran:
        return inapplicable("its dropout could not be tried")
    return broken(f"{names[0]}=0.5, the same input twice", "two different outputs", "nothing is dropped")


def _drops(subject: Subject) -> Outcome:
    rates = dropouts(subject)
    if not rates:
        return _called_dropout(subject)
    case = subject.case()
    for name in rates:
        one, other = _twice(subject, subject.model(training=True, told={name: 0.5}), case)
        if torch.equal(one, other):
            return broken(
                f"{name}=0.5, in training, the same input twice",
                "two different outputs",
                "the same output: nothing is dropped",
            )
    return KEPT


def _silent(subject: Subject) -> Outcome:
    case = subject.case()
    told: dict[str, Any] = {}
    if not subject.is_module and _flags(subject):
        rates = [p.name for p in subject.parameters if p.default == 0 and subject.roles[p.name] == "dropout"]
        told = dict.fromkeys(rates, 0.5) | dict.fromkeys(_flags(subject), False)
    with subject.asking(**told):
        one, other = _twice(subject, subject.model(told=dict.fromkeys(dropouts(subject), 0.5)), case)
    if torch.equal(one, other) or torch.allclose(one, other, atol=1e-6, equal_nan=True):
        return KEPT
    return broken(
        "in evaluation (model.eval()), the same input twice",
        "the same output",
        f"{numbers(one.flatten()[:3])} … and {numbers(other.flatten()[:3])} …",
    )


PROMISES = (
    Promise(
        "dropout-train",
        "dropout is active in training",
        _drops,
        "the argument must reach an nn.Dropout, and forward must call it",
    ),
    Promise(
        "dropout-eval",
        "evaluation is silent: no dropout",
        _silent,
        "F.dropout(x, p) is always on: use nn.Dropout, or pass training=self.training",
    ),
)
