"""Pages of a run: its results, its attention records and its model."""

import os
from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from limelight.errors import WrongInput, wrong
from limelight.experiment.examples import examples, recorded_examples, with_variants
from limelight.experiment.explain import explain_experiment
from limelight.experiment.figures import attention_figure, page_figures
from limelight.experiment.importance import head_importance, table
from limelight.experiment.run import Run
from limelight.tasks.task import LONGEST_RECORD, Example
from limelight.training.progress import show_metric, watcher
from limelight.view import darken
from limelight.view.explorer import FIGURES, as_json
from limelight.view.page import report_page
from limelight.view.plots.importance import draw_importance
from limelight.view.record import Record
from limelight.view.server.app import About

MOST_INPUTS = 8  # of a file


def write_records(run: Run, given: str | None, path: Path, *, dark: bool = False) -> None:
    """Write the attention of an input, or of held-out examples, in the format of the file name."""
    if path.suffix in FIGURES:
        figure = attention_figure(run, None if given is None else inputs_of(run, given)[0])
        (darken(figure) if dark else figure).savefig(path, dpi=150)
    elif path.suffix == ".json":
        records = examples(run) if given is None else run.see(*inputs_of(run, given)).records
        path.write_text(as_json(records), encoding="utf-8")
    elif path.suffix == ".html":
        path.write_text(draw_page(run, given), encoding="utf-8")
    else:
        allowed = f"a name that ends in .html, .json, {', '.join(FIGURES)}"
        raise wrong("--out", repr(str(path)), allowed)


def write_importance(run: Run, given: str | None, path: Path, *, dark: bool = False) -> None:
    """Print the importance of all heads, and write the page with it, its figure alone, or its data."""
    if path.suffix not in (".html", ".json", *FIGURES):  # before the work
        raise wrong("--out", repr(str(path)), f"a name that ends in .html, .json, {', '.join(FIGURES)}")
    with watcher().phase("evaluating the model without each head"):
        found = head_importance(run)
    print(table(found))
    title = f"{run.experiment.name}: {found.metric} lost without each head, {found.split} split"
    figure = draw_importance(found.bars(), found.metric, title=title)
    if path.suffix == ".html":
        path.write_text(draw_page(run, given, [figure]), encoding="utf-8")
    elif path.suffix == ".json":
        found.write(path)
    else:
        (darken(figure) if dark else figure).savefig(path, dpi=150)


def inputs_of(run: Run, given: str) -> list[str]:
    """The input of a command; for a text file, the first inputs in it."""
    if run.task.input_kind == "image" or not os.path.isfile(given):
        return [given]
    return [line for line in run.task.inputs_in(Path(given)) if line.strip()][:MOST_INPUTS]


def draw_page(run: Run, given: str | None = None, figures: Sequence[Figure] = ()) -> str:
    """The report of a run as HTML; a given input comes before the held-out examples.

    `figures` are added to those of the run.
    """
    found = recorded_examples(run) if given is None else _available_examples(run)
    has_data = bool(found)
    if given is not None:
        inputs = inputs_of(run, given)
        seen = run.see(*inputs).records
        found = [*((Example(one, ()), record) for one, record in zip(inputs, seen, strict=True)), *found]
    records = with_variants(run, found)
    explained = explain_experiment(run.path)
    return report_page(
        run.experiment.name,
        _facts(run),
        [*page_figures(run, with_data=has_data).values(), *figures],
        records,
        explained.words,
        [layer.row for layer in explained.layers],
    )


def about(run: Run) -> About:
    """What the live page shows before its first request."""
    found = [record for _, record in _available_examples(run)]
    typed = tuple(record.given for record in found if record.given)
    generates = run.task.reads_prompts
    return About(
        name=run.experiment.name,
        kind=run.task.input_kind,
        sample=typed[0] if typed else "",
        longest=min(LONGEST_RECORD, run.task.sizes.longest) if generates else LONGEST_RECORD,
        generates=generates,
        examples=typed,
        first=found[0] if found and not typed else None,
    )


def _available_examples(run: Run) -> list[tuple[Example, Record]]:
    """The examples of a run; none if its data is missing, because a given input can still be shown."""
    try:
        return recorded_examples(run)
    except WrongInput:
        return []


def _facts(run: Run) -> list[tuple[str, ...]]:
    """The results of a run: names, values and explanations. An unfinished run has no report."""
    facts: list[tuple[str, ...]] = [("task", _about_task(run))]
    try:
        reached = run.report
    except FileNotFoundError:
        return [*facts, ("steps", "not finished; resume with limelight train RUN --resume")]
    kind = "model" if run.experiment.imported else "data"
    facts += [(kind, "\n".join(reached["data"]))] if reached["data"] else []
    if reached["start"]:  # only the name of the folder, because a page may be shared
        digest = f"SHA-256 of its weights: {reached['start_digest']}"
        facts.append(("started from", Path(reached["start"]).name, digest))
    described = run.task.metric_descriptions
    for split, metrics in reached["metrics"].items():
        facts += [
            (f"{split} {name}", show_metric(name, value), *([described[name]] if name in described else []))
            for name, value in metrics.items()
        ]
    if run.experiment.model.attention_note:
        facts.append(("attention", run.experiment.model.attention_note))
    if reached["baseline"]:
        metric, model = reached["baseline"]["metric"], reached["baseline"]["model"]
        shown = show_metric(metric, reached["baseline"]["value"])
        split = list(reached["metrics"])[-1]
        facts.append((f"{split} baseline {metric}", shown, f"{model}, on the same data, to compare with"))
    if run.experiment.imported:
        return [*facts, ("parameters", f"{reached['parameters']:,}")]
    return [
        *facts,
        ("steps", f"{reached['steps']:,}, best at {reached['best_step']:,}"),
        ("training time", f"{reached['seconds']} s"),
        ("parameters", f"{reached['parameters']:,}"),
    ]


def _about_task(run: Run) -> str:
    """The description of the recipe; of a run on a user's data, without the default data after the colon."""
    about = run.experiment.about
    return about.partition(": ")[0] if getattr(run.experiment.task.data, "path", "") else about
