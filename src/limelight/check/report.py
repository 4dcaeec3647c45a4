"""What was found: one finding a promise, one report an object. As data, for tables, teachers and tests."""

from typing import Literal

from limelight.config import Config

Verdict = Literal["pass", "FAIL", "warn", "n/a"]


class Finding(Config):
    """Whether one promise was kept; if not, the smallest case that shows it."""

    promise: str
    says: str  # the promise in words
    verdict: Verdict
    example: str = ""
    expected: str = ""
    came: str = ""
    hint: str = ""  # where people usually go wrong; for what does not apply, why


class Report(Config):
    """What was found about one class or function of a file."""

    name: str
    kind: str
    line: int = 0
    cell: int = 0  # of a notebook, in which the line is counted
    notes: tuple[str, ...] = ()  # how it was called: what was found out by trying
    findings: tuple[Finding, ...] = ()
    trouble: str = ""  # why it could not be checked
    within: tuple[str, ...] = ()  # what else in the file is made of it, and tried it
    adapter: str = ""  # lines to fill in, where it was not understood

    @property
    def broken(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.verdict == "FAIL"]

    @property
    def warned(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.verdict == "warn"]


class FileReport(Config):
    """All that was found in one file."""

    file: str
    reports: tuple[Report, ...] = ()
    trouble: str = ""  # why the file as a whole could not be checked

    def exit_code(self, *, strict: bool = False) -> int:
        """0: every promise kept. 1: something is broken. 2: something could not be checked."""
        if any(report.broken or (strict and report.warned) for report in self.reports):
            return 1
        return 2 if self.trouble or not self.reports or self.unchecked else 0

    @property
    def unchecked(self) -> list[Report]:
        """What could not be tried, neither by itself nor as a part of something else."""
        tried = {report.name for report in self.reports if not report.trouble}
        return [report for report in self.reports if report.trouble and not tried & set(report.within)]
