"""Promises about feed-forward networks, depth, and weights that are used."""

import re
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter

from limelight.check.harness.inputs import Case
from limelight.check.harness.subject import Subject
from limelight.check.instruments.influence import changed
from limelight.check.instruments.op_trace import Step
from limelight.check.promises.promise import KEPT, Outcome, Promise, broken, inapplicable
from limelight.check.promises.residuals import norms_of, slopes, widths

# What torch calls the operations that bend a straight line; in place, they end in an underscore.
CURVES = {
    "abs",
    "celu",
    "clamp",
    "clamp_min",
    "elu",
    "erf",
    "exp",
    "ge",
    "gelu",
    "glu",
    "gt",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "le",
    "leaky_relu",
    "log_sigmoid_forward",
    "lt",
    "masked_fill",
    "maximum",
    "mish",
    "pow",
    "prelu",
    "relu",
    "rrelu_with_noise",
    "selu",
    "sigmoid",
    "silu",
    "sin",
    "softplus",
    "softshrink",
    "square",
    "tanh",
    "threshold",
    "where",
}


def _matrices(model: nn.Module) -> dict[str, nn.Parameter]:
    born = {name: p for name, p in model.named_parameters() if not isinstance(p, UninitializedParameter)}
    return {name: p for name, p in born.items() if p.dim() >= 2 and p.requires_grad}


def _used(subject: Subject) -> Outcome:
    """Of the matrices, all."""
    model = subject.model()
    if not isinstance(model, nn.Module) or not _matrices(model):
        return inapplicable("it has no matrices")
    if subject.case().keys == 1:
        return inapplicable("with one key there is nothing to weigh")
    unborn = [name for name, p in model.named_parameters() if isinstance(p, UninitializedParameter)]
    if unborn:
        return broken(f"a call, and {unborn[0]} after it", "every layer is called", "it was never called")
    slopes(subject, model)
    found = _matrices(model)
    largest = max((float(p.grad.abs().max()) for p in found.values() if p.grad is not None), default=0.0)
    layers = {id(part.weight) for part in model.modules() if isinstance(part, nn.Linear)}
    layers |= {id(p) for name, p in found.items() if "proj" in name or "qkv" in name}
    for part in norms_of(model):
        if all(p.grad is None for p in part.parameters(recurse=False)):
            name = next(name for name, one in model.named_modules() if one is part)
            return broken(f"the gradient of {name}", "not zero: every norm takes part", "none at all")
    for name, p in found.items():
        if p.grad is None or not bool((p.grad.abs() > 1e-6 * largest).any()):
            came = "none at all" if p.grad is None else "zero everywhere"
            return broken(f"the gradient of {name}", "not zero: every matrix takes part", came)
        if p.dim() == 2 and id(p) in layers and p.shape[1] >= 2 and len(p) > 2:
            idle = _idle_rows(subject, name, p)
            if idle > 0.3 * len(p):
                return broken(
                    f"the gradient of {name}, {tuple(p.shape)}",
                    "not zero: every row takes part",
                    f"{idle} of {len(p)} rows have none",
                )
    return KEPT


def _idle_rows(subject: Subject, name: str, first: nn.Parameter) -> int:
    """How many rows of a matrix never learn; those that are off by chance are not the same each time."""
    idle = _is_idle(first)
    for seed in (2, 3, 4):
        if int(idle.sum()) <= 0.3 * len(first):
            break
        model = subject.model(seed=seed)
        slopes(subject, model)
        idle &= _is_idle(model.get_parameter(name))
    return int(idle.sum())


def _is_idle(p: nn.Parameter) -> Tensor:
    """(rows, …) -> (rows,)"""
    if p.grad is None:
        return torch.ones(len(p), dtype=torch.bool)
    return p.grad.abs().flatten(1).amax(1) <= 1e-7 * p.grad.abs().max()


@torch.no_grad()
def _position_wise(subject: Subject) -> Outcome:
    model, case = subject.model(), subject.case()
    before = subject.call(model, case).out
    for t in range(case.x.shape[1]):
        moved = case.x.clone()
        moved[:, t] = moved[:, t].flip(-1) * 2  # a shift would not get through a norm
        change = changed(before, subject.call(model, Case(moved)).out)
        change[:, t] = False
        if change.any():
            return broken(
                f"{case.x.shape[1]} positions; position {t} is changed",
                "only its own output changes",
                f"output {int(change.nonzero()[0, 1])} changes, too",
            )
    return KEPT


def _curved_at(steps: list[Step], hidden: int) -> bool:
    return any(
        step.name.rstrip("_") in CURVES
        and any(isinstance(t, Tensor) and t.shape[-1:] == (hidden,) for t in step.inputs)
        for step in steps
    )


@torch.no_grad()
def _non_linear(subject: Subject) -> Outcome:
    model, case = subject.model(), subject.case()
    if subject.kind == "feed-forward":
        other = torch.randn_like(case.x)
        middle, one, two = (subject.call(model, Case(x)).out for x in ((case.x + other) / 2, case.x, other))
        mean = (one + two) / 2
        if not bool(torch.allclose(middle, mean, atol=1e-4)):
            return _between_layers(subject, model) if norms_of(model) else KEPT
        return broken(
            "two inputs and the point half-way between them",
            "an activation bends the way: f((a+b)/2) is not (f(a)+f(b))/2",
            "it is: the network is one linear map",
        )
    return _between_layers(subject, model)


def _between_layers(subject: Subject, model: Any) -> Outcome:
    """Whether something bends what the hidden units hold; a norm before them does not count."""
    widths = _hidden_widths(subject, model)
    if not widths:
        return inapplicable("no feed-forward network of the width that was asked for")
    _, steps = subject.trace(model, subject.case())
    if any(_curved_at(steps, width) for width in widths):
        return KEPT
    return broken(
        f"{max(widths)} hidden units of the feed-forward network",
        "an activation between its two layers",
        "none: the two are one linear map",
    )


def _hidden_widths(subject: Subject, model: Any) -> set[int]:
    """The widths of hidden units that were asked for and are there."""
    wanted = widths(subject)
    qkv = re.compile(r"qkv|in_proj|attn|att", re.IGNORECASE)
    found: set[int] = set()
    for name, p in model.named_parameters():
        if p.dim() >= 2 and not qkv.search(name):
            found |= wanted & set(p.shape)
    return found


def _hidden_width(subject: Subject) -> Outcome:
    model = subject.model()
    units = {"hidden": subject.sizes.hidden, "expansion": 5 * subject.sizes.width}
    asked = {name: units[role] for name, role in subject.told_by.items() if role in units}
    if not asked:
        return inapplicable("its constructor takes no hidden width")
    shapes = {tuple(p.shape) for p in _matrices(model).values()}
    for name, wanted in asked.items():
        # Gated networks have two matrices in one, or two thirds of the width.
        if not any({wanted, 2 * wanted, wanted * 2 // 3} & set(shape) for shape in shapes):
            said = wanted if subject.told_by[name] == "hidden" else 5
            return broken(
                f"{name}={said}, width {subject.sizes.width}",
                f"layers of {wanted} hidden units",
                f"matrices of {', '.join(sorted(map(str, shapes)))}",
            )
    return KEPT


def _depth(subject: Subject) -> Outcome:
    if "depth" not in subject.told_by.values():
        return inapplicable("its constructor takes no number of layers")
    shallow, deep = (sum(p.numel() for p in subject.model(depth=depth).parameters()) for depth in (1, 3))
    if deep > shallow:
        return KEPT
    return broken(
        "one layer, and three layers",
        "three have more weights",
        f"{shallow:,} and {deep:,}",
    )


PROMISES = (
    Promise(
        "projection-unused",
        "every matrix is used and learns",
        _used,
        "a layer that is made in the constructor must be called in forward; look for W_q where W_k "
        "should stand",
    ),
    Promise(
        "position-wise",
        "the feed-forward network treats each position by itself",
        _position_wise,
        "nn.Linear acts on the last axis alone: no flatten, no transpose before it",
    ),
    Promise(
        "nonlinearity",
        "the feed-forward network has its activation",
        _non_linear,
        "without one, two linear layers are one",
    ),
    Promise(
        "hidden-width",
        "the feed-forward network has the width that it was told",
        _hidden_width,
        "the argument must reach nn.Linear: a fixed width hides well behind the right output shape",
    ),
    Promise(
        "depth",
        "as many layers as it was told, each with its own weights",
        _depth,
        "[layer] * n repeats one object: make n of them (copy.deepcopy, or a comprehension)",
    ),
)
