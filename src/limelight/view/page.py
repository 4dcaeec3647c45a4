"""Self-contained HTML pages: they work offline and load nothing from a network."""

import base64
import html
import io
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from limelight.view.plots.masks_and_positions import darken
from limelight.view.record import Record

WEB_FOLDER = Path(__file__).parent / "web"
IMPORT = re.compile(r'from "\./(\w+\.js)"')
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' data:; style-src 'unsafe-inline'; img-src data: blob:"
)


def report_page(
    title: str,
    facts: Sequence[Sequence[str]],
    figures: Sequence[Figure],
    records: Sequence[Record],
    description: str,
    layers: Sequence[Sequence[str]],
) -> str:
    """Return the report of a run as HTML: its results, the explorer with `records`, and its model.

    Each row of `facts` has a name, a value and perhaps an explanation; `description` is a text about the
    model, and each row of `layers` describes one layer. The figures become dark if the page is.
    """
    images = "".join(map(_picture, figures))
    body = f"""<main class="report"><h1>{html.escape(title)}</h1>
<section><h2>Results</h2>{_table("facts", facts)}<div class="figures">{images}</div></section>
<section><h2>Attention</h2><div id="explorer"></div></section>
<section><h2>Model</h2><p>{html.escape(description)}</p>
<details><summary>All layers: shapes, parameters and cost</summary>{_table("layers", layers)}</details>
</section></main>"""
    return _document(title, body, _as_json(records))


@dataclass(frozen=True)
class Side:
    """A run in a comparison of attention: its name, and its records of the inputs of all runs."""

    name: str
    records: Sequence[Record]


def comparison_page(
    title: str,
    table: Sequence[Sequence[str]],
    seeds: Sequence[Sequence[str]],
    notes: Sequence[str],
    figures: Sequence[Figure],
    sides: Sequence[Side],
    remarks: Sequence[str],
) -> str:
    """Return a comparison of runs as HTML: a table, figures, and two explorers side by side.

    The first row of each table is its head; `seeds` is a table of means over seeds, which may be empty.
    `notes` are about the tables, `remarks` about the sides.
    """
    means = f"<h2>Runs that differ only in their seed</h2>{_table('compared', seeds, True)}" if seeds else ""
    images = "".join(map(_picture, figures))
    body = f"""<main class="report"><h1>{html.escape(title)}</h1>
<section>{_table("compared", table, True)}{_paragraphs(notes)}{means}</section>
<section><h2>Training curves</h2><div class="figures">{images}</div></section>
<section><h2>Attention</h2>{_paragraphs(remarks)}<div id="sides"></div></section></main>"""
    contents = (f'{{"name": {json.dumps(one.name)}, "records": {_as_json(one.records)}}}' for one in sides)
    return _document(title, body, f"[{','.join(contents)}]", "comparison.js")


def explorer_page(title: str, records: Sequence[Record]) -> str:
    """Return a page as HTML that contains only the explorer with `records`."""
    return _document(title, '<main><div id="explorer"></div></main>', _as_json(records))


def iframe(page: str, height: int = 640) -> str:
    """Return an HTML element that shows the page in a notebook, in a sandbox that allows only scripts and
    downloads."""
    sandbox = "allow-scripts allow-downloads"
    style = f"width:100%;height:{height}px;border:0"
    return f'<iframe sandbox="{sandbox}" style="{style}" srcdoc="{html.escape(page)}"></iframe>'


def _paragraphs(texts: Sequence[str]) -> str:
    return "".join(f'<p class="muted note">{html.escape(text)}</p>' for text in texts)


def _table(name: str, rows: Sequence[Sequence[str]], has_head: bool = False) -> str:
    """The first cell of each row is its header; the last cell of a short row is as wide as the rest."""
    most = max(map(len, rows), default=0)
    lines = []
    if has_head:
        cells = "".join(f'<th scope="col">{html.escape(cell)}</th>' for cell in rows[0])
        lines.append(f"<tr>{cells}</tr>")
        rows = rows[1:]
    for first, *others in rows:
        spans = [1] * (len(others) - 1) + [most - len(others)]
        cells = "".join(
            f'<td colspan="{span}">{html.escape(cell)}</td>' for cell, span in zip(others, spans, strict=True)
        )
        lines.append(f'<tr><th scope="row">{html.escape(first)}</th>{cells}</tr>')
    return f'<div class="wide"><table class="{name}">{"".join(lines)}</table></div>'


def _as_json(records: Sequence[Record]) -> str:
    return f"[{','.join(record.model_dump_json() for record in records)}]"


def _document(title: str, body: str, data: str, module: str = "report.js") -> str:
    """A page with the data that its module reads, as JSON."""
    style = (WEB_FOLDER / "style.css").read_text("utf-8")
    data = data.replace("<", "\\u003c")  # so that no text can close the script element
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{CONTENT_SECURITY_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(title)}</title><link rel="icon" href="data:,">
<style>{style}</style>
<script type="importmap">{{"imports": {{{_import_map()}}}}}</script></head>
<body>{body}
<script type="application/json" id="records">{data}</script>
<script type="module">import "#{module}";</script>
</body></html>
"""


def _import_map() -> str:
    """Relative imports cannot be resolved from data URLs, so each module is imported by a name "#FILE"."""
    entries = []
    for path in sorted(WEB_FOLDER.glob("*.js")):
        code = base64.b64encode(IMPORT.sub(r'from "#\1"', path.read_text("utf-8")).encode()).decode()
        entries.append(f'"#{path.name}": "data:text/javascript;base64,{code}"')
    return ", ".join(entries)


def _picture(figure: Figure) -> str:
    """A light and a dark version; the browser shows the one that the style sheet uses."""
    light, dark = _svg(figure), _svg(darken(figure))
    return (
        f'<picture><source media="(prefers-color-scheme: dark)" srcset="{dark}">'
        f'<img src="{light}" alt="{html.escape(figure.get_suptitle())}"></picture>'
    )


def _svg(figure: Figure) -> str:
    """The figure as an SVG image without a background."""
    stream = io.BytesIO()
    figure.savefig(stream, format="svg", transparent=True)
    return f"data:image/svg+xml;base64,{base64.b64encode(stream.getvalue()).decode()}"
