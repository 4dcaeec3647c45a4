"""Promises about the stream of a block: what is added to it, and where it is normed."""

import re
from dataclasses import replace

import torch
from torch import Tensor, nn

from limelight.check.harness.inputs import Case
from limelight.check.harness.subject import Subject
from limelight.check.instruments.influence import changed
from limelight.check.promises.promise import KEPT, Outcome, Promise, broken, inapplicable, numbers, warned

OF_POSITIONS = r"pos(?!t|\w*(ff|feed|wise))"  # a position-wise network has nothing to do with positions


def linear_parts(model: nn.Module) -> list[tuple[str, nn.Parameter]]:
    """Weights and biases of everything but norms and embeddings."""
    skipped = re.compile(rf"norm|(^|\.)ln|embed|{OF_POSITIONS}|token|cls", re.IGNORECASE)
    norms = {id(p) for part in norms_of(model) for p in part.parameters()}
    found = [(name, p) for name, p in model.named_parameters() if id(p) not in norms]
    return [(name, p) for name, p in found if not skipped.search(name)]


def norms_of(model: nn.Module) -> list[nn.Module]:
    parts = [part for part in model.modules() if "norm" in type(part).__name__.lower()]
    parts = [part for part in parts if any(True for _ in part.parameters(recurse=False))]
    return [part for part in parts if not any(isinstance(inner, (nn.Linear,)) for inner in part.modules())]


def silence(model: nn.Module, which: str, hidden: set[int]) -> None:
    """Every sub-layer, or one of them, answers with zeros."""
    with torch.no_grad():
        for _, p in linear_parts(model):
            feeds = bool(hidden & set(p.shape))
            if which == "all" or (which == "feed-forward") == feeds:
                p.zero_()


def widths(subject: Subject) -> set[int]:
    """The hidden units a feed-forward network may have: as told, by a factor, or four times the width."""
    return {subject.sizes.hidden, 5 * subject.sizes.width, 4 * subject.sizes.width}


def slopes(subject: Subject, model: nn.Module) -> None:
    """Gradients of a random mixture of the output, in every parameter."""
    model.zero_grad(set_to_none=True)
    case = subject.case()
    out = subject.call(model, case).out
    torch.manual_seed(3)
    (out.float() * torch.randn(out.shape)).sum().backward()


def residual(subject: Subject) -> Outcome:
    """As it is, and with its norms in the other place, where it can be told."""
    places = [name for name in subject.told_by if re.fullmatch(r"norm_first|pre_?(layer_?)?norm", name)]
    for told in ({}, *({name: first} for name in places for first in (True, False))):
        found = _residual_as_made(replace(subject, made_with=told))
        if found.verdict == "FAIL" or not places:
            break
    return found


@torch.no_grad()
def _residual_as_made(subject: Subject) -> Outcome:
    """With sub-layers that answer nothing, a block hands on what it was given: as it is, or normed."""
    case = subject.case()
    model = subject.model()
    if not isinstance(model, nn.Module) or not linear_parts(model):
        return inapplicable("it has no weights to silence")
    if any(isinstance(part, nn.Linear) and "emb" in name for name, part in model.named_children()):
        return inapplicable("it maps its input to another space first")
    for which in ("all", "attention", "feed-forward"):
        model = subject.model()
        silence(model, which, widths(subject))
        out = subject.call(model, case).out
        if out.shape != case.x.shape:
            return inapplicable("its output has another shape than its input")
        if which == "all" and not hands_on(out, case.x):
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
    silence(silent, "all", widths(subject))
    if torch.allclose(subject.call(silent, case).out, case.x, atol=1e-3) or not norms_of(silent):
        return KEPT
    if closes_with_norm(subject.call(subject.model(), case).out):
        return KEPT
    return broken(
        "sub-layers silenced, the input comes through normed; with them, the output is not normed",
        "x + sublayer(norm(x)), or norm(x + sublayer(x))",
        "norm(x) + sublayer(norm(x)): the stream itself was replaced by its norm",
    )


def closes_with_norm(out: Tensor) -> bool:
    spread = out.std(-1, correction=0)
    return bool(torch.allclose(spread, torch.ones_like(spread), atol=0.05))


def hands_on(out: Tensor, x: Tensor) -> bool:
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
    silence(silent_attention, "attention", widths(subject))
    silent_feed = subject.model()
    silence(silent_feed, "feed-forward", widths(subject))
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
    if not used and not norms_of(model):
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
    slopes(subject, model)
    norms = norms_of(model)
    return [
        n
        for n in norms
        if any(p.grad is not None and bool(p.grad.any()) for p in n.parameters(recurse=False))
    ]


def _norm_calls(subject: Subject, model: nn.Module) -> int:
    calls = []
    hooks = [part.register_forward_hook(lambda *_: calls.append(1)) for part in norms_of(model)]
    with torch.no_grad():
        subject.call(model, subject.case())
    for hook in hooks:
        hook.remove()
    return len(calls)


def _normed(
    subject: Subject, model: nn.Module, norms: list[nn.Module]
) -> list[tuple[nn.Module, Tensor, Tensor]]:
    """Each norm with what it is given and what it makes of it."""
    seen: list[tuple[nn.Module, Tensor, Tensor]] = []

    def remember(part: nn.Module, given: tuple[Tensor, ...], out: Tensor) -> None:
        if isinstance(given[0], Tensor) and given[0].dim() >= 2:
            seen.append((part, given[0].clone(), out.clone()))

    hooks = [part.register_forward_hook(remember) for part in norms]
    subject.call(model, subject.case())
    for hook in hooks:
        hook.remove()
    return seen


@torch.no_grad()
def _norm_axis(subject: Subject) -> Outcome:
    """What a norm makes of one position does not hang on other positions or sequences."""
    model = subject.model(training=True)
    norms = norms_of(model) if isinstance(model, nn.Module) else []
    if not norms:
        return inapplicable("it has no norm with weights")
    for part, given, out in _normed(subject, model, norms):
        moved = given.clone()
        first = moved[0] if given.dim() == 2 else moved[0, 0]
        first.copy_(first.flip(-1) * 2 + 1)
        others = (part(moved) - out).abs().amax(-1).flatten()[1:]
        if bool((others > 1e-4).any()):
            return broken(
                f"{type(part).__name__} is given {tuple(given.shape)}; one position is changed",
                "the others come out as before: each is normed over its own features",
                "others change, too",
            )
    return KEPT


@torch.no_grad()
def _closing_norm(subject: Subject) -> Outcome:
    """A stack of pre-norm blocks ends with a norm: the sum was never normed."""
    model, case = subject.model(), subject.case()
    if not case.x.is_floating_point() or not norms_of(model):
        return inapplicable("it takes tokens, or has no norms")
    silence(model, "all", widths(subject))
    out = subject.call(model, case).out
    if out.shape != case.x.shape or not torch.allclose(out, case.x, atol=1e-3):
        return KEPT
    return warned(
        "every sub-layer silenced (weights 0): the input comes out as it went in",
        "a stack of pre-norm blocks ends with a norm",
        "none: what comes out was never normed",
    )


@torch.no_grad()
def _closing_residual(subject: Subject) -> Outcome:
    """A feed-forward network that ends with a norm is a whole sub-layer: norm(x + f(x))."""
    model, case = subject.model(), subject.case()
    norms = norms_of(model) if isinstance(model, nn.Module) else []
    out = subject.call(model, case).out
    if not any(torch.equal(made, out) for _, _, made in _normed(subject, model, norms)):
        return inapplicable("it does not end with a norm")
    silence(model, "all", widths(subject))
    if not torch.allclose(subject.call(model, case).out, subject.call(model, Case(case.x.flip(0))).out):
        return KEPT
    return broken(
        "both layers silenced (weights 0), and two inputs",
        "norm(x + 0): the input comes through",
        "the same output for both: x is not added before the norm",
    )


PROMISES = (
    Promise(
        "closing-residual",
        "a sub-layer that ends with a norm adds its input before it",
        _closing_residual,
        "norm(x + dropout(f(x)))",
    ),
    Promise(
        "residual",
        "each sub-layer is added to what it was given",
        residual,
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
        "closing-norm",
        "a pre-norm stack ends with a norm",
        _closing_norm,
        "x + sublayer(norm(x)) leaves the sum as it is: norm it once, after the last block",
    ),
)
