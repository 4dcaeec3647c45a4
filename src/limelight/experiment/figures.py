"""The figures of a run: training curves, attention maps, and the figures of its task."""

from pathlib import Path

import torch
from matplotlib.figure import Figure

from limelight.experiment.examples import with_truth
from limelight.experiment.run import Run
from limelight.view import draw_curves
from limelight.view.plots.images import draw_confusion
from limelight.view.plots.records import draw_record


def run_figures(run: Run) -> dict[str, Figure]:
    """The figures of a finished run, by file name."""
    return {**page_figures(run, with_data=True), "attention": attention_figure(run)}


def page_figures(run: Run, *, with_data: bool) -> dict[str, Figure]:
    """The figures of the page of a run; without its data, only the curves and the confusion matrix.

    A run that was imported has none of them.
    """
    if run.experiment.imported:
        return {}
    found = {"curves": curves_figure(run), **confusion_figure(run)}
    if not with_data:
        return found
    return found | run.task.figures(run.model, run.dataset, run.dataset.held_out, run.experiment.name)


def confusion_figure(run: Run) -> dict[str, Figure]:
    """The confusion matrix in the report, if the run is finished and predicts classes."""
    try:
        report = run.report
    except FileNotFoundError:
        return {}
    if not report["confusion"]:
        return {}
    title = f"{run.experiment.name}: confusion matrix"
    counts_LL = torch.tensor(report["confusion"])
    return {"confusion": draw_confusion(counts_LL, list(report["classes"]), title=title)}


def curves_figure(run: Run) -> Figure:
    """The training curves."""
    return draw_curves(run.journal, run.task.goal.metric, title=f"{run.experiment.name}: training curves")


def attention_figure(run: Run, given: str | None = None) -> Figure:
    """The attention maps of an input: a line of text or an image file; by default, of a held-out example."""
    name = run.experiment.name
    if given is None:
        example = run.task.figure_example(run.model, run.dataset, run.dataset.held_out)
        record = with_truth(run.see(example.given).records[0], example)
    else:
        record = run.see(given).records[0]
    is_file = record.image is not None and given is not None
    return draw_record(record, title=Path(str(given)).name if is_file else name)
