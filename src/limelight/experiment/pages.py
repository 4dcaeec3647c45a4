"""What a run is, what it reached and what it looks at: one page in one file."""

from pathlib import Path

from limelight.errors import WrongInput, wrong
from limelight.experiment.examples import examples
from limelight.experiment.explain import explain_experiment
from limelight.experiment.looking import LONGEST
from limelight.experiment.pictures import draw_look_at
from limelight.experiment.run import Run
from limelight.training.progress import show_metric
from limelight.view import darken, draw_curves
from limelight.view.page import report
from limelight.view.record import Record
from limelight.view.server.app import About

PICTURES = (".png", ".svg", ".pdf")


def write_sight(run: Run, given: str | None, path: Path, *, dark: bool = False) -> None:
    """What the run looks at in an input, or in held-out examples, in the form that the name asks for."""
    if path.suffix in PICTURES:
        figure = draw_look_at(run, given)
        (darken(figure) if dark else figure).savefig(path, dpi=150)
    elif path.suffix == ".json":
        records = examples(run) if given is None else run.see(given).records
        path.write_text(f"[{','.join(record.model_dump_json() for record in records)}]\n", encoding="utf-8")
    elif path.suffix == ".html":
        path.write_text(draw_page(run, given), encoding="utf-8")
    else:
        allowed = f"a name that ends in .html, .json, {', '.join(PICTURES)}"
        raise wrong("--out", repr(str(path)), allowed)


def draw_page(run: Run, given: str | None = None) -> str:
    """-> HTML; an input of one's own stands before the held-out examples"""
    records = examples(run) if given is None else [*run.see(given).records, *_examples_if_there(run)]
    name, metric = run.experiment.name, run.reading.goal.metric
    curves = draw_curves(run.journal, metric, title=name)
    explained = explain_experiment(run.path)
    return report(
        name,
        _facts(run),
        [(f"loss and {metric} against epochs", curves)],
        records,
        explained.words,
        [layer.row for layer in explained.layers],
    )


def about(run: Run) -> About:
    """What the live page says before anybody asks."""
    found = _examples_if_there(run)
    typed = tuple(record.given for record in found if record.given)
    return About(
        name=run.experiment.name,
        kind="image" if run.reads_images else "text",
        sample=typed[0] if typed else "",
        longest=LONGEST,
        examples=typed,
        first=found[0] if found and not typed else None,
    )


def _examples_if_there(run: Run) -> list[Record]:
    """The data of a run may be elsewhere by now: what is asked for can be looked at all the same."""
    try:
        return examples(run)
    except WrongInput:
        return []


def _facts(run: Run) -> list[tuple[str, str]]:
    """As far as the run has got: one that was stopped has no report yet."""
    facts = [("what", run.experiment.about)]
    try:
        reached = run.report
    except FileNotFoundError:
        return [*facts, ("steps", "not finished: limelight train … --resume")]
    for split, metrics in reached["metrics"].items():
        facts += [(f"{split} {name}", show_metric(name, value)) for name, value in metrics.items()]
    return [
        *facts,
        ("steps", f"{reached['steps']:,}, the best at {reached['best_step']:,}"),
        ("training time", f"{reached['seconds']} s"),
        ("parameters", f"{reached['parameters']:,}"),
    ]
