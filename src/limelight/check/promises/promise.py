"""A promise: what an object should do, and the test of it."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from limelight.check.harness.subject import Subject
from limelight.check.places import Place
from limelight.check.report import Finding

KEPT = Finding(verdict="pass")


@dataclass(frozen=True)
class Promise:
    """What an object should do, as a sentence, with its test and the usual mistake."""

    name: str
    statement: str
    test: Callable[[Subject], Finding]
    hint: str
    variant: str = ""  # for several tests of one promise

    @property
    def key(self) -> str:
        """The name in the table of kinds."""
        return f"{self.name}:{self.variant}" if self.variant else self.name


def broken(example: str, expected: str, got: str, hint: str = "", *, place: Place | None = None) -> Finding:
    """The promise is broken, by the line at `place`; without a hint, that of the promise is used."""
    file, line = place or ("", 0)
    return Finding(
        verdict="FAIL", example=example, expected=expected, got=got, hint=hint, file=file, line=line
    )


def warned(example: str, expected: str, got: str, hint: str = "", *, place: Place | None = None) -> Finding:
    """The code is right in some situations and wrong in others."""
    return broken(example, expected, got, hint, place=place).model_copy(update={"verdict": "warn"})


def inapplicable(reason: str) -> Finding:
    """The promise does not apply to this object."""
    return Finding(verdict="n/a", hint=reason)


def numbers(tensor: Tensor, digits: int = 2) -> str:
    """The values of a small tensor as text."""
    if tensor.dim() == 0:
        return f"{float(tensor):.{digits}f}"
    if tensor.dim() == 1:
        return "[" + ", ".join(f"{value:.{digits}f}" for value in tensor.tolist()) + "]"
    return "[" + ", ".join(numbers(row, digits) for row in tensor) + "]"
