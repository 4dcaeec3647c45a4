"""The graphs of each kind of model: modules whose inputs and outputs are tensors with names."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from limelight.errors import WrongInput
from limelight.models.classifier import Classifier
from limelight.models.decoder_only import LanguageModel
from limelight.models.embedder import Embedder
from limelight.models.labeller import Labeller
from limelight.models.masked_encoder import MaskedEncoder
from limelight.models.recurrent import Recurrent
from limelight.models.transformer import Transformer
from limelight.models.vit import ViT
from limelight.nn import Cache, KeyValues, padding_mask
from limelight.tasks.images.task import ClassifyImages
from limelight.tasks.task import Task

SequenceModel = Labeller | Classifier | MaskedEncoder | Embedder
Axes = tuple[str | int, ...]  # an axis with a name has any size


@dataclass(frozen=True)
class Graph:
    """A module that becomes one file, and the names of its inputs and outputs."""

    file: str
    module: nn.Module
    inputs: dict[str, Axes]
    outputs: tuple[str, ...]


def graphs_of(model: nn.Module, task: Task[Any]) -> tuple[Graph, ...]:
    """The graphs that together compute a model; models that are not from this library are refused."""
    if isinstance(model, SequenceModel):
        return (_sequence_graph(model, task),)
    if isinstance(model, ViT) and isinstance(task, ClassifyImages):
        axes: Axes = ("batch", *task.sizes.image)
        return (Graph("model.onnx", PixelGraph(model, task), {"pixels": axes}, ("logits",)),)
    if isinstance(model, LanguageModel):
        heads = cast(Any, model.decoder.blocks[0]).self_attention
        past = key_values("past", len(model.decoder.blocks), heads, "past")
        inputs: dict[str, Axes] = {"tokens": ("batch", "length"), **past}
        return (Graph("model.onnx", LanguageGraph(model), inputs, _outputs(len(past))),)
    if isinstance(model, Transformer):
        return _translation_graphs(model)
    what = "a recurrent model" if isinstance(model, Recurrent) else f"the model {type(model).__name__}"
    raise WrongInput(f"{what} cannot be exported to onnx; allowed: the other models of limelight")


def _sequence_graph(model: SequenceModel, task: Task[Any]) -> Graph:
    item = tuple(task.blank(1).inputs.shape[2:])  # the ids or features of one item
    name = "features" if task.sizes.features else "tokens"
    inputs: dict[str, Axes] = {name: ("batch", "length", *item), "lengths": ("batch",)}
    output = "vectors" if isinstance(model, Embedder) else "logits"
    return Graph("model.onnx", SequenceGraph(model), inputs, (output,))


def _translation_graphs(model: Transformer) -> tuple[Graph, Graph]:
    depth, block = len(model.decoder.blocks), cast(Any, model.decoder.blocks[0])
    memory = key_values("memory", depth, block.cross_attention, "source")
    past = key_values("past", depth, block.self_attention, "past")
    source: dict[str, Axes] = {"tokens": ("batch", "source"), "lengths": ("batch",)}
    target: dict[str, Axes] = {"tokens": ("batch", "length"), "lengths": ("batch",), **memory, **past}
    return (
        Graph("encoder.onnx", EncoderGraph(model), source, tuple(memory)),
        Graph("decoder.onnx", DecoderGraph(model), target, _outputs(len(past))),
    )


def key_values(name: str, depth: int, attention: Any, length: str) -> dict[str, Axes]:
    """The names and axes of the keys and values of all layers: past.0.key, past.0.value, past.1.key, …"""
    axes: Axes = ("batch", attention.key_value_heads, length, attention.width // attention.heads)
    return {f"{name}.{layer}.{part}": axes for layer in range(depth) for part in ("key", "value")}


def _outputs(present: int) -> tuple[str, ...]:
    return "logits", *(f"present.{i // 2}.{('key', 'value')[i % 2]}" for i in range(present))


class SequenceGraph(nn.Module):
    """A labeller, a classifier, a masked encoder or an embedder."""

    def __init__(self, model: SequenceModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs: Tensor, lengths: Tensor) -> Tensor:
        """(B, T) | (B, T, ids) | (B, T, features), (B) -> (B, T, L) | (B, L) | (B, D)"""
        return self.model(inputs, lengths)


class PixelGraph(nn.Module):
    """A Vision Transformer that also normalises the pixels."""

    def __init__(self, model: ViT, task: ClassifyImages) -> None:
        super().__init__()
        self.model, self._task = model, task

    def forward(self, pixels: Tensor) -> Tensor:
        """(B, C, Y, X) -> (B, L)

        Pixels from 0 to 255.
        """
        return self.model(self._task.normalise(pixels / 255))


class _Past(Cache):
    """Keys and values of earlier positions, which are inputs of a graph, with those of new positions."""

    def __init__(self, past: KeyValues) -> None:
        self.length, self.now = past.keys.shape[2], past

    def append(self, new: KeyValues) -> KeyValues:
        """(B, h, T, K), (B, h, T, K) -> (B, h, S, K), (B, h, S, K)"""
        self.now = KeyValues(*(torch.cat(both, 2) for both in zip(self.now, new, strict=True)))
        return self.now


def _pairs(tensors: Sequence[Tensor]) -> Iterator[KeyValues]:
    """The keys and values of each layer."""
    return map(KeyValues, tensors[::2], tensors[1::2])


def _positions(positions: nn.Module, x: Tensor, start: int) -> Tensor:
    """(B, T, D) -> (B, T, D)"""
    return x if isinstance(positions, nn.Identity) else positions(x, start)


class LanguageGraph(nn.Module):
    """A language model that continues after earlier tokens, of which there may be none."""

    def __init__(self, model: LanguageModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor, past: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """(B, T), (B, h, P, K) per layer and part -> (B, T, V), (B, h, S, K) per layer and part"""
        caches = [_Past(pair) for pair in _pairs(past)]
        x_BTD = _positions(self.model.positions, self.model.embedding(tokens), caches[0].length)
        for block, cache in zip(self.model.decoder.blocks, caches, strict=True):
            x_BTD = block(x_BTD, causal=True, cache=cache)
        logits_BTV = self.model.output(self.model.decoder.norm(x_BTD))
        return logits_BTV, *(part for cache in caches for part in cache.now)


class EncoderGraph(nn.Module):
    """The encoder of a Transformer, with the keys and values that its decoder attends to."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor, lengths: Tensor) -> tuple[Tensor, ...]:
        """(B, S), (B) -> (B, h, S, K) per layer and part"""
        model = self.model
        x_BSD = _positions(model.source_positions, model.source_embedding(tokens) * model.scale, 0)
        memory_BSD = model.encoder(x_BSD, padding_mask(lengths, tokens.shape[1]))
        pairs = [cast(Any, block).cross_attention.project(memory_BSD) for block in model.decoder.blocks]
        return tuple(part for pair in pairs for part in pair)


class DecoderGraph(nn.Module):
    """The decoder of a Transformer: the next tokens of each target, after those in the cache."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, tokens: Tensor, lengths: Tensor, memory: Sequence[Tensor], past: Sequence[Tensor]
    ) -> tuple[Tensor, ...]:
        """(B, T), (B), (B, h, S, K) and (B, h, P, K) per layer and part -> (B, T, V), (B, h, s, K) per layer

        `lengths` are those of the sources.
        """
        model, caches = self.model, [_Past(pair) for pair in _pairs(past)]
        mask = padding_mask(lengths, memory[0].shape[2])
        embedded_BTD = model.target_embedding(tokens) * model.scale
        x_BTD = _positions(model.target_positions, embedded_BTD, caches[0].length)
        for block, memory_of_block, cache in zip(model.decoder.blocks, _pairs(memory), caches, strict=True):
            x_BTD = block(x_BTD, memory_of_block, memory_mask=mask, cache=cache)
        logits_BTV = model.output(model.decoder.norm(x_BTD))
        return logits_BTV, *(part for cache in caches for part in cache.now)
