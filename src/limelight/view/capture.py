"""Collect the attention weights of a model while it runs."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from limelight.errors import wrong
from limelight.nn import Tap
from limelight.nn.tap import Role, Watcher


@dataclass(frozen=True)
class Attention:
    """The weights of one attention module: (B, H, T, S), before dropout.

    A recurrent decoder attends once per token: its passes are joined along the query axis.
    """

    name: str  # of the module: decoder.blocks.0.cross_attention
    role: Role
    weights: Tensor


@dataclass(frozen=True)
class Capture:
    """The output of a model, and the weights of each attention in the order of its modules."""

    output: Any
    attentions: tuple[Attention, ...]


@torch.no_grad()
def capture(model: nn.Module, *args: Any, **kwargs: Any) -> Capture:
    """Call the model, and collect the weights of every attention.

    found = capture(model, x)
    found.attentions[0].weights  # (B, H, T, S), on the CPU
    """
    taps = _taps(model)
    with watch(model) as seen:
        output = model(*args, **kwargs)
    attentions = [
        Attention(name.removesuffix(".weights"), taps[name].role, torch.cat(passes, 2).cpu())
        for name, passes in seen.items()
        if passes
    ]
    return Capture(output, tuple(attentions))


@contextmanager
def watch(
    model: nn.Module, *names: str, into: Mapping[str, Sequence[Tensor]] | None = None
) -> Iterator[dict[str, list[Tensor]]]:
    """The attention weights of every head, by the name of their tap: one (B, H, T, S) per pass.

        with watch(model) as seen:
            model(x)
        seen["blocks.0.self_attention.weights"][0]

    `names` restricts this to the taps of these names and below these modules; all other attention stays on
    the fused path. The weights are those before dropout, detached from the graph. `into=seen` reuses the
    tensors of an earlier `watch`, which saves memory and, for long sequences, half of the time.
    """
    taps = _taps(model)
    for name in names:
        if not any(_is_below(tap, name) for tap in taps):
            raise wrong(
                "name", repr(name), "one of these taps, or a module that contains one: " + ", ".join(taps)
            )
    if names:
        taps = {tap: part for tap, part in taps.items() if any(_is_below(tap, n) for n in names)}
    seen: dict[str, list[Tensor]] = {name: [] for name in taps}
    with ExitStack() as stack:
        for name, tap in taps.items():
            stack.enter_context(tap.watching(_keeper(seen[name]), (into or {}).get(name, ())))
        yield seen


def _taps(model: nn.Module) -> dict[str, Tap]:
    taps = {name: part for name, part in model.named_modules() if isinstance(part, Tap)}
    if not taps:
        hint = "a model with attention from limelight.nn; bridge.from_torch converts torch.nn's"
        raise wrong("model", f"a {type(model).__name__} without taps", hint)
    return taps


def _is_below(tap: str, name: str) -> bool:
    return tap == name or tap.startswith(name + ".")


def _keeper(kept: list[Tensor]) -> Watcher:
    def keep(weights: Tensor) -> None:
        kept.append(weights.detach())

    return keep
