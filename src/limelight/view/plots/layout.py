"""Layout of figures of maps: each map has a given size, and the figure is as large as its content.

All sizes are in inches.
"""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

EDGE = 0.1  # between the content and the edge of the figure
GAP = 0.15  # between two maps, and between the maps and the title or the colour bar
BAR_WIDTH, SHORTEST_BAR = 0.15, 1.2
CHARACTER = 0.09  # mean width of a character of the title
NARROWEST_TITLE = 3.0


@dataclass(frozen=True)
class Margins:
    """The space that labels and titles need outside of axes."""

    left: float = 0.0
    right: float = 0.0
    top: float = 0.0
    bottom: float = 0.0

    @staticmethod
    def largest(several: Sequence["Margins"]) -> "Margins":
        """Margins that are large enough for all of these."""
        return Margins(
            left=max(one.left for one in several),
            right=max(one.right for one in several),
            top=max(one.top for one in several),
            bottom=max(one.bottom for one in several),
        )


def add_axes(figure: Figure) -> Axes:
    """Add axes, which `arrange` places."""
    return figure.add_axes((0, 0, 1, 1))


def arrange(
    figure: Figure,
    grid: Sequence[Sequence[Axes]],
    size: tuple[float, float],
    *,
    bar: Axes | None = None,
    title: str = "",
) -> None:
    """Give all axes of a grid this width and height, and the figure the size of its content.

    The rows of the grid may have different lengths. `bar` is the colour bar, at the right of the grid. A long
    title is broken into lines.
    """
    width, height = size
    margins = [[_measure(figure, axes, width, height) for axes in row] for row in grid]
    rows = [Margins.largest(row) for row in margins]
    columns = [
        Margins.largest([row[column] for row in margins if column < len(row)])
        for column in range(max(map(len, grid)))
    ]
    grid_width = sum(one.left + width + one.right for one in columns) + GAP * (len(columns) - 1)
    grid_height = sum(one.top + height + one.bottom for one in rows) + GAP * (len(rows) - 1)
    content_width, above, below = grid_width, rows[0].top, grid_height - rows[0].top
    bar_height = max(below - rows[-1].bottom, SHORTEST_BAR)
    if bar is not None:
        beside = _measure(figure, bar, BAR_WIDTH, bar_height)
        content_width += GAP + beside.left + BAR_WIDTH + beside.right
        above, below = max(above, beside.top), max(below, bar_height + beside.bottom)
    title_width, title_height = _add_title(figure, title, content_width)
    total = max(content_width, title_width) + 2 * EDGE, title_height + above + below + 2 * EDGE
    figure.set_size_inches(*total)
    if title:
        figure.suptitle(figure.get_suptitle(), y=1 - EDGE / total[1], va="top")
    x, y = (total[0] - content_width) / 2, total[1] - EDGE - title_height - above
    _place_grid(figure, grid, rows, columns, size, (x, y))
    if bar is not None:
        right = x + content_width - beside.right
        _place(figure, bar, right - BAR_WIDTH, y - bar_height, BAR_WIDTH, bar_height)


def _place_grid(
    figure: Figure,
    grid: Sequence[Sequence[Axes]],
    rows: Sequence[Margins],
    columns: Sequence[Margins],
    size: tuple[float, float],
    corner: tuple[float, float],
) -> None:
    """Place all axes; `corner` is at the left of the labels of the grid and at the top of its first map."""
    (width, height), (begin, y) = size, corner
    y += rows[0].top
    for line, row in zip(grid, rows, strict=True):
        x, y = begin, y - row.top - height
        for axes, column in zip(line, columns, strict=False):
            _place(figure, axes, x + column.left, y, width, height)
            x += column.left + width + column.right + GAP
        y -= row.bottom + GAP


def _measure(figure: Figure, axes: Axes, width: float, height: float) -> Margins:
    """The margins of axes that have this size."""
    _place(figure, axes, 0.0, 0.0, width, height)
    inside, around = axes.get_window_extent(), axes.get_tightbbox()
    if around is None:  # invisible axes
        return Margins()
    return Margins(
        left=max(inside.x0 - around.x0, 0.0) / figure.dpi,
        right=max(around.x1 - inside.x1, 0.0) / figure.dpi,
        top=max(around.y1 - inside.y1, 0.0) / figure.dpi,
        bottom=max(inside.y0 - around.y0, 0.0) / figure.dpi,
    )


def _place(figure: Figure, axes: Axes, x: float, y: float, width: float, height: float) -> None:
    figure_width, figure_height = figure.get_size_inches()
    axes.set_position((x / figure_width, y / figure_height, width / figure_width, height / figure_height))


def _add_title(figure: Figure, title: str, width: float) -> tuple[float, float]:
    """Add a title in lines of about this width; return its width and height, including the space below."""
    if not title:
        return 0.0, 0.0
    lines = textwrap.wrap(title, int(max(width, NARROWEST_TITLE) / CHARACTER))
    box = figure.suptitle("\n".join(lines), fontsize=12).get_window_extent()
    return box.width / figure.dpi, box.height / figure.dpi + GAP
