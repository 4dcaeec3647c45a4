"""The layouts of tensors, from operation to operation."""

import itertools
from collections.abc import Callable, Iterable
from typing import Any

from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from limelight.view.operations import axes
from limelight.view.operations.axes import Layout

Arguments = tuple[Any, ...]


class Layouts:
    """What is known of the axes of each tensor.

    Tensors are known by their id, which Python gives to another tensor later: each operation sets the layout
    of its output anew.
    """

    def __init__(self) -> None:
        self._known = dict[int, Layout]()
        self._numbers = itertools.count(1)
        self._parts = dict[int, set[int]]()  # the numbers of tensors that were concatenated

    def of(self, tensor: Tensor) -> Layout | None:
        """None for numbers, integers, nested tensors and parameters of lazy modules."""
        known = self._known.get(id(tensor))
        if known is not None and len(known.axes) == tensor.dim():
            return known
        if not tensor.is_floating_point() or tensor.is_nested or is_lazy(tensor) or not tensor.dim():
            return None
        known = axes.assumed(tensor.shape, self.number(), learned=isinstance(tensor, nn.Parameter))
        self._known[id(tensor)] = known
        return known

    def of_each(self, tensors: Iterable[Tensor]) -> list[Layout]:
        """Those that are known."""
        return [layout for one in tensors if (layout := self.of(one)) is not None]

    def set(self, tensor: Tensor, layout: Layout | None) -> None:
        """Set the layout of a new tensor; None if nothing is known of it."""
        if layout is None:
            self._known.pop(id(tensor), None)
        else:
            self._known[id(tensor)] = layout

    def number(self) -> int:
        """The number of a new tensor."""
        return next(self._numbers)

    def includes(self, whole: int, part: int) -> bool:
        """Whether the tensor `whole` is the tensor `part`, or was concatenated from it and others."""
        return part == whole or part in self._parts.get(whole, ())

    def follow(self, name: str, args: Arguments, result: Any) -> None:
        """Set the layouts of the outputs of an operation."""
        several = isinstance(result, (tuple, list))
        view = VIEWS.get(name)
        if view is not None:
            layout = self.of(args[0])
            for output in result if several else (result,):
                self.set(output, None if layout is None else view(layout, args, output))
            return
        if several and result:
            result, *others = result
            for other in others:
                if isinstance(other, Tensor):
                    self.set(other, None)
        if isinstance(result, Tensor):
            is_known = result.is_floating_point() and not result.is_nested and result.dim()
            rule = RULES.get(name, Layouts._elementwise)
            self.set(result, rule(self, name, args, result) if is_known else None)

    def _elementwise(self, name: str, args: Arguments, output: Tensor) -> Layout | None:
        """Any other operation: if its output has the shape of an input, it has the same axes."""
        first = args[0] if args and isinstance(args[0], Tensor) else None
        layout = None if first is None else self.of(first)
        if first is not None and layout is not None and not layout.learned and first.shape == output.shape:
            return Layout(layout.axes, self.number(), layout.sources, False, layout.assumed)
        known = self.of_each(one for one in args if isinstance(one, Tensor))
        return axes.combined(known, output.shape, self.number()) if known else None

    def _fresh(self, name: str, args: Arguments, output: Tensor) -> None:
        """A new tensor, whose values do not depend on the arguments."""

    def _joined(self, name: str, args: Arguments, output: Tensor) -> Layout | None:
        """Tensors that are concatenated or stacked."""
        layouts = self.of_each(args[0])
        # Projected tensors come first, such as new keys after those of a cache; then those not learned.
        main = min(layouts, key=lambda one: (not one.sources, one.learned), default=None)
        if main is None or len(main.axes) != output.dim() - (name == "stack"):
            return None
        axis, count = (args[1] if len(args) > 1 else 0) % output.dim(), len(args[0])
        stacked = name == "stack"
        layout = (
            axes.stacked(main, axis, count) if stacked else axes.concatenated(main, axis, output.shape, count)
        )
        number = self.number()
        self._parts[number] = {one.number for one in layouts}
        return layout._replace(number=number, learned=all(one.learned for one in layouts))

    def _product(self, name: str, args: Arguments, output: Tensor) -> Layout | None:
        left, right = factors(name, args)
        layouts = self.of_each((left, right))
        if len(layouts) < 2 or left.dim() < 2:
            return None
        if right.dim() < 2:  # a matrix and a vector
            return Layout(layouts[0].axes[:-1], self.number(), (layouts[0].number,))
        return axes.product(layouts[0], layouts[1], self.number())

    def _linear(self, name: str, args: Arguments, output: Tensor) -> Layout | None:
        given, last = self.of(args[0]), axes.features_at(output.shape, -1, 0).axes[-1:]
        if given is None:
            return None
        return Layout(given.axes[:-1] + last, self.number(), (given.number,), given.learned)

    def _features(self, name: str, args: Arguments, output: Tensor) -> Layout:
        """An embedding or a convolution."""
        given, weight = self.of(args[0]), args[1]
        is_pointwise = name != "embedding" and weight.shape[2:].numel() == 1
        if is_pointwise and given is not None and output.shape == args[0].shape:
            return given._replace(number=self.number())
        axis = -1 if name == "embedding" or output.dim() < 3 else 1
        return axes.features_at(output.shape, axis, self.number())


def factors(name: str, args: Arguments) -> tuple[Tensor, Tensor]:
    """The two matrices of a product, some of which add to a third one."""
    return args[1:3] if name.startswith(("add", "badd", "_add")) else args[:2]


def _same(layout: Layout, args: Arguments, output: Tensor) -> Layout:
    return layout


def _reshaped(layout: Layout, args: Arguments, output: Tensor) -> Layout | None:
    return axes.reshaped(layout, output.shape)


def _resized(layout: Layout, args: Arguments, output: Tensor) -> Layout | None:
    return axes.resized(layout, output.shape)


def _permuted(layout: Layout, args: Arguments, output: Tensor) -> Layout:
    return axes.permuted(layout, args[1])


def _reversed(layout: Layout, args: Arguments, output: Tensor) -> Layout:
    return axes.permuted(layout, range(output.dim())[::-1])


def _transposed(layout: Layout, args: Arguments, output: Tensor) -> Layout:
    order = list(range(output.dim()))
    order[args[1]], order[args[2]] = order[args[2]], order[args[1]]
    return axes.permuted(layout, order)


def _selected(layout: Layout, args: Arguments, output: Tensor) -> Layout:
    return axes.without(layout, args[1] if len(args) > 1 else 0)


PRODUCTS = ("mm", "bmm", "addmm", "baddbmm", "mv", "_addmm_activation")

# Views and copies: their values are those of their input.
VIEWS: dict[str, Callable[[Layout, Arguments, Tensor], Layout | None]] = {
    **dict.fromkeys(("view", "_unsafe_view", "reshape", "_reshape_alias", "unsqueeze", "squeeze"), _reshaped),
    **dict.fromkeys(("clone", "_to_copy", "detach", "alias", "contiguous", "lift_fresh"), _same),
    **dict.fromkeys(("slice", "split", "split_with_sizes", "chunk", "narrow", "expand", "repeat"), _resized),
    **dict.fromkeys(("index_select", "index", "constant_pad_nd", "unsafe_split"), _resized),
    **dict.fromkeys(("select", "unbind"), _selected),
    **dict.fromkeys(("t", "t_", "numpy_T"), _reversed),
    **dict.fromkeys(("transpose", "transpose_"), _transposed),
    "permute": _permuted,
}
RULES: dict[str, Callable[[Layouts, str, Arguments, Tensor], Layout | None]] = {
    **dict.fromkeys(("cat", "stack"), Layouts._joined),
    **dict.fromkeys(PRODUCTS, Layouts._product),
    **dict.fromkeys(("linear", "_linear_pointwise", "mkldnn_linear"), Layouts._linear),
    **dict.fromkeys(("embedding", "convolution", "mkldnn_convolution"), Layouts._features),
    **dict.fromkeys(("empty_like", "zeros_like", "ones_like", "full_like", "rand_like"), Layouts._fresh),
}
