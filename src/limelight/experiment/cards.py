"""The model card of an export: what the model is, how good it is, and how it is used."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from limelight.experiment.run import Report, Run, read_report
from limelight.training.progress import show_metric

TAGS = {
    "classify": "text-classification",
    "pairs": "text-classification",
    "embed": "sentence-similarity",
    "masked": "fill-mask",
    "language": "text-generation",
    "translate": "translation",
    "images": "image-classification",
}
INTRODUCTIONS = {
    "curves": "Training curves",
    "attention": "Attention maps of a held-out example",
    "confusion": "Confusion matrix: one row per true class, one column per prediction",
}


def model_card(run: Run, library: str, usage: Sequence[str], notes: Sequence[str], base: str = "") -> str:
    """The model card of a run, as Markdown with YAML front matter.

    `usage` is Markdown on how to use the folder, `notes` tell how it was verified and what it lacks, and
    `base` is the class of transformers that reads it.
    """
    name = run.experiment.name
    try:
        report = read_report(run.path)
    except FileNotFoundError:
        report = None
    parts = [
        _front_matter(run, library, name),
        f"# {name}",
        *[run.experiment.about][: bool(run.experiment.about)],
        f"- Model: {run.experiment.model.summary}" + (f" (`{base}`)" if base else ""),
        f"- Task: {run.experiment.task.kind}",
        "- Licence: not stated. Neither of the model nor of its training data is a licence known.",
        *_results(run, report),
        "## How to use it",
        *usage,
        *_training(run, report),
        *_figures(run.path),
        "## This export",
        "\n".join(f"- {note}" for note in notes),
    ]
    text = "\n\n".join(parts) + "\n"
    return text.replace("\n\n- Task", "\n- Task").replace("\n\n- Licence", "\n- Licence")


def _front_matter(run: Run, library: str, name: str) -> str:
    task = run.experiment.task.kind
    tags = ["limelight", *([TAGS[task]] if task in TAGS and TAGS[task] != _pipeline(task, library) else [])]
    lines = [f"library_name: {library}", "tags:", *(f"- {tag}" for tag in tags)]
    lines += [f"pipeline_tag: {_pipeline(task, library)}"] if _pipeline(task, library) else []
    return "\n".join(["---", *lines, f"model_name: {json.dumps(name)}", "---"])


def _pipeline(task: str, library: str) -> str:
    """The task for which the Hub shows a model; none for our own format, which it cannot run."""
    return TAGS.get(task, "") if library != "limelight" else ""


def _results(run: Run, report: Report | None) -> list[str]:
    """The metrics by split with their meaning, and the baseline."""
    if report is None or not report.metrics:
        why = "imported, and not evaluated" if run.experiment.imported else "not finished"
        return [f"There are no results: the run was {why}."]
    meanings: Mapping[str, str] = run.task.metric_descriptions
    rows = [
        f"| {split} | {name} | {show_metric(name, value)} | {_cell(meanings.get(name, ''))} |"
        for split, metrics in report.metrics.items()
        for name, value in metrics.items()
    ]
    found = ["## Results", "\n".join(["| split | metric | value | meaning |", "|---|---|---|---|", *rows])]
    found += [f"{name}: `{signature}`" for name, signature in report.signatures.items()]
    if report.baseline:
        metric, split = report.baseline.metric, list(report.metrics)[-1]
        value = show_metric(metric, report.baseline.value)
        found.append(f"Baseline on the {split} split: {metric} {value} ({report.baseline.model}).")
    return found


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _training(run: Run, report: Report | None) -> list[str]:
    """The notes on the data, and the settings of training."""
    if report is None:
        return []
    path = getattr(run.experiment.task.data, "path", "")
    notes = [note.replace(path, Path(path).name) if path else note for note in report.data]
    found = ["## Data", "\n".join(f"- {note}" for note in notes)] if notes else []
    rows = [f"- Parameters: {report.parameters:,}"]
    if report.steps:
        train = run.experiment.train
        rows += [
            f"- Seed: {run.experiment.seed}",
            f"- Steps: {report.steps:,}; these weights are those of step {report.best_step:,}",
            f"- Time: {report.seconds:,.0f} s",
            f"- Learning rate {train.rate:g}, batches of {train.batch:,} examples",
        ]
    if report.start:
        rows.append(f"- Training started from the weights of {Path(report.start).name}")
    return [*found, "## Training", "\n".join(rows)]


def _figures(folder: Path) -> list[str]:
    """A reference to each figure of the run."""
    names = [path.stem for path in figures_of(folder)]
    return [f"![{INTRODUCTIONS.get(name, name)}]({name}.png)" for name in names]


def figures_of(folder: Path) -> list[Path]:
    """The figures in a run folder, the curves first."""
    order = list(INTRODUCTIONS)
    return sorted(folder.glob("*.png"), key=lambda path: (path.stem not in order, path.name))
