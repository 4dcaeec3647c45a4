"""Promises about the blocks inside a stack, tried where they stand: with what the stack hands them."""

import copy
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from limelight.check.harness.subject import Subject
from limelight.check.instruments.influence import changed
from limelight.check.promises.promise import KEPT, Outcome, Promise, broken, inapplicable
from limelight.check.promises.residuals import closes_with_norm, hands_on, norms_of, residual, silence, widths


@dataclass(frozen=True)
class Inner:
    """A block of a stack, and a call of it."""

    name: str
    block: nn.Module
    arguments: tuple[Any, ...]
    options: dict[str, Any]
    out: Tensor

    @property
    def x(self) -> Tensor:
        return next(value for value in (*self.arguments, *self.options.values()) if isinstance(value, Tensor))

    def again(self, block: nn.Module, x: Tensor, *, alone: bool = False) -> Tensor:
        """With another x; `alone`: all other sequences that it is given are zero."""

        def given(value: Any) -> Any:
            if value is self.x:
                return x
            if type(value) in (list, tuple):
                return type(value)(map(given, value))
            is_sequence = isinstance(value, Tensor) and value.is_floating_point() and value.dim() == 3
            return torch.zeros_like(value) if alone and is_sequence else value

        options = {key: given(value) for key, value in self.options.items()}
        return _first(block(*map(given, self.arguments), **options))


def _first(returned: Any) -> Tensor:
    found = returned[0] if isinstance(returned, (tuple, list)) else returned
    assert isinstance(found, Tensor)
    return found


def _listed(value: Any) -> Any:
    """The same tensors in lists of our own."""
    if type(value) is dict:
        return {key: _listed(one) for key, one in value.items()}
    return type(value)(map(_listed, value)) if type(value) in (list, tuple) else value


def _is_block(part: nn.Module) -> bool:
    """Several sub-layers, each with a norm; a sub-layer alone has its residual elsewhere."""
    alone = re.search(r"norm|resid|sublayer|attention|attn|feed|ff|mlp", type(part).__name__.lower())
    return alone is None and len(norms_of(part)) > 1


def _blocks(subject: Subject) -> Iterator[Inner]:
    """The first block of each list of blocks that has norms, as the stack calls it."""
    model = subject.model()
    if not isinstance(model, nn.Module):
        return
    given: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {}
    calls: dict[str, Inner] = {}
    hooks = []
    for name, part in model.named_modules():
        blocks = list(part.children()) if isinstance(part, (nn.ModuleList, nn.Sequential)) else []
        alike = len(blocks) > 1 and len({type(block) for block in blocks}) == 1
        if alike and _is_block(blocks[0]):

            def begin(_: nn.Module, *call: Any, name: str = name) -> None:
                given[name] = _listed(call)  # before the block can add to its lists

            def end(block: nn.Module, _: Any, out: Any, name: str = name) -> None:
                arguments, options = given[name]
                if any(isinstance(value, Tensor) for value in (*arguments, *options.values())):
                    calls[name] = Inner(f"{name}.0", block, arguments, options, _first(out))

            hooks.append(blocks[0].register_forward_pre_hook(begin, with_kwargs=True))
            hooks.append(blocks[0].register_forward_hook(end))
    subject.call(model, subject.case())
    for hook in hooks:
        hook.remove()
    yield from (one for one in calls.values() if one.x.dim() == 3 and one.x.shape == one.out.shape)


@torch.no_grad()
def residual_inside(subject: Subject) -> Outcome:
    found = residual(subject) if subject.kind == "encoder" else inapplicable("it has no list of blocks")
    if found.verdict == "FAIL":
        return found
    for inner in _blocks(subject):
        wrong = _wrong_inside(subject, inner)
        if wrong is not None:
            return wrong
        found = KEPT
    return found


def _wrong_inside(subject: Subject, inner: Inner) -> Outcome | None:
    silent, fed = _silenced(subject, inner, "all"), _silenced(subject, inner, "feed-forward")
    kept = inner.again(silent, inner.x)
    what = f"{inner.name} with every sub-layer silenced (weights 0)"
    if not hands_on(kept, inner.x):
        return broken(what, "x + 0: its input comes through, as it is or normed", "something else comes out")
    if not torch.allclose(kept, inner.x, atol=1e-3) and not closes_with_norm(inner.out):
        return broken(
            f"{what}: its input comes through normed; with them, its output is not normed",
            "x + sublayer(norm(x)), or norm(x + sublayer(x))",
            "norm(x) + sublayer(norm(x)): the stream itself was replaced by its norm",
        )
    if not any(_mixes(inner, fed, axis) for axis in (0, 1)):
        return broken(
            f"{inner.name} with its feed-forward network silenced; its first position is changed",
            "attention's result goes on to the output, which changes",
            "it stays: what attention added is lost",
        )
    return None


def _mixes(inner: Inner, block: nn.Module, axis: int) -> bool:
    """Whether what stands first along an axis changes what comes out behind it."""
    moved = inner.x.clone()
    moved.select(axis, 0).copy_(moved.select(axis, 0).flip(-1) * 2)
    change = changed(*(inner.again(block, x, alone=True) for x in (inner.x, moved)))
    return bool(change.narrow(axis, 1, change.shape[axis] - 1).any())


def _silenced(subject: Subject, inner: Inner, which: str) -> nn.Module:
    block = copy.deepcopy(inner.block)
    width = inner.x.shape[-1]
    silence(block, which, widths(subject) - {width, 2 * width, 3 * width})  # those are attention's
    if which == "feed-forward":
        for p in block.parameters():
            if p.dim() == 1 and not p.eq(1).all():
                p.zero_()
    return block


RESIDUAL = Promise(
    "residual",
    "each sub-layer is added to what it was given",
    residual_inside,
    "x + sublayer(x), with the x of this sub-layer, not that of the one before",
)
