"""How weights are moved: AdamW, learning-rate schedules, clipping."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

Schedule = Callable[[int, int, int], float]


def cosine(step: int, warmup: int, total: int) -> float:
    """Up in a straight line, then down along half a cosine to zero at the end."""
    if step < warmup:
        return (step + 1) / warmup
    return 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, total - warmup)))


def inverse_root(step: int, warmup: int, total: int) -> float:
    """Up in a straight line, then down as 1/√step (Vaswani et al. 2017, section 5.3); 1 at the top."""
    top = max(1, warmup)
    return min((step + 1) / top, math.sqrt(top / (step + 1)))


def constant(step: int, warmup: int, total: int) -> float:
    """Up in a straight line, then level."""
    return min(1.0, (step + 1) / max(1, warmup))


SCHEDULES: dict[str, Schedule] = {"cosine": cosine, "inverse-root": inverse_root, "constant": constant}


def adamw(model: nn.Module, decay: float) -> torch.optim.AdamW:
    """With decoupled weight decay (Loshchilov and Hutter 2019) on matrices, not on norms and biases."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [
        {"params": [p for p in parameters if p.dim() == 2], "weight_decay": decay},
        {"params": [p for p in parameters if p.dim() != 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW([group for group in groups if group["params"]], fused=True)


def set_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    for group in optimiser.param_groups:
        group["lr"] = rate


def optimiser_state(model: nn.Module, optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Each tensor that the optimiser keeps, by its parameter's name."""
    return {
        f"{name}/{key}": value
        for name, parameter in model.named_parameters()
        for key, value in optimiser.state[parameter].items()
    }


def restore_optimiser(model: nn.Module, optimiser: torch.optim.Optimizer, state: dict[str, Tensor]) -> None:
    parameters = dict(model.named_parameters())
    for key, value in state.items():
        name, kind = key.rsplit("/", 1)
        parameter = parameters[name]
        # The count of steps stays where the optimiser keeps it; all else stands beside its parameter.
        device = value.device if value.dim() == 0 and parameter.device.type == "cpu" else parameter.device
        optimiser.state[parameter][kind] = value.to(device)
