"""The files of the repository agree: hooks with `make lint`, promises in tests with docs/reliability.md."""

import re
from pathlib import Path

from support import must_fail

ROOT = Path(__file__).parent.parent


def lint_commands(makefile: str) -> list[str]:
    """The commands of `make lint`, without the message that it prints."""
    recipe = re.search(r"^lint:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    assert recipe is not None
    commands = [line.strip().removeprefix("@") for line in recipe[1].splitlines()]
    return [command.replace("$(BIN)", ".venv/bin") for command in commands if not command.startswith("echo ")]


def check_hooks(hooks: str, makefile: str) -> None:
    entries = re.findall(r"^ *entry: (.*)$", hooks, re.MULTILINE)
    assert entries == lint_commands(makefile)
    for setting in ("language: system", "pass_filenames: false"):
        assert hooks.count(setting) == len(entries), setting


def test_pre_commit_runs_the_commands_of_make_lint() -> None:
    hooks, makefile = (ROOT / ".pre-commit-config.yaml").read_text(), (ROOT / "Makefile").read_text()
    assert len(lint_commands(makefile)) == 3
    check_hooks(hooks, makefile)
    must_fail(check_hooks, hooks.replace("ruff check .", "ruff check src"), makefile)
    must_fail(check_hooks, hooks, makefile.replace("\t@$(BIN)/mypy\n", ""))


RELIABILITY = (ROOT / "docs" / "reliability.md").read_text()
TESTS = sorted(path for path in (ROOT / "tests").rglob("*.py") if path != Path(__file__))


def check_promises(page: str, tests: str) -> None:
    """Every id that the tests cite is defined, and every test file that the page names exists."""
    defined = re.findall(r"^\| ([A-Z]\d) \|", page, re.MULTILINE)
    phrases = re.findall(r"(?:\"\"\"|# |    )((?:[RNBSL]\d(?:, | and )?)+)[:, ]", tests)
    cited = {promise for phrase in phrases for promise in re.findall(r"[A-Z]\d", phrase)}
    assert cited <= set(defined), cited - set(defined)
    for path in re.findall(r"`(tests/[\w/.]+)`", page):
        assert (ROOT / path).exists(), path


def test_every_promise_that_a_test_cites_is_defined() -> None:
    tests = "\n".join(path.read_text() for path in TESTS)
    check_promises(RELIABILITY, tests)
    must_fail(check_promises, RELIABILITY.replace("| R7 |", "| |"), tests)
    must_fail(check_promises, RELIABILITY + "`tests/attic.py`", tests)
