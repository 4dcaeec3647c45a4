"""The results of a check as data: one finding per promise, one report per object."""

from typing import Literal

from pydantic import Field

from limelight.config import Config

Verdict = Literal["pass", "FAIL", "warn", "n/a"]
NO_PARTS = "it has no function or nn.Module whose name looks like"  # in `trouble`, if nothing is checked
UNTRUSTED = "the results cannot be trusted"  # in `trouble`, if the checked code tampers with the check
RUNS = "a call returns"  # the statement of the promise `runs`, which is tested by every call


class Finding(Config):
    """Whether one promise is kept; if not, the smallest example that shows it."""

    promise: str = Field("", description="the identifier of the promise, such as mask-has-effect")
    statement: str = Field("", description="the promise as a sentence")
    verdict: Verdict = Field(description="pass, FAIL, warn, or n/a if the promise does not apply")
    example: str = Field("", description="what was tried")
    expected: str = Field("", description="the result that the promise requires")
    got: str = Field("", description="the result of the checked code")
    hint: str = Field("", description="the usual mistake; for n/a, the reason")
    see: str = Field("", description="for a mistake that is only mentioned, the object that it belongs to")
    file: str = Field("", description="the name of the file that `line` is in, if it is another one")
    line: int = Field(0, description="the line of the checked code that causes it; 0 if it is unknown")
    cell: int = Field(0, description="the cell of a notebook, in which lines are counted; 0 in a Python file")
    code: str = Field("", description="that line of the checked code")


class Report(Config):
    """The findings about one class or function."""

    name: str = Field(description="the name of the class or function")
    kind: str = Field(description="the name of its kind; ? if it is unknown")
    line: int = Field(0, description="the line of its definition; 0 if it is unknown")
    cell: int = Field(0, description="the cell of a notebook, in which lines are counted; 0 in a Python file")
    notes: tuple[str, ...] = Field((), description="how it was called, as far as that was found by trying")
    findings: tuple[Finding, ...] = Field((), description="one finding per promise")
    trouble: str = Field("", description="why it could not be checked")
    within: tuple[str, ...] = Field((), description="other objects of the file that use it")
    adapter: str = Field("", description="lines of code to fill in, if it could not be called")

    @property
    def broken(self) -> list[Finding]:
        """The findings with the verdict FAIL."""
        return [finding for finding in self.findings if finding.verdict == "FAIL"]

    @property
    def warned(self) -> list[Finding]:
        """The findings with the verdict warn."""
        return [finding for finding in self.findings if finding.verdict == "warn"]


class FileReport(Config):
    """The reports about one file."""

    file: str = Field(description="the path of the file")
    reports: tuple[Report, ...] = Field((), description="one report per object")
    trouble: str = Field("", description="why the file, or a part of it, could not be checked")
    notes: tuple[str, ...] = Field((), description="what was left out or replaced while it was loaded")

    def exit_code(self, *, strict: bool = False) -> int:
        """0: all promises are kept. 1: a promise is broken. 2: something could not be checked."""
        if any(report.broken or (strict and report.warned) for report in self.reports):
            return 1
        return 2 if self.trouble or not self.reports or self.unchecked else 0

    @property
    def unchecked(self) -> list[Report]:
        """Objects that could not be checked, neither on their own nor as a part of another object."""
        checked = {report.name for report in self.reports if not report.trouble}
        return [report for report in self.reports if report.trouble and not checked & set(report.within)]
