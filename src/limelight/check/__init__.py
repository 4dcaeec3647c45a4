"""Other people's attention code, tried: which promises it keeps, with a counter-example where it does not.

On the command line, `limelight check FILE.py`. In a test of one's own:

    from limelight.check import assert_kept
    assert_kept(MyMultiHeadAttention)
"""

from typing import Any

from limelight.check.report import FileReport, Finding, Report

__all__ = ["FileReport", "Finding", "Report", "assert_kept", "check"]


def check(thing: Any, kind: str | None = None) -> Report:
    """A class, a function or a module, examined in this process; `kind` where its name does not tell."""
    from limelight.check.examine import examine_any

    return examine_any(thing, kind)


def assert_kept(thing: Any, kind: str | None = None, *, strict: bool = False) -> None:
    """Fails with what is broken; with `strict`, warnings count, too."""
    from limelight.check.format import in_words

    report = check(thing, kind)
    found = [*report.broken, *(report.warned if strict else [])]
    if report.trouble or found:
        raise AssertionError(report.trouble or "\n".join(in_words(finding) for finding in found))
