"""What a finished run looks like: its curves, and the attention of its model over one example."""

import torch

from limelight.experiment.run import Run
from limelight.view import draw_attention, draw_curves, watch


def draw_run(run: Run) -> None:
    metric = run.task.goal.metric
    draw_curves(run.journal, metric, title=run.experiment.name).savefig(run.path / "curves.png", dpi=150)
    draw_example(run)


@torch.no_grad()
def draw_example(run: Run) -> None:
    """Every layer and head over the first held-out example."""
    split = run.task.splits[-1]
    batch = run.task.batch(split, torch.tensor([0])).to(run.device)
    with watch(run.model) as seen:
        run.model(batch.inputs, batch.lengths)
    tokens = run.task.reader.show(batch.inputs[0].cpu())
    layers = [weights[0][0] for name, weights in seen.items() if "self_attention" in name]
    if layers[0].shape[-1] == len(tokens) + 1:
        tokens = ["[class]", *tokens]
    names = [f"layer {i}, head {head}" for i, layer in enumerate(layers) for head in range(len(layer))]
    title = f"{run.experiment.name}: what looks at what"
    sheet = draw_attention(torch.cat(layers), tokens, title=title, names=names)
    sheet.savefig(run.path / "attention.png", dpi=150)
