"""Compares an exported model with torch: every logit, on held-out data and on random inputs."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from limelight.bridge.onnx.engine import load
from limelight.data.dataset import Dataset
from limelight.errors import Stopped, WrongInput
from limelight.models.decoder_only import LanguageModel
from limelight.models.transformer import Transformer
from limelight.nn import LearnedPositions
from limelight.tasks.images.task import ClassifyImages
from limelight.tasks.task import Task

TOLERANCE = 1e-4
RELATIVE = 1e-5  # of the largest logit: those of some pre-trained models are above 100
BATCHES = (1, 7, 16)  # sizes of batches of held-out examples of mixed lengths
SHAPES = ((1, 1), (3, 11), (2, 600))  # batch and length of random inputs
STEPS = 12  # tokens that are generated one by one

Arguments = tuple[Tensor | None, ...]  # of the model


@torch.inference_mode()
def verify(task: Task[Any], model: nn.Module, dataset: Callable[[], Dataset[Any]], folder: Path) -> list[str]:
    """Compare the model in a folder with torch; a note about it. Refused where a logit differs."""
    engine = load(task, model.eval(), folder).eval()
    try:
        examples, note = list(held_out(task, dataset())), ""
    except (WrongInput, OSError) as error:
        examples, note = [], f"; without held-out examples: {error}"
    largest = 0.0
    for arguments in (*examples, *random_inputs(task, model)):
        for expected, found in _compared(model, engine, arguments):
            difference = float((expected - found).abs().max())
            allowed = max(TOLERANCE, RELATIVE * float(expected.abs().max()))
            if not difference <= allowed:  # also if it is not a number
                raise Stopped(
                    f"the exported model differs from torch: a logit by {difference:.1e}; allowed: "
                    f"{allowed:.0e}. Nothing was written"
                )
            largest = max(largest, difference)
    count = sum(len(cast(Tensor, arguments[0])) for arguments in examples)
    kinds = (f"{count} held-out examples and " if examples else "") + "random inputs"
    return [f"compared with torch on {kinds}: logits differ by at most {largest:.1e}{note}"]


def held_out(task: Task[Any], dataset: Dataset[Any]) -> Iterator[Arguments]:
    """The shortest held-out example, the longest, and batches of mixed lengths."""
    split = dataset.held_out
    order = dataset.lengths(split).argsort(stable=True)
    mixed = torch.randperm(len(order), generator=torch.Generator().manual_seed(0))
    for index in (order[:1], order[-1:], *(mixed[-size:] for size in BATCHES)):
        yield task.arguments(dataset.batch(split, index))


def random_inputs(task: Task[Any], model: nn.Module) -> Iterator[Arguments]:
    """Inputs of several lengths, also longer than those of training where the model can read them."""
    generator = torch.Generator().manual_seed(0)
    tables = [len(part.table) for part in model.modules() if isinstance(part, LearnedPositions)]
    for batch, length in SHAPES:
        if isinstance(task, ClassifyImages):
            pixels = torch.randint(256, (batch, *task.sizes.image), generator=generator)
            yield (task.normalise(pixels.float() / 255),)
            continue
        length = min(length, *(size - 1 for size in tables if size > 1), 10**6)
        lengths = torch.randint(1, length + 1, (batch,), generator=generator)
        lengths[-1] = length
        inputs = _items(task, batch, length, generator)
        if isinstance(model, LanguageModel):
            yield (inputs,)
        elif isinstance(model, Transformer):
            target = torch.randint(task.sizes.outputs, (batch, min(length, STEPS)), generator=generator)
            yield inputs, target, lengths, None
        else:
            yield inputs, lengths


def _items(task: Task[Any], batch: int, length: int, generator: torch.Generator) -> Tensor:
    """-> (B, T) | (B, T, ids) | (B, T, features)"""
    sizes, blank = task.sizes, task.blank(1).inputs
    shape = (batch, length, *blank.shape[2:])
    if sizes.features:
        return torch.randn(shape, generator=generator)
    items = torch.randint(max(sizes.vocabulary, sizes.ngrams), shape, generator=generator)
    return items if blank.dim() == 2 else torch.cat((items[..., :1] % sizes.vocabulary, items[..., 1:]), 2)


def _compared(model: nn.Module, engine: nn.Module, arguments: Arguments) -> Iterator[tuple[Tensor, Tensor]]:
    """The outputs of torch and those of the graphs; language models and translators also step by step."""
    if isinstance(model, Transformer):
        yield _translated(model, engine, *cast(tuple[Tensor, ...], arguments))
        return
    expected = model(*arguments)
    yield expected, engine(*arguments)
    if isinstance(model, LanguageModel):
        continued = _continued(engine, cast(Tensor, arguments[0]))
        yield expected[:, -continued.shape[1] :], continued


def _continued(engine: Any, tokens: Tensor) -> Tensor:
    """(B, T) -> (B, t, V), the logits of the last tokens, which are read one by one after all others"""
    steps, generator = min(STEPS, tokens.shape[1] - 1), engine.generator()
    known, last = tokens.split((tokens.shape[1] - steps, steps), 1)
    logits_BTV, state = generator.start(known, capacity=tokens.shape[1])
    stepped = [generator.step(token_B, state).unsqueeze(1) for token_B in last.unbind(1)]
    return torch.cat((logits_BTV[:, -1:], *stepped), 1)


def _translated(
    model: Transformer, engine: Any, source: Tensor, target: Tensor, lengths: Tensor | None, *_: Any
) -> tuple[Tensor, Tensor]:
    """(B, S), (B, T), (B) -> (N, V), (N, V), the logits of torch and those of single steps"""
    target, generator = target[:, :STEPS], engine.generator()
    state = generator.start(source, lengths, capacity=STEPS)
    stepped = torch.stack([generator.step(token_B, state) for token_B in target.unbind(1)], 1)
    return model(source, target, lengths), stepped.flatten(0, 1)
