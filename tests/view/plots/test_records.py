"""Figures of records show the weights of the record, and blank cells only where a mask hides a position."""

from typing import Any

import torch
from matplotlib.figure import Figure
from support import must_fail
from torch import Tensor

from limelight.view.plots.attention import draw_attention
from limelight.view.plots.records import draw_record
from limelight.view.record import AttentionMap, Record, pack

TOKENS = ("a", "b", "c", "d", "e")


def record_of(weights: Tensor) -> Record:
    """A record of one attention with these weights (H, T, T)."""
    one = AttentionMap(
        name="attention", part="encoder", layer=0, heads=len(weights), queries="source", keys="source"
    )
    return Record(given="", answer="", sides={"source": TOKENS}, maps=(one,), weights=pack([weights]))


def peaked(causal: bool) -> Tensor:
    """Nearly all weight of each query on one key: all other weights are rounded to zero in a record."""
    scores = torch.zeros(2, 5, 5)
    scores[..., 0 if causal else -1] = 20.0
    if causal:
        scores = scores.masked_fill(torch.ones(5, 5, dtype=torch.bool).triu(1), -torch.inf)
    return scores.softmax(-1)


def check_blank(figure: Figure, expected: Tensor) -> None:
    for head in range(2):
        shown: Any = figure.axes[head].images[0].get_array()
        mask = torch.as_tensor(shown.mask).expand(5, 5)
        assert mask.equal(expected)


def test_small_weights_are_not_left_blank() -> None:
    record = record_of(peaked(causal=False))
    assert record.layers()[0].eq(0).any()
    nowhere = torch.zeros(5, 5, dtype=torch.bool)
    check_blank(draw_record(record), nowhere)
    must_fail(check_blank, draw_attention(record.layers()[0]), nowhere)


def test_positions_hidden_by_a_causal_mask_are_blank() -> None:
    above = torch.ones(5, 5, dtype=torch.bool).triu(1)
    record = record_of(peaked(causal=True))
    check_blank(draw_record(record), above)
    must_fail(check_blank, draw_attention(record.layers()[0]), above)


def title_of(**changes: Any) -> str:
    record = record_of(peaked(causal=False)).model_copy(update=changes)
    return " ".join(draw_record(record, title="text").get_suptitle().split())


def test_the_title_has_the_input_the_answer_its_probability_and_the_truth() -> None:
    known = {"given": "a b c d e", "answer": "yes", "probability": 0.875}
    assert title_of(**known) == "text: “a b c d e” → yes (87.5%)"
    assert title_of(**known, truth="yes", right=True) == "text: “a b c d e” → yes (87.5%), correct"
    assert title_of(**known, truth="no", right=False) == "text: “a b c d e” → yes (87.5%), expected no"
    assert title_of(**known | {"probability": 1e-5}).endswith("→ yes (< 0.1%)")
    assert title_of(**known | {"probability": None}, truth="7").endswith("→ yes, expected 7")
    assert len(title_of(**known | {"given": "x" * 999})) < 120


def test_the_title_of_a_translation_has_the_reference() -> None:
    known = {"given": "eins", "answer": "un", "truth": "une", "right": False}
    sides = {"source": TOKENS, "target": TOKENS}
    assert title_of(**known, sides=sides) == "text: “eins” → “un”; reference “une”"
