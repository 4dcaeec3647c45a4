"""Right code raises no alarm; each broken twin of it is caught, for the right reason."""

import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
from twins import TWINS, Twin

from limelight.check.examine import candidates, examine
from limelight.check.harness.argument_names import KINDS
from limelight.check.report import Report

ORIGINALS = Path(__file__).parent / "originals"


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


@cache
def original(stem: str) -> dict[str, tuple[object, str]]:
    module = load(ORIGINALS / f"{stem}.py")
    return candidates(vars(module), stem)


def report_of(module: ModuleType, name: str) -> Report:
    thing, kind = candidates(vars(module), module.__name__)[name]
    return examine(thing, name, kind, vars(module))


NAMES = [(path.stem, name) for path in sorted(ORIGINALS.glob("*.py")) for name in original(path.stem)]


@pytest.mark.parametrize(("stem", "name"), NAMES, ids=lambda part: part)
def test_right_code_raises_no_alarm(stem: str, name: str) -> None:
    report = report_of(sys.modules[stem], name)
    assert not report.trouble
    assert [finding.promise for finding in report.broken] == []
    assert any(finding.verdict == "pass" for finding in report.findings)
    assert not [finding.hint for finding in report.findings if "could not be tried" in finding.hint]


def test_the_originals_are_of_every_kind() -> None:
    assert {kind for stem, _ in NAMES for _, kind in original(stem).values()} == set(KINDS)


def broken_source(twin: Twin) -> str:
    text = (ORIGINALS / f"{twin.original}.py").read_text()
    start = text.index(twin.after) if twin.after else 0
    end = text.find("\nclass ", start + 1) if twin.after else len(text)
    part = text[start : end if end > 0 else len(text)]
    assert twin.old in part, f"{twin.old!r} does not stand in {twin.original}"
    return text[:start] + part.replace(twin.old, twin.new) + text[start + len(part) :]


@pytest.mark.parametrize("twin", TWINS, ids=str)
def test_a_broken_twin_is_caught_for_the_right_reason(twin: Twin, tmp_path: Path) -> None:
    path = tmp_path / f"{twin.original}.py"
    path.write_text(broken_source(twin))
    report = report_of(load(path), twin.name)
    assert not report.trouble
    found = {finding.promise: finding for finding in (*report.broken, *report.warned)}
    assert twin.promise in found
    finding = found[twin.promise]
    assert finding.example
    assert finding.expected
    assert finding.came
    assert finding.hint


def test_there_are_enough_twins_of_every_kind() -> None:
    assert len(TWINS) >= 120
    assert {original(twin.original)[twin.name][1] for twin in TWINS} == set(KINDS)


def test_a_state_may_have_any_name(tmp_path: Path) -> None:
    text = (ORIGINALS / "d2l_way.py").read_text()
    start = text.index("class TransformerDecoderBlock")
    end = text.index("class TransformerDecoder(", start)
    path = tmp_path / "renamed.py"
    path.write_text(text[:start] + text[start:end].replace("state", "cache") + text[end:])
    report = report_of(load(path), "TransformerDecoderBlock")
    assert report.broken == []
    assert "cross-padding" in [finding.promise for finding in report.findings if finding.verdict == "pass"]
