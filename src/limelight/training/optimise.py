"""How weights are moved: AdamW, learning-rate schedules, clipping."""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.optim.adam import adam

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


class Optimiser:
    """AdamW (Loshchilov and Hutter 2019) on all parameters in one tensor; of these, only matrices decay.

    One operation instead of one a parameter: small models spend their time on calls otherwise.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        learning = [parameter for parameter in model.parameters() if parameter.requires_grad]
        matrices = [parameter for parameter in learning if parameter.dim() == 2]
        others = [parameter for parameter in learning if parameter.dim() != 2]
        self._flat, self.gradient = _flatten(matrices + others)
        self._decaying = self._flat.data[: sum(parameter.numel() for parameter in matrices)]
        self._decay = decay
        self._state = {
            "step": torch.zeros((), device=self._flat.device),
            "exp_avg": torch.zeros_like(self.gradient),
            "exp_avg_sq": torch.zeros_like(self.gradient),
        }

    def clear(self) -> None:
        self.gradient.zero_()

    def clip(self, longest: float) -> None:
        """Shorten the gradient of all parameters together to `longest`, where it is longer."""
        length = float(torch.linalg.vector_norm(self.gradient))
        if length > longest:
            self.gradient.mul_(longest / length)

    def step(self, rate: float) -> None:
        self._decaying.mul_(1 - rate * self._decay)
        step, mean, square = ([tensor] for tensor in self._state.values())
        adam(
            [self._flat.data],
            [self.gradient],
            mean,
            square,
            [],
            step,
            lr=rate,
            beta1=0.9,
            beta2=0.999,
            eps=1e-8,
            weight_decay=0.0,
            amsgrad=False,
            maximize=False,
            fused=True,
        )

    def state(self) -> dict[str, Tensor]:
        """Each tensor that must be there again for the next step to be the same."""
        return dict(self._state)

    def restore(self, state: dict[str, Tensor]) -> None:
        for name, tensor in self._state.items():
            tensor.copy_(state[name])


def _flatten(parameters: Sequence[nn.Parameter]) -> tuple[nn.Parameter, Tensor]:
    """One parameter and its gradient, of which the given ones and their gradients become pieces."""
    flat = nn.Parameter(torch.cat([parameter.detach().flatten() for parameter in parameters]))
    gradient = flat.grad = torch.zeros_like(flat)
    sizes = [parameter.numel() for parameter in parameters]
    pieces = zip(parameters, flat.data.split(sizes), gradient.split(sizes), strict=True)
    for parameter, values, slope in pieces:
        parameter.data = values.view_as(parameter)
        parameter.grad = slope.view_as(parameter)
    return flat, gradient
