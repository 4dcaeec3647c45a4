"""Imports point down: a module imports only from a lower level or its own folder."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import must_fail

SOURCE = Path(__file__).parent.parent / "src" / "limelight"

LEVELS = {
    "errors": 0,
    "invocation": 0,
    "openmp": 0,
    "progress": 0,
    "randomness": 0,
    "settings": 0,
    "systems": 0,
    "config": 1,
    "memory": 1,
    "nn": 2,
    "data": 2,
    "models": 3,
    "view": 3,
    "tasks": 4,
    "plugin": 5,
    "training": 5,
    "bridge": 5,
    "check": 5,
    "recipes": 5,
    "experiment": 6,
    "terminal": 7,
    "cli": 8,
    "__main__": 9,
}


def folder_of(module: str) -> str:
    """The folder or file right below the package: "nn" of "limelight.nn.masks", "" of the package."""
    return module.removeprefix("limelight").removeprefix(".").split(".")[0]


def imports_of(code: str) -> Iterator[str]:
    """Every module of this package that the code imports, inside functions too."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "limelight")
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute, so that they can be read"
            if node.module and node.module.split(".")[0] == "limelight":
                yield node.module


def check_imports(path: Path, code: str) -> None:
    folder = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    for module in imports_of(code):
        target = folder_of(module)
        if target in ("", folder):
            continue
        assert target in LEVELS, f"{path.name} imports {module}, whose level is unknown"
        assert LEVELS[target] < LEVELS[folder], (
            f"{path.name} ({folder}) imports {module}: upwards or sideways"
        )


MODULES = sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_modules_import_only_from_lower_levels(path: Path) -> None:
    check_imports(path, path.read_text())


def test_every_module_and_folder_has_a_level() -> None:
    folders = {path.relative_to(SOURCE).parts[0].removesuffix(".py") for path in MODULES}
    assert folders == set(LEVELS)


@pytest.mark.parametrize(
    "code",
    [
        "from limelight.view import watch",
        "import limelight.bridge",
        "def late():\n    from limelight.cli import app",
        "from ..view import watch",
        "from limelight.attic import old",
    ],
)
def test_the_check_catches_an_import_from_a_higher_level(code: str) -> None:
    must_fail(check_imports, SOURCE / "nn" / "masks.py", code)


def test_the_check_catches_an_import_from_another_folder_of_the_same_level() -> None:
    must_fail(check_imports, SOURCE / "view" / "capture.py", "from limelight.models.vit import ViT")
