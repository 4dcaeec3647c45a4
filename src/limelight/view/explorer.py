"""The explorer as an object: for a notebook, a file, or a figure."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from limelight.errors import wrong
from limelight.view.page import explorer_page, iframe
from limelight.view.plots.masks_and_positions import darken
from limelight.view.plots.records import draw_record
from limelight.view.record import Record

FIGURES = (".png", ".svg", ".pdf")


@dataclass(frozen=True)
class Explorer:
    """The attention records of some inputs; a notebook shows them as an interactive page."""

    records: tuple[Record, ...]

    def _repr_html_(self) -> str:
        return iframe(explorer_page(self.records[0].name, self.records))

    def save(self, path: str | Path, *, dark: bool = False) -> Path:
        """Write a page that works offline (.html), the data (.json), or the figure of the first record.

        `dark` draws the figure on a dark background; a page follows the setting of the browser.
        """
        path = Path(path)
        if path.suffix == ".html":
            path.write_text(explorer_page(self.records[0].name, self.records), encoding="utf-8")
        elif path.suffix == ".json":
            path.write_text(as_json(self.records), encoding="utf-8")
        elif path.suffix in FIGURES:
            figure = self.figure()
            (darken(figure) if dark else figure).savefig(path, dpi=150)
        else:
            raise wrong("path", repr(str(path)), f"a name that ends in .html, .json, {', '.join(FIGURES)}")
        return path

    def figure(self, record: int = 0) -> Figure:
        """The attention maps of one record, at most 24, as a figure of matplotlib."""
        return draw_record(self.records[record], title=self.records[record].name)


def as_json(records: Sequence[Record]) -> str:
    """The records as one JSON document."""
    return f"[{','.join(record.model_dump_json() for record in records)}]\n"
