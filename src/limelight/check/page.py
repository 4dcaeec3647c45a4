"""Reports as self-contained HTML pages: the code beside the findings; no scripts, and nothing is loaded."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from limelight.check.format import counts, details, location, place_of, printable, summary
from limelight.check.isolation.sources import code_cells
from limelight.check.report import FileReport, Finding, Report

STYLES = (Path(__file__).parents[1] / "view" / "web" / "style.css", Path(__file__).with_name("page.css"))
LONGEST_CODE = 1 << 20  # characters
CONTENT_SECURITY_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def check_page(reports: Sequence[FileReport]) -> str:
    """The page of `limelight check`: one section per file, with its code."""
    names = ", ".join(Path(found.file).name for found in reports[:3]) + ", …" * (len(reports) > 3)
    sections = "".join(
        file_section(number, found, read_cells(Path(found.file))) for number, found in enumerate(reports)
    )
    head = f"<h1>{text(names)}</h1><p>{text(summary(list(reports)))}</p>"
    return document(f"limelight check: {names}", head + sections)


def read_cells(file: Path) -> list[str]:
    """The code of a file: one text per cell of a notebook; empty if it cannot be read, or is far too long."""
    try:
        cells = code_cells(file)
    except (OSError, ValueError, RecursionError):
        return []
    return cells if sum(map(len, cells)) <= LONGEST_CODE else []


def document(title: str, body: str) -> str:
    """A whole page."""
    style = "".join(path.read_text("utf-8") for path in STYLES)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{CONTENT_SECURITY_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{text(title)}</title><link rel="icon" href="data:,">
<style>{style}</style></head>
<body><main class="check">{body}</main></body></html>
"""


def text(content: str) -> str:
    """A text of the submission in HTML; characters that are not printable are shown as escapes."""
    return escape(printable(content))


def table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; the cells are HTML, and the first one of each row is its header."""
    head = "".join(f'<th scope="col">{title}</th>' for title in titles)
    lines = [
        f'<tr><th scope="row">{first}</th>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'
        for first, *cells in rows
    ]
    return f'<div class="wide"><table><tr>{head}</tr>{"".join(lines)}</table></div>'


def file_section(number: int, found: FileReport, cells: Sequence[str]) -> str:
    """The findings of the file with this number, and its code."""
    parts = [f"<p>{text(note)}</p>" for note in found.notes]
    if found.trouble:
        parts.insert(0, f'<p class="error">{text(found.trouble)}</p>')
    marks: dict[tuple[int, int], tuple[str, str]] = {}
    for index, report in enumerate(found.reports):
        parts.append(_report(f"{number}-{index}", number, found, report))
        for order, finding in enumerate((*report.broken, *report.warned)):
            place = _line_of(report, finding)
            if not finding.file and place not in marks:
                marks[place] = (f"F{number}-{index}-{order}", finding.verdict.lower())
    code = _code(number, found.file, cells, marks)
    pair = f'<div class="pair"><div>{"".join(parts)}</div>{code}</div>'
    return f"<section><h2>{text(found.file)}</h2>{pair}</section>"


def _line_of(report: Report, finding: Finding) -> tuple[int, int]:
    """The cell and the line of a finding; without one, those of the object."""
    return (finding.cell, finding.line) if finding.line else (report.cell, report.line)


def _report(key: str, number: int, found: FileReport, report: Report) -> str:
    place = location(Path(found.file).name, report.line, report.cell)
    link = f'<a href="#L{number}-{report.cell}-{report.line}">{text(place)}</a>'
    parts = [f'<h3>{text(report.name)} <span class="muted">{text(report.kind)}</span></h3><p>{link}</p>']
    if report.trouble:
        was_used = report not in found.unchecked
        before = (
            f"checked only as a part of {', '.join(report.within)}; on its own" if was_used else "not checked"
        )
        parts.append(f"<p>{text(f'{before}: {report.trouble}')}</p>")
        return "".join(parts)
    shown = (*report.broken, *report.warned)
    parts += [_finding(f"F{key}-{order}", number, found, report, one) for order, one in enumerate(shown)]
    others = "".join(_other(finding) for finding in report.findings if finding not in shown)
    parts.append(f"<details><summary>{text(counts(report))}</summary><ul>{others}</ul></details>")
    return "".join(parts)


def _other(finding: Finding) -> str:
    """A promise that is kept, or does not apply."""
    name = f"<code>{text(finding.promise)}</code>"
    if finding.verdict == "pass":
        return f"<li>{text(finding.statement)} {name}</li>"
    return f'<li class="muted">{name} does not apply: {text(finding.hint)}</li>'


def _finding(key: str, number: int, found: FileReport, report: Report, finding: Finding) -> str:
    style = finding.verdict.lower()
    place = text(place_of(found, report, finding))
    if not finding.file:
        cell, line = _line_of(report, finding)
        place = f'<a href="#L{number}-{cell}-{line}">{place}</a>'
    code = f"<pre>{text(finding.code.strip())}</pre>" if finding.code.strip() else ""
    rows = "".join(f"<dt>{label}</dt><dd>{text(value)}</dd>" for label, value in details(finding).items())
    verdict = f'<span class="verdict {style}">{finding.verdict}</span>'
    heading = f"<h4>{verdict} {text(finding.statement)} <code>{text(finding.promise)}</code></h4>"
    body = f"<p>{place}</p>{code}<dl>{rows}</dl>"
    return f'<article class="finding {style}" id="{key}">{heading}{body}</article>'


def _code(number: int, file: str, cells: Sequence[str], marks: dict[tuple[int, int], tuple[str, str]]) -> str:
    """The code with line numbers; the lines of `marks` link to their first finding."""
    is_notebook = file.endswith(".ipynb")
    parts = []
    for order, code in enumerate(cells, 1):
        cell = order if is_notebook else 0
        lines = []
        for line, content in enumerate(code.rstrip("\n").split("\n"), 1):
            shown = f'id="L{number}-{cell}-{line}" data-line="{line}">{text(content.expandtabs(4).rstrip())}'
            if (cell, line) in marks:
                key, style = marks[cell, line]
                lines.append(f'<a class="line {style}" href="#{key}" {shown}</a>')
            else:
                lines.append(f'<span class="line" {shown}</span>')
        heading = f'<div class="cell">cell {cell}</div>' if cell else ""
        parts.append(f"{heading}<pre>{''.join(lines)}</pre>")
    return f'<div class="code" tabindex="0">{"".join(parts)}</div>'
