"""Random weights for a module under test."""

import torch
from torch import nn


def randomise(model: nn.Module, seed: int) -> None:
    """Draw all learned matrices anew, so that no two are equal and none is zero; zero biases, too."""
    generator = torch.Generator().manual_seed(seed)
    parts = [part for part in model.modules() if "norm" in type(part).__name__.lower()]
    norms = {id(p) for part in parts for p in part.parameters(recurse=False)}
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad or isinstance(parameter, nn.parameter.UninitializedParameter):
            continue
        with torch.no_grad():
            if parameter.dim() >= 2:
                scale = 1.0 if "emb" in name.lower() else parameter[0].numel() ** -0.5
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * scale * 1.2)
            elif bool(parameter.isnan().any()) and id(parameter) in norms:  # its memory was not initialised
                parameter.fill_(0.0 if "bias" in name else 1.0)
            elif bool(parameter.isnan().any()) or (
                id(parameter) not in norms and "norm" not in name.lower() and not parameter.any()
            ):
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.1)
