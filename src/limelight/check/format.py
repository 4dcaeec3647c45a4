"""Reports as text: one line per promise, and the example for each broken one."""

import json
from collections.abc import Iterable

from rich.console import Console
from rich.text import Text

from limelight.check.report import FileReport, Finding, Report

STYLES = {"pass": "green", "FAIL": "bold red", "warn": "yellow", "n/a": "dim"}


def describe(finding: Finding) -> str:
    """A broken promise: its statement, what was tried, what was expected, and what the code returned."""
    lines = [f"{finding.verdict}  {finding.statement} ({finding.promise})"]
    return "\n".join(lines + [f"      {label:9} {text}" for label, text in _details(finding).items()])


def _details(finding: Finding) -> dict[str, str]:
    details = {
        "tried": finding.example,
        "expected": finding.expected,
        "got": finding.got,
        "hint": finding.hint,
    }
    return {label: text for label, text in details.items() if text}


def show(found: FileReport, console: Console) -> None:
    """Print all reports of a file."""
    if found.trouble:
        console.print(Text(f"{found.file}: {found.trouble}", style="bold"))
    for note in found.notes:
        console.print(Text(f"{found.file}: {note}", style="dim"))
    for report in found.reports:
        _show_report(found.file, report, console, was_used=report not in found.unchecked)


def _show_report(file: str, report: Report, console: Console, *, was_used: bool) -> None:
    where = f"{file}, cell {report.cell}" if report.cell else file
    where = f"{where}:{report.line}" if report.line else where
    console.print(Text.assemble((report.name, "bold"), f"  {report.kind}  ", (where, "dim")))
    for note in report.notes:
        console.print(Text(f"  {note}", style="dim"))
    if report.trouble and was_used:
        others = ", ".join(report.within)
        console.print(Text(f"  checked only as a part of {others}; on its own: {report.trouble}\n"))
        return
    if report.trouble:
        console.print(Text(f"  not checked: {report.trouble}"))
        where = "put the code into a cell" if report.cell else "save the code as adapted.py beside the file"
        console.print(Text(f"  Replace the dots, {where}, and run the command in its last line:\n"))
        console.print(Text(report.adapter))
        return
    width = max(len(finding.promise) for finding in report.findings)
    for finding in report.findings:
        line = Text.assemble(
            "  ",
            (f"{finding.verdict:5}", STYLES[finding.verdict]),
            f" {finding.promise:{width}}  {finding.statement}",
        )
        if finding.verdict == "n/a":
            line = Text(f"  {finding.verdict:5} {finding.promise:{width}}  {finding.hint}", style="dim")
        console.print(line, soft_wrap=True)
    for finding in (*report.broken, *report.warned):
        heading = ("\n  ", (finding.verdict, STYLES[finding.verdict]), f"  {finding.statement}")
        console.print(Text.assemble(*heading))
        for label, text in _details(finding).items():
            console.print(Text(f"        {label:9} {text}"), soft_wrap=True)
    console.print()


def summary(found: list[FileReport]) -> str:
    """One line about all files."""
    reports = [report for one in found for report in one.reports]
    checked = [report for report in reports if not report.trouble]
    broken = sum(bool(report.broken) for report in checked)
    unchecked = sum(len(one.unchecked) + bool(one.trouble) for one in found)
    text = f"{len(checked)} object{'s' * (len(checked) != 1)} checked, {broken} with broken promises"
    return f"{text}, {unchecked} not checked" if unchecked else text


def show_reports(reports: Iterable[FileReport], *, as_json: bool = False, strict: bool = False) -> int:
    """Print each report as soon as it is there, and a summary; the exit code of the command."""
    console = Console(highlight=False, emoji=False, soft_wrap=True)
    found = []
    for report in reports:
        found.append(report)
        if as_json:
            print(json.dumps(report.model_dump(), ensure_ascii=False))
        else:
            show(report, console)
    if not as_json:
        console.print(summary(found))
    codes = {report.exit_code(strict=strict) for report in found}
    return 0 if codes == {0} else 1 if 1 in codes else 2
