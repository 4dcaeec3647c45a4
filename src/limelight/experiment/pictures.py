"""What a finished run looks like: its curves, and the attention of its model over one example."""

import torch

from limelight.experiment.run import Run
from limelight.view import draw_attention, draw_curves, watch

READABLE = 40  # items on an axis
MAPS = 24  # on a sheet


def draw_run(run: Run) -> None:
    metric = run.task.goal.metric
    draw_curves(run.journal, metric, title=run.experiment.name).savefig(run.path / "curves.png", dpi=150)
    draw_example(run)


@torch.no_grad()
def draw_example(run: Run) -> None:
    """Every layer and head (the last ones, of many) over the first held-out example that is not too long."""
    lengths = run.task.lengths(run.held_out)
    first = int((lengths <= max(READABLE, int(lengths.min()))).nonzero()[0])
    batch = run.task.batch(run.held_out, torch.tensor([first])).to(run.device)
    with watch(run.model) as seen:
        run.model(batch.inputs, batch.lengths)
    tokens = run.task.reader.show(batch.inputs[0].cpu())
    layers = [weights[0][0] for name, weights in seen.items() if "self_attention" in name]
    if layers[0].shape[-1] == len(tokens) + 1:
        tokens = ["[class]", *tokens]
    names = [f"layer {i}, head {head}" for i, layer in enumerate(layers) for head in range(len(layer))]
    title = f"{run.experiment.name}: what looks at what"
    sheet = draw_attention(torch.cat(layers)[-MAPS:], tokens, title=title, names=names[-MAPS:])
    sheet.savefig(run.path / "attention.png", dpi=150)
