"""Weights as bytes, each tensor once."""

import torch
from safetensors.torch import load, save
from torch import Tensor, nn

from limelight.errors import Stopped, WrongInput


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers by name; a tensor that stands in two places goes by its first name."""
    first = {id(tensor): name for name, tensor in reversed(model.state_dict(keep_vars=True).items())}
    return {name: t.detach() for name, t in model.state_dict(keep_vars=True).items() if first[id(t)] == name}


@torch.no_grad()
def load_weights(model: nn.Module, weights: dict[str, Tensor]) -> None:
    own = weights_of(model)
    there = {name: tuple(tensor.shape) for name, tensor in weights.items()}
    for name, tensor in own.items():
        if there.get(name) != tuple(tensor.shape):
            raise WrongInput(
                f"the weights have {name} of shape {there.get(name)}; the model, {tuple(tensor.shape)}"
            )
    if len(weights) > len(own):
        raise WrongInput(
            f"the weights have what the model has not: {', '.join(sorted(set(weights) - set(own)))}"
        )
    for name, tensor in own.items():
        tensor.copy_(weights[name])


def to_bytes(tensors: dict[str, Tensor]) -> bytes:
    return save({name: tensor.contiguous().cpu() for name, tensor in tensors.items()})


def from_bytes(content: bytes) -> dict[str, Tensor]:
    return load(content)


def check_finite(weights: dict[str, Tensor], step: int) -> None:
    for name, tensor in weights.items():
        if not bool(tensor.isfinite().all()):
            raise Stopped(
                f"step {step}: {name} is no longer finite and was not saved; a smaller train.rate helps"
            )
