"""Formats of masks: each one encodes the patterns that it can express."""

import torch

from limelight.check.harness.mask_formats import MaskFormat, causal_pattern, formats_for, padding_pattern

SIZE = 3, 5, 7  # batch, queries, keys


def test_each_format_describes_itself() -> None:
    assert str(MaskFormat("bool+", "BTS")) == "(B, T, S), True = may attend"
    assert str(MaskFormat("lengths", "B")) == "lengths (B,)"


def test_padding_and_causal_patterns_can_be_expressed_where_the_layout_allows_it() -> None:
    padding, causal = padding_pattern(*SIZE), causal_pattern(*SIZE)
    assert MaskFormat("bool+", "BS").can_express(padding)
    assert not MaskFormat("bool+", "BS").can_express(causal)
    assert MaskFormat("bool+", "TS").can_express(causal)
    assert not MaskFormat("bool+", "TS").can_express(padding)
    assert MaskFormat("lengths", "B").can_express(padding)
    assert MaskFormat("lengths", "BT").can_express(causal)
    assert not MaskFormat("lengths", "B").can_express(causal)


def test_masks_are_encoded_in_every_style() -> None:
    padding = padding_pattern(*SIZE)
    assert torch.equal(MaskFormat("bool+", "B11S").encode(padding), padding[:, :1].unsqueeze(1))
    assert torch.equal(MaskFormat("bool-", "BS").encode(padding), ~padding[:, 0])
    assert torch.equal(MaskFormat("float-", "BTS").encode(padding), (~padding).float())
    assert MaskFormat("lengths", "B").encode(padding).tolist() == padding[:, 0].sum(-1).tolist()
    added = MaskFormat("additive", "BTS").encode(padding)
    assert bool((added[padding] == 0).all())
    assert bool((added[~padding] == -torch.inf).all())


def test_the_name_of_an_argument_limits_its_formats() -> None:
    assert {one.layout for one in formats_for("mask", "key_padding_mask")} == {"BS", "B11S", "B1S"}
    assert {one.style for one in formats_for("mask", "attn_bias")} == {"additive"}
    assert formats_for("lengths", "valid_lens")[0] == MaskFormat("lengths", "B")
