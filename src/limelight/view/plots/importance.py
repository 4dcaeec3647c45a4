"""A bar chart of attention heads."""

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from limelight.view.plots.attention import escape_dollars

MOST = 40  # heads in a figure


@dataclass(frozen=True)
class Bar:
    """A head, and how much is lost without it."""

    name: str
    lost: float


def draw_importance(bars: Sequence[Bar], metric: str, *, title: str = "") -> Figure:
    """Draw what the metric loses without each head, the most important first; of many heads, the first 40."""
    shown = bars[:MOST]
    figure = Figure(figsize=(7.5, 1.1 + 0.24 * len(shown)), layout="constrained")
    axes = figure.subplots()
    places = range(len(shown))
    axes.barh(places, [bar.lost for bar in shown], color=["C0" if bar.lost > 0 else "C1" for bar in shown])
    axes.set_yticks(places, [escape_dollars(bar.name) for bar in shown], fontsize=8)
    axes.invert_yaxis()
    axes.axvline(0.0, color="0.5", linewidth=0.8)
    axes.grid(axis="x", alpha=0.3)
    axes.set_xlabel(f"{metric} lost without the head")
    if metric == "accuracy":
        axes.xaxis.set_major_formatter(PercentFormatter(1.0))
    hidden = f"; {len(bars) - MOST} heads more" if len(bars) > MOST else ""
    if title:
        figure.suptitle(escape_dollars(title) + hidden, fontsize=12)
    return figure
