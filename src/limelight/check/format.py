"""Reports as text: the failures and warnings of each object in full, and one line about the rest."""

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from textwrap import TextWrapper

from rich.console import Console
from rich.text import Text

from limelight.check.report import FileReport, Finding, Report

STYLES = {"pass": "green", "FAIL": "bold red", "warn": "yellow", "n/a": "dim"}
WIDEST = 100  # columns; longer lines are hard to read
INDENT = " " * 8


def describe(finding: Finding) -> str:
    """A broken promise: its statement, what was tried, what was expected, and what the code returned."""
    lines = [f"{finding.verdict}  {finding.statement} ({finding.promise})"]
    return "\n".join(lines + [f"      {label:9} {text}" for label, text in details(finding).items()])


def details(finding: Finding) -> dict[str, str]:
    """What was tried, expected and got, and how to fix it; empty texts are left out."""
    texts = {
        "tried": finding.example,
        "expected": finding.expected,
        "got": finding.got,
        "hint": finding.hint,
    }
    return {label: text for label, text in texts.items() if text}


def location(file: str, line: int, cell: int = 0) -> str:
    """A line of a file as text, such as "homework.py:7" or "homework.ipynb, cell 3:7"."""
    where = f"{file}, cell {cell}" if cell else file
    return f"{where}:{line}" if line else where


def place_of(found: FileReport, report: Report, finding: Finding) -> str:
    """The line of code that a finding is about; without one, the line of the object."""
    if not finding.line:
        return location(found.file, report.line, report.cell)
    file = str(Path(found.file).with_name(finding.file)) if finding.file else found.file
    return location(file, finding.line, finding.cell)


def counts(report: Report) -> str:
    """The promises of an object in one line: "14 promises kept, 3 do not apply"."""
    number = Counter(finding.verdict for finding in report.findings)
    texts = [f"{number['pass']} promise{'s' * (number['pass'] != 1)} kept"]
    if number["n/a"]:
        texts.append(f"{number['n/a']} do{'es' * (number['n/a'] == 1)} not apply")
    used = dict.fromkeys(finding.see for finding in report.findings if finding.see)
    return ", ".join(texts) + (f"; it uses {', '.join(used)}, which has a mistake" if used else "")


def printable(text: str) -> str:
    """The text without characters that control a terminal: they are escaped."""
    return "".join(
        letter if letter.isprintable() or letter == "\n" else letter.encode("unicode_escape").decode()
        for letter in text
    )


class _Printer:
    """Prints the reports of a file; long lines are continued below the place where their text begins."""

    def __init__(self, console: Console, *, verbose: bool) -> None:
        self.console, self.verbose = console, verbose
        self.width = max(40, min(console.width, WIDEST))

    def line(self, text: str, before: str = "", style: str = "") -> None:
        """Print a text after `before`, in several lines if needed."""
        indent = " " * len(before)
        wrapper = TextWrapper(
            self.width, initial_indent=before, subsequent_indent=indent, break_on_hyphens=False
        )
        for paragraph in printable(text).split("\n"):
            self.console.print(Text("\n".join(wrapper.wrap(paragraph)), style=style))
            wrapper.initial_indent = indent

    def file(self, found: FileReport) -> None:
        """Print all reports of a file."""
        if found.trouble:
            self.line(f"{found.file}: {found.trouble}", style="bold")
        for note in found.notes:
            self.line(f"{found.file}: {note}", style="dim")
        for report in found.reports:
            heading = f"  {report.kind}  ", (location(found.file, report.line, report.cell), "dim")
            self.console.print(Text.assemble((report.name, "bold"), *heading))
            if report.trouble:
                self.trouble(report, was_used=report not in found.unchecked)
            else:
                self.findings(found, report)
            self.console.print()

    def trouble(self, report: Report, *, was_used: bool) -> None:
        """Print why an object was not checked, and code to fill in."""
        self.notes(report)
        if was_used:
            others = ", ".join(report.within)
            self.line(f"checked only as a part of {others}; on its own: {report.trouble}", "  ")
            return
        self.line(f"not checked: {report.trouble}", "  ")
        if report.adapter and not self.verbose:
            self.line("--verbose shows code in which you fill in how it is called", "  ", "dim")
        elif report.adapter:
            place = (
                "put the code into a cell" if report.cell else "save the code as adapted.py beside the file"
            )
            self.line(f"Replace the dots, {place}, and run the command in its last line:", "  ")
            self.console.print()
            self.console.print(Text(printable(report.adapter)), soft_wrap=True, end="")

    def notes(self, report: Report) -> None:
        """Print how the object was called."""
        for note in report.notes:
            self.line(note, "  ", "dim")

    def findings(self, found: FileReport, report: Report) -> None:
        """Print the broken promises and the warnings in full, and a summary or a list of all promises."""
        if self.verbose:
            self.notes(report)
            self.list_all(report)
        for finding in (*report.broken, *report.warned):
            self.console.print()
            before = f"  {finding.verdict}  "
            self.line(f"{finding.promise}: {finding.statement}", before, STYLES[finding.verdict])
            if finding.line:
                self.line(f"{place_of(found, report, finding)}: {finding.code.strip()}", INDENT, "bold")
            for label, text in details(finding).items():
                self.line(text, f"{INDENT}{label:9} ")
        if not self.verbose:
            before = "\n" * bool(report.broken or report.warned)
            self.console.print(Text(f"{before}  {counts(report)}", style="dim" if before else "green"))

    def list_all(self, report: Report) -> None:
        """Print one line per promise."""
        width = max(len(finding.promise) for finding in report.findings)
        for finding in report.findings:
            is_empty = finding.verdict == "n/a"
            text = finding.hint if is_empty else finding.statement
            line = f" {finding.promise:{width}}  {printable(text)}"
            style = STYLES[finding.verdict]
            verdict = f"{finding.verdict:5}"
            self.console.print(
                Text.assemble("  ", (verdict, style), (line, "dim" if is_empty else "")), soft_wrap=True
            )


def show_file(found: FileReport, console: Console, *, verbose: bool = False) -> None:
    """Print all reports of a file."""
    _Printer(console, verbose=verbose).file(found)


def summary(found: list[FileReport], *, strict: bool = False) -> str:
    """One line about all files; `strict` counts warnings, too."""
    reports = [report for one in found for report in one.reports]
    checked = [report for report in reports if not report.trouble]
    broken = sum(bool(report.broken or (strict and report.warned)) for report in checked)
    unchecked = sum(len(one.unchecked) + bool(one.trouble) for one in found)
    what = "broken promises or warnings" if strict else "broken promises"
    text = f"{len(checked)} object{'s' * (len(checked) != 1)} checked, {broken} with {what}"
    return f"{text}, {unchecked} not checked" if unchecked else text


def show_reports(
    reports: Iterable[FileReport], *, verbose: bool = False, strict: bool = False
) -> list[FileReport]:
    """Print each report as soon as it is there, and a summary; returns the reports."""
    console = Console(highlight=False, emoji=False, soft_wrap=True)
    found = []
    for report in reports:
        found.append(report)
        show_file(report, console, verbose=verbose)
    console.print(summary(found, strict=strict))
    return found


def print_reports(reports: Iterable[FileReport], *, by_line: bool) -> list[FileReport]:
    """Print one JSON document, or one JSON object per file as soon as it is there; returns the reports."""
    found = []
    for report in reports:
        found.append(report)
        if by_line:
            print(json.dumps(report.model_dump(), ensure_ascii=False), flush=True)
    if not by_line:
        print(json.dumps([report.model_dump() for report in found], ensure_ascii=False, indent=1))
    return found


def exit_code(found: Iterable[FileReport], *, strict: bool = False) -> int:
    """The exit code of the command: 1 if a promise is broken, 2 if something could not be checked."""
    codes = {report.exit_code(strict=strict) for report in found}
    return 0 if codes == {0} else 1 if 1 in codes else 2
