"""Checks attention code of other people: which promises it keeps, with a counter-example for each mistake.

On the command line, `limelight check FILE.py`. In a test:

    from limelight.check import assert_kept
    assert_kept(MyMultiHeadAttention)
"""

from typing import Any

from limelight.check.report import FileReport, Finding, Report

__all__ = ["FileReport", "Finding", "Report", "assert_kept", "check"]


def check(thing: Any, kind: str | None = None) -> Report:
    """Check a class, a function or a module in this process; `kind` is needed if its name is unusual."""
    from limelight.check.examine import examine_object

    return examine_object(thing, kind)


def assert_kept(thing: Any, kind: str | None = None, *, strict: bool = False) -> None:
    """Raise AssertionError with the broken promises; with `strict`, with the warnings, too."""
    from limelight.check.format import describe

    report = check(thing, kind)
    found = [*report.broken, *(report.warned if strict else [])]
    if report.trouble or found:
        raise AssertionError(report.trouble or "\n".join(describe(finding) for finding in found))
