"""Optimisers AdamW and Muon, gradient clipping, weight averaging, and learning rate schedules."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby

import torch
from torch import Tensor, nn
from torch.optim.adam import adam

from limelight.errors import WrongInput
from limelight.nn.kernels.linear import cpu_features
from limelight.training.config import TrainConfig

MULTIPLIES_BFLOAT16 = bool(cpu_features().get("avx512_bf16"))  # otherwise it is emulated, which is slow
Schedule = Callable[[int, int, int], float]  # (step, warmup, total) -> factor of the peak learning rate


def cosine(step: int, warmup: int, total: int) -> float:
    """Linear warm-up, then half a cosine down to zero at the last step."""
    if step < warmup:
        return (step + 1) / warmup
    return 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, total - warmup)))


def inverse_root(step: int, warmup: int, total: int) -> float:
    """Linear warm-up, then proportional to 1/√step (Vaswani et al. 2017, section 5.3), with a peak of 1."""
    peak = max(1, warmup)
    return min((step + 1) / peak, math.sqrt(peak / (step + 1)))


def constant(step: int, warmup: int, total: int) -> float:
    """Linear warm-up, then constant."""
    return min(1.0, (step + 1) / max(1, warmup))


SCHEDULES: dict[str, Schedule] = {"cosine": cosine, "inverse-root": inverse_root, "constant": constant}


def rate_at(config: TrainConfig, step: int, total: int) -> float:
    """The learning rate of the update after `step` of `total` steps."""
    warmup = min(config.warmup, total // 4)  # a short run must reach its peak rate, too
    return config.rate * SCHEDULES[config.schedule](step, warmup, total)


class Optimiser:
    """AdamW (Loshchilov and Hutter 2019) on all parameters in one flat tensor. Only matrices decay.

    One operation for all parameters instead of one per parameter: in a small model, most of the time of an
    update is the overhead of the calls. With `muon`, Muon (Jordan et al. 2024) updates the hidden matrices
    and AdamW the other parameters.
    """

    def __init__(
        self,
        model: nn.Module,
        decay: float,
        *,
        muon: bool = False,
        average: float = 0.0,
        rates: Mapping[nn.Parameter, float] | None = None,
    ) -> None:
        """`average` a > 0 keeps an exponential moving average of the weights, over about 1/(1 - a) steps.

        `rates` are factors of the learning rate of some parameters. Parameters that need no gradient are
        left out.
        """
        hidden = _hidden_matrices(model) if muon else []
        by_muon = {id(parameter) for parameter in hidden}
        rest = [p for p in model.parameters() if p.requires_grad and id(p) not in by_muon]
        matrices = hidden + [parameter for parameter in rest if parameter.dim() == 2]
        others = [parameter for parameter in rest if parameter.dim() != 2]
        self._factors = _factors(matrices + others, rates) if rates else None
        self._flat, self.gradient = _flatten(matrices + others)
        self._decaying = self._flat[: sum(parameter.numel() for parameter in matrices)]
        self._decay = decay
        self._muon = _Muon(hidden)
        size = self._muon.size
        self._hidden, self._hidden_gradient = self._flat[:size], self.gradient[:size]
        self._rest, self._rest_gradient = self._flat[size:], self.gradient[size:]
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

    def zero_grad(self) -> None:
        """Set all gradients to zero."""
        self.gradient.zero_()

    def clip(self, max_norm: float) -> None:
        """Scale the gradient of all parameters together to the norm `max_norm` if it is larger."""
        norm = float(torch.linalg.vector_norm(self.gradient))
        if norm > max_norm:
            self.gradient.mul_(max_norm / norm)

    def step(self, rate: float) -> None:
        """Update all parameters with this learning rate."""
        if self._factors is None:
            self._update(rate)
        else:  # the change is proportional to the rate; with the factor 1, the result has the same bits
            before = self._flat.clone()
            self._update(rate)
            torch.lerp(before, self._flat, self._factors, out=self._flat)
        if self._average:
            # At first the average is over fewer steps, so that the initial weights lose their influence soon.
            step = float(self._state["step"])
            self._state["average"].lerp_(self._flat, 1 - min(self._average, (1 + step) / (10 + step)))

    def _update(self, rate: float) -> None:
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

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Context in which the model has the averaged weights; no effect without `average`."""
        if not self._average:
            yield
            return
        now = self._flat.clone()
        self._flat.copy_(self._state["average"])
        try:
            yield
        finally:
            self._flat.copy_(now)

    def state_dict(self) -> dict[str, Tensor]:
        """All tensors that are needed to continue with exactly the same steps."""
        return {
            name: tensor.clone() if tensor is self._flat else tensor for name, tensor in self._state.items()
        }

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restore the tensors of `state_dict`; raise `WrongInput` if a name or shape differs."""
        shapes = {name: tensor.shape for name, tensor in state.items()}
        if shapes != {name: tensor.shape for name, tensor in self._state.items()}:
            raise WrongInput("train.optimiser or train.average differs from the checkpoint")
        for name, tensor in self._state.items():
            tensor.copy_(state[name])


class _Muon:
    """Updates matrices with their orthogonalised momentum (Jordan et al. 2024).

    The matrices are stored one after the other in a flat tensor, sorted by shape; those of one shape are
    orthogonalised as one batch. Updates have the size of AdamW's, so that both use one learning rate
    (Liu et al. 2025).
    """

    def __init__(self, matrices: Sequence[nn.Parameter], momentum: float = 0.95) -> None:
        self._momentum = momentum
        self._shapes = [(len(list(same)), *shape) for shape, same in groupby(p.shape for p in matrices)]
        self.size = sum(map(math.prod, self._shapes))

    def step(self, flat: Tensor, gradient: Tensor, momentum: Tensor, rate: float) -> None:
        """Update the matrices in `flat` and their momentum in place."""
        momentum.lerp_(gradient, 1 - self._momentum)
        updates = gradient.lerp(momentum, self._momentum)  # Nesterov momentum
        sizes = [math.prod(shape) for shape in self._shapes]
        for shape, weights, update in zip(self._shapes, flat.split(sizes), updates.split(sizes), strict=True):
            size = 0.2 * math.sqrt(max(shape[1:]))
            weights.view(shape).sub_(orthogonalise(update.view(shape)), alpha=rate * size)


def orthogonalise(matrices: Tensor) -> Tensor:
    """(n, R, C) -> (n, R, C)

    Approximately the nearest orthogonal matrices: all singular values are between 0.7 and 1.2. Five
    Newton–Schulz iterations with the coefficients of Jordan et al. 2024: in bfloat16 on CPUs that multiply
    it, with an error of about 1 %, in float32 elsewhere.
    """
    tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.mT if tall else matrices
    x = x / (torch.linalg.matrix_norm(x, keepdim=True) + 1e-7)
    bfloat16 = MULTIPLIES_BFLOAT16 and x.is_cpu
    if bfloat16 or x.shape[-1] < 2 * x.shape[-2]:
        x = x.bfloat16() if bfloat16 else x
        for _ in range(5):
            x = torch.baddbmm(x, _without_constant(x @ x.mT), x, beta=3.4445)
        x = x.to(matrices.dtype)
        return x.mT if tall else x
    # For wide matrices it is cheaper to iterate on x·xᵀ, which is smaller, and to multiply x at the end. In
    # bfloat16, small eigenvalues of x·xᵀ would be lost in rounding errors, which the iterations increase.
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

    3.4445 - 4.7750 g + 2.0315 g²: the factor of one Newton–Schulz iteration.
    """
    factor = _without_constant(gram)
    factor.diagonal(dim1=-2, dim2=-1).add_(3.4445)
    return factor


def _without_constant(gram: Tensor) -> Tensor:
    """(n, R, R) -> (n, R, R)

    -4.7750 g + 2.0315 g²
    """
    return gram.baddbmm(gram, gram, beta=-4.7750, alpha=2.0315)


def _hidden_matrices(model: nn.Module) -> list[nn.Parameter]:
    """The weights of all linear layers but the last, sorted by shape; no embeddings."""
    linear = [name for name, part in model.named_modules() if isinstance(part, nn.Linear)][:-1]
    embedded = {id(part.weight) for part in model.modules() if isinstance(part, nn.Embedding)}
    weights = [model.get_parameter(f"{name}.weight") for name in linear]
    hidden = [weight for weight in weights if weight.requires_grad and id(weight) not in embedded]
    return sorted(hidden, key=lambda weight: tuple(weight.shape))


def _factors(parameters: Sequence[nn.Parameter], rates: Mapping[nn.Parameter, float]) -> Tensor:
    """The factor of the learning rate of each element of the flat tensor."""
    factors = [rates.get(parameter, 1.0) for parameter in parameters]
    sizes = torch.tensor([parameter.numel() for parameter in parameters])
    return torch.tensor(factors).repeat_interleave(sizes).to(parameters[0].device)


def _flatten(parameters: Sequence[nn.Parameter]) -> tuple[Tensor, Tensor]:
    """One flat tensor and its gradient; the parameters and their gradients become views of them."""
    flat = torch.cat([parameter.detach().flatten() for parameter in parameters])
    gradient = torch.zeros_like(flat)
    sizes = [parameter.numel() for parameter in parameters]
    parts = zip(parameters, flat.split(sizes), gradient.split(sizes), strict=True)
    for parameter, values, values_gradient in parts:
        parameter.data = values.view_as(parameter)
        parameter.grad = values_gradient.view_as(parameter)
    return flat, gradient
