"""Exceptions for invalid input. Every message names the argument, its value and what is allowed."""

from collections.abc import Iterable
from difflib import get_close_matches


class WrongInput(ValueError):
    """Invalid input from the user. The command line prints the message in one line and exits with code 2."""


class Stopped(RuntimeError):
    """Valid work that cannot continue, e.g. because the disk is full. The command line exits with code 1."""


class Diverged(Stopped):
    """The loss or a weight is no longer a finite number: the same settings would stop at the same step."""


def wrong(argument: str, value: object, allowed: str) -> WrongInput:
    """The exception for an argument with an invalid value.

    raise wrong("dropout", 1.5, "a number in [0, 1)")  # dropout is 1.5; allowed: a number in [0, 1)
    """
    return WrongInput(f"{argument} is {value}; allowed: {allowed}")


def unknown(kind: str, name: str, known: Iterable[str]) -> WrongInput:
    """The exception for an unknown name. It suggests the most similar of the known names."""
    names = sorted(known)
    near = get_close_matches(name, names, n=1)
    guess = f"did you mean {near[0]!r}? " if near else ""
    return WrongInput(f"{kind} {name!r} is unknown; {guess}allowed: {', '.join(names)}")
