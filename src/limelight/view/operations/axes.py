"""What the axes of a tensor stand for, while a model runs: rows (examples, positions) or features.

Attention splits its heads off the features of a projection, and its queries and keys are the rows of two
matrices that are multiplied. Followed from operation to operation, this shows which axes of the weights are
the batch, the heads, the queries and the keys, however a model moves and merges them.
"""

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

from torch import Tensor

Kind = Literal["row", "feature", "left", "right", "query", "key"]
Part = tuple[Kind, int]
Axis = tuple[Part, ...]  # the parts of a merged axis, the outermost first; an axis of size 1 has none


class Layout(NamedTuple):
    """The axes of a tensor.

    "left" and "right" are the rows of the two factors of a product. `sources` are the numbers of the tensors
    that were projected: one for a projection, two for a product of projections. A `learned` tensor depends on
    parameters only. The axes are `assumed` where nothing is known: then the last ones are the features.
    """

    axes: tuple[Axis, ...]
    number: int
    sources: tuple[int, ...] = ()
    learned: bool = False
    assumed: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the tensor."""
        return tuple(math.prod(size for _, size in axis) for axis in self.axes)

    @property
    def parts(self) -> Axis:
        """The parts of all axes."""
        return tuple(part for axis in self.axes for part in axis)


def assumed(shape: Sequence[int], number: int, *, learned: bool) -> Layout:
    """The layout of a tensor of which nothing is known: (B, T, D), or only rows, such as a series (B, T)."""
    last: Kind = "feature" if len(shape) == 3 else "row"
    axes = (*(_axis("row", size) for size in shape[:-1]), _axis(last, shape[-1]))
    return Layout(axes, number, learned=learned, assumed=True)


def features_at(shape: Sequence[int], axis: int, number: int) -> Layout:
    """The layout of the output of a layer whose features have this axis."""
    kinds: list[Kind] = ["row"] * len(shape)
    kinds[axis] = "feature"
    return Layout(tuple(_axis(kind, size) for kind, size in zip(kinds, shape, strict=True)), number)


def reshaped(layout: Layout, shape: Sequence[int]) -> Layout | None:
    """The layout after a reshape; None if the new axes do not end where parts of the old ones do."""
    axes = _reshape(layout.axes, tuple(shape))
    return None if axes is None else with_axes(layout, axes)


@lru_cache(4096)  # the layers of a model do the same
def _reshape(old: tuple[Axis, ...], shape: tuple[int, ...]) -> tuple[Axis, ...] | None:
    parts, axes = [part for axis in old for part in axis], list[Axis]()
    for size in shape:
        axis, left = list[Part](), size
        while left > 1:
            if not parts:
                return None
            kind, whole = parts.pop(0)
            if left % whole == 0:
                axis.append((kind, whole))
                left //= whole
            elif whole % left == 0:
                axis.append((kind, left))
                parts.insert(0, (kind, whole // left))
                left = 1
            else:
                return None
        axes.append(tuple(axis))
    return tuple(axes)


def with_axes(layout: Layout, axes: tuple[Axis, ...]) -> Layout:
    """The same tensor with other axes."""
    return Layout(axes, layout.number, layout.sources, layout.learned, layout.assumed)


def permuted(layout: Layout, order: Iterable[int]) -> Layout:
    """The layout after a permutation of the axes."""
    return with_axes(layout, tuple(layout.axes[axis] for axis in order))


def transposed(layout: Layout) -> Layout:
    """The layout with its last two axes swapped."""
    return with_axes(layout, (*layout.axes[:-2], layout.axes[-1], layout.axes[-2]))


def without(layout: Layout, axis: int) -> Layout:
    """The layout of a slice of size 1 along an axis, which disappears."""
    axes = list(layout.axes)
    del axes[axis]
    return with_axes(layout, tuple(axes))


def resized(layout: Layout, shape: Sequence[int]) -> Layout | None:
    """The layout after slicing, repeating or expanding some axes; new axes are added in front."""
    if len(shape) < len(layout.axes):
        return None
    axes = ((),) * (len(shape) - len(layout.axes)) + layout.axes
    pairs = zip(axes, shape, strict=True)
    return with_axes(layout, tuple(_resize(axis, size, place) for place, (axis, size) in enumerate(pairs)))


def _resize(axis: Axis, size: int, place: int) -> Axis:
    if math.prod(size for _, size in axis) == size:
        return axis
    # A tensor is repeated for each example along the first axis, and for each head along others.
    kind = axis[0][0] if axis else ("row" if place == 0 else "feature")
    return _axis(kind, size)


def concatenated(layout: Layout, axis: int, shape: Sequence[int], count: int) -> Layout:
    """The layout of `count` tensors with the layout of the first one, concatenated along an axis."""
    axes, size = list(layout.axes), shape[axis]
    kinds = {kind for kind, _ in axes[axis]}
    # Slices of the features that are concatenated along the batch are heads.
    is_split = count > 1 and size == count * layout.shape[axis] and axis == 0 and kinds <= {"row", "left"}
    axes[axis] = (("feature", count), *axes[axis]) if is_split else _axis(_first(axes[axis]), size)
    return with_axes(layout, tuple(axes))


def stacked(layout: Layout, axis: int, count: int) -> Layout:
    """The layout of `count` tensors with the layout of the first one, along a new axis.

    Sequences (B, T, K) are stacked to heads, and steps (B, D) to a sequence.
    """
    axes = list(layout.axes)
    axes.insert(axis, _axis("feature" if len(axes) > 2 else "row", count))
    return with_axes(layout, tuple(axes))


def combined(layouts: Sequence[Layout], shape: Sequence[int], number: int) -> Layout | None:
    """The layout of an elementwise operation with broadcasting."""
    main = next((one for one in layouts if not one.learned), layouts[0])
    if main.shape == tuple(shape):
        return Layout(main.axes, number, main.sources, main.learned, main.assumed)
    axes = []
    for back in range(len(shape), 0, -1):
        found = (one.axes[-back] for one in (main, *layouts) if len(one.axes) >= back)
        axis = next((one for one in found if math.prod(s for _, s in one) == shape[-back]), None)
        if axis is None:
            return None
        axes.append(axis)
    learned = all(one.learned for one in layouts)
    return Layout(tuple(axes), number, main.sources, learned, main.assumed)


def product(left: Layout, right: Layout, number: int) -> Layout:
    """The layout of a product of matrices: (..., M, C) and (..., C, P), with the same leading axes."""
    if not left.learned and not right.learned:
        rows, columns = _rows(left.axes[-2], "left"), _rows(right.axes[-1], "right")
        sources = _source(left) + _source(right)
        return Layout((*left.axes[:-2], rows, columns), number, sources, assumed=left.assumed)
    # A linear layer: what the parameters add are features.
    active = left if right.learned else right
    rows = left.axes[-2] if active is left else _features(left.axes[-2])
    columns = right.axes[-1] if active is right else _features(right.axes[-1])
    return Layout((*active.axes[:-2], rows, columns), number, (active.number,), active.learned)


def attention_axes(scores: Layout, axis: int) -> Layout | None:
    """The layout of the weights, which are the softmax of the scores along an axis; None if they are not.

    The softmax over the features of a layer gives the probabilities of classes or experts, and is not
    attention.
    """
    keys = scores.axes[axis]
    of_layer = len(scores.sources) < 2 and not scores.assumed
    if of_layer and keys and all(kind == "feature" for kind, _ in keys):
        return None
    other = {"left": "right", "right": "left"}.get(_first(keys))
    axes = list(scores.axes)
    axes[axis] = tuple(("key", size) for _, size in keys)
    queries = _queries(axes, axis, other)
    if queries is not None:
        axes[queries] = tuple(
            ("query", size) if other is None or kind == other else (kind, size)
            for kind, size in axes[queries]
        )
    return with_axes(scores, tuple(axes))


def _queries(axes: Sequence[Axis], keys: int, kind: str | None) -> int | None:
    """The axis of the queries: the rows of the other factor; else the last one beside the batch."""
    if kind is not None:
        return next((i for i, axis in enumerate(axes) if any(part[0] == kind for part in axis)), None)
    others = [i for i in range(len(axes)) if i != keys % len(axes)]
    return others[-1] if len(others) > 1 else None


def arrange(weights: Tensor, layout: Layout, heads: int | None) -> Tensor:
    """-> (B, H, T, S)

    `heads` is the number of heads, where it is known from the module; it is used where the axes are assumed.
    """
    parts, order = _arrangement(weights, layout, heads)
    ordered = weights.reshape([size for _, size in parts]).permute(order)
    return ordered.reshape([math.prod(size for kind, size in parts if kind == one) for one in ORDER])


def restore(arranged: Tensor, weights: Tensor, layout: Layout, heads: int | None) -> Tensor:
    """(B, H, T, S) -> the axes of the weights, as they were before `arrange`"""
    parts, order = _arrangement(weights, layout, heads)
    back = sorted(range(len(order)), key=order.__getitem__)
    return arranged.reshape([parts[i][1] for i in order]).permute(back).reshape(weights.shape)


ORDER = ("batch", "head", "query", "key")


def _arrangement(
    weights: Tensor, layout: Layout, heads: int | None
) -> tuple[list[tuple[str, int]], list[int]]:
    """What each part of the axes is, and the order of the parts in (B, H, T, S)."""
    lead = [part for part in layout.parts if part[0] not in ("query", "key")]
    kinds = iter(_lead_kinds(weights, layout, lead, heads))
    parts = list[tuple[str, int]]()
    for kind, size in layout.parts:
        parts += [(kind, size)] if kind in ("query", "key") else next(kinds)
    return parts, sorted(range(len(parts)), key=lambda i: ORDER.index(parts[i][0]))


def _lead_kinds(
    weights: Tensor, layout: Layout, lead: Sequence[Part], heads: int | None
) -> list[list[tuple[str, int]]]:
    """For each leading part: the batch, the heads, or both."""
    if not layout.assumed or any(kind == "feature" for kind, _ in lead):
        return [[("head" if kind == "feature" else "batch", size)] for kind, size in lead]
    if len(lead) > 1:  # (B, H, ...) by convention
        return [
            [("head" if place == len(lead) - 1 else "batch", size)] for place, (_, size) in enumerate(lead)
        ]
    if weights.dim() == 4 and lead:  # one of both has size 1
        return [[("head" if weights.shape[0] == 1 else "batch", lead[0][1])]]
    if lead and heads and lead[0][1] % heads == 0:
        return [[("batch", lead[0][1] // heads), ("head", heads)]]
    return [[("batch", size)] for _, size in lead]


def _source(layout: Layout) -> tuple[int, ...]:
    """The tensor that was projected; the tensor itself if it was not projected."""
    return layout.sources[:1] or (layout.number,)


def _rows(axis: Axis, kind: Kind) -> Axis:
    """The rows of a factor get a name of their own; features keep theirs, such as the heads of a group."""
    return tuple(("feature" if part == "feature" else kind, size) for part, size in axis)


def _features(axis: Axis) -> Axis:
    return tuple(("feature", size) for _, size in axis)


def _first(axis: Axis) -> Kind:
    return axis[0][0] if axis else "row"


def _axis(kind: Kind, size: int) -> Axis:
    return ((kind, size),) if size > 1 else ()
