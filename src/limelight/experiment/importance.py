"""How much a model needs each of its attention heads: its metrics without the head."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from limelight.experiment.run import Run
from limelight.progress import shown_by, track
from limelight.training.distributed import World
from limelight.training.evaluate import evaluate
from limelight.training.progress import Metrics, show_metric
from limelight.view import intervene, off, watch
from limelight.view.plots.importance import Bar

EXAMPLES = 400  # evenly spaced in the split, because it may be sorted


@dataclass(frozen=True)
class HeadImportance:
    """The metrics of a run without one head, and how much the main metric is worse."""

    name: str  # of the attention module
    head: int
    lost: float
    metrics: Metrics


@dataclass(frozen=True)
class Importance:
    """All heads of a run, the most important first."""

    split: str
    examples: int
    metric: str
    whole: Metrics  # of the whole model
    heads: tuple[HeadImportance, ...]

    def write(self, path: Path) -> None:
        """Write everything as JSON."""
        path.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")

    def bars(self) -> list[Bar]:
        """For `draw_importance`."""
        return [Bar(f"{one.name}, head {one.head}", one.lost) for one in self.heads]


def head_importance(run: Run, split: str | None = None, *, examples: int = EXAMPLES) -> Importance:
    """Evaluate the model without each of its heads, on the same examples of a split.

        for head in head_importance(run).heads:
            print(head.name, head.head, head.lost)

    `lost` is how much the main metric is worse without the head; of equal heads, that with the larger loss
    comes first. Heads that do the same can each be switched off without a loss, but not both.
    """
    split, goal = split or run.dataset.held_out, run.task.goal
    count = len(run.dataset.lengths(split))
    chosen = torch.linspace(0, count - 1, min(examples, count)).round().long()

    def means() -> Metrics:
        with shown_by(lambda *_: None):  # the progress is that of the heads
            return evaluate(run.task, run.dataset, run.model, split, World(device=run.device), chosen=chosen)

    whole = means()
    with watch(run.model) as seen, torch.no_grad():
        run.task.loss(run.model, run.dataset.batch(split, chosen[:1]).to(run.device))
    heads = [
        (name.removesuffix(".weights"), head)
        for name, passes in seen.items()
        if passes
        for head in range(passes[0].shape[1])
    ]
    found = []
    for name, head in track(heads, len(heads)):
        with intervene(run.model, {name: off(head)}):
            metrics = means()
        lost = goal.rank(whole[goal.metric]) - goal.rank(metrics[goal.metric])
        found.append(HeadImportance(name, head, lost, metrics))
    found.sort(key=lambda one: (-one.lost, -one.metrics["loss"]))
    return Importance(split, len(chosen), goal.metric, whole, tuple(found))


def table(found: Importance) -> str:
    """All heads as lines of text: rank, module, head, what is lost, the metric and the loss without it."""
    width = max(len(one.name) for one in found.heads)
    metric = found.metric
    whole = f"{show_metric(metric, found.whole[metric])} {metric}, loss {found.whole['loss']:.4f}"
    lines = [f"{found.examples:,} examples of the {found.split} split: {whole}. Without one head:"]
    for one in found.heads:
        lost = show_metric(metric, one.lost)
        without = f"{show_metric(metric, one.metrics[metric])} {metric}, loss {one.metrics['loss']:.4f}"
        lines.append(f"{one.name:{width}}  head {one.head:<3} {lost:>9} lost  {without}")
    return "\n".join(lines)
