"""What a model is made of: each layer with its shapes, its parameters and what it costs."""

import re
from contextlib import ExitStack
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from limelight.experiment.build import build_model
from limelight.experiment.config import FILE, Experiment, ModelConfig, experiment
from limelight.experiment.costs import multiply_adds, sequence
from limelight.experiment.run import restored
from limelight.models.classifier import ClassifierConfig
from limelight.models.recurrent import RecurrentConfig
from limelight.models.sizes import Sizes
from limelight.models.transformer import TransformerConfig
from limelight.models.vit import ViTConfig
from limelight.nn import AdditiveAttention, MultiHeadAttention, Tap

Shape = tuple[int, ...]
Call = tuple[tuple[Shape, ...], Shape, int]  # inputs, output, multiply-adds

# They have nothing to learn, and change nothing that a trained model computes.
SILENT = (nn.Dropout, nn.Identity, Tap)

# What stands below a layer but is a part of it: its parameters are the layer's own.
INSIDE = {MultiHeadAttention: ("query", "key", "value", "output"), AdditiveAttention: ("vector",)}

MOST = 1_000  # sequences that a run's model is tried on, however large its batches
WIDEST = 32  # characters of a line of parameters

# By what they are about, most often a kind of layer.
LEGENDS = {
    "all": """\
shapes: batch × items × width; real items × width where padding is left out
cost: multiply-adds per sequence, forward; what is no matrix product counts as 0""",
    "calls": "calls: if there are several, the shapes are of the first, the cost is of all",
    "MultiHeadAttention": """\
W_q, b_q: query.weight, query.bias in the state dict; so key, value and output
per head: of heads K wide, head h (from 0 on) has the rows hK to hK + K - 1 of
W_q, W_k, W_v, b_q, b_k, b_v, and these columns of W_o""",
    "GRU": """\
GRU: weight_ih reads its input, weight_hh its state (layers × batch × width); a
third each of their rows makes the reset gate, the update gate, what is new""",
}


@dataclass(frozen=True)
class Layer:
    """Shapes are those of the first call; the cost is in multiply-adds per sequence, of all calls."""

    name: str
    kind: str
    inputs: tuple[Shape, ...]
    outputs: Shape
    parameters: dict[str, Shape]
    per_head: dict[str, Shape]
    shared: dict[str, str]  # parameters that count elsewhere, by the name that they have there
    calls: int
    cost: int

    @property
    def count(self) -> int:
        return sum(map(prod, self.parameters.values()))

    @property
    def row(self) -> tuple[str, str, str, str]:
        """As a table shows it: in several short lines, so that four columns fit into 80 characters."""
        name = re.sub(r"(\.\d+\.)", r"\1\n", self.name)
        way = [*map(_show, self.inputs), f"→ {_show(self.outputs)}"] if self.calls else ["not called"]
        way += [f"{self.calls} calls"] if self.calls > 1 else []
        contents = [*_by_shape(self.parameters), f"= {self.count:,}"] if self.parameters else []
        contents += ["per head:", *_by_shape(self.per_head)] if self.per_head else []
        contents += [f"{mine}: shared with\n{other}" for mine, other in self.shared.items()]
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

    @property
    def legend(self) -> str:
        """Of what the table shows and nothing else."""
        shown = {"all", *(layer.kind for layer in self.layers)}
        shown |= {"calls" for layer in self.layers if layer.calls > 1}
        return "\n".join(text for about, text in LEGENDS.items() if about in shown)


def explain_experiment(
    source: str | Path, settings: dict[str, Any] | None = None, data: str | Path | None = None
) -> Explanation:
    """What a recipe, a TOML file or a run folder would build."""
    wanted = experiment(source, settings, data)
    with torch.random.fork_rng(devices=[]):
        sizes, arguments = _sample(Path(source), wanted)
        layers = explain(build_model(wanted.model, sizes), *arguments)
    return Explanation(wanted.name, in_words(wanted.model), tuple(_first(arguments).shape), layers)


def explain(model: nn.Module, *inputs: Tensor | None) -> list[Layer]:
    """Each layer of model(*inputs), in the order in which they finish; at last those never called.

    A layer has parameters of its own, or no layer below it; multi-head attention is one whole. The first
    of the inputs is a tensor, one row a sequence.
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


def in_words(config: ModelConfig) -> str:
    """labeller: 1 layer, 1 head of width 32, pre-norm, sinusoidal positions"""
    if isinstance(config, RecurrentConfig):
        directions = "both directions" if config.bidirectional else "one direction"
        parts = [_count(config.depth, "layer"), f"width {config.width}", directions, "additive attention"]
        return f"{config.kind}: {', '.join(parts)}"
    if isinstance(config, TransformerConfig):
        layers = f"{config.encoder_depth} + {config.decoder_depth} layers"
    else:
        layers = _count(config.depth, "layer")
    heads = f"{_count(config.heads, 'head')} of width {config.width // config.heads}"
    positions = "no" if config.positions == "none" else config.positions
    parts = [layers, heads, f"{config.norm}-norm", f"{positions} positions"]
    if isinstance(config, ClassifierConfig | ViTConfig):
        parts.append(f"{config.pooling} pooling")
    if isinstance(config, TransformerConfig) and config.tied != "nothing":
        parts.append("tied embeddings" if config.tied == "all" else "tied output")
    return f"{config.kind}: {', '.join(parts)}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number > 1)}"


def _show(shape: Shape) -> str:
    return "×".join(map(str, shape))  # no space, so that a narrow column does not tear it


def _by_shape(parameters: dict[str, Shape]) -> list[str]:
    """One line a shape, with all that have it; where that is too long, one line a parameter."""
    names: dict[Shape, list[str]] = {}
    for name, shape in parameters.items():
        names.setdefault(shape, []).append(name)
    lines = [f"{' '.join(names[shape])}: {_show(shape)}" for shape in names]
    if any(len(line) > WIDEST for line in lines):
        return [f"{name}: {_show(shape)}" for name, shape in parameters.items()]
    return lines


def _sample(folder: Path, wanted: Experiment) -> tuple[Sizes, tuple[Tensor | None, ...]]:
    """Sizes, and what the model is called with: a run remembers its sizes; else the data is loaded."""
    remembered = (folder / FILE).is_file() and experiment(folder).task == wanted.task
    for _, task, _ in restored(folder) if remembered else ():
        return task.sizes, task.arguments(task.blank(min(wanted.train.batch, MOST)))
    task = wanted.task.load(wanted.seed)
    # The longest cost the most; most often they are of one length, so that no shape is packed.
    longest = task.lengths("train").argsort(descending=True, stable=True)[: wanted.train.batch]
    return task.sizes, task.arguments(task.batch("train", longest))


def _first(arguments: tuple[Tensor | None, ...]) -> Tensor:
    return cast(Tensor, arguments[0])  # no model is called without its inputs


def _parts(part: nn.Module, name: str = "") -> dict[nn.Module, str]:
    """The layers at and below a module; of a layer that stands in two places, the first name."""
    if isinstance(part, SILENT):
        return {}
    below: dict[nn.Module, str] = {}
    for child_name, child in part.named_children():
        if child_name not in _inside(part):
            below = _parts(child, f"{name}.{child_name}".lstrip(".")) | below
    return below if below and not _owned(part) else {part: name} | below


def _inside(part: nn.Module) -> tuple[str, ...]:
    return next((names for kind, names in INSIDE.items() if isinstance(part, kind)), ())


def _owned(part: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters of a layer without those of the layers below it."""
    own = dict(part.named_parameters(recurse=False))
    for name in _inside(part):
        own |= part.get_submodule(name).named_parameters(name)
    return own


def _layer(name: str, part: nn.Module, calls: list[Call], batch: int, first: dict[int, str]) -> Layer:
    """`first` is the name under which the model knows a parameter: one that is shared counts there alone."""
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
    per_head = {key: _piece(key, parameters[key], heads) for key in parameters if heads and key != "b_o"}
    return Layer(name, type(part).__name__, inputs, output, parameters, per_head, shared, len(calls), cost)


def _letter(name: str) -> str:
    """query.weight -> W_q"""
    return f"{'W' if name.endswith('weight') else 'b'}_{name[0]}"


def _piece(name: str, shape: Shape, heads: int) -> Shape:
    """Of one head: rows of what makes queries, keys, values; columns of W_o, whose bias is of all heads."""
    return (shape[0], shape[1] // heads) if name == "W_o" else (shape[0] // heads, *shape[1:])


def _shapes(given: tuple[Any, ...]) -> tuple[Shape, ...]:
    """Of what is computed on: masks are boolean, lengths have one axis."""
    tensors = [value for value in map(sequence, given) if isinstance(value, Tensor)]
    return tuple(tuple(value.shape) for value in tensors if value.dim() > 1 and value.dtype != torch.bool)
