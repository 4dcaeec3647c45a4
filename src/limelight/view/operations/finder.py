"""Finds attention among the operations that torch executes inside a model.

Whatever a model returns, and however its mathematics is written, torch executes the same few operations:
a product, a softmax over one of its axes, and a product with the values; or a kernel that does all of this.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from limelight.nn import Tap
from limelight.nn.tap import Role
from limelight.view.operations import axes
from limelight.view.operations.axes import Layout
from limelight.view.operations.calling_module import calling_module
from limelight.view.operations.kernels import (
    FAST_PATHS,
    SCALED_DOT_PRODUCT,
    arguments_of,
    fast_path,
    scaled_dot_product,
)
from limelight.view.operations.layouts import PRODUCTS, VIEWS, Layouts, factors

SOFTMAXES = ("_softmax", "_safe_softmax")
EXPONENTIALS = ("exp", "exp_", "exp2")
RANDOM = ("bernoulli", "bernoulli_", "rand", "rand_like", "uniform_")
BEGINNINGS = {*SOFTMAXES, *EXPONENTIALS, *RANDOM, "_nested_tensor_from_mask"}
FRESH = ("empty_like", "zeros_like", "ones_like", "full_like")
HEADS = ("num_heads", "num_attention_heads", "n_heads", "n_head", "nhead", "heads", "h")
TINY = 1e-3  # rows whose sums differ from 1 by less are those of a softmax

Watcher = Callable[[str, Role, tuple[int, ...], Tensor], None]
"""Called for each attention with the name of its module, its role, its origin and its weights (B, H, T, S).

The origin is the numbers of the tensors from which queries and keys were projected, if they are known.
"""

Editor = Callable[[str, Role, tuple[int, ...], Tensor], Tensor]
"""The same, to return other weights; called for each softmax that may be attention."""


@dataclass(eq=False)
class Weights:
    """Attention weights between their softmax and the product with the values."""

    tensor: Tensor
    layout: Layout
    length: int  # number of keys
    name: str
    module: nn.Module
    mixed: bool = False  # the values are multiplied with combinations of the heads
    found: bool = False


@dataclass(frozen=True, eq=False)
class Mark:
    """What else is known of a tensor: it is a part of a softmax that is written out, or random."""

    kind: Literal["exponential", "sum", "random", "weighted"]
    axis: int = 0  # of a sum
    weights: Weights | None = None  # that these values were multiplied with


class AttentionFinder(TorchDispatchMode):
    """Calls `watcher` for each attention among the operations of torch.

    An `editor` replaces the weights where they are computed by a softmax: fused kernels must be switched off,
    and there are no gradients.
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """False: otherwise the first operation imports the compiler, which takes most of a second."""
        return False

    def __init__(
        self, model: nn.Module, watcher: Watcher | None = None, editor: Editor | None = None
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._missing = dict[str, None]()  # modules whose weights are not computed as a whole
        self._unused = Counter[str]()  # softmaxes that were not multiplied with values, by module
        self.modules = dict(model.named_modules())
        self._names = {id(part): name for name, part in self.modules.items()}
        self._model, self._watcher, self._editor = model, watcher, editor
        self._layouts = Layouts()
        self._operations = dict[Any, tuple[str, Special | None]]()
        self._known = dict[int, Weights | Mark]()  # by the id of a tensor, as in Layouts
        self._padded_length: int | None = None

    @property
    def missing(self) -> tuple[str, ...]:
        """The modules whose attention weights were not found."""
        unused = [name for name, count in self._unused.items() if count > 0]
        return tuple(dict.fromkeys([*self._missing, *unused]))

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        options = kwargs or {}
        name, special = self._operations.get(func) or self._operation(func)
        if special is not None:
            return special(self, func, args, options)
        if self._known and name.endswith("_"):
            self._keep_before_dropout(args)
        result = func(*args, **options)
        self._layouts.follow(name, args, result)
        if self._known or name in BEGINNINGS:  # else nothing is known that could be followed
            self._follow(name, args, result)
        return result

    def _operation(self, func: Any) -> tuple[str, "Special | None"]:
        """The name of an operation, and what is done instead of following it."""
        name = func.overloadpacket.__name__
        special: Special | None = None
        if name.startswith(SCALED_DOT_PRODUCT):
            special = AttentionFinder._fused
        elif name in FAST_PATHS:
            special = AttentionFinder._fast_path
        self._operations[func] = (name, special)
        return name, special

    def _follow(self, name: str, args: tuple[Any, ...], result: Any) -> None:
        """Follow weights, and the parts of a softmax that is written out, to the output of an operation."""
        if name in VIEWS:
            for output in result if isinstance(result, (list, tuple)) else (result,):
                self._set(output, self._known.get(id(args[0])))
            return
        if name == "_nested_tensor_from_mask":
            self._padded_length = args[1].shape[1]
        output, *others = result if isinstance(result, (tuple, list)) and result else (result,)
        for other in others:
            if isinstance(other, Tensor):
                self._set(other, None)
        if isinstance(output, Tensor):
            self._set(output, self._after(name, args, output))

    def _after(self, name: str, args: tuple[Any, ...], output: Tensor) -> Weights | Mark | None:
        """What is known of the output of an operation."""
        if name in SOFTMAXES:
            return self._start(output, self._layouts.of(args[0]), args[1])
        if name in EXPONENTIALS:
            return Mark("exponential")
        if name in RANDOM:
            return Mark("random")
        if not self._known or name in FRESH:
            return None
        if name in PRODUCTS:
            return self._product(*factors(name, args), output)
        if name == "sum":
            return self._sum(args[0], args[1] if len(args) > 1 else None)
        return self._elementwise(args, output)

    def _product(self, left: Tensor, right: Tensor, output: Tensor) -> Weights | None:
        """A product: of weights and values, or of weights and parameters that mix the heads.

        Mixed weights stay those of the softmax: the rows of the product need not sum to 1.
        """
        for factor, other, axis in ((left, right, left.dim() - 1), (right, left, max(0, right.dim() - 2))):
            known = self._known.get(id(factor))
            if isinstance(known, Weights):
                layout = self._layouts.of(other)
                if layout is not None and layout.learned and output.numel() == factor.numel():
                    known.mixed = True
                    return known
                if factor.shape[axis] == known.length:
                    self._finish(known)
            elif known is not None and known.kind == "exponential" and factor.dim() > 1:
                self._finish_exponential(factor, axis)
        return None

    def _sum(self, given: Tensor, along: list[int] | None) -> Mark | None:
        """The denominator of a softmax; or the sum over values that were multiplied with their weights."""
        mark = self._known.get(id(given))
        if isinstance(mark, Mark) and along is not None and len(along) == 1:
            axis = along[0] % given.dim()
            if mark.kind == "exponential":
                return Mark("sum", axis)
            if mark.weights is not None and given.shape[axis] == mark.weights.length:
                self._finish(mark.weights)
        return None

    def _elementwise(self, args: tuple[Any, ...], output: Tensor) -> Weights | Mark | None:
        """Weights after a mask or dropout, or times values; exponentials divided by their sum."""
        known = [(one, mark) for one in args if (mark := self._known.get(id(one))) is not None]
        kinds = {mark.kind: mark for _, mark in known if isinstance(mark, Mark)}
        layout = self._layouts.of(output)
        if "exponential" in kinds and "sum" in kinds:
            return self._start(output, layout, kinds["sum"].axis)
        for one, weights in known:
            if not isinstance(weights, Weights):
                continue
            if output.numel() > one.numel():
                return Mark("weighted", weights=weights)
            if output.numel() == one.numel():
                if "random" not in kinds and layout is not None and not (weights.mixed or weights.found):
                    weights.tensor, weights.layout = output, layout
                return weights
        same = (mark for one, mark in known if one.numel() == output.numel())
        return kinds.get("random") or next(same, None)

    def _set(self, tensor: Tensor, known: Weights | Mark | None) -> None:
        if known is None:
            self._known.pop(id(tensor), None)
        else:
            self._known[id(tensor)] = known

    def _keep_before_dropout(self, args: tuple[Any, ...]) -> None:
        """Copy weights before they are multiplied with random numbers in place."""
        first, *others = (self._known.get(id(one)) for one in args) if args else (None,)
        is_random = any(isinstance(one, Mark) and one.kind == "random" for one in others)
        if isinstance(first, Weights) and first.tensor is args[0] and is_random:
            first.tensor = args[0].clone()

    # Attention

    @property
    def _module(self) -> tuple[str, nn.Module]:
        """The module that is running, and its name."""
        found = calling_module(self._names)
        return ("", self._model) if found is None else (self._names[id(found)], found)

    def _start(self, output: Tensor, scores: Layout | None, axis: int) -> Weights | None:
        """The output of a softmax: attention weights, if they are multiplied with values later."""
        layout = None if scores is None or output.dim() < 2 else axes.attention_axes(scores, axis)
        if layout is None:
            return None
        name, module = self._module
        if _has_tap(module):
            return None
        self._layouts.set(output, layout)
        if self._editor is not None:
            heads = _heads(module)
            arranged = axes.arrange(output, layout, heads)
            edited = self._editor(name, self._role(layout), layout.sources, arranged)
            output.copy_(axes.restore(edited, output, layout, heads))
        self._unused[name] += 1
        return Weights(output, layout, output.shape[axis], name, module)

    def _finish(self, weights: Weights) -> None:
        if not weights.found:
            weights.found = True
            self._unused[weights.name] -= 1
            self._report(weights.name, weights.module, weights.layout, weights.tensor)
            weights.tensor = weights.tensor.new_empty(0)  # free the memory
            self._known = {key: one for key, one in self._known.items() if one is not weights}

    def _finish_exponential(self, factor: Tensor, axis: int) -> None:
        """exp(scores - logsumexp) is a softmax; exponentials that are divided by their sum later are not."""
        if bool(((factor.sum(axis) - 1).abs() < TINY).all()):
            weights = self._start(factor, self._layouts.of(factor), axis)
            if weights is not None:
                self._finish(weights)
        else:
            self._missing[self._module[0]] = None

    def _report(self, name: str, module: nn.Module, layout: Layout, weights: Tensor) -> None:
        if self._watcher is not None:
            arranged = axes.arrange(weights.detach(), layout, _heads(module))
            self._watcher(name, self._role(layout), layout.sources, arranged)

    def _role(self, layout: Layout) -> Role:
        """Self-attention if the queries are among the keys; if that is not known, if there are as many."""
        if len(layout.sources) == 2:
            queries, keys = layout.sources
            return "self" if self._layouts.includes(keys, queries) else "cross"
        sizes = {kind: size for kind, size in layout.parts if kind in ("query", "key")}
        return "self" if sizes.get("query", 1) == sizes.get("key", 1) else "cross"

    def _fused(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """A kernel for scaled dot-product attention."""
        given, (name, module) = arguments_of(func, args, kwargs), self._module
        layouts = self._layouts.of_each(given[one] for one in ("query", "key", "value"))
        result = func(*args, **kwargs)
        if len(layouts) < 3:
            self._missing[name] = None
            return result
        # Learned queries attend, too: this is not a linear layer.
        query, key, value = (one._replace(learned=False) for one in layouts)
        output = result[0] if isinstance(result, tuple) else result
        self._layouts.set(output, axes.product(query, value, self._layouts.number()))
        scores = axes.product(query, axes.transposed(key), self._layouts.number())
        layout = axes.attention_axes(scores, -1)
        if layout is not None and self._watcher is not None and not _has_tap(module):
            self._report(name, module, layout, scaled_dot_product(given))
        return result

    def _fast_path(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """A kernel for a whole nn.MultiheadAttention or nn.TransformerEncoderLayer."""
        given, (name, _) = arguments_of(func, args, kwargs), self._module
        is_layer = "src" in given
        name = f"{name}.self_attn".lstrip(".") if is_layer else name
        is_self = is_layer or given["key"] is given["query"]
        if self._watcher is not None:
            self._watcher(name, "self" if is_self else "cross", (), fast_path(given, self._padded_length))
        return func(*args, **kwargs)


Special = Callable[[AttentionFinder, Any, tuple[Any, ...], Mapping[str, Any]], Any]


def _heads(module: nn.Module) -> int | None:
    """The number of heads that the module names."""
    found = (getattr(module, name, None) for name in HEADS)
    return next((one for one in found if isinstance(one, int)), None)


def _has_tap(module: nn.Module) -> bool:
    """Whether a tap of the module itself reports its weights."""
    return any(isinstance(part, Tap) for part in module.children())
