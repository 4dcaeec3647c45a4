"""Ways of writing that are understood: each is correct, and wrong if one line is changed."""

from pathlib import Path

import pytest
from classroom import broken, report_of

from limelight.check.isolation.parent import check_file

pytestmark = pytest.mark.slow

HEAD = """
import math
from dataclasses import dataclass

import torch
from torch import nn

class Attention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.qkv, self.out = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)

    def forward(self, x, mask=None):
        B, T, D = x.shape
        q, k, v = self.qkv(x).view(B, T, 3, self.n_heads, -1).permute(2, 0, 3, 1, 4)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores + mask
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(B, T, D))

class Base(nn.Module):
    def forward(self, x):
        h = self.norm1(x)
        x = x + self.attention(h)
        return x + self.mlp(self.norm2(x))
"""
STYLES = {
    "nested configuration": """
class EncoderBlock(Base):
    def __init__(self, width, opts):
        super().__init__()
        self.attention = Attention(width, opts["attention"]["heads"])
        self.mlp = nn.Sequential(nn.Linear(width, 24), nn.ReLU(), nn.Linear(24, width))
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
""",
    "configuration by use": """
class EncoderBlock(Base):
    def __init__(self, hyper):
        super().__init__()
        self.attention = Attention(hyper.d_model, hyper.heads)
        self.mlp = nn.Sequential(
            nn.Linear(hyper.d_model, hyper.d_ff), nn.ReLU(), nn.Linear(hyper.d_ff, hyper.d_model)
        )
        self.norm1, self.norm2 = nn.LayerNorm(hyper.d_model), nn.LayerNorm(hyper.d_model)
""",
    "classes as arguments": """
class EncoderBlock(Base):
    def __init__(self, d_model, heads, d_ff, attention_cls, norm_cls):
        super().__init__()
        self.attention = attention_cls(d_model, heads)
        self.mlp = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.norm1, self.norm2 = norm_cls(d_model), norm_cls(d_model)
""",
    "dataclass as output": """
@dataclass
class Output:
    x: torch.Tensor
    count: int

class EncoderBlock(Base):
    def __init__(self, d_model, heads, d_ff):
        super().__init__()
        self.attention = Attention(d_model, heads)
        self.mlp = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x):
        return Output(super().forward(x), 1)
""",
    "device as a string": """
class EncoderBlock(Base):
    def __init__(self, d_model, heads, d_ff, device="cuda"):
        super().__init__()
        self.attention = Attention(d_model, heads)
        self.mlp = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.to(device)
""",
    "a cache that is required": """
class EncoderBlock(Base):
    def __init__(self, d_model, heads, d_ff):
        super().__init__()
        self.attention = Attention(d_model, heads)
        self.mlp = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x, kv_cache):
        if kv_cache is not None:
            kv_cache.insert(x)
        return super().forward(x)
""",
    "one block called Encoder": """
class Encoder(Base):
    def __init__(self, d_model, heads, d_ff):
        super().__init__()
        self.attention = Attention(d_model, heads)
        self.mlp = FeedForward(d_model, d_ff)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.up, self.down = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, x):
        return self.down(self.up(x).relu())
""",
}


@pytest.mark.parametrize("style", STYLES)
def test_a_style_is_understood(tmp_path: Path, style: str) -> None:
    name = "Encoder" if "class Encoder(" in STYLES[style] else "EncoderBlock"
    found = report_of(tmp_path, HEAD + STYLES[style], name)
    assert not found.trouble
    assert found.kind == "encoder-block"
    assert broken(found) == []
    wrong = HEAD.replace("x = x + self.attention(h)", "x = self.attention(h)")
    assert broken(report_of(tmp_path, wrong + STYLES[style], name)) == ["residual"]


CAUSAL = """
class CausalAttention(Attention):
    def __init__(self, d_model, n_heads, mask=False):
        super().__init__(d_model, n_heads)
        self.mask = mask

    def forward(self, x, padding_mask):
        future = torch.full((x.shape[1], x.shape[1]), -1e9, dtype=x.dtype, device=x.device).triu(1)
        return super().forward(x, (future if self.mask else 0) + padding_mask)
"""


def test_the_format_of_an_additive_padding_mask_of_causal_attention_is_found(tmp_path: Path) -> None:
    found = report_of(tmp_path, HEAD + CAUSAL, "CausalAttention")
    assert broken(found) == []
    assert [note for note in found.notes if "padding_mask" in note and "0 = may attend" in note]
    wrong = report_of(
        tmp_path, HEAD + CAUSAL.replace("+ padding_mask)", "- padding_mask)"), "CausalAttention"
    )
    assert broken(wrong) != []


def test_a_learned_scale_is_not_judged_and_a_constant_is(tmp_path: Path) -> None:
    learned = HEAD.replace(
        "self.n_heads = n_heads", "self.n_heads = n_heads\n        self.t = nn.Parameter(torch.tensor(2.0))"
    )
    learned = learned.replace("math.sqrt(q.shape[-1])", "self.t")
    assert broken(report_of(tmp_path, learned, "Attention")) == []
    assert broken(report_of(tmp_path, HEAD.replace("math.sqrt(q.shape[-1])", "2.0"), "Attention")) == [
        "scale"
    ]


def test_talking_heads_are_not_judged_by_the_sums_of_their_weights(tmp_path: Path) -> None:
    own = "self.n_heads = n_heads"
    matrix = HEAD.replace(own, f"{own}\n        self.mix = nn.Linear(n_heads, n_heads, bias=False)")
    mixed = "(self.mix(scores.softmax(-1).movedim(1, -1)).movedim(-1, 1) @ v)"
    talking = matrix.replace("(scores.softmax(-1) @ v)", mixed)
    assert broken(report_of(tmp_path, talking, "Attention")) == []
    doubled = HEAD.replace("(scores.softmax(-1) @ v)", "(2 * scores.softmax(-1) @ v)")
    assert "rows-sum-to-one" in broken(report_of(tmp_path, doubled, "Attention"))


def test_a_default_of_none_that_is_used_is_a_finding(tmp_path: Path) -> None:
    wrong = HEAD.replace("x, mask=None):", "x, caches=None):\n        mask = caches[0]")
    assert broken(report_of(tmp_path, wrong, "Attention")) == ["runs"]


def test_cuda_without_a_gpu_does_nothing(tmp_path: Path) -> None:
    path = tmp_path / "gpu.py"
    path.write_text(HEAD.replace("B, T, D = x.shape", "x = x.cuda()\n        B, T, D = x.shape"))
    (found,) = check_file(path).reports
    assert not found.trouble
    assert broken(found) == []
    path.write_text(path.read_text().replace("x.cuda()", "x.cuba()"))
    assert broken(check_file(path).reports[0]) == ["runs"]


@pytest.mark.parametrize(
    ("old", "new", "promise"),
    [
        ("return self.out((", "return ((", "output-projection"),
        ("if mask is not None:", "if mask:", "runs"),
        (".softmax(-1) @ v)", ".softmax(-1).round() @ v)", "projection-unused"),
    ],
)
def test_mistakes_that_real_code_has(tmp_path: Path, old: str, new: str, promise: str) -> None:
    assert broken(report_of(tmp_path, HEAD, "Attention")) == []
    assert promise in broken(report_of(tmp_path, HEAD.replace(old, new), "Attention"))


FEED_FORWARD = """
class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.up, self.down = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x):
        return self.norm2(x + self.down(self.up(self.norm1(x)).relu()))
"""


def test_a_norm_that_is_called_twice_is_a_finding(tmp_path: Path) -> None:
    assert broken(report_of(tmp_path, HEAD + FEED_FORWARD, "FeedForward")) == []
    wrong = FEED_FORWARD.replace("self.norm2(x +", "self.norm1(x +").replace(", self.norm2 = nn", ", _ = nn")
    assert broken(report_of(tmp_path, HEAD + wrong, "FeedForward")) == ["norms"]


LATER = """
from __future__ import annotations
from torch import nn

Norm = lambda width: nn.LayerNorm(width)

class FeedForward(nn.Module):
    def copy(self) -> FeedForward:
        return self

    def __init__(self, d_model, d_ff):
        super().__init__()
        self.norm, self.up, self.down = Norm(d_model), nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, x):
        return x + self.down(self.up(self.norm(x)).relu())
"""


def test_annotations_are_not_evaluated_and_lambdas_are_definitions(tmp_path: Path) -> None:
    (tmp_path / "later.py").write_text(LATER)
    found = check_file(tmp_path / "later.py")
    assert found.trouble == ""
    assert [report.name for report in found.reports] == ["FeedForward"]
    assert found.exit_code() == 0
    (tmp_path / "now.py").write_text(LATER.replace("from __future__ import annotations", ""))
    assert "FeedForward cannot be defined: NameError" in check_file(tmp_path / "now.py").trouble


NUMPY = """
import numpy as np

def softmax(x):
    return np.exp(x) / np.sum(np.exp(x), axis=-1)

def casual_mask(size):
    import torch
    return torch.ones(size, size).tril().bool()
"""


def test_a_function_of_numpy_is_no_part_of_a_model(tmp_path: Path) -> None:
    (tmp_path / "arrays.py").write_text(NUMPY)
    assert [report.name for report in check_file(tmp_path / "arrays.py").reports] == ["casual_mask"]
