"""Parts of a model, named by the beginnings of parameter names: frozen ones, and their learning rates."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

from torch import nn

from limelight.errors import WrongInput


def freeze(model: nn.Module, parts: Iterable[str]) -> None:
    """Let the parameters of these parts need no gradient: they are neither trained nor decayed."""
    for part in parts:
        for parameter in _parameters_of(model, part, "train.freeze"):
            parameter.requires_grad_(False)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise WrongInput("train.freeze contains all parameters of the model; at least one must be trained")


def learning_rates(model: nn.Module, rates: Mapping[str, float]) -> dict[nn.Parameter, float]:
    """The factor of the learning rate of each parameter of these parts; the longest name counts."""
    longest_last = sorted(rates, key=len)
    return {p: rates[part] for part in longest_last for p in _parameters_of(model, part, "train.rates")}


def is_in(name: str, part: str) -> bool:
    """Whether the parameter belongs to the part: "encoder.blocks.1" is in "encoder" and in itself."""
    return name == part or name.startswith(f"{part}.")


def _parameters_of(model: nn.Module, part: str, key: str) -> list[nn.Parameter]:
    """All parameters of a part; a tied one belongs to each part that it is in."""
    named = dict(model.named_parameters(remove_duplicate=False))
    found = [parameter for name, parameter in named.items() if is_in(name, part)]
    if not found:
        raise _no_such_part(part, list(named), key)
    return found


def _no_such_part(part: str, names: list[str], key: str) -> WrongInput:
    pieces = [name.split(".") for name in names]
    parts = list(dict.fromkeys(".".join(one[:end]) for one in pieces for end in range(1, len(one) + 1)))
    ending = [one for one in parts if one.endswith(f".{part}")]
    near = ending[:3] or get_close_matches(part, parts, n=3)
    top = list(dict.fromkeys(one[0] for one in pieces))
    guess = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
    return WrongInput(f"{key}: the model has no part {part!r}; {guess}its parts begin with {', '.join(top)}")
