"""How weights are moved: AdamW, Muon, learning-rate schedules, clipping."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby

import torch
from torch import Tensor, nn
from torch.optim.adam import adam

from limelight.errors import WrongInput

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

    One operation instead of one a parameter: small models spend their time on calls otherwise. With
    `muon`, the hidden matrices are moved by Muon (Jordan et al. 2024) and AdamW has the rest.
    """

    def __init__(self, model: nn.Module, decay: float, *, muon: bool = False, average: float = 0.0) -> None:
        """With `average` a, the mean of the weights of about the last 1/(1 - a) steps is kept, too."""
        hidden = _hidden_matrices(model) if muon else []
        known = {id(parameter) for parameter in hidden}
        rest = [p for p in model.parameters() if p.requires_grad and id(p) not in known]
        matrices = hidden + [parameter for parameter in rest if parameter.dim() == 2]
        others = [parameter for parameter in rest if parameter.dim() != 2]
        self._flat, self.gradient = _flatten(matrices + others)
        self._decaying = self._flat[: sum(parameter.numel() for parameter in matrices)]
        self._decay = decay
        self._muon = _Muon(hidden)
        cut = self._muon.size
        self._hidden, self._hidden_gradient = self._flat[:cut], self.gradient[:cut]
        self._rest, self._rest_gradient = self._flat[cut:], self.gradient[cut:]
        self._state = {
            "step": torch.zeros((), device=self._flat.device),
            "exp_avg": torch.zeros_like(self._rest),
            "exp_avg_sq": torch.zeros_like(self._rest),
        }
        if hidden:
            self._state["momentum"] = torch.zeros_like(self._hidden)
        self._average = average
        if average:
            self._state |= {"weights": self._flat, "average": self._flat.clone()}

    def clear(self) -> None:
        self.gradient.zero_()

    def clip(self, longest: float) -> None:
        """Shorten the gradient of all parameters together to `longest`, where it is longer."""
        length = float(torch.linalg.vector_norm(self.gradient))
        if length > longest:
            self.gradient.mul_(longest / length)

    def step(self, rate: float) -> None:
        self._decaying.mul_(1 - rate * self._decay)
        if len(self._hidden):
            self._muon.step(self._hidden, self._hidden_gradient, self._state["momentum"], rate)
        adam(
            [self._rest],
            [self._rest_gradient],
            [self._state["exp_avg"]],
            [self._state["exp_avg_sq"]],
            [],
            [self._state["step"]],
            lr=rate,
            beta1=0.9,
            beta2=0.999,
            eps=1e-8,
            weight_decay=0.0,
            amsgrad=False,
            maximize=False,
            fused=True,
        )
        if self._average:
            # In the beginning the mean is over fewer steps: weights as they were born do not count for long.
            step = float(self._state["step"])
            self._state["average"].lerp_(self._flat, 1 - min(self._average, (1 + step) / (10 + step)))

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """The model has the mean weights, if they are kept, as long as the context is open."""
        if not self._average:
            yield
            return
        now = self._flat.clone()
        self._flat.copy_(self._state["average"])
        try:
            yield
        finally:
            self._flat.copy_(now)

    def state(self) -> dict[str, Tensor]:
        """Each tensor that must be there again for the next step to be the same."""
        return {
            name: tensor.clone() if tensor is self._flat else tensor for name, tensor in self._state.items()
        }

    def restore(self, state: dict[str, Tensor]) -> None:
        shapes = {name: tensor.shape for name, tensor in state.items()}
        if shapes != {name: tensor.shape for name, tensor in self._state.items()}:
            raise WrongInput("train.optimiser or train.average is another one than in the checkpoint")
        for name, tensor in self._state.items():
            tensor.copy_(state[name])


class _Muon:
    """Moves matrices by their orthogonalised momentum: every direction as far as every other.

    They stand one after the other in a flat tensor, those of one shape together, and go through the
    iterations as one batch. An update is as large as AdamW's, so that both go by one rate (Liu et al. 2025).
    """

    def __init__(self, matrices: Sequence[nn.Parameter], memory: float = 0.95) -> None:
        self.memory = memory
        self._shapes = [(len(list(same)), *shape) for shape, same in groupby(p.shape for p in matrices)]
        self.size = sum(map(math.prod, self._shapes))

    def step(self, flat: Tensor, gradient: Tensor, momentum: Tensor, rate: float) -> None:
        momentum.lerp_(gradient, 1 - self.memory)
        ahead = gradient.lerp(momentum, self.memory)  # Nesterov's
        sizes = [math.prod(shape) for shape in self._shapes]
        for shape, weights, update in zip(self._shapes, flat.split(sizes), ahead.split(sizes), strict=True):
            size = 0.2 * math.sqrt(max(shape[1:]))
            weights.view(shape).sub_(orthogonalise(update.view(shape)), alpha=rate * size)


def orthogonalise(matrices: Tensor) -> Tensor:
    """(n, R, C) -> (n, R, C)

    About the nearest matrices whose singular values are all 1 (between 0.7 and 1.2), by five Newton–Schulz
    iterations with the coefficients of Jordan et al. 2024. In float32: bfloat16 is slow where it is emulated.
    """
    tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.mT if tall else matrices
    x = x / (torch.linalg.matrix_norm(x, keepdim=True) + 1e-7)
    if x.shape[-1] < 2 * x.shape[-2]:
        for _ in range(5):
            x = _iteration(x @ x.mT) @ x
        return x.mT if tall else x
    # Of wide matrices only x·xᵀ, which is smaller, goes through the iterations: all of them are factors of x.
    gram = x @ x.mT
    factor = product = _iteration(gram)
    for _ in range(4):
        gram = factor @ gram @ factor
        factor = _iteration(gram)
        product = factor @ product
    x = product @ x
    return x.mT if tall else x


def _iteration(gram: Tensor) -> Tensor:
    """(n, R, R) -> (n, R, R)

    3.4445 - 4.7750 g + 2.0315 g², by which a Newton–Schulz iteration multiplies.
    """
    factor = gram.baddbmm(gram, gram, beta=-4.7750, alpha=2.0315)
    factor.diagonal(dim1=-2, dim2=-1).add_(3.4445)
    return factor


def _hidden_matrices(model: nn.Module) -> list[nn.Parameter]:
    """Those that map hidden units to hidden units, sorted by shape: no embedding, and not the last layer."""
    linear = [name for name, part in model.named_modules() if isinstance(part, nn.Linear)][:-1]
    embedded = {id(part.weight) for part in model.modules() if isinstance(part, nn.Embedding)}
    weights = [model.get_parameter(f"{name}.weight") for name in linear]
    hidden = [weight for weight in weights if weight.requires_grad and id(weight) not in embedded]
    return sorted(hidden, key=lambda weight: tuple(weight.shape))


def _flatten(parameters: Sequence[nn.Parameter]) -> tuple[Tensor, Tensor]:
    """One tensor and its gradient, of which the given parameters and their gradients become pieces."""
    flat = torch.cat([parameter.detach().flatten() for parameter in parameters])
    gradient = torch.zeros_like(flat)
    sizes = [parameter.numel() for parameter in parameters]
    pieces = zip(parameters, flat.split(sizes), gradient.split(sizes), strict=True)
    for parameter, values, slope in pieces:
        parameter.data = values.view_as(parameter)
        parameter.grad = slope.view_as(parameter)
    return flat, gradient
