"""Every public module, class and function has a docstring, and every setting a description."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import must_fail

from limelight.config import Config
from limelight.experiment import Experiment
from limelight.tasks.registry import registered
from limelight.training.config import TrainConfig

SOURCE = Path(__file__).parent.parent / "src" / "limelight"
MODULES = sorted(SOURCE.rglob("*.py"))


def undocumented(code: str) -> Iterator[str]:
    """The public names of a module that have no docstring; "" is the module itself."""
    tree = ast.parse(code)
    if not ast.get_docstring(tree):
        yield ""
    yield from _undocumented_in(tree, "")


def _undocumented_in(parent: ast.Module | ast.ClassDef, above: str) -> Iterator[str]:
    for node in parent.body:
        if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) or node.name[0] == "_":
            continue
        is_overload = any(isinstance(one, ast.Name) and one.id == "overload" for one in node.decorator_list)
        if not ast.get_docstring(node) and not is_overload:
            yield above + node.name
        if isinstance(node, ast.ClassDef):
            yield from _undocumented_in(node, f"{above}{node.name}.")


def check_docstrings(code: str) -> None:
    assert not list(undocumented(code))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_every_public_name_has_a_docstring(path: Path) -> None:
    check_docstrings(path.read_text())


def test_a_missing_docstring_is_found() -> None:
    check_docstrings(
        '"""Module."""\ndef _private(): ...\nclass A:\n    """A."""\n    def f(self):\n        """F."""'
    )
    must_fail(check_docstrings, "x = 1")
    must_fail(check_docstrings, '"""Module."""\ndef public(): ...')
    must_fail(check_docstrings, '"""Module."""\nclass A:\n    """A."""\n    def f(self): ...')


def configs_of(schema: dict[str, object]) -> dict[str, dict[str, dict[str, object]]]:
    """The settings of each config in a JSON schema."""
    found = {str(schema["title"]): schema} | dict(schema.get("$defs", {}))  # type: ignore[call-overload]
    return {name: one["properties"] for name, one in found.items() if "properties" in one}


def undescribed(config: type[Config]) -> list[str]:
    """The settings without a description, at any depth; `kind` names the config itself."""
    return [
        f"{name}.{key}"
        for name, settings in configs_of(config.model_json_schema()).items()
        for key, setting in settings.items()
        if key != "kind" and not setting.get("description")
    ]


def test_every_setting_of_an_experiment_has_a_description() -> None:
    own = [task for task in registered() if task.__module__.startswith("limelight.")]
    models = {model for task in own for model in task.models}
    configs: list[type[Config]] = [*own, *models, TrainConfig]
    for config in configs:
        assert undescribed(config) == []
    assert all(setting.description for setting in Experiment.model_fields.values())

    class Bare(Config):
        width: int = 3

    assert undescribed(Bare) == ["Bare.width"]
