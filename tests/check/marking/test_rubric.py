"""A rubric is validated; errors name the file and the key."""

from pathlib import Path

import pytest
from support import refused

from limelight.check.marking.rubric import Rubric, read_rubric, rubric_of, rubric_text
from limelight.check.report import FileReport, Finding, Report

GOOD = """
title = "Homework 3"
leave_out = ["half"]
[parts.attention]
kind = "multi-head-attention"
points = { scale = 2, heads = 0.5, half = 7 }
"""


def written(folder: Path, text: str) -> Path:
    (folder / "rubric.toml").write_text(text)
    return folder / "rubric.toml"


def test_a_rubric_gives_points_without_the_promises_that_are_left_out(tmp_path: Path) -> None:
    rubric = read_rubric(written(tmp_path, GOOD))
    assert rubric.points_of("attention") == {"scale": 2, "heads": 0.5}
    assert rubric.maximum == 2.5
    assert not rubric.limits.network


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("scale", "scal", "parts.attention.points: promise 'scal' is unknown; did you mean 'scale'?"),
        ("multi-head", "multihead", "did you mean 'multi-head-attention'?"),
        ("= 2", "= -2", "parts.attention.points.scale is -2; allowed: 0 or more"),
        ("= 2", '= "two"', "parts.attention.points.scale"),
        ("kind =", "sort =", "parts.attention.sort"),
        ('kind = "multi-head-attention"', "", "has neither a name nor a kind"),
        ("[parts", "[part", "key 'part' is unknown; did you mean 'parts'?"),
        ('["half"]', '["halve"]', "leave_out: promise 'halve' is unknown"),
        ('["half"]', '["half"]\nadapter = "none.py"', "adapter: there is no file"),
        ('["half"]', '["half"]\nseconds = 0', "seconds is 0"),
        ("title", "title title", "line 2"),
    ],
)
def test_a_wrong_rubric_is_refused_with_the_file_and_the_key(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    error = refused(read_rubric, written(tmp_path, GOOD.replace(old, new)))
    assert message in error
    assert "rubric.toml: " in error


def test_a_missing_rubric_is_refused(tmp_path: Path) -> None:
    assert "limelight mark --init" in refused(read_rubric, tmp_path / "none.toml")


def report(**verdicts: str) -> list[FileReport]:
    findings = tuple(
        Finding.model_validate({"promise": name, "verdict": verdict}) for name, verdict in verdicts.items()
    )
    one = Report(name="Mine", kind="multi-head-attention", findings=findings)
    return [FileReport(file="solution.py", reports=(one,))]


def test_a_rubric_from_a_solution_is_read_back(tmp_path: Path) -> None:
    rubric = rubric_of(report(scale="pass", half="warn", causality="n/a"), "Homework")
    assert rubric.parts["Mine"].points == {"scale": 1, "half": 1}
    assert read_rubric(written(tmp_path, rubric_text(rubric))) == rubric


def test_a_solution_with_a_broken_promise_is_refused() -> None:
    broken = report(scale="FAIL", heads="pass")
    assert "solution.py: Mine breaks scale" in refused(rubric_of, broken, "Homework")
    assert rubric_of(broken, "Homework", ["scale"]).parts["Mine"].points == {"heads": 1}
    assert "did you mean 'scale'" in refused(rubric_of, broken, "Homework", ["scales"])
    assert "no part" in refused(rubric_of, report(), "Homework")


def test_every_setting_has_a_description() -> None:
    schema = Rubric.model_json_schema()
    settings = schema["properties"] | schema["$defs"]["Part"]["properties"]
    assert all(setting.get("description") for setting in settings.values())
