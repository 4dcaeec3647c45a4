"""The figures of a run: training curves, attention maps, and the figures of its task."""

from pathlib import Path

from matplotlib.figure import Figure

from limelight.experiment.run import Run
from limelight.view import draw_curves
from limelight.view.plots.records import draw_record


def run_figures(run: Run) -> dict[str, Figure]:
    """The figures of a finished run, by file name."""
    name, dataset = run.experiment.name, run.dataset
    return {
        "curves": draw_curves(run.journal, run.task.goal.metric, title=f"{name}: training curves"),
        **run.task.figures(run.model, dataset, dataset.held_out, name),
        "attention": attention_figure(run),
    }


def attention_figure(run: Run, given: str | None = None) -> Figure:
    """The attention maps of an input: a line of text or an image file; by default, of a held-out example."""
    name = run.experiment.name
    if given is None:
        record = run.see(run.task.figure_input(run.model, run.dataset, run.dataset.held_out)).records[0]
    else:
        record = run.see(given).records[0]
    if record.image:  # the prediction follows in the title
        return draw_record(record, title=name if given is None else Path(given).name)
    return draw_record(record, title=f"{name}: attention weights")
