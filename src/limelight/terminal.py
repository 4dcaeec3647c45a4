"""Tables on the terminal, for any width."""

import json
import math
import os
import shlex
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from limelight.data.paths import check_regular
from limelight.errors import WrongInput
from limelight.experiment import Run
from limelight.experiment.explain import Explanation
from limelight.tasks.task import Answer, Judgement
from limelight.training.progress import show_metric


def show_report(run: Run) -> None:
    """Print the results of a run, its training time and figures, and a command to continue with."""
    report = run.report
    table = Table(show_header=False, title=f"{report['experiment']}: done", title_justify="left")
    for split, metrics in report["metrics"].items():
        for name, value in metrics.items():
            table.add_row(f"{split} {name}", show_metric(name, value))
    table.add_row("steps", f"{report['steps']} (best: {report['best_step']})")
    table.add_row("training time", f"{report['seconds']} s")
    table.add_row("parameters", f"{report['parameters']:,}")
    table.add_row("figures", Text("\n".join(map(str, sorted(run.path.glob("*.png"))))))
    console = Console(soft_wrap=True)
    console.print(table)
    sample = run.sample
    path = shlex.quote(str(run.path))
    verb = f"predict {path} -- {shlex.quote(sample)}" if sample else f"evaluate {path}"
    console.print(f"next: limelight {verb}", highlight=False, markup=False)


def show_metrics(split: str, judged: Judgement, *, as_json: bool) -> None:
    """Print one line per metric, or one JSON object."""
    if as_json:
        signatures = {"signatures": judged.signatures} if judged.signatures else {}
        print_json({"split": split, **judged.values, **signatures})
        return
    for name, value in judged.values.items():
        signature = f"  ({judged.signatures[name]})" if name in judged.signatures else ""
        print(f"{split} {name} {show_metric(name, value)}{signature}")


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


def given_options(**options: Any) -> dict[str, Any]:
    """The options that were given on the command line: those that are not None."""
    return {key: value for key, value in options.items() if value is not None}


def inputs(arguments: tuple[str, ...], read_file: Callable[[Path], list[str]] | None) -> Iterator[str]:
    """Arguments, the lines of files, or those of stdin. Without `read_file`, files are inputs themselves."""
    for number, argument in enumerate(arguments, 1):
        if read_file is None:
            yield argument
            continue
        check_regular(Path(argument))
        if os.path.isfile(argument):
            yield from read_file(Path(argument))
        elif argument.isascii() or argument == argument.encode(errors="replace").decode():
            yield argument
        else:
            raise WrongInput(f"argument {number} is not UTF-8 text")
    if not arguments and sys.stdin:
        for number, line in enumerate(sys.stdin):
            yield line.removeprefix("" if number else "\ufeff").removesuffix("\n").removesuffix("\r")


def chunks(lines: Iterator[str], size: int) -> Iterator[list[str]]:
    """The lines in lists of `size`, so that answers are printed before the input ends, with little memory."""
    chunk: list[str] = []
    for line in lines:
        chunk.append(line)
        if len(chunk) == size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def print_answer(line: str, answer: Answer, *, as_json: bool) -> None:
    """Print one line per answer to an input, or one JSON object."""
    several = (answer, *answer.others)
    if as_json:
        best, *others = map(_describe, several)
        print_json({"input": line} | best | ({"others": others} if others else {}))
        return
    for one in several:
        words = "".join(f" {source}-{target}" for source, target in one.alignment)
        before = f"{_log(one.probability):.3f}\t" if answer.others else ""
        print(f"{before}{one.text}" + (f"\t{words.strip()}" if words else ""))


def _describe(answer: Answer) -> dict[str, Any]:
    content: dict[str, Any] = {"answer": answer.text, "probability": answer.probability}
    return content | ({"alignment": answer.alignment} if answer.alignment else {})


def _log(probability: float | None) -> float:
    return math.log(probability) if probability else -math.inf  # that of a long answer may underflow to 0


def print_json(content: dict[str, Any]) -> None:
    """One line of JSON."""
    print(json.dumps(content, ensure_ascii=False))
