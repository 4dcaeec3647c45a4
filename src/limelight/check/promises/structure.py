"""Promises about feed-forward networks, the depth of a stack, and unused weights."""

import inspect
import re
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter

from limelight.check.harness.argument_values import EXPANSION
from limelight.check.harness.inputs import Case
from limelight.check.harness.subject import Subject
from limelight.check.instruments.influence import differs
from limelight.check.instruments.op_trace import Step, attentions
from limelight.check.instruments.parts import (
    compute_gradients,
    hidden_widths,
    is_no_transformer,
    norms,
    place_of_definition,
    used_by_other_outputs,
)
from limelight.check.promises.promise import KEPT, Promise, broken, inapplicable
from limelight.check.report import Finding

# Nonlinear operations by their names in torch; their in-place versions end in an underscore.
NONLINEAR = {
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
    found = {name: p for name, p in model.named_parameters() if not isinstance(p, UninitializedParameter)}
    return {name: p for name, p in found.items() if p.dim() >= 2 and p.requires_grad}


def _all_used(subject: Subject) -> Finding:
    """Every matrix and every norm gets a gradient."""
    model = subject.model()
    if not isinstance(model, nn.Module) or not _matrices(model):
        return inapplicable("it has no weight matrices")
    if subject.case().keys == 1 or _sees_one_key(subject, model):
        return inapplicable("with one key, all attention weights are 1")
    uninitialised = [name for name, p in model.named_parameters() if isinstance(p, UninitializedParameter)]
    if uninitialised:
        return broken(
            f"{uninitialised[0]} after a call",
            "every layer is called",
            "its layer was not called",
            place=place_of_definition(model, uninitialised[0]),
        )
    compute_gradients(subject, model)
    found = _matrices(model)
    largest = max((float(p.grad.abs().max()) for p in found.values() if p.grad is not None), default=0.0)
    if largest != largest:
        return inapplicable("its output is NaN")
    layers = {id(part.weight) for part in model.modules() if isinstance(part, nn.Linear)}
    layers |= {id(p) for name, p in found.items() if "proj" in name or "qkv" in name}
    for part in norms(model):
        if all(p.grad is None for p in part.parameters(recurse=False)):
            name = next(name for name, one in model.named_modules() if one is part)
            place = place_of_definition(model, name)
            return broken(
                f"the gradient of {name}", "not zero: every norm is used", "there is none", place=place
            )
    used = {name for name, p in found.items() if p.grad is not None and (p.grad.abs() > 1e-6 * largest).any()}
    # In a deep stack of random weights, the gradient of a layer can vanish; that of the others does not.
    used_in_a_layer = {re.sub(r"\d+", "0", name) for name in used}
    if not used and all(p.grad is not None for p in found.values()):
        return broken(
            f"the gradients of all {len(found)} matrices",
            "not zero",
            "all zeros: an operation without a gradient, such as torch.round, is between them and the output",
        )
    for name, p in found.items():
        is_used = name in used or (p.grad is not None and re.sub(r"\d+", "0", name) in used_in_a_layer)
        if not is_used and (_is_for_caller(subject, name) or name in used_by_other_outputs(subject, model)):
            continue
        if not is_used:
            got = "there is none" if p.grad is None else "all zeros"
            place = place_of_definition(model, name)
            return broken(f"the gradient of {name}", "not zero: every matrix is used", got, place=place)
        if p.dim() == 2 and id(p) in layers and p.shape[1] >= 2 and len(p) > 2:
            unused = _count_unused_rows(subject, name, p)
            if unused > 0.3 * len(p):
                return broken(
                    f"the gradient of {name}, {tuple(p.shape)}",
                    "not zero: every row is used",
                    f"it is zero in {unused} of {len(p)} rows",
                    place=place_of_definition(model, name),
                )
    return KEPT


def _sees_one_key(subject: Subject, model: nn.Module) -> bool:
    """Whether some attention has one key only, so that its weights are 1 whatever the queries are."""
    _, steps = subject.trace(model, subject.case())
    return any(one.weights.shape[-1] == 1 for one in attentions(steps))


def _is_for_caller(subject: Subject, name: str) -> bool:
    """Whether a part of a model is called by others, as the generator of the annotated Transformer is."""
    part = name.split(".")[0]
    is_called = re.search(rf"self\.{part}\s*\(", subject.source_code)
    if subject.kind.reads_tokens and "generat" in part.lower() and not is_called:
        return True
    # Another method than forward may use it, or a branch of forward for another task.
    methods = vars(subject.target).items() if isinstance(subject.target, type) else ()
    others = [m for n, m in methods if inspect.isfunction(m) and not re.search("init|reset|forward", n)]
    is_branch = re.search(
        rf"\n( +)if [^\n]*:\n(\1 +[^\n]*\n)*?\1 +return self\.{part}\(", subject.source_code
    )
    return bool(is_branch) or any(part in method.__code__.co_names for method in others)


def _count_unused_rows(subject: Subject, name: str, first: nn.Parameter) -> int:
    """The number of rows without a gradient, for several random weights: a ReLU only hides some of them."""
    unused = _has_no_gradient(first)
    for seed in (2, 3, 4):
        if int(unused.sum()) <= 0.3 * len(first):
            break
        model = subject.model(seed=seed)
        compute_gradients(subject, model)
        unused &= _has_no_gradient(model.get_parameter(name))
    return int(unused.sum())


def _has_no_gradient(p: nn.Parameter) -> Tensor:
    """(rows, ...) -> (rows,)"""
    if p.grad is None:
        return torch.ones(len(p), dtype=torch.bool)
    return p.grad.abs().flatten(1).amax(1) <= 1e-7 * p.grad.abs().max()


@torch.no_grad()
def _position_wise(subject: Subject) -> Finding:
    model, case = subject.model(), subject.case()
    before = subject.call(model, case).out
    for t in range(case.x.shape[1]):
        x = case.x.clone()
        x[:, t] = x[:, t].flip(-1) * 2  # a norm would remove a shift
        change = differs(before, subject.call(model, Case(x)).out)
        change[:, t] = False
        if change.any():
            return broken(
                f"{case.x.shape[1]} positions; position {t} is changed",
                "only its own output changes",
                f"output {int(change.nonzero()[0, 1])} changes, too",
            )
    return KEPT


def _is_nonlinear_at(steps: list[Step], hidden: int) -> bool:
    """Whether a nonlinear operation is applied to a tensor of this width."""
    return any(
        step.name.rstrip("_") in NONLINEAR
        and any(isinstance(t, Tensor) and t.shape[-1:] == (hidden,) for t in step.inputs)
        for step in steps
    )


@torch.no_grad()
def _nonlinearity(subject: Subject) -> Finding:
    model, case = subject.model(), subject.case()
    if not _matrices(model):
        return inapplicable("it has no weight matrices")
    if subject.kind.is_feed_forward:
        other = torch.randn_like(case.x)
        middle, one, two = (subject.call(model, Case(x)).out for x in ((case.x + other) / 2, case.x, other))
        mean = (one + two) / 2
        if not bool(torch.allclose(middle, mean, atol=1e-4)):
            return _between_layers(subject, model) if norms(model) else KEPT
        return broken(
            "two inputs a and b, and their mean",
            "f((a+b)/2) is not (f(a)+f(b))/2, as there is an activation function",
            "they are equal: the network is linear",
        )
    return _between_layers(subject, model)


def _between_layers(subject: Subject, model: Any) -> Finding:
    """Whether a nonlinear operation is applied to the hidden units; a norm before them does not count."""
    if is_no_transformer(model):
        return inapplicable("it has recurrent or convolutional layers")
    widths = _found_hidden_widths(subject, model)
    if not widths:
        return inapplicable("it has no feed-forward network of the given width")
    _, steps = subject.trace(model, subject.case())
    if any(_is_nonlinear_at(steps, width) for width in widths):
        return KEPT
    hidden = [step for step in steps if step.output.shape[-1:] == (max(widths),)]
    return broken(
        f"{max(widths)} hidden units of the feed-forward network",
        "an activation function between its two layers",
        "there is none: the two layers are one linear map",
        place=hidden[0].place if hidden else None,
    )


def _found_hidden_widths(subject: Subject, model: Any) -> set[int]:
    """The possible hidden widths that its matrices have."""
    possible = hidden_widths(subject)
    qkv = re.compile(r"qkv|in_proj|attn|att", re.IGNORECASE)
    found: set[int] = set()
    for name, p in model.named_parameters():
        if p.dim() >= 2 and not qkv.search(name):
            found |= possible & set(p.shape)
    # The width of a norm or an embedding is that of the model.
    parts = [*norms(model), *(part for part in model.modules() if isinstance(part, nn.Embedding))]
    return found - {p.shape[-1] for part in parts for p in part.parameters(recurse=False)}


def _hidden_width(subject: Subject) -> Finding:
    model = subject.model()
    units = {"hidden": subject.sizes.hidden, "expansion": EXPANSION * subject.sizes.width}
    given = {name: units[role] for name, role in subject.constructor_roles.items() if role in units}
    if not given:
        return inapplicable("its constructor takes no hidden width")
    if "parallel" in subject.name.lower():
        return inapplicable("its sub-layers are parallel and may have one matrix")
    shapes = {tuple(p.shape) for p in _matrices(model).values()}
    for name, expected in given.items():
        # Gated networks have two matrices in one, or two thirds of the width.
        if not any({expected, 2 * expected, expected * 2 // 3} & set(shape) for shape in shapes):
            value = expected if subject.constructor_roles[name] == "hidden" else EXPANSION
            return broken(
                f"{name}={value}, width {subject.sizes.width}",
                f"layers with {expected} hidden units",
                f"matrices of the shapes {', '.join(sorted(map(str, shapes)))}",
            )
    return KEPT


def _depth(subject: Subject) -> Finding:
    if "depth" not in subject.constructor_roles.values():
        return inapplicable("its constructor takes no number of layers")
    shallow, deep = (sum(p.numel() for p in subject.model(depth=depth).parameters()) for depth in (1, 3))
    if deep > shallow:
        return KEPT
    return broken(
        "a stack of one layer, and a stack of three",
        "the second one has more weights",
        f"{shallow:,} and {deep:,} weights",
    )


PROMISES = (
    Promise(
        "projection-unused",
        "every weight matrix is used and gets a gradient",
        _all_used,
        "a layer is created in the constructor but not called in forward, or W_q is used in place of W_k",
    ),
    Promise(
        "position-wise",
        "the feed-forward network treats each position separately",
        _position_wise,
        "nn.Linear acts on the last axis: do not flatten or transpose before it",
    ),
    Promise(
        "nonlinearity",
        "the feed-forward network has an activation function",
        _nonlinearity,
        "the activation between the two linear layers is missing: without it, they are one linear layer",
    ),
    Promise(
        "hidden-width",
        "the feed-forward network has the given hidden width",
        _hidden_width,
        "the argument is not passed on to nn.Linear, which has a fixed width",
    ),
    Promise(
        "depth",
        "the stack has the given number of layers, each with its own weights",
        _depth,
        "[layer] * n repeats one object: create n layers, with copy.deepcopy or in a list comprehension",
    ),
)
