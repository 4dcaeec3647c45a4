import json
import subprocess
import sys
from pathlib import Path

import pytest
from command import command

EXAMPLES = Path(__file__).parent.parent / "examples"


def test_the_example_causal_attention_writes_a_figure(tmp_path: Path) -> None:
    program = [sys.executable, str(EXAMPLES / "causal_attention.py")]
    done = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "total weight on later words: 0\n" in done.stdout
    drawn = tmp_path / "runs" / "demo" / "causal_attention.png"
    assert drawn.read_bytes().startswith(b"\x89PNG")
    assert drawn.stat().st_size > 10_000


CHECKED = sorted((EXAMPLES / "check").glob("*.py"))


@pytest.mark.parametrize("path", CHECKED, ids=lambda path: path.stem)
def test_the_report_beside_a_submission_is_the_output_of_check(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(path.parent)
    done = command("check", path.name)
    assert done.stdout.rstrip() == path.with_suffix(".txt").read_text().rstrip()
    assert done.returncode == (0 if "0 with broken promises" in done.stdout else 1)


def test_there_are_three_example_submissions() -> None:
    assert len(CHECKED) == 3


@pytest.mark.parametrize("size", ["small", "medium", "large"])
def test_the_recipes_for_characters_train(size: str, tmp_path: Path) -> None:
    text = tmp_path / "input.txt"
    text.write_text("".join(f"{number} times {number} is {number * number}\n" for number in range(300)))
    recipe = str(EXAMPLES / "characters" / f"{size}.toml")
    settings = ["--set", "train.epochs=0.01", "--set", "train.batch=2"]
    done = command("train", recipe, "--data", str(text), "--out", str(tmp_path / "run"), *settings)
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert report["steps"] >= 1
    assert 0 < report["metrics"]["validation"]["bits_per_character"] < 8


def test_the_marks_of_the_example_class_are_those_of_the_documentation(tmp_path: Path) -> None:
    folder = EXAMPLES / "mark"
    given = [str(folder / "submissions"), "--rubric", str(folder / "rubric.toml")]
    done = command("mark", *given, "--out", str(tmp_path / "marks"))
    assert done.returncode == 0, done.stderr
    marks = (tmp_path / "marks" / "marks.csv").read_bytes()
    assert marks == (folder / "marks.csv").read_bytes()
    documented = (EXAMPLES.parent / "docs" / "mark.md").read_text()
    assert marks.decode("utf-8-sig") in documented
    assert (folder / "rubric.toml").read_text().split("\n\n")[1] in documented


def test_the_documented_cell_for_nbgrader_gives_points() -> None:
    document = (EXAMPLES.parent / "docs" / "mark.md").read_text()
    cell = document.split("```python\nfrom limelight.check import check\n")[1].split("```")[0]
    *lines, last = cell.strip().splitlines()
    solution = (EXAMPLES / "mark" / "solution.py").read_text()
    for code, points in ((solution, 5), (solution.replace("math.sqrt", ""), 3)):
        names: dict[str, object] = {"__name__": "solution"}
        exec(code, names)
        exec("from limelight.check import check\n" + "\n".join(lines), names)
        assert eval(last, names) == points
