"""What really happens inside someone's attention: the products, softmaxes and scalings that torch computes.

Whatever a class returns or keeps, and whichever way it writes its mathematics, torch sees the same few
operations. Tensors are followed by their values: heads are split, moved and merged on the way, and a
sorted list of numbers stays what it is.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode


@dataclass(frozen=True)
class Step:
    """One operation: its name, its tensors and numbers, and the first tensor that came out."""

    name: str
    inputs: tuple[Any, ...]
    options: dict[str, Any]
    output: Tensor


class Trace(TorchDispatchMode):
    """Writes down every operation, with copies of what went in and came out."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.steps: list[Step] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        options = kwargs or {}
        name = func.overloadpacket.__name__
        before = tuple(_copied(value) for value in args)
        result = func(*args, **options)
        first = result[0] if isinstance(result, (tuple, list)) and result else result
        if isinstance(first, Tensor):
            said = {key: _copied(value) for key, value in options.items()}
            self.steps.append(Step(name, before, said, _copied(first)))
        return result


def _copied(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, (list, tuple)):
        return type(value)(map(_copied, value)) if type(value) in (list, tuple) else value
    return value


def traced(call: Callable[[], Any]) -> tuple[Any, list[Step]]:
    trace = Trace()
    with torch.no_grad(), trace:
        result = call()
    return result, trace.steps


@dataclass(frozen=True)
class Attention:
    """One attention as it was computed: (n, T, S) weights, where n goes over sequences and heads."""

    weights: Tensor
    scores: Tensor | None  # what the softmax was given
    scale: float | None  # by which q·k was multiplied; None where it cannot be told
    width: int | None  # of one head
    mixed: Tensor | None  # weights times values, where it was seen


PRODUCTS = ("bmm", "mm", "baddbmm", "addmm", "matmul", "dot", "mv")
FUSED = "_scaled_dot_product"


def attentions(steps: list[Step]) -> list[Attention]:
    """Each attention of a trace, in order."""
    found = []
    for place, step in enumerate(steps):
        if step.name in ("_softmax", "_safe_softmax", "softmax"):
            found.append(_of_softmax(steps, place, step.inputs[0], step.output))
        elif step.name == "div" and _is_softmax_by_hand(steps[:place], step):
            found.append(_of_softmax(steps, place, None, step.output))
        elif step.name.startswith(FUSED):
            found.append(_of_fused(steps[:place], step))
    return found


def same_numbers(one: Tensor, other: Tensor, factor: float = 1.0) -> bool:
    """Whether both hold the same numbers, in whatever order and shape."""
    if one.numel() != other.numel() or not one.is_floating_point() or not other.is_floating_point():
        return False
    a, b = one.double().flatten().sort().values, (other.double() * factor).flatten().sort().values
    size = float(b.abs().max()) if b.numel() else 1.0
    if not math.isfinite(size):
        return False
    return bool(torch.allclose(a, b, rtol=1e-4, atol=1e-6 * max(size, 1e-6)))


def _of_softmax(steps: list[Step], place: int, scores: Tensor | None, weights: Tensor) -> Attention:
    scale, width = (None, None) if scores is None else _scale(steps[:place], scores)
    for step in steps[place + 1 :]:
        pair = _factors(step)
        if pair is None:
            continue
        left, right = pair
        if left.dim() >= 2 and same_numbers(left, weights):
            return Attention(_rows(left), scores, scale, width, step.output)
        if right.dim() >= 2 and same_numbers(right, weights):
            return Attention(_rows(right.mT), scores, scale, width, step.output)
    # Changed between softmax and product: what the values were really multiplied by.
    for step in steps[place + 1 :]:
        pair = _factors(step)
        if pair is None or pair[0].dim() < 2 or pair[0].numel() != weights.numel():
            continue
        if pair[0].shape[-1] == weights.shape[-1] == pair[1].shape[-2]:
            return Attention(_rows(pair[0]), scores, scale, width, step.output)
    return Attention(_rows(weights), scores, scale, width, None)


def _rows(weights: Tensor) -> Tensor:
    """(..., T, S) -> (n, T, S)"""
    while weights.dim() > 3 and weights.shape[-1] == 1:
        weights = weights.squeeze(-1)
    if weights.dim() == 1:
        weights = weights.unsqueeze(0)
    return weights.reshape(-1, *weights.shape[-2:])


def _factors(step: Step) -> tuple[Tensor, Tensor] | None:
    if step.name not in PRODUCTS:
        return None
    tensors = [value for value in step.inputs if isinstance(value, Tensor)]
    return (tensors[-2], tensors[-1]) if len(tensors) >= 2 else None


def _scale(steps: list[Step], scores: Tensor) -> tuple[float | None, int | None]:
    """By how much q·k was multiplied, all in all, and over how many numbers it runs."""
    for place in range(len(steps) - 1, -1, -1):
        step = steps[place]
        pair = _factors(step)
        # Of two plain matrices, one is a layer's: additive scores are no product of queries and keys.
        if pair is None or step.output.numel() != scores.numel() or step.name in ("mm", "addmm"):
            continue
        factor = _factor(step.output, scores)
        if factor is None:
            continue
        left, right = pair
        factor *= step.options.get("alpha", 1)
        for operand in (left, right):
            factor *= _scaled_before(steps[:place], operand)
        return factor, int(right.shape[-2] if right.dim() > 1 else right.shape[0])
    return None, None


def _factor(product: Tensor, scores: Tensor) -> float | None:
    """The one number that makes these scores of that product; what was hidden since does not count."""
    shown = scores.abs() < 1e4
    if not bool(shown.all()):
        there = product.reshape(scores.shape)[shown]
        factors = scores[shown] / there
        middle = float(factors.median()) if len(there) else 0.0
        return (
            middle if middle and torch.allclose(scores[shown], there * middle, rtol=1e-3, atol=1e-5) else None
        )
    size = float(product.double().norm())
    if not size:
        return None
    factor = float(scores.double().norm()) / size
    return factor if factor and same_numbers(scores, product, factor) else None


def _scaled_before(steps: list[Step], operand: Tensor) -> float:
    """All numbers that this tensor was multiplied by or divided by on its way."""
    total = 1.0
    for step in reversed(steps):
        if step.name not in ("mul", "div", "mul_", "div_") or len(step.inputs) < 2:
            continue
        tensor, by = step.inputs[:2]
        if isinstance(tensor, (int, float)) or (isinstance(tensor, Tensor) and tensor.numel() == 1):
            tensor, by = by, tensor
        number = float(by) if isinstance(by, (int, float)) or by.numel() == 1 else None
        if number and isinstance(tensor, Tensor) and same_numbers(step.output, operand):
            total *= number if step.name.startswith("mul") else 1 / number
            operand = tensor
    return total


def _is_softmax_by_hand(steps: list[Step], step: Step) -> bool:
    """exp(x) / sum exp(x)"""
    if len(step.inputs) < 2 or not all(isinstance(value, Tensor) for value in step.inputs[:2]):
        return False
    above, below = step.inputs[:2]
    if above.dim() < 2 or below.numel() >= above.numel():
        return False
    return any(past.name in ("exp", "exp_") and same_numbers(past.output, above) for past in steps)


def _of_fused(steps: list[Step], step: Step) -> Attention:
    """The weights that torch's kernel never writes down."""
    query, key, value = step.inputs[:3]
    names = ("dropout_p", "is_causal", "attn_mask", "scale")
    said = dict(zip(names, step.inputs[3:], strict=False)) | step.options
    width = query.shape[-1]
    scale = said.get("scale") or 1 / math.sqrt(width)
    if key.shape[1] != query.shape[1]:
        key, value = (t.repeat_interleave(query.shape[1] // key.shape[1], 1) for t in (key, value))
    scores = query.double() @ key.double().mT * scale
    if said.get("is_causal"):
        future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(future, -torch.inf)
    if said.get("attn_mask") is not None:
        mask = said["attn_mask"]
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
    weights = scores.softmax(-1).nan_to_num(0.0).float()
    for operand in (query, key):
        scale *= _scaled_before(steps, operand)
    return Attention(_rows(weights), scores.float(), scale, width, step.output)
