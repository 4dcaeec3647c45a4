"""The torch operations inside a call, and the attentions among them: products, softmaxes and scalings.

Whatever a class returns, and however it writes its mathematics, torch executes the same few operations. A
tensor is followed from operation to operation by its values: heads are split, moved and merged, but the
sorted values stay the same.
"""

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from limelight.check.places import Place, places_of


@dataclass(frozen=True, eq=False)
class Step:
    """One operation: its name, its inputs, the first tensor of its output, and the lines that execute it."""

    name: str
    inputs: tuple[Any, ...]
    options: dict[str, Any]
    output: Tensor
    places: tuple[Place, ...] = ()  # the innermost first

    @property
    def place(self) -> Place | None:
        """The innermost line of the checked code."""
        return self.places[0] if self.places else None

    @property
    def call_place(self) -> Place | None:
        """The line in the checked object itself, which may call other objects."""
        return self.places[-1] if self.places else None


class Recorder(TorchDispatchMode):
    """A mode that sees every operation of torch."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """False: otherwise the first operation imports the compiler, which takes most of a second."""
        return False


class Trace(Recorder):
    """Records every operation, with copies of its inputs and its output."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.steps: list[Step] = []
        self.failed: Step | None = None  # the operation that raised an exception

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        options = kwargs or {}
        name = func.overloadpacket.__name__
        before = tuple(_copied(value) for value in args)
        try:
            result = func(*args, **options)
        except Exception:
            self.failed = Step(name, before, {}, torch.empty(0), places_of(sys._getframe(1)))
            raise
        first = result[0] if isinstance(result, (tuple, list)) and result else result
        if isinstance(first, Tensor):
            copied = {key: _copied(value) for key, value in options.items()}
            places = places_of(sys._getframe(1))
            self.steps.append(Step(name, before, copied, _copied(first), places))
        return result


def _copied(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, (list, tuple)):
        return type(value)(map(_copied, value)) if type(value) in (list, tuple) else value
    return value


def trace(call: Callable[[], Any]) -> tuple[Any, list[Step]]:
    """The result of a call, and the operations inside it."""
    recorder = Trace()
    with torch.no_grad(), recorder:
        result = call()
    return result, recorder.steps


@dataclass(frozen=True)
class Attention:
    """One attention as it was computed; the first axis of the weights runs over sequences and heads."""

    weights: Tensor  # (B·H, T, S)
    scores: Tensor | None  # the input of the softmax
    scale: float | None  # the factor of q·k; None if it was not found
    width: int | None  # the width of one head
    output: Tensor | None  # weights times values; None if it was not found
    softmax: Step
    scaling: Step | None = None  # the operation that scales the scores, or else their product
    masking: Step | None = None  # the operation that masks the scores


PRODUCTS = ("bmm", "mm", "baddbmm", "addmm", "matmul", "dot", "mv")
FUSED = "_scaled_dot_product"
SCALINGS = ("mul", "div")
MASKINGS = ("masked_fill", "where", "add", "sub", "index_put", "masked_scatter", "copy")


def attentions(steps: list[Step]) -> list[Attention]:
    """The attentions of a trace, in order."""
    found = []
    for index, step in enumerate(steps):
        if step.name in ("_softmax", "_safe_softmax", "softmax"):
            found.append(_from_softmax(steps, index, step.inputs[0], step.output))
        elif step.name == "div" and _is_written_out_softmax(steps[:index], step):
            found.append(_from_softmax(steps, index, None, step.output))
        elif step.name.startswith(FUSED):
            found.append(_from_fused(steps[:index], step))
    return found


def same_values(one: Tensor, other: Tensor, factor: float = 1.0) -> bool:
    """Whether both have the same values, in any order and shape; the second one times `factor`."""
    if one.numel() != other.numel() or not one.is_floating_point() or not other.is_floating_point():
        return False
    a, b = one.double().flatten().sort().values, (other.double() * factor).flatten().sort().values
    size = float(b.abs().max()) if b.numel() else 1.0
    if not math.isfinite(size):
        return False
    return bool(torch.allclose(a, b, rtol=1e-4, atol=1e-6 * max(size, 1e-6)))


def _from_softmax(steps: list[Step], index: int, scores: Tensor | None, weights: Tensor) -> Attention:
    scale, width, product = (None, None, None) if scores is None else _scale(steps[:index], scores)
    used, output = _used_weights(steps[index + 1 :], weights)
    between = steps[steps.index(product) + 1 : index] if product else []
    return Attention(
        _rows(used),
        scores,
        scale,
        width,
        output,
        softmax=steps[index],
        scaling=_last_of(between, SCALINGS, weights.numel()) or product,
        masking=_last_of(between if product else steps[max(0, index - 6) : index], MASKINGS, weights.numel()),
    )


def _used_weights(steps: list[Step], weights: Tensor) -> tuple[Tensor, Tensor | None]:
    """(..., T, S): the weights that are multiplied with the values; and the product, if it was found"""
    for step in steps:
        pair = _factors(step)
        if pair is None:
            continue
        left, right = pair
        if left.dim() >= 2 and same_values(left, weights):
            return left, step.output
        if right.dim() >= 2 and same_values(right, weights):
            return right.mT, step.output
    # The weights were changed after the softmax: take those that were multiplied with the values.
    for step in steps:
        pair = _factors(step)
        if pair is None or pair[0].dim() < 2 or pair[0].numel() != weights.numel():
            continue
        if pair[0].shape[-1] == weights.shape[-1] == pair[1].shape[-2]:
            return pair[0], step.output
    return weights, None


def _last_of(steps: list[Step], names: tuple[str, ...], size: int) -> Step | None:
    """The last operation of these names whose output has as many values as the scores."""
    found = [step for step in steps if step.name.rstrip("_") in names and step.output.numel() == size]
    return found[-1] if found else None


def _rows(weights: Tensor) -> Tensor:
    """(..., T, S) -> (B·H, T, S)"""
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


def _scale(steps: list[Step], scores: Tensor) -> tuple[float | None, int | None, Step | None]:
    """The total factor of q·k, the width of the queries and keys in it, and the product."""
    for index in range(len(steps) - 1, -1, -1):
        step = steps[index]
        pair = _factors(step)
        # A product of two matrices without a batch axis is a linear layer, not q·k.
        if pair is None or step.output.numel() != scores.numel() or step.name in ("mm", "addmm"):
            continue
        factor = _factor(step.output, scores)
        if factor is None:
            continue
        left, right = pair
        factor *= step.options.get("alpha", 1)
        for operand in (left, right):
            factor *= _factor_before(steps[:index], operand)
        return factor, int(right.shape[-2] if right.dim() > 1 else right.shape[0]), step
    return None, None, None


def _factor(product: Tensor, scores: Tensor) -> float | None:
    """The factor between a product and the scores, which may be masked; None if there is no such factor."""
    unmasked = scores.abs() < 1e4
    if not bool(unmasked.all()):
        products = product.reshape(scores.shape)[unmasked]
        factors = scores[unmasked] / products
        median = float(factors.median()) if len(products) else 0.0
        fits = median and torch.allclose(scores[unmasked], products * median, rtol=1e-3, atol=1e-5)
        return median if fits else None
    norm = float(product.double().norm())
    if not norm:
        return None
    factor = float(scores.double().norm()) / norm
    return factor if factor and same_values(scores, product, factor) else None


def _factor_before(steps: list[Step], operand: Tensor) -> float:
    """The product of all numbers by which this tensor was multiplied or divided before."""
    total = 1.0
    for step in reversed(steps):
        if step.name not in ("mul", "div", "mul_", "div_") or len(step.inputs) < 2:
            continue
        tensor, by = step.inputs[:2]
        if isinstance(tensor, (int, float)) or (isinstance(tensor, Tensor) and tensor.numel() == 1):
            tensor, by = by, tensor
        number = float(by) if isinstance(by, (int, float)) or by.numel() == 1 else None
        if number and isinstance(tensor, Tensor) and same_values(step.output, operand):
            total *= number if step.name.startswith("mul") else 1 / number
            operand = tensor
    return total


def _is_written_out_softmax(steps: list[Step], step: Step) -> bool:
    """exp(x) / sum exp(x)"""
    if len(step.inputs) < 2 or not all(isinstance(value, Tensor) for value in step.inputs[:2]):
        return False
    numerator, denominator = step.inputs[:2]
    if numerator.dim() < 2 or denominator.numel() >= numerator.numel():
        return False
    return any(one.name in ("exp", "exp_") and same_values(one.output, numerator) for one in steps)


def _from_fused(steps: list[Step], step: Step) -> Attention:
    """The weights of torch's fused kernel, which does not return them."""
    query, key, value = step.inputs[:3]
    names = ("dropout_p", "is_causal", "attn_mask", "scale")
    options = dict(zip(names, step.inputs[3:], strict=False)) | step.options
    width = query.shape[-1]
    scale = options.get("scale") or 1 / math.sqrt(width)
    if key.shape[1] != query.shape[1]:
        key, value = (t.repeat_interleave(query.shape[1] // key.shape[1], 1) for t in (key, value))
    scores = query.double() @ key.double().mT * scale
    if options.get("is_causal"):
        future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(future, -torch.inf)
    if options.get("attn_mask") is not None:
        mask = options["attn_mask"]
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
    weights = scores.softmax(-1).nan_to_num(0.0).float()
    for operand in (query, key):
        scale *= _factor_before(steps, operand)
    return Attention(
        _rows(weights), scores.float(), scale, width, step.output, softmax=step, scaling=step, masking=step
    )
