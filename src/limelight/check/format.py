"""Findings as one reads them: a line a promise, and for each broken one the smallest case."""

from rich.console import Console
from rich.text import Text

from limelight.check.report import FileReport, Finding, Report

STYLES = {"pass": "green", "FAIL": "bold red", "warn": "yellow", "n/a": "dim"}


def in_words(finding: Finding) -> str:
    """The broken promise, what was tried, what should have come and what came."""
    lines = [f"{finding.verdict}  {finding.says} ({finding.promise})"]
    return "\n".join(lines + [f"      {word:9} {text}" for word, text in _parts(finding).items()])


def _parts(finding: Finding) -> dict[str, str]:
    parts = {
        "tried": finding.example,
        "expected": finding.expected,
        "came": finding.came,
        "usually": finding.hint,
    }
    return {word: text for word, text in parts.items() if text}


def show(found: FileReport, console: Console) -> None:
    """All that was found in a file."""
    if found.trouble:
        console.print(Text(f"{found.file}: {found.trouble}", style="bold"))
    for report in found.reports:
        _show_report(found.file, report, console, tried=report not in found.unchecked)


def _show_report(file: str, report: Report, console: Console, *, tried: bool) -> None:
    where = f"{file}, cell {report.cell}" if report.cell else file
    where = f"{where}:{report.line}" if report.line else where
    console.print(Text.assemble((report.name, "bold"), f"  {report.kind}  ", (where, "dim")))
    for note in report.notes:
        console.print(Text(f"  {note}", style="dim"))
    if report.trouble and tried:
        console.print(Text(f"  only as a part of {', '.join(report.within)}; by itself {report.trouble}\n"))
        return
    if report.trouble:
        console.print(Text(f"  not checked: {report.trouble}"))
        where = "put it into a cell" if report.cell else "save it as adapted.py beside the file"
        console.print(Text(f"  Fill in the dots, {where}, and check that:\n"))
        console.print(Text(report.adapter))
        return
    width = max(len(finding.promise) for finding in report.findings)
    for finding in report.findings:
        line = Text.assemble(
            "  ",
            (f"{finding.verdict:5}", STYLES[finding.verdict]),
            f" {finding.promise:{width}}  {finding.says}",
        )
        if finding.verdict == "n/a":
            line = Text(f"  {finding.verdict:5} {finding.promise:{width}}  {finding.hint}", style="dim")
        console.print(line, soft_wrap=True)
    for finding in (*report.broken, *report.warned):
        console.print(Text.assemble("\n  ", (finding.verdict, STYLES[finding.verdict]), f"  {finding.says}"))
        for word, text in _parts(finding).items():
            console.print(Text(f"        {word:9} {text}"), soft_wrap=True)
    console.print()


def summary(found: list[FileReport]) -> str:
    """One line for many files."""
    reports = [report for one in found for report in one.reports]
    checked = [report for report in reports if not report.trouble]
    broken = sum(bool(report.broken) for report in checked)
    unchecked = sum(len(one.unchecked) + bool(one.trouble) for one in found)
    words = f"{len(checked)} checked, {broken} broken"
    return f"{words}, {unchecked} not checked" if unchecked else words
