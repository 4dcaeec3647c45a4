"""The README and the tree of the architecture are true: commands and files exist, code runs."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from support import must_fail

from limelight.cli import app
from limelight.experiment import Run

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", README, re.DOTALL)


def paths_in(tree: str) -> set[str]:
    """The paths of a tree that is drawn by two spaces a level and has a remark after each name."""
    above: list[str] = []
    found = set()
    for line in tree.splitlines():
        depth = (len(line) - len(line.lstrip())) // 2
        above[depth:] = [line.split()[0]]
        found.add("".join(above))
    return found


def files_on_disk() -> set[str]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("the tree on disk is asked of git, and this is no clone")
    return {name for name in listed.stdout.splitlines() if (ROOT / name).exists()}


def check_tree(tree: str, files: set[str]) -> None:
    """Every module and folder of the package and every folder of the root is drawn, and nothing else."""
    package = {f for f in files if f.startswith("src/limelight/")}
    folders = {"/".join(f.split("/")[:i]) + "/" for f in package for i in range(2, f.count("/") + 1)}
    modules = {f for f in package if f.endswith(".py") and not f.endswith("__init__.py")}
    roots = {f.split("/")[0] + "/" for f in files if "/" in f and not f.startswith((".", "src/"))}
    assert paths_in(tree) == modules | folders | roots


TREE = next(
    body
    for body in re.findall(r"```\n(.*?)```", (ROOT / "docs" / "architecture.md").read_text(), re.DOTALL)
    if body.startswith("src/limelight/")
)


def test_the_documented_tree_equals_the_files_on_disk() -> None:
    files = files_on_disk()
    check_tree(TREE, files)
    must_fail(check_tree, TREE, files | {"src/limelight/nn/attic.py"})
    must_fail(check_tree, TREE, files - {"src/limelight/nn/masks.py"})
    must_fail(check_tree, TREE + "attic/   old things\n", files)


def check_commands(text: str) -> None:
    """Every `make …`, and every verb of `limelight …` at the start of a line, exists."""
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for target in re.findall(r"\bmake ([a-z]+)", text):
        assert target in targets, f"make {target} does not exist"
    for verb in re.findall(r"^limelight (\S+)", text, re.MULTILINE):
        assert verb in app, f"limelight {verb} does not exist"


def test_every_command_exists() -> None:
    check_commands("\n".join(body for language, body in BLOCKS if language == "sh"))
    check_commands(re.sub(r"```.*?```", "", README, flags=re.DOTALL))
    assert {"make demo", "make test"} <= set(re.findall(r"^make \w+", README, re.MULTILINE))
    must_fail(check_commands, "make noise")
    must_fail(check_commands, "limelight dance")


@pytest.mark.parametrize("code", [body for language, body in BLOCKS if language == "python"])
def test_the_code_runs(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made: dict[str, Any] = {}
    exec(compile(code, "README.md", "exec"), made)
    assert {"torch", "limelight"} & made.keys()
    if isinstance(made.get("run"), Run):  # what is shown must work
        assert made["run"].evaluate("test")["accuracy"] > 0.999


def test_ci_runs_exactly_the_commands_of_the_readme() -> None:
    lines = (ROOT / ".ci" / "run").read_text().splitlines()
    prepares = ("#", "set ", "cd ", "export ", "command -v chromium ")
    commands = [line for line in lines if not line.startswith(prepares)]
    assert commands == ["make lint", "make test"]
    assert all(command in README for command in commands)


def check_links(text: str) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (ROOT / target).exists(), target


def test_links_point_to_existing_files() -> None:
    check_links(README)
    must_fail(check_links, "[old things](attic/README.md)")
