"""How things are refused: what is wrong, what it is, what is allowed. Always the same words."""

from collections.abc import Iterable
from difflib import get_close_matches


class WrongInput(ValueError):
    """Something the user gave and can mend: the command line says it in one line and exits with 2."""


class Stopped(RuntimeError):
    """Work that was well asked for and cannot go on: one line, exit code 1."""


def wrong(argument: str, value: object, allowed: str) -> WrongInput:
    return WrongInput(f"{argument} is {value}; allowed: {allowed}")


def unknown(kind: str, name: str, known: Iterable[str]) -> WrongInput:
    """A name that nothing has, with the nearest that something has."""
    names = sorted(known)
    near = get_close_matches(name, names, n=1)
    guess = f"did you mean {near[0]!r}? " if near else ""
    return WrongInput(f"{kind} {name!r} is unknown; {guess}there are: {', '.join(names)}")
