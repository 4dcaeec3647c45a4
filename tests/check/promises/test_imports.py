"""Promise modules do not import each other: shared measurements are instruments."""

import ast
from pathlib import Path

import pytest
from support import must_fail

import limelight

FOLDER = Path(limelight.__file__).parent / "check" / "promises"
MODULES = sorted(path for path in FOLDER.glob("*.py") if path.stem not in ("__init__", "registry", "promise"))


def check_imports(code: str) -> None:
    modules = [node.module or "" for node in ast.walk(ast.parse(code)) if isinstance(node, ast.ImportFrom)]
    others = [name for name in modules if name.startswith("limelight.check.promises")]
    assert set(others) <= {"limelight.check.promises.promise"}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_promise_modules_do_not_import_each_other(path: Path) -> None:
    check_imports(path.read_text())


def test_an_import_of_another_promise_module_is_found() -> None:
    must_fail(check_imports, "from limelight.check.promises.masks import PROMISES")
