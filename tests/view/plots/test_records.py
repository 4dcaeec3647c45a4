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
