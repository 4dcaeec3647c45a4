"""Collect the attention weights of a model while it runs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import Tensor, nn

from limelight.errors import wrong
from limelight.nn import Tap
from limelight.nn.tap import Watcher
from limelight.view.collect import Attention, Collector
from limelight.view.operations.finder import AttentionFinder


@dataclass(frozen=True)
class Capture:
    """The output of a model, and the weights of each attention in the order of their computation."""

    output: Any
    attentions: tuple[Attention, ...]
    missing: tuple[str, ...] = ()
    """Modules whose attention was not found, because they never compute its weights as a whole."""


def capture(
    model: nn.Module,
    *args: Any,
    layers: Iterable[int | str] | None = None,
    heads: Iterable[int] | None = None,
    **kwargs: Any,
) -> Capture:
    """Call any model, and collect the weights of every attention.

        found = capture(model, x)
        found.attentions[0].weights  # (B, H, T, S), on the CPU

    The model may come from any library: where it has no taps, the operations of torch are followed. These
    are `scaled_dot_product_attention`, the fast paths of `nn.MultiheadAttention` and `nn.TransformerEncoder`,
    and a softmax written in any way. The output is that of an ordinary call.

    `layers` restricts this to attentions by their number, counted from 0 in the order of their computation,
    or by the name of a module; `heads` to these heads of each. Nothing else is kept.
    """
    model = getattr(model, "_orig_mod", model)  # that torch.compile made a fast version of
    collector = Collector(layers, heads)
    finder = AttentionFinder(model, collector.add)
    with ExitStack() as stack:
        for name, tap in _taps(finder.modules).items():
            add = partial(collector.add, name.removesuffix(".weights"), tap.role, ())
            stack.enter_context(tap.watching(add))
        stack.enter_context(finder)
        output = model(*args, **kwargs)
    if not len(collector) and not finder.missing:
        expected = "a model that computes attention when it is called"
        raise wrong("model", f"a {type(model).__name__} in which no attention was found", expected)
    return Capture(output, collector.attentions(), finder.missing)


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
    taps = _taps(dict(model.named_modules()))
    if not taps:
        hint = "a model with attention from limelight.nn; view.capture captures that of any model"
        raise wrong("model", f"a {type(model).__name__} without taps", hint)
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


def _taps(modules: Mapping[str, nn.Module]) -> dict[str, Tap]:
    return {name: part for name, part in modules.items() if isinstance(part, Tap)}


def _is_below(tap: str, name: str) -> bool:
    return tap == name or tap.startswith(name + ".")


def _keeper(kept: list[Tensor]) -> Watcher:
    def keep(weights: Tensor) -> None:
        kept.append(weights.detach())

    return keep
