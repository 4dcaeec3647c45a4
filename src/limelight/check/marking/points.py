"""The points of one submission: which object is which part of the rubric, and which promises it keeps."""

from collections.abc import Sequence
from dataclasses import dataclass

from limelight.check.format import location
from limelight.check.marking.rubric import Rubric
from limelight.check.marking.submissions import Submission
from limelight.check.report import RUNS, UNTRUSTED, FileReport, Finding, Report

Found = tuple[FileReport, Report]
NOT_TESTED = Finding(verdict="n/a", hint="it was not tested")


@dataclass(frozen=True)
class Item:
    """One promise of one part."""

    promise: str
    points: float
    maximum: float
    finding: Finding


@dataclass(frozen=True)
class PartMark:
    """The points for one part of the rubric."""

    title: str
    items: tuple[Item, ...]
    name: str = ""  # of the object; empty if there is none
    file: str = ""
    place: str = ""  # the file and the line
    trouble: str = ""  # why there are no results

    @property
    def points(self) -> float:
        """The points for all promises of the part."""
        return sum(item.points for item in self.items)

    @property
    def maximum(self) -> float:
        """The points that were possible."""
        return sum(item.maximum for item in self.items)


@dataclass(frozen=True)
class Mark:
    """The result of one submission."""

    submission: Submission
    reports: tuple[FileReport, ...]
    parts: tuple[PartMark, ...]
    code: dict[str, list[str]]  # the cells of each checked file

    @property
    def points(self) -> float:
        """The points for all parts."""
        return sum(part.points for part in self.parts)

    @property
    def maximum(self) -> float:
        """The points that were possible."""
        return sum(part.maximum for part in self.parts)

    @property
    def troubles(self) -> list[str]:
        """What a person should look at: everything that could not be checked."""
        if not self.submission.code:
            return ["there is no Python file (.py) and no notebook (.ipynb)"]
        found = [f"{one.file}: {one.trouble}" for one in self.reports if one.trouble]
        found += [part.trouble for part in self.parts if part.name and part.trouble]
        missing = [part.title for part in self.parts if not part.name]
        found += [f"not found: {', '.join(missing)}"] if missing else []
        return list(dict.fromkeys(found))


def give_points(
    rubric: Rubric, submission: Submission, reports: Sequence[FileReport], code: dict[str, list[str]]
) -> Mark:
    """The points of a submission whose files have these reports."""
    named = {part.name for part in rubric.parts.values()}
    everything = [(found, report) for found in reports for report in found.reports]
    by_kind = [one for one in everything if one[1].name not in named]
    parts = []
    for title, part in rubric.parts.items():
        found = [one for one in everything if one[1].name == part.name]
        if not found:
            found = [one for one in by_kind if one[1].kind == part.kind]
        parts.append(
            _mark_part(rubric, title, [(one, _with_mentioned(rubric, one, report)) for one, report in found])
        )
        by_kind = [one for one in by_kind if one[1].name != parts[-1].name]  # it is not counted twice
    return Mark(submission, tuple(reports), tuple(parts), code)


def _with_mentioned(rubric: Rubric, found: FileReport, report: Report) -> Report:
    """A mistake that is only mentioned counts if the object that it belongs to is no part of the rubric."""
    by_name = {one.name: one for one in found.reports}
    names, kinds = ({getattr(part, key) for part in rubric.parts.values()} for key in ("name", "kind"))
    findings = []
    for finding in report.findings:
        inner = by_name.get(finding.see)
        if inner is not None:
            is_part = inner.name in names or inner.kind in kinds
            original = next(one for one in inner.findings if one.promise == finding.promise)
            finding = finding.model_copy(update={"verdict": "pass"}) if is_part else original
        findings.append(finding)
    return report.model_copy(update={"findings": tuple(findings)})


def _mark_part(rubric: Rubric, title: str, found: Sequence[Found]) -> PartMark:
    """The points of the best of several objects."""
    nothing = tuple(_items(rubric, title, Report(name="", kind="?")))
    if not found:
        return PartMark(title, nothing, trouble="not found")
    marks = [_mark_object(rubric, title, *one, nothing) for one in found]
    return max(marks, key=lambda mark: (not mark.trouble, mark.points))


def _mark_object(
    rubric: Rubric, title: str, found: FileReport, report: Report, nothing: tuple[Item, ...]
) -> PartMark:
    place = location(found.file, report.line, report.cell)
    trouble = f"{found.file}: {found.trouble}" if UNTRUSTED in found.trouble else ""
    if report.trouble and not trouble:
        trouble = f"{report.name} was not checked: {report.trouble}"
    items = nothing if trouble else tuple(_items(rubric, title, report))
    return PartMark(title, items, report.name, found.file, place, trouble)


def _items(rubric: Rubric, title: str, report: Report) -> list[Item]:
    findings = {finding.promise: finding for finding in report.findings}
    if report.findings:
        findings.setdefault("runs", Finding(promise="runs", statement=RUNS, verdict="pass"))
    gives_points = {"pass": True, "warn": not rubric.strict, "n/a": rubric.inapplicable, "FAIL": False}
    items = []
    for promise, maximum in rubric.points_of(title).items():
        finding = findings.get(promise, NOT_TESTED)
        was_tested = "not tested" not in finding.hint and "not be tested" not in finding.hint
        is_kept = gives_points[finding.verdict] and was_tested
        items.append(Item(promise, maximum if is_kept else 0.0, maximum, finding))
    return items
