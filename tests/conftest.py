import multiprocessing.process
import os
import subprocess
from collections.abc import Iterator
from typing import Any, NoReturn

import pytest
import torch


@pytest.fixture(autouse=True)
def _same_seed_for_every_test() -> None:
    torch.manual_seed(1)


@pytest.fixture(autouse=True, scope="session")
def _fast_seed() -> Iterator[None]:
    """Without an accelerator, torch.manual_seed formats the stack three times, to seed accelerators later.

    This takes half of the time of the tests of `check`. The CPU gets the same random numbers.
    """
    with pytest.MonkeyPatch.context() as patch:
        if not torch.accelerator.is_available():
            patch.setattr(torch, "manual_seed", torch.default_generator.manual_seed)
        yield


@pytest.fixture(autouse=True)
def _no_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test simulates a power failure, and fsync takes half of the time of a tiny run."""
    monkeypatch.setattr(os, "fsync", lambda file: None)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--quick", action="store_true", help="skip tests marked slow, and all that train or start a process"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--quick"):
        for item in items:
            if item.get_closest_marker("slow") or item.get_closest_marker("torture"):
                item.add_marker(pytest.mark.skip(reason="slow"))


@pytest.fixture(autouse=True, scope="session")
def _quick(request: pytest.FixtureRequest) -> Iterator[None]:
    """With --quick, a test is skipped as soon as it or its fixtures train or start a process.

    New tests therefore need no list and no marker. Browsers are processes, too.
    """
    with pytest.MonkeyPatch.context() as patch:
        if request.config.getoption("--quick"):
            from limelight.training.loop import Trainer

            patch.setattr(Trainer, "fit", _skip)
            patch.setattr(subprocess.Popen, "__init__", _skip)
            patch.setattr(multiprocessing.process.BaseProcess, "start", _skip)
            patch.setattr(os, "fork", _skip)
        yield


def _skip(*_: Any, **__: Any) -> NoReturn:
    pytest.skip("trains or starts a process")
