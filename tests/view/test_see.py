"""`limelight.see` and `limelight see FILE.py::NAME`: records and pages of models of any library."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from browser import needs_browser, opened
from command import command
from support import EXACT, HIDDEN, B, D, H, S, T, not_none
from torch import Tensor, nn
from view import foreign

import limelight
from limelight import view
from limelight.errors import WrongInput
from limelight.view import capture
from limelight.view.record import STEPS
from limelight.view.see import picture_of

WORDS = ("the", "cat", "sat", "on", "it")
OTHERS = ("le", "chat", "s'", "est", "assis", "là", ".")


def encoder(depth: int = 2, width: int = D, heads: int = H) -> nn.TransformerEncoder:
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(width, heads, HIDDEN, batch_first=True), depth)


class Vision(nn.Module):
    """A Vision Transformer with a class token."""

    def __init__(self, prefixes: int = 1) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, D, 4, stride=4)
        self.before = nn.Parameter(torch.randn(1, prefixes, D))
        self.encoder, self.head = encoder(), nn.Linear(D, 7)

    def forward(self, pixels: Tensor) -> Tensor:
        x = self.patches(pixels).flatten(2).transpose(1, 2)
        return self.head(self.encoder(torch.cat((self.before.expand(len(x), -1, -1), x), 1))[:, 0])


def test_the_record_has_the_captured_weights_of_each_example() -> None:
    model, x = encoder(), torch.randn(B, T, D)
    seen = limelight.see(model, x, WORDS)
    with torch.no_grad():
        found = capture(model.eval(), x)
    assert len(seen.records) == B
    for number, record in enumerate(seen.records):
        assert record.sides == {"source": WORDS}
        assert [(one.name, one.part, one.layer, one.heads) for one in record.maps] == [
            ("layers.0.self_attn", "self-attention", 0, H),
            ("layers.1.self_attn", "self-attention", 1, H),
        ]
        for layer, attention in zip(record.layers(), found.attentions, strict=True):
            torch.testing.assert_close(layer, attention.weights[number], rtol=0.0, atol=1.0 / STEPS)


def test_an_encoder_decoder_has_a_source_and_a_target() -> None:
    model = nn.Transformer(D, H, 1, 1, HIDDEN, batch_first=True)
    inputs = torch.randn(1, S, D), torch.randn(1, T, D)
    (record,) = limelight.see(model, inputs, {"source": OTHERS, "target": WORDS}).records
    assert record.sides == {"source": OTHERS, "target": WORDS}
    assert [(one.part, one.queries, one.keys) for one in record.maps] == [
        ("encoder", "source", "source"),
        ("decoder", "target", "target"),
        ("cross-attention", "target", "source"),
    ]


def test_sides_of_the_same_length_are_told_apart_by_the_names_of_the_modules() -> None:
    model = nn.Transformer(D, H, 1, 1, HIDDEN, batch_first=True)
    (record,) = limelight.see(model, (torch.randn(1, T, D), torch.randn(1, T, D))).records
    assert [one.part for one in record.maps] == ["encoder", "decoder", "cross-attention"]


def test_heads_of_a_small_model_can_be_switched_off_in_the_page() -> None:
    model, x = encoder(), torch.randn(2, T, D)
    records = limelight.see(model, x).records
    with view.intervene(model, {"layers.0.self_attn": view.off(1)}):
        expected = limelight.see(model, x, layers=[1]).records
    for record, changed in zip(records, expected, strict=True):
        assert [(one.map, one.head) for one in record.variants] == [(0, 0), (0, 1), (1, 0), (1, 1)]
        layers = record.model_copy(update={"weights": record.variants[1].record.weights}).layers()
        assert not layers[0][1].any()
        torch.testing.assert_close(layers[1], changed.layers()[0], rtol=0.0, atol=1.0 / STEPS)
    many = limelight.see(encoder(13, 24, 4), torch.randn(1, T, 24)).records
    assert many[0].variants == ()  # 52 are too many


def test_token_ids_are_the_default_names_of_tokens() -> None:
    model = nn.Sequential(nn.Embedding(20, D), encoder(1))
    (record,) = limelight.see(model, torch.tensor([[5, 3, 9]])).records
    assert record.sides == {"source": ("5", "3", "9")}
    assert record.given == "5 3 9"


@pytest.mark.parametrize("prefixes", [0, 1, 3])
def test_patches_and_the_tokens_before_them_are_found(prefixes: int) -> None:
    records = limelight.see(Vision(prefixes), torch.randn(2, 3, 12, 20)).records
    image = not_none(records[1].image)
    assert (image.rows, image.columns, image.first) == (3, 5, prefixes)
    before = {0: (), 1: ("[class]",), 3: ("[0]", "[1]", "[2]")}[prefixes]
    assert records[1].sides["source"][: prefixes + 2] == (*before, "0, 0", "0, 1")
    assert len(records[1].candidates) == 5


def test_tokens_that_are_no_grid_are_no_picture() -> None:
    assert picture_of(torch.rand(3, 12, 20), 4) is None


def test_the_modes_of_all_modules_are_restored() -> None:
    model = encoder().train()
    model.layers[0].eval()
    limelight.see(model, torch.randn(1, T, D))
    assert [part.training for part in (model, model.layers[0], model.layers[1])] == [True, False, True]


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (WORDS[:2], r"tokens is 2 of source; allowed: 5 of source"),
        ({"target": WORDS}, r"tokens is 5 of target; allowed: 5 of source"),
        ("the cat sat on it", r"a list of texts, one per token"),
        ([WORDS], r"1 lists; allowed: a list per example"),
    ],
)
def test_tokens_that_do_not_fit_are_refused(tokens: Any, message: str) -> None:
    with pytest.raises(WrongInput, match=message):
        limelight.see(encoder(1), torch.randn(2, T, D), tokens)


def test_long_inputs_are_refused_before_a_page_is_made() -> None:
    with pytest.raises(WrongInput, match="513 tokens are too many for a page; allowed: 512"):
        limelight.see(encoder(1), torch.randn(1, 513, D))


def test_a_warning_names_what_is_not_shown() -> None:
    model = nn.Sequential(foreign.InnerSoftmax(), foreign.Chunked())
    with pytest.warns(UserWarning, match="never computed as a whole: 1$"):
        limelight.see(model, torch.randn(1, T, D))


def test_files_of_all_formats_can_be_saved(tmp_path: Path) -> None:
    seen = limelight.see(encoder(1), torch.randn(2, T, D), WORDS)
    for name in ("a.html", "a.png", "a.svg", "a.json"):
        assert seen.save(tmp_path / name).stat().st_size > 1000
    assert len(json.loads((tmp_path / "a.json").read_text())) == 2
    with pytest.raises(WrongInput, match=r"a name that ends in \.html"):
        seen.save(tmp_path / "a.doc")


@needs_browser
def test_a_page_of_a_large_model_is_small_and_shows_every_head(tmp_path: Path) -> None:
    model = encoder(12, 72, 12)
    page = limelight.see(model, torch.randn(1, 64, 72)).save(tmp_path / "page.html")
    assert page.stat().st_size < 5_000_000
    with opened() as browser:
        browser.goto(page.as_uri())
        browser.get_by_role("button", name="Self-attention, layer 11, head 11").wait_for()
        assert browser.locator(".small-map").count() == 12 * 13
        assert browser.get_by_text("prediction").count() == 0


SCRIPT = """
import torch
from torch import nn

import other

model = nn.Sequential(nn.Embedding(20, 22), nn.TransformerEncoder(
    nn.TransformerEncoderLayer(22, 2, 29, batch_first=True), 2))

def example():
    return model, torch.tensor([[5, 3, 9]]), ["the", "cat", "sat"]

def without_tokens():
    return model, torch.tensor([[5, 3, 9]])

def wrong_ids():
    return example()[0], model(torch.tensor([[99]]))

def nothing():
    return None
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (tmp_path / "other.py").write_text("")
    path = tmp_path / "model.py"
    path.write_text(SCRIPT)
    return path


@pytest.mark.parametrize(
    ("name", "given", "tokens"),
    [
        ("example", (), ["the", "cat", "sat"]),
        ("without_tokens", (), ["5", "3", "9"]),
        ("model", ("7 1",), ["7", "1"]),
    ],
)
def test_the_command_shows_a_model_in_a_file(
    script: Path, name: str, given: tuple[str, ...], tokens: list[str]
) -> None:
    out = script.parent / "out.json"
    done = command("see", f"{script}::{name}", *given, "--out", str(out))
    assert (done.returncode, done.stdout.strip()) == (0, str(out)), done.stderr
    (record,) = json.loads(out.read_text())
    assert record["sides"] == {"source": tokens}
    assert len(record["maps"]) == 2


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("model.py", "the name is ''; allowed: "),
        ("model.py::absent", "the name is 'absent'; allowed: "),
        ("model.py::nn", "is a module; allowed: a model, or a function that returns"),
        ("model.py::model", "the input of the model is ''; allowed: token ids"),
        ("model.py::nothing", "is a NoneType; allowed: (model, inputs) or (model, inputs, tokens)"),
        ("model.py::wrong_ids", "model.py, line 17: IndexError: index out of range in self"),
        ("absent.py::model", "absent.py: No such file"),
    ],
)
def test_what_cannot_be_shown_is_one_line(script: Path, target: str, message: str) -> None:
    done = command("see", f"{script.parent}/{target}")
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_output_of_the_model_is_not_changed_by_see() -> None:
    model, x = encoder().eval(), torch.randn(B, T, D)
    before = model(x)
    limelight.see(model, x)
    torch.testing.assert_close(model(x), before, **EXACT)
