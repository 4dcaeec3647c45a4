"""The weights of another model in a new one: what fits by name and shape is taken."""

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn

from limelight.errors import WrongInput
from limelight.nn import LearnedPositions
from limelight.training.parts import is_in
from limelight.training.weights import weights_of


@torch.no_grad()
def take_weights(model: nn.Module, weights: Mapping[str, Tensor], source: str) -> list[str]:
    """Copy the weights that fit into a model; returns notes on those that do, and on all others.

    Of learned positions, the common ones fit. `source` is the name of the other model in messages; it is
    refused if no matrix fits.
    """
    own = weights_of(model)
    fresh, other_shape = list[str](), list[str]()
    number, matrices = 0, 0
    for name, tensor in own.items():
        there = weights.get(name)
        if there is None:
            fresh.append(name)
            continue
        mine = tensor
        if _is_positions(model, name):
            mine, there = tensor[: len(there)], there[: len(tensor)]
        if mine.shape != there.shape:
            other_shape.append(f"{name} ({_show(weights[name])} there, {_show(tensor)} here)")
            continue
        mine.copy_(there)
        number, matrices = number + mine.numel(), matrices + (mine.dim() > 1)
        if mine.shape != tensor.shape:
            other_shape.append(f"{name} from position {len(mine)} on")
    total = sum(tensor.numel() for tensor in own.values())
    if not matrices:
        raise WrongInput(f"no matrix of {source} fits this model: none has the same name and shape")
    notes = [f"{number:,} of {total:,} weights are those of {source}"]
    if fresh:
        notes.append(f"new weights: {', '.join(_parts(fresh, own))}")
    if other_shape:
        notes.append(f"new weights, because of another shape: {', '.join(other_shape)}")
    unused = [name for name in weights if name not in own]
    if unused:
        notes.append(f"not used from {source}: {', '.join(_parts(unused, weights))}")
    return notes


def _is_positions(model: nn.Module, name: str) -> bool:
    return isinstance(model.get_submodule(name.rpartition(".")[0]), LearnedPositions)


def _show(tensor: Tensor) -> str:
    return "×".join(map(str, tensor.shape))


def _parts(names: Iterable[str], all_names: Iterable[str]) -> list[str]:
    """The names in short: one name for a whole part of which all parameters are among them."""
    others = set(all_names) - set(names)
    found = dict[str, None]()
    for name in names:
        pieces = name.split(".")
        parts = (".".join(pieces[:end]) for end in range(1, len(pieces) + 1))
        found[next(part for part in parts if not any(is_in(other, part) for other in others))] = None
    return list(found)
