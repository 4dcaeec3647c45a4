"""Notebooks: definitions are executed and checked, other statements are not executed."""

import json
from pathlib import Path

import pytest

from limelight.check.isolation.parent import check_file, check_files
from limelight.check.report import FileReport

ATTENTION = """import math

def scaled_dot_product(q, k, v, mask=None):
    scores = q @ k.mT / {scale}
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -math.inf)
    weights = scores.softmax(-1)
    return weights @ v, weights"""

HEADS = """class MultiheadAttention(nn.Module):
    def __init__(self, input_dim, embed_dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.qkv = nn.Linear(input_dim, 3 * embed_dim)
        self.out = nn.Linear(embed_dim, embed_dim)

    def forward(self, x, mask=None):
        b, t, _ = x.shape
        qkv = self.qkv(x).reshape(b, t, self.num_heads, -1).transpose(1, 2).chunk(3, -1)
        mixed, _ = scaled_dot_product(*qkv, None if mask is None else mask[:, None])
        return self.out(mixed.transpose(1, 2).reshape(b, t, -1))"""

IMPORTS = """%matplotlib inline
!pip install einops
import no_such_package
import torch
from torch import nn
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")"""

RIGHT = "math.sqrt(q.shape[-1])"


def notebook(folder: Path, *cells: str) -> Path:
    path = folder / "homework 3.ipynb"
    found = [{"cell_type": "code", "source": cell.splitlines(keepends=True)} for cell in cells]
    found.insert(1, {"cell_type": "markdown", "source": ["# Attention"]})
    path.write_text(json.dumps({"cells": found, "nbformat": 4, "metadata": {}}))
    return path


def broken(found: FileReport) -> dict[str, list[str]]:
    return {report.name: [finding.promise for finding in report.broken] for report in found.reports}


def places(found: FileReport) -> dict[str, tuple[int, int]]:
    return {report.name: (report.cell, report.line) for report in found.reports}


@pytest.mark.parametrize(("scale", "promises"), [(RIGHT, []), ("q.shape[-1]", ["scale"])])
def test_the_definitions_of_a_notebook_are_checked(tmp_path: Path, scale: str, promises: list[str]) -> None:
    training = "def plot_attention(maps):\n    plt.imshow(maps)\n\n"
    training += "while True:\n    train(MultiheadAttention(8, 8, 2))"
    path = notebook(tmp_path, IMPORTS, ATTENTION.format(scale=scale), training, HEADS)
    (found,) = check_files([str(tmp_path)])
    assert found == check_file(path)
    assert found.trouble == ""
    assert broken(found) == {"scaled_dot_product": promises, "MultiheadAttention": []}
    assert places(found) == {"scaled_dot_product": (2, 3), "MultiheadAttention": (4, 1)}


def test_cells_and_classes_with_errors_are_named_and_the_rest_is_checked(tmp_path: Path) -> None:
    scratch, missing = "x = (1,\n  2", "import d2l\n\nclass Encoder(d2l.Module):\n    pass"
    undefined = "class Decoder(Missing):\n    pass"
    path = notebook(tmp_path, IMPORTS, scratch, missing, undefined, ATTENTION.format(scale=RIGHT))
    found = check_file(path)
    assert "cell 2, line 1: SyntaxError" in found.trouble
    assert "cell 4, line 1: Decoder cannot be defined: NameError: name 'Missing'" in found.trouble
    assert broken(found) == {"Encoder": [], "scaled_dot_product": []}
    assert found.reports[0].trouble.endswith("needs the package d2l, which is not installed")
    assert found.exit_code() == 2


def test_the_adapter_for_a_notebook_is_a_cell(tmp_path: Path) -> None:
    odd = "class MyAttention(nn.Module):\n    def forward(self, *tensors):\n        raise ValueError"
    (report,) = check_file(notebook(tmp_path, IMPORTS, odd)).reports
    assert report.adapter.startswith("class Adapted(MyAttention):")
    assert "limelight check 'homework 3.ipynb::Adapted' --as" in report.adapter


@pytest.mark.parametrize("text", ["", "{}", '{"cells": 3}', "print('a script')"])
def test_a_file_that_is_no_notebook_is_reported(tmp_path: Path, text: str) -> None:
    path = tmp_path / "notes.ipynb"
    path.write_text(text)
    found = check_file(path)
    assert "it is not a Jupyter notebook" in found.trouble
    assert found.exit_code() == 2


@pytest.mark.parametrize(("scale", "promises"), [(RIGHT, []), ("q.shape[-1]", ["scale"])])
def test_a_name_is_checked_with_the_objects_that_it_uses(
    tmp_path: Path, scale: str, promises: list[str]
) -> None:
    path = tmp_path / "attention.py"
    other = "def masked_softmax(scores, mask=None):\n    return scores.softmax(-1)"
    code = "from torch import nn\n" + "\n\n".join((ATTENTION.format(scale=scale), HEADS, other))
    path.write_text(code)
    found = check_file(path, "MultiheadAttention")
    assert broken(found) == {"MultiheadAttention": [], "scaled_dot_product": promises}
    assert broken(check_file(path))["masked_softmax"] == ["mask-has-effect"]


def test_a_finding_has_the_cell_and_the_line_of_the_code(tmp_path: Path) -> None:
    path = notebook(tmp_path, IMPORTS, ATTENTION.format(scale="q.shape[-1]"))
    (finding,) = check_file(path).reports[0].broken
    assert (finding.promise, finding.file, finding.cell, finding.line) == ("scale", "", 2, 4)
    assert finding.code == "scores = q @ k.mT / q.shape[-1]"
