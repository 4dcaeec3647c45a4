"""The programs of docs/export.md run without limelight and torch, and give the answers of limelight."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from drawn import noise
from support import must_fail

from limelight.experiment import Run

ROOT = Path(__file__).parent.parent.parent.parent
PAGE = (ROOT / "docs" / "export.md").read_text()
PROGRAMS = {
    found[1]: code
    for code in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    if (found := re.search(r"runs/(\w+)/exports/onnx", code))
}
ALONE = "import sys\nfor name in ('limelight', 'torch'):\n    sys.modules[name] = None\n"


def printed(code: str, folder: Path) -> str:
    """What a program prints that can import neither limelight nor torch."""
    command = [sys.executable, "-I", "-W", "error", "-X", "utf8", "-c", ALONE + code]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout


def test_there_is_a_program_of_each_kind() -> None:
    assert set(PROGRAMS) == {"reverse", "text", "digits", "language", "translate"}


def test_programs_cannot_import_limelight(tmp_path: Path) -> None:
    for name in ("limelight", "torch"):
        with pytest.raises(subprocess.CalledProcessError):
            printed(f"import {name}", tmp_path)


def expected(run: Run, recipe: str, folder: Path) -> list[str]:
    """The lines that a program should print, from limelight."""
    if recipe == "reverse":
        return [one.text for one in run.predict(["3 1 4 1 5", "2 7"])]
    if recipe == "text":
        (answer,) = run.predict(["A wonderful film, number 3!"])
        return [f"{name} {probability:.4f}" for name, probability in answer.probabilities.items()]
    if recipe == "digits":
        return [run.predict([folder / "digit.png"])[0].text]
    if recipe == "language":
        return "".join(run.generate("The list", length=30)).split("\n")
    return [run.predict(["She does not sleep ."], beam=1)[0].text]


@pytest.mark.parametrize("recipe", PROGRAMS)
def test_a_documented_program_gives_the_answers_of_limelight(
    recipe: str, exported: Callable[[str], Run]
) -> None:
    run = exported(recipe)
    folder = run.path.parent.parent
    noise(13, 11, seed=5).save(folder / "digit.png")

    def check(code: str) -> None:
        assert printed(code, folder).removesuffix("\n").split("\n") == expected(run, recipe, folder)

    check(PROGRAMS[recipe])
    wrong = PROGRAMS[recipe].replace("argmax", "argmin").replace("-np.inf", "np.inf")
    must_fail(check, wrong.replace("ngram_ids.get(ngram, 0)", "0"))
