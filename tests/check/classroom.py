"""A class whose submissions are notebooks: originals, broken twins, and some that end or block the check."""

import importlib.util
import json
import sys
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from types import ModuleType

from twins import TWINS, Twin

from limelight.check.discover import candidates
from limelight.check.examine import examine
from limelight.check.report import Report

NUMBERS = count()
ORIGINALS = Path(__file__).parent / "originals"
STYLES = ("uva_style", "d2l_style", "torch_style", "plain_style", "public_style")

# What the submissions of careless or hostile students do; each is added to a correct solution.
HOSTILE = {
    "hanging": "class Blocked:\n    while True: pass",
    "crashing": "class Crash:\n    import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
    "exiting": "class Exit:\n    import os; os._exit(0)",
    "flooding": "class Flood:\n    import os\n    for _ in range(2000): os.write(1, b'x' * 65536)",
    "patching": "class Patch:\n    import torch\n    torch.softmax = lambda x, dim: x",
}


def load(path: Path) -> ModuleType:
    """A Python file as a module with the name of the file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def report_of(folder: Path, code: str, name: str) -> Report:
    """The report about one object of this code."""
    stem = f"submission{next(NUMBERS)}"
    path = folder / f"{stem}.py"
    path.write_text(code)
    module = load(path)
    thing, kind = candidates(vars(module), stem)[name]
    return examine(thing, name, kind, vars(module))


def broken(report: Report) -> list[str]:
    """The promises that are broken."""
    return [finding.promise for finding in report.broken]


def broken_source(twin: Twin) -> str:
    """The code of an original with the mistake of the twin."""
    text = (ORIGINALS / f"{twin.original}.py").read_text()
    start = text.index(twin.after) if twin.after else 0
    end = text.find("\nclass ", start + 1) if twin.after else len(text)
    part = text[start : end if end > 0 else len(text)]
    assert twin.old in part, f"{twin.old!r} is not in {twin.original}"
    return text[:start] + part.replace(twin.old, twin.new) + text[start + len(part) :]


def notebook(code: str) -> str:
    """A notebook with one cell per definition."""
    cells = [{"cell_type": "code", "metadata": {}, "source": cell} for cell in code.split("\n\n\n")]
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


def make_class(folder: Path, size: int, styles: Sequence[str] = STYLES) -> None:
    """Write `size` submissions: hostile ones, then originals of these styles and twins in turn."""
    twins = [twin for twin in TWINS if twin.original in styles]
    hostile = list(HOSTILE.items())[: size // 2]
    for number in range(size):
        if number < len(hostile):
            name, extra = hostile[number]
            code = f"{(ORIGINALS / f'{styles[0]}.py').read_text()}\n\n\n{extra}\n"
        elif number % 5 == 0:
            name = styles[number // 5 % len(styles)]
            code = (ORIGINALS / f"{name}.py").read_text()
        else:
            twin = twins[number * 7 % len(twins)]
            name, code = f"{twin.original} {twin.promise}", broken_source(twin)
        student = folder / f"student {number:02} {name}"
        student.mkdir(parents=True)
        (student / "homework.ipynb").write_text(notebook(code))
