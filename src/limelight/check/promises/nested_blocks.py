"""Promises about the blocks inside a stack, tested with the inputs that the stack gives them."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from limelight.check.harness.subject import Subject
from limelight.check.instruments.ablation import is_normalised, is_passed_through, zero_sublayers
from limelight.check.instruments.influence import differs
from limelight.check.instruments.parts import hidden_widths, norms
from limelight.check.promises.promise import KEPT, Promise, broken, inapplicable
from limelight.check.report import Finding


@dataclass(frozen=True)
class BlockCall:
    """A block of a stack, and one call of it."""

    name: str
    block: nn.Module
    arguments: tuple[Any, ...]
    options: dict[str, Any]
    out: Tensor

    @property
    def x(self) -> Tensor:
        """The input of the block: the first tensor among its arguments."""
        return next(value for value in (*self.arguments, *self.options.values()) if isinstance(value, Tensor))

    def repeat(self, block: nn.Module, x: Tensor, *, without_memory: bool = False) -> Tensor:
        """The output of another block for another x; `without_memory`: all other sequences are zero."""

        def replaced(value: Any) -> Any:
            if value is self.x:
                return x
            if type(value) in (list, tuple):
                return type(value)(map(replaced, value))
            is_sequence = isinstance(value, Tensor) and value.is_floating_point() and value.dim() == 3
            return torch.zeros_like(value) if without_memory and is_sequence else value

        options = {key: replaced(value) for key, value in self.options.items()}
        return _first_tensor(block(*map(replaced, self.arguments), **options))


def _first_tensor(returned: Any) -> Tensor:
    found = returned[0] if isinstance(returned, (tuple, list)) else returned
    assert isinstance(found, Tensor)
    return found


def _copied_containers(value: Any) -> Any:
    """The same tensors in new lists and dicts."""
    if type(value) is dict:
        return {key: _copied_containers(one) for key, one in value.items()}
    return type(value)(map(_copied_containers, value)) if type(value) in (list, tuple) else value


def _is_block(part: nn.Module) -> bool:
    """Whether it has several sub-layers, each with a norm; a single sub-layer has its residual outside."""
    is_sublayer = re.search(
        r"norm|resid|sublayer|parallel|attention|attn|feed|ff|mlp", type(part).__name__.lower()
    )
    return is_sublayer is None and len(norms(part)) > 1


def _block_calls(subject: Subject) -> Iterator[BlockCall]:
    """The call of the first block of each list of blocks with norms."""
    model = subject.model()
    if not isinstance(model, nn.Module):
        return
    given: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {}
    calls: dict[str, BlockCall] = {}
    hooks = []
    for name, part in model.named_modules():
        blocks = list(part.children()) if isinstance(part, (nn.ModuleList, nn.Sequential)) else []
        have_one_type = len(blocks) > 1 and len({type(block) for block in blocks}) == 1
        if have_one_type and _is_block(blocks[0]):

            def before(_: nn.Module, *call: Any, name: str = name) -> None:
                given[name] = _copied_containers(call)  # the block may append to its lists

            def after(block: nn.Module, _: Any, out: Any, name: str = name) -> None:
                arguments, options = given[name]
                if any(isinstance(value, Tensor) for value in (*arguments, *options.values())):
                    calls[name] = BlockCall(f"{name}.0", block, arguments, options, _first_tensor(out))

            hooks.append(blocks[0].register_forward_pre_hook(before, with_kwargs=True))
            hooks.append(blocks[0].register_forward_hook(after))
    subject.call(model, subject.case())
    for hook in hooks:
        hook.remove()
    yield from (one for one in calls.values() if one.x.dim() == 3 and one.x.shape == one.out.shape)


@torch.no_grad()
def _residual(subject: Subject) -> Finding:
    found = inapplicable("it has no list of blocks")
    for call in _block_calls(subject):
        wrong = _wrong_residual(subject, call)
        if wrong is not None:
            return wrong
        found = KEPT
    return found


def _wrong_residual(subject: Subject, call: BlockCall) -> Finding | None:
    with _ablated(subject, call, "all"):
        out = call.repeat(call.block, call.x)
    example = f"{call.name} with the weights of all sub-layers 0"
    if not is_passed_through(out, call.x):
        return broken(
            example, "x + 0: the output is the input, unchanged or normalised", "the output is something else"
        )
    if not torch.allclose(out, call.x, atol=1e-3) and not is_normalised(call.out):
        return broken(
            f"{example}: the output is the normalised input; otherwise it is not normalised",
            "x + sublayer(norm(x)), or norm(x + sublayer(x))",
            "norm(x) + sublayer(norm(x)): the residual is added to the norm of x, not to x",
        )
    with _ablated(subject, call, "feed-forward"):
        is_mixed = any(_mixes(call, axis) for axis in (0, 1))
    if not is_mixed:
        return broken(
            f"{call.name} with the weights of its feed-forward network 0; its first position is changed",
            "the output of attention is added, so that the output of the block changes",
            "it does not change: the output of attention is lost",
        )
    return None


def _mixes(call: BlockCall, axis: int) -> bool:
    """Whether a change at the first index of an axis changes the output at another index."""
    x = call.x.clone()
    x.select(axis, 0).copy_(x.select(axis, 0).flip(-1) * 2)
    change = differs(*(call.repeat(call.block, one, without_memory=True) for one in (call.x, x)))
    return bool(change.narrow(axis, 1, change.shape[axis] - 1).any())


@contextmanager
def _ablated(subject: Subject, call: BlockCall, which: str) -> Iterator[None]:
    """Inside this context, the weights of one sub-layer of the block, or of all, are zero.

    The block itself is changed, not a copy: its functions may refer to its own layers.
    """
    parameters = list(call.block.parameters())
    before = [p.clone() for p in parameters]
    width = call.x.shape[-1]
    zero_sublayers(
        call.block, which, hidden_widths(subject) - {width, 2 * width, 3 * width}
    )  # not attention's
    if which == "feed-forward":
        of_norms = {id(p) for part in norms(call.block) for p in part.parameters(recurse=False)}
        for p in parameters:
            if p.dim() == 1 and id(p) not in of_norms and not p.eq(1).all():
                p.zero_()
    try:
        yield
    finally:
        for p, values in zip(parameters, before, strict=True):
            p.copy_(values)


PROMISES = (
    Promise(
        "residual",
        "the input of each sub-layer is added to its output",
        _residual,
        "write x + sublayer(x) with the input of this sub-layer, not with that of an earlier one",
        variant="nested",
    ),
)
