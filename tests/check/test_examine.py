"""Correct code keeps all promises; each broken twin of it breaks the expected one."""

import sys
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
from classroom import ORIGINALS, broken_source, load
from support import must_fail
from twins import TWINS, Twin

import limelight
from limelight.check import assert_kept, check
from limelight.check.discover import candidates
from limelight.check.examine import examine
from limelight.check.kinds import KINDS, Kind
from limelight.check.report import Report

pytestmark = pytest.mark.slow


@cache
def module_of(stem: str) -> ModuleType:
    return load(ORIGINALS / f"{stem}.py")


@cache
def original(stem: str) -> dict[str, tuple[object, Kind]]:
    return candidates(vars(module_of(stem)), stem)


def report_of(module: ModuleType, name: str) -> Report:
    sys.modules[module.__name__] = module  # a twin has the same name
    thing, kind = candidates(vars(module), module.__name__)[name]
    return examine(thing, name, kind, vars(module))


NAMES = [(path.stem, name) for path in sorted(ORIGINALS.glob("*.py")) for name in original(path.stem)]


@pytest.mark.parametrize(("stem", "name"), NAMES, ids=lambda part: part)
def test_correct_code_keeps_every_promise(stem: str, name: str) -> None:
    report = report_of(module_of(stem), name)
    assert not report.trouble
    assert [finding.promise for finding in report.broken] == []
    assert any(finding.verdict == "pass" for finding in report.findings)
    assert not [finding.hint for finding in report.findings if "could not be tested" in finding.hint]


def test_there_is_correct_code_of_every_kind() -> None:
    assert {kind.name for stem, _ in NAMES for _, kind in original(stem).values()} == set(KINDS)


@pytest.mark.parametrize("twin", TWINS, ids=str)
def test_code_with_one_mistake_breaks_the_expected_promise(twin: Twin, tmp_path: Path) -> None:
    path = tmp_path / f"{twin.original}.py"
    path.write_text(broken_source(twin))
    report = report_of(load(path), twin.name)
    assert not report.trouble
    found = {finding.promise: finding for finding in (*report.broken, *report.warned)}
    assert twin.promise in found
    finding = found[twin.promise]
    assert finding.example
    assert finding.expected
    assert finding.got
    assert finding.hint


def test_there_are_enough_mistakes_for_every_kind() -> None:
    assert len(TWINS) >= 120
    assert {original(twin.original)[twin.name][1].name for twin in TWINS} == set(KINDS)


def test_a_state_may_have_any_name(tmp_path: Path) -> None:
    text = (ORIGINALS / "d2l_style.py").read_text()
    start = text.index("class TransformerDecoderBlock")
    end = text.index("class TransformerDecoder(", start)
    path = tmp_path / "renamed.py"
    path.write_text(text[:start] + text[start:end].replace("state", "cache") + text[end:])
    report = report_of(load(path), "TransformerDecoderBlock")
    assert report.broken == []
    assert "cross-padding" in [finding.promise for finding in report.findings if finding.verdict == "pass"]


def test_assert_kept_fails_for_broken_code() -> None:
    def broken_masked_softmax(scores, mask=None):  # type: ignore[no-untyped-def]
        return scores.softmax(-1)

    assert_kept(limelight.nn.MultiHeadAttention)
    must_fail(assert_kept, broken_masked_softmax)
    assert [f.promise for f in check(broken_masked_softmax).broken] == ["mask-has-effect"]


OURS = {
    "masked-softmax": limelight.nn.masked_softmax,
    "scaled-dot-product": limelight.nn.attend,
    "additive-attention": limelight.nn.AdditiveAttention,
    "multi-head-attention": limelight.nn.MultiHeadAttention,
    "causal-mask": limelight.nn.causal_mask,
    "positional-encoding": limelight.nn.SinusoidalPositions,
    "feed-forward": limelight.nn.FeedForward,
    "encoder-block": limelight.nn.EncoderBlock,
    "decoder-block": limelight.nn.DecoderBlock,
    "encoder": limelight.nn.Encoder,
    "decoder": limelight.nn.Decoder,
    "patch-embedding": limelight.nn.PatchEmbedding,
}


@pytest.mark.parametrize("kind", OURS)
def test_our_own_parts_keep_every_promise(kind: str) -> None:
    report = check(OURS[kind], kind)
    assert report.trouble == ""
    assert [*report.broken, *report.warned] == []


TORCH = {
    "multi-head-attention": "MultiheadAttention",
    "encoder-block": "TransformerEncoderLayer",
    "decoder-block": "TransformerDecoderLayer",
}


@pytest.mark.parametrize("kind", TORCH)
def test_layers_of_torch_keep_every_promise(kind: str) -> None:
    report = check(getattr(__import__("torch").nn, TORCH[kind]), kind)
    assert report.trouble == ""
    assert [finding.promise for finding in report.broken] == []
