"""The text of reports: failures in full, one line about the rest, at most 80 columns."""

import io

from rich.console import Console

from limelight.check.format import counts, location, printable, show_file
from limelight.check.report import FileReport, Finding, Report

BROKEN = Finding(
    promise="scale",
    statement="scores are q·k/√d, where d is the width of one head",
    verdict="FAIL",
    example="one query and two keys",
    expected="0.5, 0.5",
    got="0.9, 0.1 " * 20,
    hint="divide by the square root of the width",
    line=7,
    code="    scores = q @ k.mT",
)
KEPT = Finding(promise="heads", statement="there is one attention map per head", verdict="pass")
EMPTY = Finding(promise="half", statement="masks work", verdict="n/a", hint="it takes no mask")


def shown(found: FileReport, *, verbose: bool = False) -> str:
    stream = io.StringIO()
    show_file(found, Console(file=stream, width=80, highlight=False, emoji=False), verbose=verbose)
    return stream.getvalue()


def file_report(*findings: Finding, trouble: str = "", adapter: str = "") -> FileReport:
    report = Report(
        name="Attention",
        kind="multi-head-attention",
        line=3,
        findings=findings,
        trouble=trouble,
        adapter=adapter,
    )
    return FileReport(file="homework.py", reports=(report,))


def test_failures_are_shown_with_their_line_and_the_rest_is_counted() -> None:
    text = shown(file_report(KEPT, BROKEN, EMPTY))
    assert text.startswith("Attention  multi-head-attention  homework.py:3\n")
    assert "FAIL  scale: scores are q·k/√d" in text
    assert "homework.py:7: scores = q @ k.mT\n" in text
    assert "1 promise kept, 1 does not apply" in text
    assert "one attention map" not in text
    assert max(map(len, text.splitlines())) <= 80


def test_verbose_lists_all_promises() -> None:
    text = shown(file_report(KEPT, BROKEN, EMPTY), verbose=True)
    assert "pass  heads  there is one attention map per head" in text
    assert "n/a   half   it takes no mask" in text
    assert "homework.py:7" in text


def test_a_finding_without_a_line_is_below_the_line_of_its_object() -> None:
    text = shown(file_report(BROKEN.model_copy(update={"line": 0, "code": ""})))
    assert text.count("homework.py:") == 1
    assert "tried     one query and two keys" in text


def test_a_finding_in_another_file_names_it() -> None:
    assert "utils.py:7: scores" in shown(file_report(BROKEN.model_copy(update={"file": "utils.py"})))


def test_an_object_that_was_not_checked_is_listed_with_its_reason() -> None:
    found = file_report(
        trouble="its constructor could not be called: TypeError", adapter="class Adapted: ..."
    )
    text = shown(found)
    assert "homework.py:3\n  not checked: its constructor could not be called: TypeError\n" in text
    assert "class Adapted" not in text
    assert "class Adapted" in shown(found, verbose=True)


def test_characters_that_control_a_terminal_are_escaped() -> None:
    assert printable("a\x1b[2Jb\u202ec\rd\ne") == "a\\x1b[2Jb\\u202ec\\rd\ne"
    text = shown(file_report(BROKEN.model_copy(update={"got": "\x1b[31mred", "code": "x = '\x9b2J'"})))
    assert "\x1b" not in text
    assert "\x9b" not in text
    assert "\\x1b[31mred" in text


def test_counts_and_locations() -> None:
    assert counts(file_report(KEPT, KEPT, EMPTY, EMPTY).reports[0]) == "2 promises kept, 2 do not apply"
    assert counts(file_report(BROKEN).reports[0]) == "0 promises kept"
    assert location("a.ipynb", 7, 3) == "a.ipynb, cell 3:7"
    assert location("a.py", 0) == "a.py"
