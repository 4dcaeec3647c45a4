"""What a finished run looks like: its curves, and the attention of its model over one example."""

from itertools import pairwise
from pathlib import Path
from typing import cast

import torch
from matplotlib.figure import Figure
from torch import Tensor

from limelight.experiment.alignment import Alignment, look
from limelight.experiment.image_pictures import draw_images, draw_look, first_right
from limelight.experiment.looking import look_at_items
from limelight.experiment.run import Run
from limelight.models.vit import ViT
from limelight.tasks.images.task import ClassifyImages
from limelight.tasks.sequence.shared import SequenceTask
from limelight.tasks.translate.task import Translate
from limelight.view import draw_attention, draw_curves

READABLE = 40  # items on an axis
MAPS = 24  # on a sheet
TRIED = 50  # translations, to find one worth looking at


def draw_run(run: Run) -> None:
    metric = run.task.goal.metric
    draw_curves(run.journal, metric, title=run.experiment.name).savefig(run.path / "curves.png", dpi=150)
    if isinstance(run.task, ClassifyImages):
        draw_images(run, run.task)
    draw_look_at(run).savefig(run.path / "attention.png", dpi=150)


def draw_look_at(run: Run, given: str | None = None) -> Figure:
    """What every layer and head (the last ones, of many) looks at in an input: a line of text or the name of
    an image file; without one, in a held-out example that is not too long."""
    name = run.experiment.name
    if isinstance(run.reading, ClassifyImages):
        pixels = first_right(run) if given is None else run.reading.read(given)
        return draw_look(
            cast(ViT, run.model), run.reading, pixels, name if given is None else Path(given).name
        )
    if isinstance(run.reading, Translate):
        layers, queries, keys = _translated(run, run.reading, given)
    else:
        layers, queries, keys = _labelled(run, run.reading, given)
    names = [f"layer {i}, head {head}" for i, layer in enumerate(layers) for head in range(len(layer))]
    title = f"{name}: what looks at what"
    return draw_attention(torch.cat(layers)[-MAPS:], queries, keys, title=title, names=names[-MAPS:])


def _labelled(run: Run, task: SequenceTask, line: str | None) -> tuple[list[Tensor], list[str], list[str]]:
    """Self-attention over a line, or over the first example."""
    given = _first_short(run) if line is None else line
    items = task.encode(given)
    names = task.show(items) if isinstance(given, Tensor) else task.tokens(given)
    _, seen, tokens = look_at_items(run.model, task, items, names)
    layers = [layer for one, layer in zip(seen.maps, seen.layers, strict=True) if one.part == "encoder"]
    return layers, tokens, tokens


def _first_short(run: Run) -> str | Tensor:
    task = cast(SequenceTask, run.task)
    lengths = run.task.lengths(run.held_out)
    first = int((lengths <= max(READABLE, int(lengths.min()))).nonzero()[0])
    return task.text(run.held_out, first) or task.batch(run.held_out, torch.tensor([first])).inputs[0]


def _translated(run: Run, task: Translate, line: str | None) -> tuple[list[Tensor], list[str], list[str]]:
    """Cross-attention over a line, or over the translation whose words cross most."""
    lines = _worth_looking_at(run) if line is None else [line]
    answers = run.predict(lines, alignment=True)
    best, answer = max(zip(lines, answers, strict=True), key=lambda pair: _crossings(pair[1].alignment))
    source, target = task.encode(run.model, best), task.target.encode(answer.text)
    seen = look(run.model, task, source, target)
    return seen.layers, task.target.show(target), task.tokens(best)


def _worth_looking_at(run: Run) -> list[str]:
    data = cast(Translate, run.task).data
    short = [source for source, _ in data.texts[run.held_out] if len(source.split()) <= READABLE // 4]
    return [data.example] if data.example else short[:TRIED] or [run.sample]


def _crossings(alignment: Alignment) -> int:
    return sum(source > later for (source, _), (later, _) in pairwise(alignment))
