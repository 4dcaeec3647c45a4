"""What a finished run looks like: its curves, and the attention of its model over one example."""

from itertools import pairwise

import torch
from torch import Tensor

from limelight.experiment.alignment import Alignment, look
from limelight.experiment.run import Run
from limelight.tasks.sequences import SequenceTask
from limelight.tasks.translate import Translate
from limelight.view import draw_attention, draw_curves, watch

READABLE = 40  # items on an axis
MAPS = 24  # on a sheet
TRIED = 50  # translations, to find one worth looking at


def draw_run(run: Run) -> None:
    metric = run.task.goal.metric
    draw_curves(run.journal, metric, title=run.experiment.name).savefig(run.path / "curves.png", dpi=150)
    draw_example(run)


def draw_example(run: Run) -> None:
    """Every layer and head (the last ones, of many) over one held-out example that is not too long."""
    task = run.task
    layers, queries, keys = _translated(run, task) if isinstance(task, Translate) else _labelled(run, task)
    names = [f"layer {i}, head {head}" for i, layer in enumerate(layers) for head in range(len(layer))]
    title = f"{run.experiment.name}: what looks at what"
    sheet = draw_attention(torch.cat(layers)[-MAPS:], queries, keys, title=title, names=names[-MAPS:])
    sheet.savefig(run.path / "attention.png", dpi=150)


@torch.no_grad()
def _labelled(run: Run, task: SequenceTask) -> tuple[list[Tensor], list[str], list[str]]:
    """Self-attention over the first one."""
    lengths = task.lengths(run.held_out)
    first = int((lengths <= max(READABLE, int(lengths.min()))).nonzero()[0])
    batch = task.batch(run.held_out, torch.tensor([first])).to(run.device)
    with watch(run.model) as seen:
        run.model(*task.arguments(batch))
    tokens = task.reader.show(batch.inputs[0].cpu())
    layers = [weights[0][0] for name, weights in seen.items() if "self_attention" in name]
    if layers[0].shape[-1] == len(tokens) + 1:
        tokens = ["[class]", *tokens]
    return layers, tokens, tokens


def _translated(run: Run, task: Translate) -> tuple[list[Tensor], list[str], list[str]]:
    """Cross-attention over the data's example, or over that of some translations whose words cross most."""
    short = [source for source, _ in task.data.texts[run.held_out] if len(source.split()) <= READABLE // 4]
    lines = [task.data.example] if task.data.example else short[:TRIED] or [task.sample(run.held_out)]
    answers = run.predict(lines, alignment=True)
    line, answer = max(zip(lines, answers, strict=True), key=lambda pair: _crossings(pair[1].alignment))
    source, target = task.source.encode(line), task.target.encode(answer.text)
    seen = look(run.model, task, source, target)
    return seen.layers, task.target.show(target), task.source.show(source)


def _crossings(alignment: Alignment) -> int:
    return sum(source > later for (source, _), (later, _) in pairwise(alignment))
