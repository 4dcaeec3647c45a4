"""Files as they are in their repositories: only definitions are executed, and imports are found."""

import json
from pathlib import Path

import pytest

from limelight.check.isolation.parent import check_file
from limelight.check.report import FileReport

MASK = """
import torch

def causal_mask(size):
    return torch.ones(size, size).tril().bool()
"""
FEED_FORWARD = """
class FeedForward(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))
"""


def write(folder: Path, files: dict[str, str]) -> None:
    for name, code in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code)


def check(path: Path) -> FileReport:
    before = sorted(path.parent.iterdir())
    found = check_file(path)
    assert sorted(path.parent.iterdir()) == before, "something was written beside the file"
    return found


def assert_all_checked(found: FileReport, *names: str) -> None:
    assert found.trouble == ""
    assert {report.name: report.trouble for report in found.reports} == dict.fromkeys(names, "")


@pytest.mark.parametrize(
    "statement",
    [
        "raise ValueError('no data')",
        "quit()",
        "name = input('name? ')",
        "while True: pass",
        "text = open('input.txt').read()",
        "import argparse\nargs = argparse.ArgumentParser().parse_args(['--unknown'])",
    ],
    ids=["raises", "quits", "asks", "trains", "reads", "arguments"],
)
def test_only_the_definitions_of_a_script_are_executed(tmp_path: Path, statement: str) -> None:
    write(tmp_path, {"train.py": f"{statement}\n{MASK}"})
    found = check(tmp_path / "train.py")
    assert_all_checked(found, "causal_mask")
    assert "only imports, functions, classes and constants were executed" in found.notes[0]


def test_a_module_without_statements_has_no_note(tmp_path: Path) -> None:
    write(
        tmp_path,
        {"masks.py": f'"""Masks."""\nprint("hello")\n{MASK}\nif __name__ == "__main__":\n    quit()\n'},
    )
    assert check(tmp_path / "masks.py").notes == ()


def test_sizes_that_are_computed_from_data_get_usual_values(tmp_path: Path) -> None:
    code = "import torch\nfrom torch import nn\n\ntext = open('input.txt').read()\nhidden = len(set(text))\n"
    code += FEED_FORWARD.replace("(self, width, hidden)", "(self, width)")
    write(tmp_path, {"train.py": code})
    found = check(tmp_path / "train.py")
    assert_all_checked(found, "FeedForward")
    assert any("hidden is computed from data" in note for note in found.notes)


AGAIN = " as Base\n\nclass MyFeedForward(Base): pass\n"
PACKAGE = {
    "repo/parts/__init__.py": "from .feed import FeedForward\nraise RuntimeError\n",
    "repo/parts/feed.py": f"import torch\nfrom torch import nn\n{FEED_FORWARD}",
    "repo/parts/blocks/deep.py": "from ..feed import FeedForward" + AGAIN,
    "repo/parts/blocks/base.py": f"import torch\nfrom torch import nn\n{FEED_FORWARD}",
    "repo/parts/blocks/beside.py": "from .base import FeedForward" + AGAIN,
    "repo/parts/near.py": "from .feed import FeedForward" + AGAIN,
    "repo/scripts/far.py": "from parts.feed import FeedForward" + AGAIN,
    "repo/src/layers.py": f"import torch\nfrom torch import nn\n{FEED_FORWARD}",
    "repo/nb/inside.py": "from layers import FeedForward" + AGAIN,
}


@pytest.mark.parametrize(
    "file",
    ["parts/blocks/deep.py", "parts/blocks/beside.py", "parts/near.py", "scripts/far.py", "nb/inside.py"],
)
def test_modules_of_the_repository_are_found(tmp_path: Path, file: str) -> None:
    write(tmp_path, PACKAGE)
    assert_all_checked(check(tmp_path / "repo" / file), "MyFeedForward")


def test_modules_outside_the_repository_are_not_found(tmp_path: Path) -> None:
    write(tmp_path, PACKAGE)
    (tmp_path / "repo" / "scripts" / ".git").mkdir()
    found = check(tmp_path / "repo" / "scripts" / "far.py")
    assert any("not installed: parts" in note for note in found.notes)


def test_a_missing_package_is_replaced_where_it_is_not_needed(tmp_path: Path) -> None:
    code = "import torch\nfrom torch import nn\nimport no_such_lib as lib\n"
    code += "from no_such_lib.typing import Float\n"
    code += "from no_such_lib import jit\n" + FEED_FORWARD.replace(
        "(self, x)", "(self, x: Float[int, 'b t'])"
    )
    code += FEED_FORWARD.replace("class FeedForward(nn.Module)", "@jit\nclass MyFeedForward(lib.Module)")
    code += FEED_FORWARD.replace("FeedForward", "NeedsFeedForward").replace("torch.relu", "lib.relu")
    write(tmp_path, {"model.py": code})
    found = check(tmp_path / "model.py")
    troubles = {report.name: report.trouble for report in found.reports}
    assert troubles["FeedForward"] == troubles["MyFeedForward"] == ""
    assert (
        "no_such_lib.relu needs the package no_such_lib, which is not installed"
        in troubles["NeedsFeedForward"]
    )
    assert any("not installed: no_such_lib" in note for note in found.notes)


def test_a_package_whose_absence_the_code_handles_is_not_replaced(tmp_path: Path) -> None:
    code = "import torch\nfrom torch import nn\ntry:\n    from no_such_lib import relu\nexcept ImportError:\n"
    code += "    relu = torch.relu\n" + FEED_FORWARD.replace("torch.relu", "relu")
    write(tmp_path, {"model.py": code})
    found = check(tmp_path / "model.py")
    assert_all_checked(found, "FeedForward")
    assert found.notes == ()


def test_the_standard_library_and_torch_cannot_be_shadowed(tmp_path: Path) -> None:
    names = ("json.py", "torch.py", "limelight/check/examine.py", "random.py")
    files = dict.fromkeys(names, "raise SystemExit")
    write(tmp_path, files | {"masks.py": "import json, random\n" + MASK})
    found = check(tmp_path / "masks.py")
    assert_all_checked(found, "causal_mask")
    assert "json.py is ignored: the standard library has a module of this name" in found.notes


def test_two_files_have_their_own_modules(tmp_path: Path) -> None:
    """Two students with utils.py."""
    for name, axis in (("ada", "-1"), ("bob", "-2")):
        code = f"def normalise(scores):\n    return scores.softmax({axis})\n"
        softmax = "from utils import normalise\n\ndef masked_softmax(scores, mask=None):\n    "
        softmax += "if mask is not None:\n        scores = scores.masked_fill(~mask, -1e30)\n    "
        write(tmp_path / name, {"utils.py": code, "soft.py": softmax + "return normalise(scores)\n"})
    broken = [bool(check(tmp_path / name / "soft.py").reports[0].broken) for name in ("ada", "bob", "ada")]
    assert broken == [False, True, False]


def test_magic_commands_and_a_byte_order_mark_are_ignored(tmp_path: Path) -> None:
    cells = [
        "%matplotlib inline\nfiles = !ls\ntorch?\n?torch",
        "%%bash\nls",
        "if True:\n    !pip install x",
        MASK,
    ]
    content = {"cells": [{"cell_type": "code", "source": cell} for cell in cells]}
    path = tmp_path / "homework.ipynb"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(content).encode())
    assert_all_checked(check(path), "causal_mask")
    (tmp_path / "export.py").write_text(f"!pip install x\n{MASK}")
    assert_all_checked(check(tmp_path / "export.py"), "causal_mask")
