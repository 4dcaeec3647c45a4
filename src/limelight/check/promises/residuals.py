"""Promises about the residual connections and the norms of a block."""

import re
from dataclasses import replace

import torch
from torch import Tensor, nn

from limelight.check.harness.dropout_off import dropout_off
from limelight.check.harness.inputs import Case
from limelight.check.harness.subject import Subject
from limelight.check.instruments.ablation import is_normalised, is_passed_through, zero_sublayers
from limelight.check.instruments.influence import differs
from limelight.check.instruments.op_trace import attentions
from limelight.check.instruments.parts import compute_gradients, hidden_widths, linear_parameters, norms
from limelight.check.places import Place
from limelight.check.promises.promise import KEPT, Promise, broken, inapplicable, numbers, warned
from limelight.check.report import Finding


def _residual(subject: Subject) -> Finding:
    """Tested with norms before and after the sub-layers, if the constructor takes such an argument."""
    flags = [
        name for name in subject.constructor_roles if re.fullmatch(r"norm_first|pre_?(layer_?)?norm", name)
    ]
    for given in ({}, *({name: first} for name in flags for first in (True, False))):
        found = _residual_with(replace(subject, constructor_arguments=given))
        if found.verdict == "FAIL" or not flags:
            break
    return found


@torch.no_grad()
def _residual_with(subject: Subject) -> Finding:
    """If its sub-layers return zeros, a block returns its input, unchanged or normalised."""
    case = subject.case()
    model = subject.model()
    if not isinstance(model, nn.Module) or not linear_parameters(model):
        return inapplicable("it has no weights that could be set to 0")
    if any(isinstance(part, nn.Linear) and "emb" in name for name, part in model.named_children()):
        return inapplicable("it projects its input first")
    for which in ("all", "attention", "feed-forward"):
        model = _ablated(subject, which)
        out = subject.call(model, case).out
        if out.shape != case.x.shape:
            return inapplicable("its output has another shape than its input")
        if which == "all" and not is_passed_through(out, case.x):
            return _no_residual(subject, case, out)
        if which != "all" and not _depends_on_input(subject, model, case):
            return _no_residual(subject, case, out)
        if which == "feed-forward" and not _keeps_attention(subject, model, case):
            return broken(
                "the weights of the feed-forward network are 0; another position is changed",
                "the output of attention is added, so that the output of the block changes",
                "it does not change: the output of attention is lost",
                place=_place_of_sublayer(subject, "attention"),
            )
    return _normalised_stream(subject, case)


def _ablated(subject: Subject, which: str) -> nn.Module:
    model: nn.Module = subject.model()
    zero_sublayers(model, which, hidden_widths(subject))
    return model


def _keeps_attention(subject: Subject, model: nn.Module, case: Case) -> bool:
    """Whether the output of self-attention reaches the output if all sub-layers after it return zeros."""
    if case.source is not None:
        case = Case(case.x, torch.zeros_like(case.source), case.values)
        with torch.no_grad():
            for _, p in linear_parameters(model):
                if p.dim() == 1:
                    p.zero_()
    x = case.x.clone()
    x[:, 0] = x[:, 0].flip(-1) * 2
    before = subject.call(model, case).out
    after = subject.call(model, Case(x, case.source, case.values)).out
    return bool(differs(before, after)[:, 1:].any())


def _normalised_stream(subject: Subject, case: Case) -> Finding:
    """If zero sub-layers leave a normalised input, the block is post-norm, and its output is normalised."""
    model = _ablated(subject, "all")
    if torch.allclose(subject.call(model, case).out, case.x, atol=1e-3) or not norms(model):
        return KEPT
    if is_normalised(subject.call(subject.model(), case).out):
        return KEPT
    return broken(
        "if the weights of all sub-layers are 0, the output is normalised; otherwise it is not",
        "x + sublayer(norm(x)), or norm(x + sublayer(x))",
        "norm(x) + sublayer(norm(x)): the residual is added to the norm of x, not to x",
    )


def _depends_on_input(subject: Subject, model: nn.Module, case: Case) -> bool:
    """Whether each output depends on the input at its own position."""
    x = case.x.clone()
    x[:, 0] = x[:, 0].flip(-1)
    before = subject.call(model, case).out
    after = subject.call(model, Case(x, case.source, case.values)).out
    return bool(differs(before, after)[:, 0].all())


def _no_residual(subject: Subject, case: Case, out: Tensor) -> Finding:
    if bool(out.isnan().any()):
        return inapplicable("its output is NaN if the weights of its sub-layers are 0")
    missing = [
        which
        for which in ("attention", "feed-forward")
        if not _depends_on_input(subject, _ablated(subject, which), case)
    ]
    where = f" around {' and '.join(missing)}" if missing else ""
    return broken(
        f"the weights of all sub-layers are 0; position 0 is {numbers(case.x[0, 0, :3])} …",
        "x + 0: the output is the input, unchanged or normalised",
        f"{numbers(out[0, 0, :3])} …: the residual{where} is missing or adds something else",
        place=_place_of_sublayer(subject, missing[0]) if missing else None,
    )


def _place_of_sublayer(subject: Subject, which: str) -> Place | None:
    """The line of the block that calls its attention, or its feed-forward network."""
    model = subject.model()
    _, steps = subject.trace(model, subject.case())
    if which == "attention":
        found = [one.softmax for one in attentions(steps)]
    else:
        widths = {(width,) for width in hidden_widths(subject)}
        found = [step for step in steps if step.output.shape[-1:] in widths]
    return found[0].call_place if found else None


def _norm_count(subject: Subject) -> Finding:
    expected = 3 if subject.kind.is_decoder and subject.has_source else 2
    model = subject.model()
    if not isinstance(model, nn.Module):
        return inapplicable("it is a function")
    if "parallel" in subject.name.lower():
        return inapplicable("its sub-layers are parallel and may have one norm")
    used = _used_norms(subject, model)
    if not used and not norms(model):
        names = [step.name for step in subject.trace(model, subject.case())[1]]
        if sum("norm" in name for name in names) >= expected:
            return KEPT
        if {"var", "std", "rsqrt", "var_mean", "std_mean"} & set(names):
            return inapplicable("its norms are no layers")
        return broken(
            "a block at initialisation", f"{expected} norms, one per sub-layer", "no norm with weights"
        )
    if len(used) >= expected:
        return KEPT
    if not any(p.grad is not None and p.grad.any() for p in model.parameters()):
        return inapplicable("no parameter gets a gradient")
    return broken(
        f"a block with {expected} sub-layers",
        f"{expected} norms, each with its own weights",
        f"{len(used)} in use, called {_count_norm_calls(subject, model)} times",
        place=_place_of_last_norm(subject, model),
    )


def _norm_reused(subject: Subject) -> Finding:
    """A feed-forward network with its own norms: each is called once."""
    model = subject.model()
    count = len(norms(model)) if isinstance(model, nn.Module) else 0
    if not count:
        return inapplicable("it has no norm")
    calls = _count_norm_calls(subject, model)
    if calls <= count:
        return KEPT
    return broken(
        "one call",
        "each norm is called once",
        f"{count} {'norm is' if count == 1 else 'norms are'} called {calls} times",
        place=_place_of_last_norm(subject, model),
    )


def _place_of_last_norm(subject: Subject, model: nn.Module) -> Place | None:
    """The line of the block that calls the last norm."""
    _, steps = subject.trace(model, subject.case())
    found = [step for step in steps if "norm" in step.name]
    return found[-1].call_place if found else None


@torch.no_grad()
def _count_norm_calls(subject: Subject, model: nn.Module) -> int:
    calls = []
    hooks = [part.register_forward_hook(lambda *_: calls.append(1)) for part in norms(model)]
    subject.call(model, subject.case())
    for hook in hooks:
        hook.remove()
    return len(calls)


def _used_norms(subject: Subject, model: nn.Module) -> list[nn.Module]:
    """The norms whose weights get a gradient."""
    compute_gradients(subject, model)
    return [
        norm
        for norm in norms(model)
        if any(p.grad is not None and bool(p.grad.any()) for p in norm.parameters(recurse=False))
    ]


def _norm_calls(
    subject: Subject, model: nn.Module, parts: list[nn.Module]
) -> list[tuple[nn.Module, Tensor, Tensor]]:
    """The calls of these norms: the norm, its input and its output."""
    calls: list[tuple[nn.Module, Tensor, Tensor]] = []

    def record(part: nn.Module, given: tuple[Tensor, ...], out: Tensor) -> None:
        if isinstance(given[0], Tensor) and given[0].dim() >= 2:
            calls.append((part, given[0].clone(), out.clone()))

    hooks = [part.register_forward_hook(record) for part in parts]
    subject.call(model, subject.case())
    for hook in hooks:
        hook.remove()
    return calls


@torch.no_grad()
def _norm_axis(subject: Subject) -> Finding:
    """The output of a norm at one position does not depend on other positions or sequences."""
    model = subject.model(training=True)
    found = norms(model) if isinstance(model, nn.Module) else []
    if not found:
        return inapplicable("it has no norm with weights")
    for part, given, out in _norm_calls(subject, model, found):
        changed = given.clone()
        first = changed[(0,) * (given.dim() - 1)]
        first.copy_(first.flip(-1) * 2 + 1)
        with dropout_off():
            others = (part(changed) - out).abs().amax(-1).flatten()[1:]
        if bool((others > 1e-4).any()):
            return broken(
                f"{type(part).__name__} gets an input of shape {tuple(given.shape)}; one position is changed",
                "the others do not change: each position is normalised over its own features",
                "other positions change, too",
            )
    return KEPT


@torch.no_grad()
def _closing_norm(subject: Subject) -> Finding:
    """The output of the last block of a pre-norm stack is not normalised yet."""
    model, case = subject.model(), subject.case()
    if not case.x.is_floating_point() or not norms(model):
        return inapplicable("it takes tokens, or has no norms")
    zero_sublayers(model, "all", hidden_widths(subject))
    out = subject.call(model, case).out
    if out.shape != case.x.shape or not torch.allclose(out, case.x, atol=1e-3):
        return KEPT
    return warned(
        "the weights of all sub-layers are 0, so that the output is the input",
        "a norm after the last pre-norm block",
        "the output is not normalised",
    )


@torch.no_grad()
def _closing_residual(subject: Subject) -> Finding:
    """A feed-forward network that ends with a norm is a complete sub-layer: norm(x + f(x))."""
    model, case = subject.model(), subject.case()
    found = norms(model) if isinstance(model, nn.Module) else []
    out = subject.call(model, case).out
    if not any(torch.equal(output, out) for _, _, output in _norm_calls(subject, model, found)):
        return inapplicable("it does not end with a norm")
    zero_sublayers(model, "all", hidden_widths(subject))
    if not torch.allclose(subject.call(model, case).out, subject.call(model, Case(case.x.flip(0))).out):
        return KEPT
    return broken(
        "the weights of both layers are 0; two inputs",
        "norm(x + 0), which is different for the two",
        "the same output for both: x is not added before the norm",
    )


PROMISES = (
    Promise(
        "closing-residual",
        "a sub-layer that ends with a norm adds its input before the norm",
        _closing_residual,
        "write norm(x + dropout(f(x))), not norm(f(x))",
    ),
    Promise(
        "residual",
        "the input of each sub-layer is added to its output",
        _residual,
        "write x + sublayer(x) with the input of this sub-layer, not with that of an earlier one",
    ),
    Promise(
        "norms",
        "each sub-layer has its own norm",
        _norm_count,
        "one LayerNorm is called twice and shares its weights: create one for each sub-layer",
    ),
    Promise(
        "norms",
        "each norm has its own weights",
        _norm_reused,
        "one LayerNorm is called twice and shares its weights: create one for each place",
        variant="reused",
    ),
    Promise(
        "norm-axis",
        "norms run over the features of one position",
        _norm_axis,
        "use nn.LayerNorm(width), not nn.LayerNorm((positions, width)) or BatchNorm",
    ),
    Promise(
        "closing-norm",
        "a stack of pre-norm blocks ends with a norm",
        _closing_norm,
        "x + sublayer(norm(x)) is never normalised: add one norm after the last block",
    ),
)
