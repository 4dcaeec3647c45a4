"""Points: which object is which part, and what a finding is worth."""

import csv
import io
import json
from pathlib import Path

import pytest

from limelight.check.marking.output import gradescope_results, marks_table, safe_cell
from limelight.check.marking.pages import overview_page, student_page
from limelight.check.marking.points import Mark, give_points
from limelight.check.marking.rubric import Part, Rubric
from limelight.check.marking.submissions import Submission
from limelight.check.report import UNTRUSTED, FileReport, Finding, Report

RUBRIC = Rubric(
    title="Homework",
    parts={
        "attention": Part(kind="multi-head-attention", points={"scale": 2, "heads": 1, "half": 0.5}),
        "mask": Part(name="make_mask", kind="causal-mask", points={"causality": 1, "runs": 1}),
    },
)


def report(name: str, kind: str, trouble: str = "", **verdicts: str) -> Report:
    findings = tuple(
        Finding.model_validate({"promise": promise, "verdict": verdict, "statement": f"about {promise}"})
        for promise, verdict in verdicts.items()
    )
    return Report(name=name, kind=kind, line=3, findings=findings, trouble=trouble)


def marked(*reports: Report, rubric: Rubric = RUBRIC, trouble: str = "", name: str = "Ada") -> Mark:
    found = FileReport(file="hw.py", reports=reports, trouble=trouble)
    submission = Submission(name, "11", {"hw.py": Path("hw.py")}, key=name)
    return give_points(rubric, submission, [found], {"hw.py": ["x = 1\n"]})


MASK = report("make_mask", "causal-mask", causality="pass")
GOOD = report("Mine", "multi-head-attention", scale="pass", heads="pass", half="warn")
HALF = report("Other", "multi-head-attention", scale="FAIL", heads="pass", half="n/a")


def test_kept_promises_and_warnings_give_points() -> None:
    assert marked(GOOD, MASK).points == 5.5
    assert marked(GOOD, MASK).troubles == []
    assert marked(GOOD, MASK, rubric=RUBRIC.model_copy(update={"strict": True})).points == 5


def test_broken_promises_and_those_that_do_not_apply_give_none() -> None:
    assert marked(HALF, MASK).points == 3
    lenient = RUBRIC.model_copy(update={"inapplicable": True})
    assert marked(HALF, MASK, rubric=lenient).points == 3.5
    failed = Finding(promise="half", verdict="n/a", hint="it could not be tested: TypeError")
    crash = HALF.model_copy(update={"findings": (*HALF.findings[:2], failed)})
    assert marked(crash, MASK, rubric=lenient).points == 3


def test_a_mistake_that_is_only_mentioned_costs_points_once() -> None:
    mention = Finding(promise="scale", verdict="n/a", hint="see inner, which it uses", see="inner")
    outer = GOOD.model_copy(update={"findings": (mention, *GOOD.findings[1:])})
    inner = report("inner", "scaled-dot-product", scale="FAIL")
    assert marked(outer, inner, MASK).points == 3.5
    assert marked(outer, report("inner", "scaled-dot-product", scale="warn"), MASK).points == 5.5
    parts = RUBRIC.parts | {"inner": Part(kind="scaled-dot-product", points={"scale": 1})}
    both = RUBRIC.model_copy(update={"parts": parts})
    assert marked(outer, inner, MASK, rubric=both).points == 5.5  # it costs the point of the inner part


def test_the_best_object_of_a_kind_counts_and_none_counts_twice() -> None:
    assert [part.name for part in marked(HALF, GOOD, MASK).parts] == ["Mine", "make_mask"]
    two = {"one": RUBRIC.parts["attention"], "two": RUBRIC.parts["attention"]}
    both = marked(HALF, GOOD, rubric=Rubric(parts=two))
    assert [part.name for part in both.parts] == ["Mine", "Other"]
    assert [part.trouble for part in marked(GOOD, rubric=Rubric(parts=two)).parts] == ["", "not found"]


def test_a_name_comes_before_a_kind() -> None:
    other = report("triangle", "causal-mask", causality="pass")
    wrong = report("make_mask", "causal-mask", causality="FAIL")
    assert marked(other, wrong).parts[1].name == "make_mask"
    assert marked(other).parts[1].name == "triangle"


def test_what_is_missing_or_was_not_checked_gives_no_points() -> None:
    mark = marked(report("Mine", "multi-head-attention", trouble="TypeError"))
    assert mark.points == 0
    assert mark.troubles == ["Mine was not checked: TypeError", "not found: mask"]


def test_results_that_cannot_be_trusted_give_no_points() -> None:
    assert marked(GOOD, MASK, trouble="line 7: a SyntaxError").points == 5.5
    mark = marked(GOOD, MASK, trouble=f"it changes torch.softmax: {UNTRUSTED}")
    assert mark.points == 0
    assert mark.troubles == [f"hw.py: it changes torch.softmax: {UNTRUSTED}"]


def test_a_submission_without_code_is_in_the_table() -> None:
    mark = give_points(RUBRIC, Submission("Cy", files={"a.pdf": Path("a.pdf")}), [], {})
    assert mark.troubles == ["there is no Python file (.py) and no notebook (.ipynb)"]
    assert "Cy,,0,0,0,5.5,there is no Python file" in marks_table(RUBRIC, [mark])


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "  ="])
def test_no_cell_is_a_formula(start: str) -> None:
    name = f"{start}cmd('a'),\"b\"\n"
    (header, row) = csv.reader(io.StringIO(marks_table(RUBRIC, [marked(GOOD, MASK, name=name)])))
    assert header == ["student", "id", "attention", "mask", "total", "maximum", "to look at"]
    assert row[0].startswith("'")
    assert row[1:] == ["11", "3.5", "2", "5.5", "5.5", ""]
    assert safe_cell("Ada = Lovelace") == "Ada = Lovelace"


def check_gradescope(text: str) -> None:
    """The documented form: https://gradescope-autograders.readthedocs.io/en/latest/specs/"""
    results = json.loads(text)
    general = {"score": float, "output": str, "output_format": str, "stdout_visibility": str, "tests": list}
    assert {key: type(value) for key, value in results.items()} == general
    assert results["stdout_visibility"] in {"visible", "hidden", "after_due_date", "after_published"}
    for test in results["tests"]:
        assert set(test) <= {
            *("score", "max_score", "status", "name", "name_format", "number", "output", "output_format"),
            *("tags", "visibility", "extra_data"),
        }
        assert 0 <= test["score"] <= test["max_score"]
        assert test["status"] == ("passed" if test["score"] == test["max_score"] else "failed")
        assert test["visibility"] in {"visible", "hidden", "after_due_date", "after_published"}
        assert all(isinstance(test[key], str) for key in ("name", "number", "output"))
    assert results["score"] == sum(test["score"] for test in results["tests"])


def test_results_have_the_form_of_gradescope() -> None:
    text = gradescope_results(marked(HALF, MASK))
    check_gradescope(text)
    tests = json.loads(text)["tests"]
    assert [test["score"] for test in tests] == [0, 1, 0, 1, 1]
    assert "FAIL  about scale (scale)" in tests[0]["output"]
    with pytest.raises(AssertionError):
        check_gradescope(text.replace('"score": 1.0', '"score": 3.0', 1))


def test_pages_escape_names_and_link_to_the_pages_of_students() -> None:
    evil = marked(HALF, MASK, name="<script>alert(1)</script>")
    good = marked(GOOD, MASK)
    pages = [student_page(RUBRIC, evil)]
    pages.append(
        overview_page(RUBRIC, [evil, good], [(0.875, "<script>alert(1)</script>", "Ada")], has_network=True)
    )
    for page in pages:
        assert "<script" not in page
        assert "&lt;script&gt;" in page
    assert '<a href="Ada/report.html">Ada</a>' in pages[1]
    assert "87 %" in pages[1]
    assert "could not forbid the network" in pages[1]
    assert "Submissions had no network." in overview_page(RUBRIC, [good], [], has_network=False)
    assert "attention: scale" in pages[1]
