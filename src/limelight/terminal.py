"""Tables on the terminal, for any width."""

import json
import shlex
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from limelight.bridge.run_log import RunLog
from limelight.experiment import Comparison, Run
from limelight.experiment.comparison_tables import as_text
from limelight.experiment.explain import Explanation
from limelight.invocation import program
from limelight.settings import REQUIRED, Section, path_of
from limelight.tasks.metrics import Judgement
from limelight.training.progress import show_metric

NARROWEST = 60  # characters of a table of runs


def show_report(run: Run, logs: Sequence[RunLog] = ()) -> None:
    """Print the results of a run, its training time, figures and logs, and commands to continue with."""
    report = run.report
    table = Table(show_header=False, title=f"{report['experiment']}: done", title_justify="left")
    if report["start"]:
        table.add_row("started from", Text(report["start"]))
    for split, metrics in report["metrics"].items():
        for name, value in metrics.items():
            table.add_row(f"{split} {name}", show_metric(name, value))
    if report["baseline"]:
        metric, model = report["baseline"]["metric"], report["baseline"]["model"]
        split = list(report["metrics"])[-1]
        table.add_row(
            f"{split} baseline {metric}", f"{show_metric(metric, report['baseline']['value'])} ({model})"
        )
    table.add_row("steps", f"{report['steps']} (best: {report['best_step']})")
    table.add_row("training time", f"{report['seconds']} s")
    table.add_row("parameters", f"{report['parameters']:,}")
    table.add_row("figures", Text("\n".join(map(str, sorted(run.path.glob("*.png"))))))
    for log in logs:
        table.add_row(log.title, Text(str(log.place)))
    console = Console(soft_wrap=True)
    console.print(table)
    sample = run.sample
    path = shlex.quote(str(run.path))
    dashes = "-- " if sample.startswith("-") else ""
    commands = (
        [f"{run.task.command} {path} {dashes}{shlex.quote(sample)}"] if sample else [f"evaluate {path}"]
    )
    commands.append(f"see {path}")
    commands = [f"{program()} {command}" for command in commands] + [log.command for log in logs]
    for number, command in enumerate(commands):
        console.print(f"{'      ' if number else 'next: '}{command}", highlight=False, markup=False)


def show_imported(run: Run) -> None:
    """Print a line on a run that was imported, and a command to continue with."""
    print(f"{run.path}: {run.experiment.model.summary}")
    given = '"The sky is blue."' if run.task.input_kind == "text" else "IMAGE"
    print(f"next: {program()} see {shlex.quote(str(run.path))} {given}")


def show_comparison(comparison: Comparison, page: Path | None) -> None:
    """Print the tables of a comparison, and the path of its page."""
    print(as_text(comparison, max(Console().width, NARROWEST)))
    if page is not None:
        print(f"\n{page}")


def show_metrics(split: str, judged: Judgement, described: Mapping[str, str], *, as_json: bool) -> None:
    """Print one line per metric with its meaning, and a table of the classes; or one JSON document."""
    if as_json:
        parts = {
            "signatures": judged.signatures,
            "classes": {name: asdict(one) for name, one in judged.classes.items()},
            "confusion": judged.confusion,
        }
        print_json({"split": split, **judged.values} | {name: part for name, part in parts.items() if part})
        return
    shown = {name: show_metric(name, value) for name, value in judged.values.items()}
    width = max(map(len, shown), default=0), max(map(len, shown.values()), default=0)
    for name, value in shown.items():
        signature = f" ({judged.signatures[name]})" if name in judged.signatures else ""
        meaning = described.get(name, "") + signature
        print(f"{split} {name:{width[0]}} {value:>{width[1]}}  {meaning}".rstrip())
    if judged.classes:
        print()
        show_classes(judged)


def show_classes(judged: Judgement) -> None:
    """Print precision, recall and F1 of each class."""
    width = max(len("class"), *map(len, judged.classes))
    print(f"{'class':{width}}  precision   recall       F1  examples")
    for name, one in judged.classes.items():
        print(f"{name:{width}}  {one.precision:9.2%} {one.recall:8.2%} {one.f1:8.2%} {one.examples:9,}")


def show_explanation(explained: Explanation, *, as_json: bool = False) -> None:
    """Print one row per layer, and the totals; or one JSON object."""
    if as_json:
        print_json(asdict(explained) | {"totals": explained.totals})
        return
    console = Console(markup=False, highlight=False, emoji=False)
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for title in ("layer", "input → output", "parameters", "cost"):
        table.add_column(title, overflow="fold", justify="right" if title == "cost" else "left")
    table.columns[0].no_wrap = console.width >= 80  # layer names are wrapped only on narrow terminals
    for layer in explained.layers:
        table.add_row(*layer.row, end_section=True)
    table.add_row("total", "", *(f"{total:,}" for total in explained.totals.values()))
    console.print(explained.words, table, explained.legend, sep="\n")


def show_settings(sections: Sequence[Section], *, as_json: bool = False) -> None:
    """Print the key, value, allowed values and meaning of each setting; or one JSON document."""
    if as_json:
        rows = [(section, asdict(one)) for section in sections for one in section.settings]
        print_json([{"section": section.name, "kind": section.kind} | row for section, row in rows])
        return
    console = Console(markup=False, highlight=False, emoji=False)
    for section in sections:
        if not section.settings:
            continue
        console.print(Text(path_of(section) or "experiment", style="bold"))
        console.print(_indented(section.meaning, console.width, 2) + "\n" * bool(section.meaning))
        for one in section.settings:
            changed = one.default not in (one.value, REQUIRED)
            default = f" (default {show_value(one.default)})" if changed else ""
            console.print(_indented(f"{one.key} = {show_value(one.value)}{default}", console.width, 2))
            console.print(_indented(f"{one.meaning} ({one.allowed})", console.width, 6))
        console.print()


def _indented(text: str, width: int, indent: int) -> str:
    return textwrap.fill(text, width, initial_indent=" " * indent, subsequent_indent=" " * indent)


def show_value(value: object) -> str:
    """A value as in TOML; "not set" for None."""
    return (
        "not set"
        if value is None
        else str(value)
        if value == REQUIRED
        else json.dumps(value, ensure_ascii=False)
    )


def given_options(**options: Any) -> dict[str, Any]:
    """The options that were given on the command line: those that are not None."""
    return {key: value for key, value in options.items() if value is not None}


def print_json(content: Any) -> None:
    """One line of JSON."""
    print(json.dumps(content, ensure_ascii=False))
