"""One mistake, one finding: a mistake of one object is only mentioned at the objects that use it."""

from collections.abc import Sequence

from limelight.check.report import Finding, Report

SEVERITY = {"FAIL": 2, "warn": 1}
# A mask that an inner object ignores also has no effect if an outer object passes it on.
INHERITED = ("mask-has-effect",)
# The line alone causes these; others may depend on what an outer object passes on.
BY_LINE = (
    "mask-has-effect",
    "scale",
    "softmax-axis",
    "large-scores",
    "head-projections",
    "projection-unused",
    "initialised",
    "positions-formula",
    "dropout-eval",
    "half",
    "dtype-device",
    "runs",
)


def mentioned_once(reports: Sequence[Report]) -> tuple[Report, ...]:
    """The reports; a finding that an inner object has, too, becomes n/a and refers to that object."""
    return tuple(_without_inherited(report, reports) for report in reports)


def _without_inherited(report: Report, reports: Sequence[Report]) -> Report:
    findings = []
    for finding in report.findings:
        inner = _owner(finding, report, reports) if finding.verdict in SEVERITY else None
        findings.append(finding if inner is None else _mention(finding, inner))
    return report.model_copy(update={"findings": tuple(findings)})


def _owner(finding: Finding, report: Report, reports: Sequence[Report]) -> Report | None:
    """The other object to which the mistake belongs; None if it is the mistake of this one."""
    # The innermost object is the one that most others use.
    used = sorted((one for one in reports if report.name in one.within), key=lambda one: -len(one.within))
    for inner in used:
        other = _same_promise(finding, inner)
        if other is None:
            continue
        is_unknown = not finding.line or not other.line
        if is_unknown or _place(other) == _place(finding) or finding.promise in INHERITED:
            return inner
    if not finding.line or finding.promise not in BY_LINE:
        return None
    # Objects may get others as arguments: then only the line of code shows that the mistake is the same.
    same = [
        one for one in reports if (other := _same_promise(finding, one)) and _place(other) == _place(finding)
    ]
    before = [one for one in same if not finding.file and (one.cell, one.line) <= _place(finding)[1:]]
    owner = max(before, key=lambda one: (one.cell, one.line)) if before else same[0]
    return None if owner is report else owner


def _same_promise(finding: Finding, report: Report) -> Finding | None:
    """The finding of another object about the same promise, if it is at least as severe."""
    for other in report.findings:
        is_severe = SEVERITY.get(other.verdict, 0) >= SEVERITY[finding.verdict]
        if other.promise == finding.promise and is_severe:
            return other
    return None


def _place(finding: Finding) -> tuple[str, int, int]:
    return finding.file, finding.cell, finding.line


def _mention(finding: Finding, inner: Report) -> Finding:
    other = _same_promise(finding, inner)
    assert other is not None
    place = f"cell {other.cell}, line {other.line}" if other.cell else f"line {other.line}"
    where = f"{inner.name} ({place})" if other.line and not other.file else inner.name
    return Finding(
        promise=finding.promise,
        statement=finding.statement,
        verdict="n/a",
        hint=f"see {where}, which it uses",
        see=inner.name,
    )
