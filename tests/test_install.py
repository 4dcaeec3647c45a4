"""The installed versions are those of constraints.txt, and no GPU packages are installed."""

import os
import re
from importlib.metadata import distributions, requires, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name as canonical

ROOT = Path(__file__).parent.parent
PINS = dict(re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE))
INSTALLED: dict[str, str] = {canonical(found.metadata["Name"]): found.version for found in distributions()}


def needed_by(name: str, extras: set[str]) -> set[str]:
    """The names of all direct and indirect dependencies of `name` with `extras` on this machine."""
    found: set[str] = set()
    waiting = [(name, extras)]
    while waiting:
        owner, wanted = waiting.pop()
        for line in requires(owner) or []:
            need = Requirement(line)
            markers = [{"extra": extra} for extra in wanted] or [{"extra": ""}]
            if need.marker and not any(need.marker.evaluate(marker) for marker in markers):
                continue
            need_name = canonical(need.name)
            if need_name not in found:
                found.add(need_name)
                waiting.append((need_name, need.extras))
    return found


def test_every_dependency_of_the_tests_is_pinned_and_installed_as_pinned() -> None:
    needed = needed_by("limelight", {"dev"}) - {"limelight"}
    assert {"torch", "pytest", "numpy", "mdurl"} <= needed
    assert needed <= set(PINS)
    assert {name: INSTALLED[name].split("+")[0] for name in needed} == {name: PINS[name] for name in needed}


def test_pins_are_plain_versions() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert len(pins) == len(PINS)
    assert PINS["torch"] == "2.13.0"
    assert not [pin for pin in pins if "+" in pin or "@" in pin]


@pytest.mark.skipif(
    "CI" not in os.environ, reason="GPU packages may be installed on purpose; only CI has none"
)
def test_no_gpu_packages_are_installed() -> None:
    assert not [name for name in INSTALLED if name.startswith(("nvidia-", "triton", "cuda-"))]


def test_the_version_has_an_entry_in_the_changelog() -> None:
    assert f"## [{version('limelight')}] - " in (ROOT / "CHANGELOG.md").read_text()
