"""A mistake is reported once, at the innermost object, and mentioned at those that use it."""

from pathlib import Path

from limelight.check.causes import mentioned_once
from limelight.check.isolation.parent import check_file
from limelight.check.report import FileReport, Finding, Report

ORIGINALS = Path(__file__).parent / "originals"


def checked(folder: Path, *changes: tuple[str, str]) -> FileReport:
    text = (ORIGINALS / "uva_style.py").read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = folder / "uva.py"
    path.write_text(text)
    return check_file(path)


def broken(found: FileReport) -> list[tuple[str, str]]:
    return [(report.name, finding.promise) for report in found.reports for finding in report.broken]


def test_a_wrong_scale_is_reported_at_the_function_that_scales(tmp_path: Path) -> None:
    found = checked(tmp_path, ("/ math.sqrt(d_k)", "/ d_k"))
    assert broken(found) == [("scaled_dot_product", "scale")]
    line = found.reports[0].broken[0].line
    mentions = [f.hint for r in found.reports[1:] for f in r.findings if f.promise == "scale"]
    assert f"see scaled_dot_product (line {line}), which it uses" in mentions
    assert found.exit_code() == 1


def test_two_mistakes_are_two_findings(tmp_path: Path) -> None:
    found = checked(
        tmp_path, ("/ math.sqrt(d_k)", "/ d_k"), ("F.softmax(attn_logits, dim=-1)", "attn_logits")
    )
    assert ("scaled_dot_product", "rows-sum-to-one") in broken(found)


def report(name: str, finding: Finding, *within: str) -> Report:
    return Report(name=name, kind="encoder", findings=(finding,), within=within)


def test_only_findings_with_the_same_cause_are_joined() -> None:
    inner = Finding(promise="scale", verdict="FAIL", line=3)
    for outer, is_joined in [
        (inner, True),
        (inner.model_copy(update={"line": 0}), True),
        (inner.model_copy(update={"line": 4}), False),
        (inner.model_copy(update={"file": "other.py"}), False),
        (inner.model_copy(update={"promise": "depth"}), False),
    ]:
        _, found = mentioned_once([report("A", inner, "B"), report("B", outer)])
        assert (found.findings[0].verdict == "n/a") == is_joined


def test_the_same_line_is_the_same_mistake_even_if_objects_get_others_as_arguments() -> None:
    finding = Finding(promise="scale", verdict="FAIL", line=13)
    lines = {"A": 10, "B": 20, "C": 30}
    reports = [Report(name=name, kind="?", line=line, findings=(finding,)) for name, line in lines.items()]
    found = mentioned_once(list(reversed(reports)))
    assert [one.name for one in found if one.broken] == ["A"]
    elsewhere = finding.model_copy(update={"line": 25})
    found = mentioned_once([reports[0], reports[1].model_copy(update={"findings": (elsewhere,)})])
    assert [one.name for one in found if one.broken] == ["A", "B"]


def test_a_mask_may_be_wrong_in_two_objects_that_use_the_same_attention() -> None:
    finding = Finding(promise="masked-weight", verdict="FAIL", line=13)
    reports = [
        Report(name=name, kind="?", line=line, findings=(finding,)) for name, line in (("A", 20), ("B", 30))
    ]
    assert mentioned_once(reports) == tuple(reports)


def test_a_failure_is_not_replaced_by_a_warning() -> None:
    inner, outer = (Finding(promise="half", verdict=verdict) for verdict in ("warn", "FAIL"))
    _, found = mentioned_once([report("A", inner, "B"), report("B", outer)])
    assert found.findings[0].verdict == "FAIL"
