"""The weights of a model as a dictionary and as bytes. Shared tensors are stored once."""

import torch
from safetensors.torch import load, save
from torch import Tensor, nn

from limelight.errors import Diverged, WrongInput


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers by name; a tensor with two names appears under the first."""
    first = {id(tensor): name for name, tensor in reversed(model.state_dict(keep_vars=True).items())}
    return {name: t.detach() for name, t in model.state_dict(keep_vars=True).items() if first[id(t)] == name}


@torch.no_grad()
def load_weights(model: nn.Module, weights: dict[str, Tensor]) -> None:
    """Copy weights into a model; raise `WrongInput` if a name or shape differs."""
    own = weights_of(model)
    saved = {name: tuple(tensor.shape) for name, tensor in weights.items()}
    for name, tensor in own.items():
        if name not in saved:
            raise WrongInput(f"the saved weights have no {name}")
        if saved[name] != tuple(tensor.shape):
            raise WrongInput(
                f"{name} has shape {saved[name]} in the saved weights and {tuple(tensor.shape)} in the model"
            )
    if len(weights) > len(own):
        raise WrongInput(
            f"the saved weights contain unknown names: {', '.join(sorted(set(weights) - set(own)))}"
        )
    for name, tensor in own.items():
        tensor.copy_(weights[name])


def to_bytes(tensors: dict[str, Tensor]) -> bytes:
    """Tensors in the safetensors format."""
    return save({name: tensor.contiguous().cpu() for name, tensor in tensors.items()})


def from_bytes(content: bytes) -> dict[str, Tensor]:
    """Tensors from the safetensors format."""
    return load(content)


def check_finite(weights: dict[str, Tensor], step: int) -> None:
    """Raise `Diverged` if a weight is NaN or infinite."""
    for name, tensor in weights.items():
        if not bool(tensor.isfinite().all()):
            raise Diverged(
                f"step {step}: {name} is no longer finite; nothing was saved. A smaller train.rate may help"
            )
