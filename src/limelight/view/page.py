"""One self-contained page: it opens offline and from an e-mail, and asks nobody for anything."""

import base64
import html
import io
import re
from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from limelight.view.record import Record

WEB = Path(__file__).parent / "web"
IMPORT = re.compile(r'from "\./(\w+\.js)"')
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' data:; style-src 'unsafe-inline'; img-src data: blob:"
)


def report(
    title: str,
    facts: Sequence[tuple[str, str]],
    pictures: Sequence[tuple[str, Figure]],
    records: Sequence[Record],
    words: str,
    layers: Sequence[Sequence[str]],
) -> str:
    """-> HTML: what was reached, records to explore, and the model in words and in rows of a table"""
    figures = "".join(
        f'<figure><img src="{_svg(figure)}" alt="{html.escape(caption)}">'
        f"<figcaption>{html.escape(caption)}</figcaption></figure>"
        for caption, figure in pictures
    )
    body = f"""<main class="report"><h1>{html.escape(title)}</h1>
<section><h2>What was reached</h2>{_table("facts", facts)}{figures}</section>
<section><h2>What it looks at</h2><div id="explorer"></div></section>
<section><h2>What it is made of</h2><p>{html.escape(words)}</p>
<details><summary>every layer: shapes, parameters, cost</summary>{_table("layers", layers)}</details>
</section></main>"""
    return _document(title, body, records)


def explorer(title: str, records: Sequence[Record]) -> str:
    """-> HTML: records to explore, and nothing else"""
    return _document(title, '<main><div id="explorer"></div></main>', records)


def framed(page: str, height: int = 640) -> str:
    """-> HTML for a notebook: the page in a frame of its own, which may run its scripts and nothing more"""
    box = "allow-scripts allow-downloads"
    style = f"width:100%;height:{height}px;border:0"
    return f'<iframe sandbox="{box}" style="{style}" srcdoc="{html.escape(page)}"></iframe>'


def _table(name: str, rows: Sequence[Sequence[str]]) -> str:
    """The first cell of a row says what the others are about."""
    lines = []
    for first, *others in rows:
        cells = "".join(f"<td>{html.escape(cell)}</td>" for cell in others)
        lines.append(f'<tr><th scope="row">{html.escape(first)}</th>{cells}</tr>')
    return f'<div class="wide"><table class="{name}">{"".join(lines)}</table></div>'


def _document(title: str, body: str, records: Sequence[Record]) -> str:
    style = (WEB / "style.css").read_text("utf-8")
    # `<` as JSON's own escape: no text of a record can end the script.
    data = f"[{','.join(record.model_dump_json() for record in records)}]".replace("<", "\\u003c")
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(title)}</title><link rel="icon" href="data:,">
<style>{style}</style>
<script type="importmap">{{"imports": {{{_modules()}}}}}</script></head>
<body>{body}
<script type="application/json" id="records">{data}</script>
<script type="module">import "#report.js";</script>
</body></html>
"""


def _modules() -> str:
    """Every module under a name of its own: a page without an address cannot say where a neighbour is."""
    addresses = []
    for path in sorted(WEB.glob("*.js")):
        code = base64.b64encode(IMPORT.sub(r'from "#\1"', path.read_text("utf-8")).encode()).decode()
        addresses.append(f'"#{path.name}": "data:text/javascript;base64,{code}"')
    return ", ".join(addresses)


def _svg(figure: Figure) -> str:
    stream = io.BytesIO()
    figure.savefig(stream, format="svg")
    return f"data:image/svg+xml;base64,{base64.b64encode(stream.getvalue()).decode()}"
