"""The table of kinds: names are recognised, and every promise of the table exists."""

import re
from pathlib import Path

import pytest

from limelight.check.kinds import KINDS, kind_of_name
from limelight.check.promises.registry import MODULES, PROMISES


@pytest.mark.parametrize(
    ("name", "is_class", "kind"),
    [
        ("masked_softmax", False, "masked-softmax"),
        ("scaled_dot_product_attention", False, "scaled-dot-product"),
        ("DotProductAttention", True, "dot-product-attention"),
        ("BahdanauAttention", True, "additive-attention"),
        ("MultiHeadAttention", True, "multi-head-attention"),
        ("MyAttn", True, "multi-head-attention"),
        ("generate_square_subsequent_mask", False, "causal-mask"),
        ("get_attention_mask", False, "causal-mask"),
        ("make_pad_mask", False, "causal-mask"),
        ("PositionalEncoding", True, "positional-encoding"),
        ("PositionWiseFFN", True, "feed-forward"),
        ("TransformerEncoderBlock", True, "encoder-block"),
        ("DecoderLayer", True, "decoder-block"),
        ("TransformerEncoder", True, "encoder"),
        ("Decoder", True, "decoder"),
        ("GPT", True, "sequence-model"),
        ("make_model", False, "sequence-model"),
        ("PatchEmbedding", True, "patch-embedding"),
        ("img_to_patch", False, "patch-embedding"),
        ("ViT", True, "vision-transformer"),
        ("plot_attention", False, None),
        ("CausalMask", True, None),
        ("helper", False, None),
    ],
)
def test_kinds_are_recognised_by_their_names(name: str, is_class: bool, kind: str | None) -> None:
    found = kind_of_name(name, is_class=is_class)
    assert (found and found.name) == kind


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_every_kind_refers_to_promises_and_kinds_that_exist(kind) -> None:  # type: ignore[no-untyped-def]
    assert kind.promises
    assert set(kind.promises) <= set(PROMISES)
    assert set(kind.table_promises) <= set(PROMISES)
    assert {kind.with_heads, kind.without_source, kind.block} - {None} <= set(KINDS)


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_several_tests_of_one_promise_are_listed_one_after_the_other(kind) -> None:  # type: ignore[no-untyped-def]
    names = [PROMISES[key].name for key in kind.promises]
    groups = [name for name, before in zip(names, [None, *names], strict=False) if name != before]
    assert len(groups) == len(set(groups))


def test_every_promise_belongs_to_a_kind() -> None:
    used = {key for kind in KINDS.values() for key in (*kind.promises, *kind.table_promises)}
    assert used == set(PROMISES)
    assert len(PROMISES) == sum(len(module.PROMISES) for module in MODULES)
    assert all(promise.statement and promise.hint for promise in PROMISES.values())


def test_the_documentation_lists_every_kind_and_promise() -> None:
    text = (Path(__file__).parents[2] / "docs" / "check.md").read_text()
    kinds, promises = text.split("## Kinds")[1].split("## Promises")
    assert set(re.findall(r"`([a-z-]+)`", kinds)) == set(KINDS)
    listed = set(re.findall(r"^\| `([a-z-]+)` \|", promises, flags=re.MULTILINE))
    assert listed == {promise.name for promise in PROMISES.values()} | {"runs"}
