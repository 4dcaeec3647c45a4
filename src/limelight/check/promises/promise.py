"""How a promise answers: kept, broken with its smallest case, or not applicable with its reason."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from limelight.check.harness.subject import Subject
from limelight.check.report import Verdict


@dataclass(frozen=True)
class Outcome:
    verdict: Verdict
    example: str = ""
    expected: str = ""
    came: str = ""
    hint: str = ""


KEPT = Outcome("pass")


def broken(example: str, expected: str, came: str, hint: str = "") -> Outcome:
    return Outcome("FAIL", example, expected, came, hint)


def warned(example: str, expected: str, came: str, hint: str = "") -> Outcome:
    return Outcome("warn", example, expected, came, hint)


def inapplicable(why: str) -> Outcome:
    return Outcome("n/a", hint=why)


@dataclass(frozen=True)
class Promise:
    """What a subject should keep, and how to try it."""

    name: str
    says: str
    tried: Callable[[Subject], Outcome]
    hint: str = ""


def numbers(tensor: Tensor, digits: int = 2) -> str:
    """A few numbers, as one writes them by hand."""
    if tensor.dim() == 0:
        return f"{float(tensor):.{digits}f}"
    if tensor.dim() == 1:
        return "[" + ", ".join(f"{value:.{digits}f}" for value in tensor.tolist()) + "]"
    return "[" + ", ".join(numbers(row, digits) for row in tensor) + "]"
