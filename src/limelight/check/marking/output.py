"""The files of a marking run, as text: the table of a class, and results in the form of Gradescope."""

import csv
import io
import json
from collections.abc import Sequence
from typing import Any

from limelight.check.format import describe, location, printable
from limelight.check.marking.points import Item, Mark, PartMark
from limelight.check.marking.rubric import Rubric

FORMULA = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet executes cells that begin with these


def marks_table(rubric: Rubric, marks: Sequence[Mark]) -> str:
    """A CSV file with one row per student and one column per part."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(map(safe_cell, ["student", "id", *rubric.parts, "total", "maximum", "to look at"]))
    for mark in marks:
        points = [number(part.points) for part in mark.parts]
        ends = [number(mark.points), number(mark.maximum), "; ".join(mark.troubles)]
        row = [mark.submission.name, mark.submission.identifier, *points, *ends]
        writer.writerow(map(safe_cell, row))
    return stream.getvalue()


def safe_cell(text: str) -> str:
    """The text of a cell that no spreadsheet takes for a formula."""
    shown = printable(text).replace("\n", " ")
    return f"'{shown}" if text.lstrip(" \n").startswith(FORMULA) else shown


def number(points: float) -> str:
    """Points as text: "3", "2.5"."""
    return f"{round(points, 2):g}"


def gradescope_results(mark: Mark) -> str:
    """The content of results.json in the form of the Gradescope autograder specification."""
    tests = [
        _test(f"{order}.{index}", part, item)
        for order, part in enumerate(mark.parts, 1)
        for index, item in enumerate(part.items, 1)
    ]
    content = {
        "score": round(mark.points, 2),
        "output": printable("\n".join(mark.troubles)),
        "output_format": "text",
        "stdout_visibility": "hidden",
        "tests": tests,
    }
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def _test(order: str, part: PartMark, item: Item) -> dict[str, Any]:
    statement = item.finding.statement or item.promise
    return {
        "score": round(item.points, 2),
        "max_score": round(item.maximum, 2),
        "status": "passed" if item.points >= item.maximum else "failed",
        "name": printable(f"{part.title}: {statement}"),
        "number": order,
        "output": printable(reason(part, item)),
        "output_format": "text",
        "tags": [item.promise],
        "visibility": "visible",
    }


def reason(part: PartMark, item: Item) -> str:
    """Why an item has its points, with the counter-example; empty if the promise is kept."""
    finding = item.finding
    if finding.verdict == "pass":
        return ""
    if finding.verdict == "n/a":
        return part.trouble or f"does not apply: {finding.hint}"
    place = location(finding.file or part.file, finding.line, finding.cell)
    return (f"{place}: {finding.code.strip()}\n" if finding.line else "") + describe(finding)
