"""Promises about what a block is made of: residuals, norms, feed-forward, weights in use."""

import re
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter

from limelight.check.influence import changed
from limelight.check.outcome import KEPT, Outcome, Promise, broken, inapplicable, numbers, warned
from limelight.check.subject import Case, Subject
from limelight.check.trace import Step

# What torch calls the operations that bend a straight line; in place, they end in an underscore.
CURVES = {
    "abs",
    "celu",
    "clamp",
    "clamp_min",
    "elu",
    "erf",
    "exp",
    "gelu",
    "glu",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "leaky_relu",
    "log_sigmoid_forward",
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


def linear_parts(model: nn.Module) -> list[tuple[str, nn.Parameter]]:
    """Weights and biases of everything but norms and embeddings."""
    skipped = re.compile(r"norm|(^|\.)ln|embed|pos|token|cls", re.IGNORECASE)
    norms = {id(p) for part in _norms(model) for p in part.parameters()}
    found = [(name, p) for name, p in model.named_parameters() if id(p) not in norms]
    return [(name, p) for name, p in found if not skipped.search(name)]


def _norms(model: nn.Module) -> list[nn.Module]:
    parts = [part for part in model.modules() if "norm" in type(part).__name__.lower()]
    parts = [part for part in parts if any(True for _ in part.parameters(recurse=False))]
    return [part for part in parts if not any(isinstance(inner, (nn.Linear,)) for inner in part.modules())]


def _silenced(model: nn.Module, which: str, hidden: set[int]) -> None:
    """Every sub-layer, or one of them, answers with zeros."""
    with torch.no_grad():
        for _, p in linear_parts(model):
            feeds = bool(hidden & set(p.shape))
            if which == "all" or (which == "feed-forward") == feeds:
                p.zero_()


def _widths(subject: Subject) -> set[int]:
    """The hidden units a feed-forward network may have: as told, by a factor, or four times the width."""
    return {subject.sizes.hidden, 5 * subject.sizes.width, 4 * subject.sizes.width}


@torch.no_grad()
def _residual(subject: Subject) -> Outcome:
    """With sub-layers that answer nothing, a block hands on what it was given: as it is, or normed."""
    case = subject.case()
    model = subject.model()
    if not isinstance(model, nn.Module) or not linear_parts(model):
        return inapplicable("it has no weights to silence")
    for which in ("all", "attention", "feed-forward"):
        model = subject.model()
        _silenced(model, which, _widths(subject))
        out = subject.call(model, case).out
        if out.shape != case.x.shape:
            return inapplicable("its output has another shape than its input")
        if which == "all" and not _hands_on(out, case.x):
            return _no_residual(subject, case, out)
        if which != "all" and not _depends(subject, model, case):
            return _no_residual(subject, case, out)
        if which == "feed-forward" and not _passes_on(subject, model, case):
            return broken(
                "the feed-forward network silenced (weights 0); another position is changed",
                "attention's result goes on to the output, which changes",
                "it stays: what attention added is lost",
            )
    return _normed_stream(subject, case)


def _passes_on(subject: Subject, model: nn.Module, case: Case) -> bool:
    """Whether what self-attention adds is still there when all that comes after it is silent."""
    if case.source is not None:
        case = Case(case.x, torch.zeros_like(case.source), case.values)
        with torch.no_grad():
            for _, p in linear_parts(model):
                if p.dim() == 1:
                    p.zero_()
    moved = case.x.clone()
    moved[:, 0] = moved[:, 0].flip(-1) * 2
    before = subject.call(model, case).out
    after = subject.call(model, Case(moved, case.source, case.values)).out
    return bool(changed(before, after)[:, 1:].any())


def _normed_stream(subject: Subject, case: Case) -> Outcome:
    """A silenced block that hands on its input normed is post-norm: then it always ends with a norm."""
    silent = subject.model()
    _silenced(silent, "all", _widths(subject))
    if torch.allclose(subject.call(silent, case).out, case.x, atol=1e-3) or not _norms(silent):
        return KEPT
    out = subject.call(subject.model(), case).out
    spread = out.std(-1, correction=0)
    if torch.allclose(spread, torch.ones_like(spread), atol=0.05):
        return KEPT
    return broken(
        "sub-layers silenced, the input comes through normed; with them, the output is not normed",
        "x + sublayer(norm(x)), or norm(x + sublayer(x))",
        "norm(x) + sublayer(norm(x)): the stream itself was replaced by its norm",
    )


def _hands_on(out: Tensor, x: Tensor) -> bool:
    """Whether each position of the output is that of the input, moved and stretched at most."""
    a = out - out.mean(-1, keepdim=True)
    b = x - x.mean(-1, keepdim=True)
    alike = torch.nn.functional.cosine_similarity(a, b, dim=-1)
    return bool((alike > 0.99).all())


def _depends(subject: Subject, model: nn.Module, case: Case) -> bool:
    """Whether each output still follows its own input when one sub-layer is silent."""
    moved = case.x.clone()
    moved[:, 0] = moved[:, 0].flip(-1)
    before = subject.call(model, case).out
    after = subject.call(model, Case(moved, case.source, case.values)).out
    return bool(changed(before, after)[:, 0].all())


def _no_residual(subject: Subject, case: Case, out: Tensor) -> Outcome:
    silent_attention = subject.model()
    _silenced(silent_attention, "attention", _widths(subject))
    silent_feed = subject.model()
    _silenced(silent_feed, "feed-forward", _widths(subject))
    missing = []
    if not _depends(subject, silent_attention, case):
        missing.append("attention")
    if not _depends(subject, silent_feed, case):
        missing.append("feed-forward")
    where = f" around {' and '.join(missing)}" if missing else ""
    return broken(
        f"every sub-layer silenced (weights 0); position 0 is {numbers(case.x[0, 0, :3])} …",
        "x + 0: the input comes through, as it is or normed",
        f"{numbers(out[0, 0, :3])} …: the residual{where} is missing or adds something else",
    )


def _norm_count(subject: Subject) -> Outcome:
    wanted = 3 if subject.kind == "decoder-block" and subject.has_source else 2
    model = subject.model()
    if not isinstance(model, nn.Module):
        return inapplicable("it is a function")
    used = _used_norms(subject, model)
    if not used and not _norms(model):
        seen = [step for step in subject.trace(model, subject.case())[1] if "norm" in step.name]
        if len(seen) >= wanted:
            return KEPT
        return broken("a block as it is born", f"{wanted} norms, one a sub-layer", "none with weights")
    if len(used) >= wanted:
        return KEPT
    calls = _norm_calls(subject, model)
    return broken(
        f"a block with {wanted} sub-layers",
        f"{wanted} norms, each with its own weights",
        f"{len(used)} in use, called {calls} times",
    )


def _used_norms(subject: Subject, model: nn.Module) -> list[nn.Module]:
    """Those whose weights get a gradient."""
    _slopes(subject, model)
    norms = _norms(model)
    return [
        n
        for n in norms
        if any(p.grad is not None and bool(p.grad.any()) for p in n.parameters(recurse=False))
    ]


def _norm_calls(subject: Subject, model: nn.Module) -> int:
    calls = []
    hooks = [part.register_forward_hook(lambda *_: calls.append(1)) for part in _norms(model)]
    with torch.no_grad():
        subject.call(model, subject.case())
    for hook in hooks:
        hook.remove()
    return len(calls)


@torch.no_grad()
def _norm_axis(subject: Subject) -> Outcome:
    """What a norm makes of one position does not hang on other positions or sequences."""
    model = subject.model(training=True)
    norms = _norms(model) if isinstance(model, nn.Module) else []
    if not norms:
        return inapplicable("it has no norm with weights")
    seen: list[tuple[nn.Module, Tensor, Tensor]] = []
    hooks = [
        part.register_forward_hook(
            lambda part, given, out: seen.append((part, given[0].clone(), out.clone()))
        )
        for part in norms
    ]
    subject.call(model, subject.case())
    for hook in hooks:
        hook.remove()
    for part, given, out in seen:
        if not isinstance(given, Tensor) or given.dim() < 2:
            continue
        moved = given.clone()
        moved[0] = moved[0].flip(-1) * 2 if given.dim() == 2 else moved[0]
        if given.dim() > 2:
            moved[0, 0] = moved[0, 0].flip(-1) * 2 + 1
        again = part(moved)
        rest = (again - out).abs().flatten(given.dim() - 1 if given.dim() > 1 else 0)
        rest = (again - out).abs().amax(-1).flatten()[1:]
        if bool((rest > 1e-4).any()):
            return broken(
                f"{type(part).__name__} is given {tuple(given.shape)}; one position is changed",
                "the others come out as before: each is normed over its own features",
                "others change, too",
            )
    return KEPT


def _slopes(subject: Subject, model: nn.Module) -> None:
    """Gradients of a random mixture of the output, in every parameter."""
    model.zero_grad(set_to_none=True)
    case = subject.case()
    out = subject.call(model, case).out
    torch.manual_seed(3)
    (out.float() * torch.randn(out.shape)).sum().backward()


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
    _slopes(subject, model)
    found = _matrices(model)
    largest = max((float(p.grad.abs().max()) for p in found.values() if p.grad is not None), default=0.0)
    layers = {id(part.weight) for part in model.modules() if isinstance(part, nn.Linear)}
    layers |= {id(p) for name, p in found.items() if "proj" in name or "qkv" in name}
    for name, p in found.items():
        if p.grad is None or not bool((p.grad.abs() > 1e-6 * largest).any()):
            came = "none at all" if p.grad is None else "zero everywhere"
            return broken(f"the gradient of {name}", "not zero: every matrix takes part", came)
        idle = (p.grad.abs().flatten(1).amax(1) <= 1e-7 * p.grad.abs().max()).float().mean()
        if idle > 0.3 and p.dim() == 2 and id(p) in layers and p.shape[1] >= 2 and len(p) > 2:
            return broken(
                f"the gradient of {name}, {tuple(p.shape)}",
                "not zero: every row takes part",
                f"{round(float(idle) * len(p))} of {len(p)} rows have none",
            )
    return KEPT


@torch.no_grad()
def _position_wise(subject: Subject) -> Outcome:
    model, case = subject.model(), subject.case()
    before = subject.call(model, case).out
    for t in range(case.x.shape[1]):
        moved = case.x.clone()
        moved[:, t] += 1.5
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
            return KEPT
        return broken(
            "two inputs and the point half-way between them",
            "an activation bends the way: f((a+b)/2) is not (f(a)+f(b))/2",
            "it is: the network is one linear map",
        )
    widths = _hidden_widths(subject, model)
    if not widths:
        return inapplicable("no feed-forward network of the width that was asked for")
    _, steps = subject.trace(model, case)
    if any(_curved_at(steps, width) for width in widths):
        return KEPT
    return broken(
        f"{max(widths)} hidden units of the feed-forward network",
        "an activation between its two layers",
        "none: the two are one linear map",
    )


def _hidden_widths(subject: Subject, model: Any) -> set[int]:
    """The widths of hidden units that were asked for and are there."""
    wanted = _widths(subject)
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


@torch.no_grad()
def _closing_norm(subject: Subject) -> Outcome:
    """A stack of pre-norm blocks ends with a norm: the sum was never normed."""
    model, case = subject.model(), subject.case()
    if not case.x.is_floating_point() or not _norms(model):
        return inapplicable("it takes tokens, or has no norms")
    _silenced(model, "all", _widths(subject))
    out = subject.call(model, case).out
    if out.shape != case.x.shape or not torch.allclose(out, case.x, atol=1e-3):
        return KEPT
    return warned(
        "every sub-layer silenced (weights 0): the input comes out as it went in",
        "a stack of pre-norm blocks ends with a norm",
        "none: what comes out was never normed",
    )


PROMISES = (
    Promise(
        "closing-norm",
        "a pre-norm stack ends with a norm",
        _closing_norm,
        "x + sublayer(norm(x)) leaves the sum as it is: norm it once, after the last block",
    ),
    Promise(
        "projection-unused",
        "every matrix is used and learns",
        _used,
        "a layer that is made in the constructor must be called in forward; look for W_q where W_k "
        "should stand",
    ),
    Promise(
        "residual",
        "each sub-layer is added to what it was given",
        _residual,
        "x + sublayer(x), with the x of this sub-layer, not that of the one before",
    ),
    Promise(
        "norms",
        "each sub-layer has a norm of its own",
        _norm_count,
        "one LayerNorm object called twice shares its weights: make one for each sub-layer",
    ),
    Promise(
        "norm-axis",
        "norms run over the features of one position",
        _norm_axis,
        "nn.LayerNorm(width), not of (positions, width), and no BatchNorm",
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
