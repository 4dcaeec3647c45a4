"""The answers that a model would give after each of its layers."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from limelight.view.record import Candidate, most_likely

Layers = tuple[tuple[Candidate, ...], ...]


@torch.no_grad()
def logit_lens(model: nn.Module, probabilities: Callable[[], Tensor], name: Callable[[int], str]) -> Layers:
    """The most likely answers after each layer: the output layer reads what the later layers would read.

    `probabilities` calls the model: (L), or (T, L) for one answer per token. Only layers of the stack before
    the output layer are left out: those of the decoder, if there is one. The last entry is the answer of the
    whole model; a model of one layer has no other.
    """
    stack = _last_stack(model)
    if stack is None:
        return ()
    found = []
    for count in range(1, len(stack.blocks) + 1):
        with _first_blocks(stack, count):
            likely = probabilities()
        if not likely.numel():  # a number
            return ()
        rows = likely.reshape(-1, likely.shape[-1]).cpu()
        found.append(tuple(most_likely(row, name, 1)[0] for row in rows))
    return tuple(found) if len(found) > 1 else ()


def _last_stack(model: nn.Module) -> Any:
    """The stack of blocks before the output layer."""
    stacks = [part for part in model.modules() if isinstance(getattr(part, "blocks", None), nn.ModuleList)]
    return stacks[-1] if stacks else None


@contextmanager
def _first_blocks(stack: Any, count: int) -> Iterator[None]:
    """A stack of its first blocks only."""
    blocks = stack.blocks
    stack.blocks = nn.ModuleList(list(blocks)[:count])
    try:
        yield
    finally:
        stack.blocks = blocks
