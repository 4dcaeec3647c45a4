"""A trained model whose answers onnxruntime computes."""

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnxruntime
import torch
from torch import Tensor, nn

from limelight.bridge.onnx.graphs import SequenceModel, graphs_of
from limelight.errors import WrongInput
from limelight.models.classifier import ClassToken
from limelight.models.decoder_only import LanguageModel
from limelight.models.transformer import Transformer
from limelight.models.vit import ViT
from limelight.nn import DecoderOnly, Encoder, LearnedPositions, Tap
from limelight.tasks.images.task import ClassifyImages
from limelight.tasks.task import Task

Tensors = Mapping[str, Tensor]


def load(task: Task[Any], model: nn.Module, folder: Path) -> nn.Module:
    """A copy of the model, with the same modules and weights, that is computed by the graphs in the folder.

    What the graphs cannot compute, torch does: attention that is watched or changed, a stack of which only
    the first blocks are called, training, the inputs of the output layer, and invalid inputs.
    """
    sessions = [Session(folder / graph.file) for graph in graphs_of(model, task)]
    engine, graph = copy(model), sessions[0]
    if isinstance(engine, SequenceModel):
        vars(engine)["forward"] = _sequences(engine, graph)
    elif isinstance(engine, ViT) and isinstance(task, ClassifyImages):
        vars(engine)["forward"] = _images(engine, task, graph)
    elif isinstance(engine, LanguageModel):
        longest = engine.longest
        vars(engine)["forward"] = _language(engine, graph)
        vars(engine)["generator"] = lambda: LanguageSteps(longest, graph)
    elif isinstance(engine, Transformer):
        longest = engine.longest
        vars(engine)["generator"] = lambda: TranslationSteps(longest, *sessions)
    return engine


class Session:
    """A graph that onnxruntime computes, with as many threads as torch has."""

    def __init__(self, path: Path) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.log_severity_level = 3  # errors
        try:
            self._session = onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])
        except Exception as error:  # its exceptions have no common class
            reason = " ".join(str(error).split())
            raise WrongInput(f"{path}: onnxruntime cannot read it: {reason}") from None
        self.inputs = {one.name: one.shape for one in self._session.get_inputs()}
        self.outputs = {one.name: one.shape for one in self._session.get_outputs()}

    def __call__(self, inputs: Tensors) -> dict[str, Tensor]:
        """The outputs by name, on the device of the inputs."""
        feed = {name: x.detach().cpu().contiguous().numpy() for name, x in inputs.items()}
        device = next(iter(inputs.values())).device
        found = self._session.run(None, feed)
        return {name: torch.from_numpy(x).to(device) for name, x in zip(self.outputs, found, strict=True)}

    def empty_past(self, batch: int, device: torch.device) -> dict[str, Tensor]:
        """The keys and values before the first token: none."""
        return {
            name: torch.empty(batch, shape[1], 0, shape[3], device=device)
            for name, shape in self.inputs.items()
            if name.startswith("past.")
        }


class _Original:
    """Whether a model still computes what it did when it was exported."""

    def __init__(self, model: nn.Module) -> None:
        parts = list(model.modules())
        self._model, self._taps = model, [part for part in parts if isinstance(part, Tap)]
        self._stacks = [(part, part.blocks) for part in parts if isinstance(part, Encoder | DecoderOnly)]
        tables = [len(part.table) for part in parts if isinstance(part, LearnedPositions)]
        self._longest = min(tables, default=None)

    def computes(self, length: int) -> bool:
        """Whether it is not watched, changed or in training, and has positions for this length."""
        return (
            not self._model.training
            and (self._longest is None or length <= self._longest)
            and all(part.blocks is blocks for part, blocks in self._stacks)
            and not any(tap.watched for tap in self._taps)
        )


def _sequences(model: SequenceModel, graph: Session) -> Callable[..., Tensor]:
    original, by_torch, name = _Original(model), model.forward, next(iter(graph.inputs))
    output = next(iter(graph.outputs))
    extra = int(isinstance(getattr(model, "pooling", None), ClassToken))

    def forward(inputs: Tensor, lengths: Tensor | None = None, *others: Any) -> Tensor:
        """(B, T) | (B, T, ids) | (B, T, features), (B) -> (B, T, L) | (B, L) | (B, D)"""
        batch, length = inputs.shape[:2]
        if others or not original.computes(length + extra):
            return by_torch(inputs, lengths, *others)
        if lengths is None:
            lengths = torch.full((batch,), length, device=inputs.device)
        return graph({name: inputs, "lengths": lengths})[output]

    return forward


def _images(model: ViT, task: ClassifyImages, graph: Session) -> Callable[..., Tensor]:
    original, by_torch = _Original(model), model.forward

    def forward(images: Tensor) -> Tensor:
        """(B, C, Y, X) -> (B, L)"""
        if tuple(images.shape[1:]) != task.sizes.image or not original.computes(0):
            return by_torch(images)
        return graph({"pixels": task.restore_pixels(images)})["logits"]

    return forward


def _language(model: LanguageModel, graph: Session) -> Callable[..., Tensor]:
    original, by_torch = _Original(model), model.forward

    def forward(tokens: Tensor, mask: Tensor | None = None, *, logits: bool = True) -> Tensor:
        """(B, T), (B|1, T|1, T) -> (B, T, V)"""
        if mask is not None or not logits or not original.computes(tokens.shape[1]):
            return by_torch(tokens, mask, logits=logits)
        return graph({"tokens": tokens, **graph.empty_past(len(tokens), tokens.device)})["logits"]

    return forward


@dataclass
class State:
    """What generation keeps between two steps."""

    past: dict[str, Tensor]  # keys and values (B, h, S, K) by the name of the input
    memory: dict[str, Tensor]  # the same of the sources, and their lengths

    @property
    def length(self) -> int:
        """The number of tokens so far."""
        return next(iter(self.past.values())).shape[2]

    def reorder(self, index: Tensor, *, sources: bool = True) -> None:
        """Keeps the rows with the indices `index` (R), in that order.

        Without `sources`, each row keeps its present source, like beams of one sentence.
        """
        self.past = {name: x.index_select(0, index) for name, x in self.past.items()}
        if sources:
            self.memory = {name: x.index_select(0, index) for name, x in self.memory.items()}


def _advance(graph: Session, tokens: Tensor, state: State) -> Tensor:
    """(B, T) -> (B, T, V), with tokens added to the state"""
    found = graph({"tokens": tokens, **state.memory, **state.past})
    logits = found.pop("logits")
    state.past = dict(zip(state.past, found.values(), strict=True))
    return logits


class LanguageSteps:
    """`start` and `step` of a language model."""

    def __init__(self, longest: int | None, graph: Session) -> None:
        self.longest, self._graph = longest, graph

    def start(self, tokens: Tensor, *, capacity: int) -> tuple[Tensor, State]:
        """(B, T) -> (B, T, V), and a state that contains the first T positions"""
        state = State(self._graph.empty_past(len(tokens), tokens.device), {})
        return _advance(self._graph, tokens, state), state

    def step(self, tokens: Tensor, state: State) -> Tensor:
        """(B) -> (B, V)

        The logits of the token after `tokens`, which are added to the state.
        """
        return _advance(self._graph, tokens.unsqueeze(1), state).squeeze(1)

    def draft(self) -> None:
        """There is no faster approximation."""


class TranslationSteps:
    """`start` and `step` of an encoder-decoder."""

    def __init__(self, longest: int | None, encoder: Session, decoder: Session) -> None:
        self.longest, self._encoder, self._decoder = longest, encoder, decoder

    def start(self, source: Tensor, lengths: Tensor | None = None, *, capacity: int) -> State:
        """(B, S), (B) -> the state before the first token

        Encodes the source.
        """
        if lengths is None:
            lengths = torch.full(source.shape[:1], source.shape[1], device=source.device)
        inputs = {"tokens": source, "lengths": lengths}
        memory = self._encoder(inputs) | {"lengths": lengths}
        return State(self._decoder.empty_past(len(source), source.device), memory)

    def step(self, tokens: Tensor, state: State) -> Tensor:
        """(B) -> (B, V)

        The logits of the token after `tokens`, which are added to the state.
        """
        return _advance(self._decoder, tokens.unsqueeze(1), state).squeeze(1)
