"""Change attention weights while a model runs: switch heads off, block keys, replace patterns."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from limelight.errors import unknown, wrong
from limelight.nn import Tap
from limelight.nn.tap import Role
from limelight.view.operations.finder import AttentionFinder

Edit = Callable[[Tensor, int], Tensor]
"""(B, H, T, S), position of the first query -> (B, H, T, S)"""


@dataclass(frozen=True)
class Intervention:
    """A change of the weights of some heads; of all heads if none are named."""

    edit: Edit
    heads: tuple[int, ...] = ()

    def apply(self, weights: Tensor, first_head: int = 0, first_query: int = 0) -> Tensor:
        """(B, H, T, S) -> (B, H, T, S)

        The weights may be those of some heads and queries only, from these on.
        """
        if not self.heads:
            return self.edit(weights, first_query)
        chosen = [head - first_head for head in self.heads if 0 <= head - first_head < weights.shape[1]]
        if not chosen:
            return weights
        changed = weights.clone()
        changed[:, chosen] = self.edit(weights[:, chosen], first_query)
        return changed


Change = Intervention | Callable[[Tensor], Tensor] | Sequence["Change"]


@contextmanager
def intervene(model: nn.Module, changes: Mapping[str, Change]) -> Iterator[None]:
    """Change attention weights while the context is open.

        with intervene(model, {"encoder.blocks.0.self_attention": off(1), "decoder": temperature(2.0)}):
            model(x)

    The keys are names of attention modules, as `capture` gives them, or of modules that contain them. The
    values are `off`, `uniform`, `pattern`, `temperature` or `blocked`, a function from weights (B, H, T, S)
    to weights, or a list of them. `capture` shows the changed weights.

    This works for any model whose weights are computed by a softmax: fused kernels and fast paths are
    replaced meanwhile. Gradients are those of the changed model for attention with taps only; other models
    are called under `torch.no_grad()`.
    """
    model = getattr(model, "_orig_mod", model)
    taps = {
        name.removesuffix(".weights"): part for name, part in model.named_modules() if isinstance(part, Tap)
    }
    by_tap = {target: [name for name in taps if _is_in(name, target)] for target in changes}
    foreign = {target: _listed(changes[target]) for target, names in by_tap.items() if not names}
    if taps and foreign:
        raise unknown("attention module", next(iter(foreign)), taps)
    with ExitStack() as stack:
        passes = _Passes()
        if changes:
            handle = model.register_forward_pre_hook(lambda *_: passes.restart())
            stack.callback(handle.remove)
        for target, names in by_tap.items():
            for name in names:
                edit = partial(_edit_tap, _listed(changes[target]), passes, name, taps[name].role)
                stack.enter_context(taps[name].editing(edit))
        if foreign:
            stack.enter_context(_intervene_in_operations(model, foreign, passes))
        yield


def _edit_tap(
    changes: Sequence[Intervention], passes: "_Passes", name: str, role: Role, weights: Tensor
) -> Tensor:
    first = passes.first_query(name, role, weights)
    for change in changes:
        weights = change.apply(weights, 0, first)
    return weights


@contextmanager
def _intervene_in_operations(
    model: nn.Module, changes: Mapping[str, Sequence[Intervention]], passes: "_Passes"
) -> Iterator[None]:
    """The same for attention without taps."""
    seen, found = dict[str, None](), set[str]()

    def edit(name: str, role: Role, origin: tuple[int, ...], weights: Tensor) -> Tensor:
        seen[name] = None
        for target, several in changes.items():
            if _is_in(name, target):
                found.add(target)
                first_head = passes.first_head(target, origin, weights)
                first_query = passes.first_query(name, role, weights)
                for change in several:
                    weights = change.apply(weights, first_head, first_query)
        return weights

    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH), torch.no_grad(), AttentionFinder(model, editor=edit):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
    missing = [target for target in changes if target not in found]
    if seen and missing:
        raise unknown("attention module", missing[0], seen)


class _Passes:
    """Which heads and queries the weights of a pass are, where they are computed one by one."""

    def __init__(self) -> None:
        self._steps, self._heads = Counter[str](), Counter[tuple[str, tuple[int, ...]]]()

    def restart(self) -> None:
        """The model is called again."""
        self._steps.clear()
        self._heads.clear()

    def first_query(self, name: str, role: Role, weights: Tensor) -> int:
        """The position of the first query: self-attention with a cache continues, a decoder makes steps."""
        length, size = weights.shape[2:]
        if role == "self":
            return max(0, size - length)
        if length > 1:
            return 0
        self._steps[name] += 1
        return self._steps[name] - 1

    def first_head(self, target: str, origin: tuple[int, ...], weights: Tensor) -> int:
        """The number of the first head: heads of one input may be computed one after the other."""
        if weights.shape[1] != 1 or not origin:
            return 0
        self._heads[target, origin] += 1
        return self._heads[target, origin] - 1


def _listed(change: Change) -> list[Intervention]:
    if isinstance(change, Intervention):
        return [change]
    if callable(change):
        return [Intervention(lambda weights, _: change(weights))]
    return [one for several in change for one in _listed(several)]


def _is_in(name: str, target: str) -> bool:
    return not target or name == target or name.startswith(f"{target}.")


def off(*heads: int) -> Intervention:
    """Heads that attend to nothing: their output is zero."""
    return Intervention(lambda weights, _: torch.zeros_like(weights), heads)


def uniform(*heads: int) -> Intervention:
    """Heads that attend equally to all keys that they may attend to."""

    def edit(weights: Tensor, _: int) -> Tensor:
        allowed = (weights > 0).to(weights.dtype)
        return allowed / allowed.sum(-1, keepdim=True).clamp(min=1)

    return Intervention(edit, heads)


def pattern(weights: Tensor, *heads: int) -> Intervention:
    """Heads with given weights: (B, H, T, S) with any size of 1, such as those of another input."""

    def edit(given: Tensor, first: int) -> Tensor:
        rows = weights[..., first : first + given.shape[-2], :] if weights.shape[-2] > 1 else weights
        try:
            return rows.to(given).expand_as(given).clone()
        except RuntimeError:
            raise wrong("the pattern", f"of shape {tuple(weights.shape)}", f"{tuple(given.shape)}") from None

    return Intervention(edit, heads)


def temperature(factor: float, *heads: int) -> Intervention:
    """Heads whose scores are divided by a factor: above 1 they spread, below 1 they focus."""
    if not factor > 0:
        raise wrong("the temperature", factor, "a number above 0")

    def edit(weights: Tensor, _: int) -> Tensor:
        scores = weights.clamp(min=torch.finfo(weights.dtype).tiny).log() / factor
        return scores.masked_fill(weights == 0, -torch.inf).softmax(-1).nan_to_num(0.0)

    return Intervention(edit, heads)


def blocked(query: int, key: int, *heads: int) -> Intervention:
    """Heads in which a query may not attend to a key: the rest of its weights grows to a sum of 1."""

    def edit(weights: Tensor, first: int) -> Tensor:
        row = query - first
        if not (0 <= row < weights.shape[-2] and 0 <= key < weights.shape[-1]):
            return weights
        changed = weights.clone()
        changed[..., row, key] = 0.0
        total = changed[..., row, :].sum(-1, keepdim=True)
        changed[..., row, :] /= torch.where(total > 0, total, 1.0)
        return changed

    return Intervention(edit, heads)
