"""What commands show on a terminal: tables, at any width."""

import shlex

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from limelight.experiment import Run
from limelight.experiment.explain import Explanation
from limelight.training.progress import show_metric


def show_report(run: Run) -> None:
    """What was reached, how long it took, where it is, what to type next."""
    report = run.report
    table = Table(show_header=False, title=f"{report['experiment']}: done", title_justify="left")
    for split, metrics in report["metrics"].items():
        for name, value in metrics.items():
            table.add_row(f"{split} {name}", show_metric(name, value))
    table.add_row("steps", f"{report['steps']} (best: {report['best_step']})")
    table.add_row("training time", f"{report['seconds']} s")
    table.add_row("parameters", f"{report['parameters']:,}")
    table.add_row("pictures", Text("\n".join(map(str, sorted(run.path.glob("*.png"))))))
    console = Console(soft_wrap=True)
    console.print(table)
    sample = run.sample
    path = shlex.quote(str(run.path))
    verb = f"predict {path} -- {shlex.quote(sample)}" if sample else f"evaluate {path}"
    console.print(f"next: limelight {verb}", highlight=False, markup=False)


def show_explanation(explained: Explanation) -> None:
    """One row a layer, and the totals."""
    console = Console(markup=False, highlight=False, emoji=False)
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for title in ("layer", "input → output", "parameters", "cost"):
        table.add_column(title, overflow="fold", justify="right" if title == "cost" else "left")
    table.columns[0].no_wrap = console.width >= 80  # a name is to be found again; narrower, it is folded
    for layer in explained.layers:
        table.add_row(*layer.row, end_section=True)
    table.add_row("total", "", *(f"{total:,}" for total in explained.totals.values()))
    console.print(explained.words, table, explained.legend, sep="\n")
