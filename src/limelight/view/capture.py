"""Collect what passes every tap."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from torch import Tensor, nn

from limelight.errors import wrong
from limelight.nn import Tap
from limelight.nn.tap import Watcher


@contextmanager
def watch(
    model: nn.Module, *names: str, into: Mapping[str, Sequence[Tensor]] | None = None
) -> Iterator[dict[str, list[Tensor]]]:
    """The attention weights of every head, by the name of their tap: one (B, H, T, S) a pass.

        with watch(model) as seen:
            model(x)
        seen["blocks.0.self_attention.weights"][0]

    With `names`, only taps that are so called or stand below them; the others stay on the fused
    path. The weights are those before dropout, detached from the graph. What an earlier watch saw and
    nobody needs any more may be written over: `into=seen` saves memory and, of long sequences, half the time.
    """
    taps = {name: part for name, part in model.named_modules() if isinstance(part, Tap)}
    if not taps:
        hint = "a model with attention from limelight.nn; bridge.from_torch converts torch.nn's"
        raise wrong("model", f"a {type(model).__name__} without taps", hint)
    for name in names:
        if not any(_is_below(tap, name) for tap in taps):
            raise wrong("name", repr(name), "at or above one of " + ", ".join(taps))
    if names:
        taps = {tap: part for tap, part in taps.items() if any(_is_below(tap, n) for n in names)}
    seen: dict[str, list[Tensor]] = {name: [] for name in taps}
    with ExitStack() as stack:
        for name, tap in taps.items():
            stack.enter_context(tap.watching(_keeper(seen[name]), (into or {}).get(name, ())))
        yield seen


def _is_below(tap: str, name: str) -> bool:
    return tap == name or tap.startswith(name + ".")


def _keeper(kept: list[Tensor]) -> Watcher:
    def keep(weights: Tensor) -> None:
        kept.append(weights.detach())

    return keep
