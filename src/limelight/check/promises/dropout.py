"""Promises about dropout: active in training, off in evaluation."""

from typing import Any

import torch
from torch import Tensor, nn

from limelight.check.harness.inputs import Case
from limelight.check.harness.subject import Subject
from limelight.check.promises.promise import KEPT, Promise, broken, inapplicable, numbers
from limelight.check.report import Finding


def _rates(subject: Subject) -> list[str]:
    """The arguments of its constructor that are dropout rates."""
    return [name for name, role in subject.constructor_roles.items() if role == "dropout"]


def _two_outputs(subject: Subject, model: Any, case: Case) -> tuple[Tensor, Tensor]:
    with torch.no_grad():
        torch.default_generator.manual_seed(11)
        one = subject.call(model, case, dropout=True).out
        torch.default_generator.manual_seed(12)
        return one, subject.call(model, case, dropout=True).out


def _training_flags(subject: Subject) -> list[str]:
    """The arguments of a call that switch between training and evaluation."""
    return [p.name for p in subject.parameters if p.name in ("training", "train", "is_training")]


def _dropout_of_function(subject: Subject) -> Finding:
    """A function takes its dropout as an argument of each call: a rate, or a layer."""
    names = [name for name, role in subject.roles.items() if role == "dropout"]
    if not names or subject.is_module:
        return inapplicable("it takes no dropout")
    case, was_called = subject.case(), False
    for dropout in (0.5, nn.Dropout(0.5)):
        try:
            flags = dict.fromkeys(_training_flags(subject), True)
            with subject.with_arguments(**{names[0]: dropout}, **flags):
                one, other = _two_outputs(subject, subject.model(), case)
        except Exception:  # it takes the other of the two
            continue
        was_called = True
        if not torch.equal(one, other):
            return KEPT
    if not was_called:
        return inapplicable("it could not be called with dropout")
    return broken(
        f"{names[0]}=0.5, two calls with the same input", "two different outputs", "the same output"
    )


def _active_in_training(subject: Subject) -> Finding:
    rates = _rates(subject)
    if not rates:
        return _dropout_of_function(subject)
    case = subject.case()
    for name in rates:
        one, other = _two_outputs(subject, subject.model(training=True, given={name: 0.5}), case)
        if torch.equal(one, other):
            return broken(
                f"{name}=0.5, in training, two calls with the same input",
                "two different outputs",
                "the same output",
            )
    return KEPT


def _off_in_evaluation(subject: Subject) -> Finding:
    case = subject.case()
    arguments: dict[str, Any] = {}
    flags = _training_flags(subject)
    if not subject.is_module and flags:
        rates = [p.name for p in subject.parameters if p.default == 0 and subject.roles[p.name] == "dropout"]
        arguments = dict.fromkeys(rates, 0.5) | dict.fromkeys(flags, False)
    with subject.with_arguments(**arguments):
        model = subject.model(given=dict.fromkeys(_rates(subject), 0.5))
        one, other = _two_outputs(subject, model, case)
    if torch.equal(one, other) or torch.allclose(one, other, atol=1e-6, equal_nan=True):
        return KEPT
    with subject.with_arguments(**arguments):
        _, steps = subject.trace(model, case)
    random = [step for step in steps if step.name.rstrip("_") in ("native_dropout", "bernoulli", "rand")]
    return broken(
        "in evaluation (model.eval()), two calls with the same input",
        "the same output",
        f"{numbers(one.flatten()[:3])} … and {numbers(other.flatten()[:3])} …",
        place=random[0].place if random else None,
    )


PROMISES = (
    Promise(
        "dropout-train",
        "dropout is active in training",
        _active_in_training,
        "the dropout rate is not passed on to an nn.Dropout, or forward does not call it",
    ),
    Promise(
        "dropout-eval",
        "dropout is off in evaluation",
        _off_in_evaluation,
        "F.dropout(x, p) is also active in evaluation: use nn.Dropout, or pass training=self.training",
    ),
)
