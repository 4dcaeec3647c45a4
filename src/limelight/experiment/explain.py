"""The layers of a model, with their shapes, parameters and cost."""

import re
from contextlib import ExitStack
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from limelight.experiment.build import build_model
from limelight.experiment.config import FILE, Experiment, experiment
from limelight.experiment.costs import multiply_adds, sequence
from limelight.experiment.run import restored
from limelight.models.sizes import Sizes
from limelight.nn import AdditiveAttention, MultiHeadAttention, Tap

Shape = tuple[int, ...]
Call = tuple[tuple[Shape, ...], Shape, int]  # inputs, output, multiply-adds

# Without parameters, and without effect on the output of a trained model.
IGNORED = (nn.Dropout, nn.Identity, Tap)

# Submodules that count as parts of a layer: their parameters are shown as those of the layer.
INSIDE = {MultiHeadAttention: ("query", "key", "value", "output"), AdditiveAttention: ("vector",)}

MOST = 1_000  # maximum number of sequences in the batch that the model of a run is called with
WIDEST = 32  # maximum number of characters in a line of parameters

# Texts below the table, by the kind of layer that they explain.
LEGENDS = {
    "all": """\
shapes: batch × items × width; where padding is removed, items of the whole
batch × width
cost: multiply-adds of the forward pass for one sequence or image; only matrix
products count""",
    "calls": "calls: with several, the shapes are those of the first; the cost is the sum",
    "MultiHeadAttention": """\
W_q, b_q: query.weight and query.bias in the state dict; k is key, v is value,
o is output
per head: with heads of width K, head h (from 0) has rows hK to hK + K - 1 of
W_q, W_k, W_v, b_q, b_k, b_v, and the same columns of W_o""",
    "GRU": """\
GRU: weight_ih multiplies the input, weight_hh the state (layers × batch ×
width); a third of their rows each: reset gate, update gate, new state""",
}


@dataclass(frozen=True)
class Layer:
    """A layer: the shapes of its first call, and the multiply-adds per sequence of all calls."""

    name: str
    kind: str
    inputs: tuple[Shape, ...]
    outputs: Shape
    parameters: dict[str, Shape]
    per_head: dict[str, Shape]
    shared: dict[str, str]  # parameters of other layers, with their names there
    calls: int
    cost: int

    @property
    def count(self) -> int:
        """Number of parameters."""
        return sum(map(prod, self.parameters.values()))

    @property
    def row(self) -> tuple[str, str, str, str]:
        """Its row of a table; cells have several short lines, so that the table fits into 80 characters."""
        name = re.sub(r"(\.\d+\.)", r"\1\n", self.name)
        way = [*map(_show, self.inputs), f"→ {_show(self.outputs)}"] if self.calls else ["not called"]
        way += [f"{self.calls} calls"] if self.calls > 1 else []
        contents = [*_by_shape(self.parameters), f"= {self.count:,}"] if self.parameters else []
        contents += ["per head:", *_by_shape(self.per_head)] if self.per_head else []
        contents += [f"{mine}: shared with\n{other}" for mine, other in self.shared.items()]
        return f"{name}\n{self.kind}", "\n".join(way), "\n".join(contents), f"{self.cost:,}"


@dataclass(frozen=True)
class Explanation:
    """A model as layers. `words` is its summary, `inputs` the shape of the batch it was called with."""

    experiment: str
    words: str
    inputs: Shape
    layers: list[Layer]

    @property
    def totals(self) -> dict[str, int]:
        """Parameters and cost of all layers."""
        counts, costs = zip(*((layer.count, layer.cost) for layer in self.layers), strict=True)
        return {"parameters": sum(counts), "cost": sum(costs)}

    @property
    def legend(self) -> str:
        """Explanations of the terms that occur in the table."""
        shown = {"all", *(layer.kind for layer in self.layers)}
        shown |= {"calls" for layer in self.layers if layer.calls > 1}
        return "\n".join(text for about, text in LEGENDS.items() if about in shown)


def explain_experiment(
    source: str | Path, settings: dict[str, Any] | None = None, data: str | Path | None = None
) -> Explanation:
    """Explain the model of a recipe, a TOML file, a plug-in or a run folder."""
    wanted = experiment(source, settings, data)
    with torch.random.fork_rng(devices=[]):
        sizes, arguments = _sample(Path(source), wanted)
        layers = explain(build_model(wanted.model, sizes), *arguments)
    return Explanation(wanted.name, wanted.model.summary, tuple(_first(arguments).shape), layers)


def explain(model: nn.Module, *inputs: Tensor | None) -> list[Layer]:
    """The layers of model(*inputs), in the order in which their calls end; uncalled layers come last.

    A layer is a module with its own parameters, or without submodules. Multi-head attention is one layer.
    The first input is a tensor with one row per sequence.
    """
    parts = _parts(model)
    calls: dict[nn.Module, list[Call]] = {}

    def hook(part: nn.Module, given: tuple[Any, ...], named: dict[str, Any], result: Any) -> None:
        call = _shapes(given), tuple(sequence(result).shape), multiply_adds(part, given, named, result)
        calls.setdefault(part, []).append(call)

    with ExitStack() as stack, torch.no_grad():
        for part in parts:
            stack.enter_context(part.register_forward_hook(hook, with_kwargs=True))
        for part in (part for part in model.modules() if part.training):
            stack.callback(setattr, part, "training", True)
        model.eval()(*inputs)
    first = {id(parameter): name for name, parameter in model.named_parameters()}
    calls |= {part: [] for part in parts if part not in calls}
    batch = len(_first(inputs))
    return [_layer(parts[part], part, called, batch, first) for part, called in calls.items()]


def _show(shape: Shape) -> str:
    return "×".join(map(str, shape))  # without spaces, so that narrow columns do not break it


def _by_shape(parameters: dict[str, Shape]) -> list[str]:
    """One line per shape with its parameters; if a line is too long, one line per parameter."""
    names: dict[Shape, list[str]] = {}
    for name, shape in parameters.items():
        names.setdefault(shape, []).append(name)
    lines = [f"{' '.join(names[shape])}: {_show(shape)}" for shape in names]
    if any(len(line) > WIDEST for line in lines):
        return [f"{name}: {_show(shape)}" for name, shape in parameters.items()]
    return lines


def _sample(folder: Path, wanted: Experiment) -> tuple[Sizes, tuple[Tensor | None, ...]]:
    """The sizes and arguments of the model; a run folder has its sizes, otherwise the data is loaded."""
    saved = (folder / FILE).is_file() and experiment(folder).task == wanted.task
    for _, task, _ in restored(folder) if saved else ():
        return task.sizes, task.arguments(task.blank(min(wanted.train.batch, MOST)))
    task, dataset = wanted.task.load(wanted.seed)
    # The longest examples have the highest cost, and often equal lengths, so that shapes are not packed.
    longest = dataset.lengths("train").argsort(descending=True, stable=True)[: wanted.train.batch]
    return task.sizes, task.arguments(dataset.batch("train", longest))


def _first(arguments: tuple[Tensor | None, ...]) -> Tensor:
    return cast(Tensor, arguments[0])  # models are always called with their inputs


def _parts(part: nn.Module, name: str = "") -> dict[nn.Module, str]:
    """The layers in a module with their names; a layer that occurs twice has its first name."""
    if isinstance(part, IGNORED):
        return {}
    below: dict[nn.Module, str] = {}
    for child_name, child in part.named_children():
        if child_name not in _inside(part):
            below = _parts(child, f"{name}.{child_name}".lstrip(".")) | below
    return below if below and not _owned(part) else {part: name} | below


def _inside(part: nn.Module) -> tuple[str, ...]:
    return next((names for kind, names in INSIDE.items() if isinstance(part, kind)), ())


def _owned(part: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters of a layer, without those of the layers in it."""
    own = dict(part.named_parameters(recurse=False))
    for name in _inside(part):
        own |= part.get_submodule(name).named_parameters(name)
    return own


def _layer(name: str, part: nn.Module, calls: list[Call], batch: int, first: dict[int, str]) -> Layer:
    """`first` has the first name of each parameter by id; shared parameters count only under that name."""
    heads = part.heads if isinstance(part, MultiHeadAttention) else 0
    parameters, shared = dict[str, Shape](), dict[str, str]()
    for local, parameter in _owned(part).items():
        label, known = _letter(local) if heads else local, first[id(parameter)]
        if known == f"{name}.{local}".lstrip("."):
            parameters[label] = tuple(parameter.shape)
        else:
            shared[label] = known
    inputs, output, _ = calls[0] if calls else ((), (), 0)
    cost = round(sum(cost for _, _, cost in calls) / batch)
    per_head = {
        key: _piece(key, parameters[key], part.key_value_heads if key[-1] in "kv" else part.heads)
        for key in parameters
        if isinstance(part, MultiHeadAttention) and key[:2] in ("W_", "b_") and key != "b_o"
    }
    return Layer(name, type(part).__name__, inputs, output, parameters, per_head, shared, len(calls), cost)


def _letter(name: str) -> str:
    """query.weight -> W_q"""
    return f"{'W' if name.endswith('weight') else 'b'}_{name[0]}"


def _piece(name: str, shape: Shape, heads: int) -> Shape:
    """The shape of one head: rows of the query, key and value parameters, columns of W_o."""
    return (shape[0], shape[1] // heads) if name == "W_o" else (shape[0] // heads, *shape[1:])


def _shapes(given: tuple[Any, ...]) -> tuple[Shape, ...]:
    """The shapes of the tensors, without masks (boolean) and lengths (one axis)."""
    tensors = [value for value in map(sequence, given) if isinstance(value, Tensor)]
    return tuple(tuple(value.shape) for value in tensors if value.dim() > 1 and value.dtype != torch.bool)
