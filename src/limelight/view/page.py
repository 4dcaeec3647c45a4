"""Self-contained HTML pages: they work offline and load nothing from a network."""

import base64
import html
import io
import re
from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from limelight.view.record import Record

WEB_FOLDER = Path(__file__).parent / "web"
IMPORT = re.compile(r'from "\./(\w+\.js)"')
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' data:; style-src 'unsafe-inline'; img-src data: blob:"
)


def report_page(
    title: str,
    facts: Sequence[tuple[str, str]],
    figures: Sequence[tuple[str, Figure]],
    records: Sequence[Record],
    description: str,
    layers: Sequence[Sequence[str]],
) -> str:
    """Return the report of a run as HTML: its results, the explorer with `records`, and its model.

    `facts` are pairs of name and value, `figures` pairs of caption and figure; `description` is a text about
    the model, and each row of `layers` describes one layer.
    """
    images = "".join(
        f'<figure><img src="{_svg(figure)}" alt="{html.escape(caption)}">'
        f"<figcaption>{html.escape(caption)}</figcaption></figure>"
        for caption, figure in figures
    )
    body = f"""<main class="report"><h1>{html.escape(title)}</h1>
<section><h2>Results</h2>{_table("facts", facts)}{images}</section>
<section><h2>Attention</h2><div id="explorer"></div></section>
<section><h2>Model</h2><p>{html.escape(description)}</p>
<details><summary>All layers: shapes, parameters and cost</summary>{_table("layers", layers)}</details>
</section></main>"""
    return _document(title, body, records)


def explorer_page(title: str, records: Sequence[Record]) -> str:
    """Return a page as HTML that contains only the explorer with `records`."""
    return _document(title, '<main><div id="explorer"></div></main>', records)


def iframe(page: str, height: int = 640) -> str:
    """Return an HTML element that shows the page in a notebook, in a sandbox that allows only scripts and
    downloads."""
    sandbox = "allow-scripts allow-downloads"
    style = f"width:100%;height:{height}px;border:0"
    return f'<iframe sandbox="{sandbox}" style="{style}" srcdoc="{html.escape(page)}"></iframe>'


def _table(name: str, rows: Sequence[Sequence[str]]) -> str:
    """The first cell of each row is its header."""
    lines = []
    for first, *others in rows:
        cells = "".join(f"<td>{html.escape(cell)}</td>" for cell in others)
        lines.append(f'<tr><th scope="row">{html.escape(first)}</th>{cells}</tr>')
    return f'<div class="wide"><table class="{name}">{"".join(lines)}</table></div>'


def _document(title: str, body: str, records: Sequence[Record]) -> str:
    style = (WEB_FOLDER / "style.css").read_text("utf-8")
    # `<` is escaped in the JSON, so that no text of a record can close the script element.
    data = f"[{','.join(record.model_dump_json() for record in records)}]".replace("<", "\\u003c")
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{CONTENT_SECURITY_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(title)}</title><link rel="icon" href="data:,">
<style>{style}</style>
<script type="importmap">{{"imports": {{{_import_map()}}}}}</script></head>
<body>{body}
<script type="application/json" id="records">{data}</script>
<script type="module">import "#report.js";</script>
</body></html>
"""


def _import_map() -> str:
    """Relative imports cannot be resolved from data URLs, so each module is imported by a name "#FILE"."""
    entries = []
    for path in sorted(WEB_FOLDER.glob("*.js")):
        code = base64.b64encode(IMPORT.sub(r'from "#\1"', path.read_text("utf-8")).encode()).decode()
        entries.append(f'"#{path.name}": "data:text/javascript;base64,{code}"')
    return ", ".join(entries)


def _svg(figure: Figure) -> str:
    stream = io.BytesIO()
    figure.savefig(stream, format="svg")
    return f"data:image/svg+xml;base64,{base64.b64encode(stream.getvalue()).decode()}"
