"""What a model is made of: each layer with its shapes, its parameters and what it costs."""

import re
from contextlib import ExitStack
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from limelight.experiment.config import FILE, Experiment, experiment
from limelight.models.classifier import ClassifierConfig
from limelight.models.labeller import LabellerConfig
from limelight.models.sizes import Sizes
from limelight.nn import MultiHeadAttention, Packing, Tap
from limelight.training.folder import RunFolder

Shape = tuple[int, ...]
Call = tuple[tuple[Shape, ...], Shape, int]  # inputs, output, multiply-adds

# They have nothing to learn, and change nothing that a trained model computes.
SILENT = (nn.Dropout, nn.Identity, Tap)

LEGEND = """\
shapes: batch × items × width; real items × width where padding is left out
cost: multiply-adds per sequence, forward; what is no matrix product counts as 0
W_q, b_q: query.weight, query.bias in the state dict; so key, value and output
per head: of heads K wide, head h (from 0 on) has the rows hK to hK + K - 1 of
W_q, W_k, W_v, b_q, b_k, b_v, and these columns of W_o"""


@dataclass(frozen=True)
class Layer:
    """Shapes are those of the first call; the cost is in multiply-adds per sequence, of all calls."""

    name: str
    kind: str
    inputs: tuple[Shape, ...]
    outputs: Shape
    parameters: dict[str, Shape]
    per_head: dict[str, Shape]
    cost: int

    @property
    def count(self) -> int:
        return sum(map(prod, self.parameters.values()))

    @property
    def row(self) -> tuple[str, str, str, str]:
        """As a table shows it: in several short lines, so that four columns fit into 80 characters."""
        name = re.sub(r"(\.\d+\.)", r"\1\n", self.name)
        way = [*map(_show, self.inputs), f"→ {_show(self.outputs)}"] if self.outputs else ["not called"]
        contents = [*_by_shape(self.parameters), f"= {self.count:,}"] if self.parameters else []
        contents += ["per head:", *_by_shape(self.per_head)] if self.per_head else []
        return f"{name}\n{self.kind}", "\n".join(way), "\n".join(contents), f"{self.cost:,}"


@dataclass(frozen=True)
class Explanation:
    """`words` say what is built; `inputs` is the shape of the batch that the layers saw."""

    experiment: str
    words: str
    inputs: Shape
    layers: list[Layer]

    @property
    def totals(self) -> dict[str, int]:
        counts, costs = zip(*((layer.count, layer.cost) for layer in self.layers), strict=True)
        return {"parameters": sum(counts), "cost": sum(costs)}


def explain_experiment(
    source: str | Path, settings: dict[str, Any] | None = None, data: str | Path | None = None
) -> Explanation:
    """What a recipe, a TOML file or a run folder would build."""
    wanted = experiment(source, settings, data)
    with torch.random.fork_rng(devices=[]):
        sizes, inputs, lengths = _sample(Path(source), wanted)
        layers = explain(wanted.model.build(sizes), inputs, lengths)
    return Explanation(wanted.name, in_words(wanted.model), tuple(inputs.shape), layers)


def explain(model: nn.Module, inputs: Tensor, lengths: Tensor | None = None) -> list[Layer]:
    """Each layer of model(inputs, lengths), in the order in which they finish; at last those never called.

    A layer has parameters of its own, or no layer below it; multi-head attention is one whole.
    """
    parts = _parts(model)
    calls: dict[nn.Module, list[Call]] = {}

    def hook(part: nn.Module, given: tuple[Any, ...], named: dict[str, Any], result: Tensor) -> None:
        call = _shapes(given), tuple(result.shape), _cost(part, given, named, result)
        calls.setdefault(part, []).append(call)

    with ExitStack() as stack, torch.no_grad():
        for part in parts:
            stack.enter_context(part.register_forward_hook(hook, with_kwargs=True))
        for part in (part for part in model.modules() if part.training):
            stack.callback(setattr, part, "training", True)
        model.eval()(inputs, lengths)
    first = {id(parameter): name for name, parameter in model.named_parameters()}
    calls |= {part: [] for part in parts if part not in calls}
    return [_layer(parts[part], part, called, len(inputs), first) for part, called in calls.items()]


def in_words(config: LabellerConfig | ClassifierConfig) -> str:
    """labeller: 1 layer, 1 head of width 32, pre-norm, sinusoidal positions"""
    depth, heads = config.depth, config.heads
    layers = f"{depth} layer{'s' * (depth > 1)}"
    width = f"{heads} head{'s' * (heads > 1)} of width {config.width // heads}"
    positions = "no" if config.positions == "none" else config.positions
    pooling = f", {config.pooling} pooling" if isinstance(config, ClassifierConfig) else ""
    return f"{config.kind}: {layers}, {width}, {config.norm}-norm, {positions} positions{pooling}"


def _show(shape: Shape) -> str:
    return " × ".join(map(str, shape))


def _by_shape(parameters: dict[str, Shape]) -> list[str]:
    """One line a shape, with all that have it."""
    names: dict[Shape, list[str]] = {}
    for name, shape in parameters.items():
        names.setdefault(shape, []).append(name)
    return [f"{' '.join(names[shape])}: {_show(shape)}" for shape in names]


def _sample(folder: Path, wanted: Experiment) -> tuple[Sizes, Tensor, Tensor | None]:
    """Sizes, inputs and lengths: a run remembers its sizes, and zeros are inputs; else the data is loaded."""
    remembered = (folder / FILE).is_file() and experiment(folder).task == wanted.task
    saved = RunFolder(folder).best() if remembered else None
    if saved:
        sizes = wanted.task.restore(saved.data).sizes
        ids = torch.zeros(wanted.train.batch, sizes.longest, dtype=torch.long)
        return sizes, ids if sizes.vocabulary else torch.zeros(*ids.shape, sizes.features), None
    task = wanted.task.load(wanted.seed)
    # The longest cost the most; most often they are of one length, so that no shape is packed.
    longest = task.lengths("train").argsort(descending=True, stable=True)[: wanted.train.batch]
    batch = task.batch("train", longest)
    return task.sizes, batch.inputs, batch.lengths


def _parts(part: nn.Module, name: str = "") -> dict[nn.Module, str]:
    """The layers at and below a module; of a layer that stands in two places, the first name."""
    if isinstance(part, SILENT):
        return {}
    below: dict[nn.Module, str] = {}
    if not isinstance(part, MultiHeadAttention):
        for child_name, child in part.named_children():
            below = _parts(child, f"{name}.{child_name}".lstrip(".")) | below
    owns = next(part.parameters(recurse=False), None) is not None
    return below if below and not owns else {part: name} | below


def _layer(name: str, part: nn.Module, calls: list[Call], batch: int, first: dict[int, str]) -> Layer:
    """`first` is the name under which the model knows a parameter: one that is shared counts there alone."""
    heads = part.heads if isinstance(part, MultiHeadAttention) else 0
    parameters = {
        _letter(local) if heads else local: tuple(parameter.shape)
        for local, parameter in part.named_parameters(recurse=bool(heads))
        if first[id(parameter)] == f"{name}.{local}".lstrip(".")
    }
    inputs, output, _ = calls[0] if calls else ((), (), 0)
    cost = round(sum(cost for _, _, cost in calls) / batch)
    per_head = {key: _piece(key, parameters[key], heads) for key in parameters if heads and key != "b_o"}
    return Layer(name, type(part).__name__, inputs, output, parameters, per_head, cost)


def _letter(name: str) -> str:
    """query.weight -> W_q"""
    return f"{'W' if name.endswith('weight') else 'b'}_{name[0]}"


def _piece(name: str, shape: Shape, heads: int) -> Shape:
    """Of one head: rows of what makes queries, keys, values; columns of W_o, whose bias is of all heads."""
    return (shape[0], shape[1] // heads) if name == "W_o" else (shape[0] // heads, *shape[1:])


def _shapes(given: tuple[Any, ...]) -> tuple[Shape, ...]:
    """Of what is computed on: masks are boolean, lengths have one axis."""
    tensors = [value for value in given if isinstance(value, Tensor)]
    return tuple(tuple(value.shape) for value in tensors if value.dim() > 1 and value.dtype != torch.bool)


def _cost(part: nn.Module, given: tuple[Any, ...], named: dict[str, Any], result: Tensor) -> int:
    """Multiply-adds of one call, for the whole batch; only matrix products count."""
    if isinstance(part, MultiHeadAttention):
        return _attention_cost(part.width, *given, **named)
    return result.numel() * part.in_features if isinstance(part, nn.Linear) else 0


def _attention_cost(width: int, queries: Tensor, memory: Tensor | None = None, *_: Any, **named: Any) -> int:
    """Four projections of real tokens; scores and mixture, 2·T·S·D a sequence, padding included."""
    packing: Packing | None = named.get("packing")
    memory_packing = packing if memory is None else named.get("memory_packing")
    memory = queries if memory is None else memory
    batch, length = (packing.batch, packing.length) if packing else queries.shape[:2]
    memory_length = memory_packing.length if memory_packing else memory.shape[1]
    return 2 * width * (queries.numel() + memory.numel() + batch * length * memory_length)
