"""Figures of attention records: the same data as the pages show."""

import torch
from matplotlib.figure import Figure
from torch import Tensor

from limelight.view.plots.attention import draw_attention
from limelight.view.plots.images import draw_patch_attention, rollout
from limelight.view.record import Picture, Record

MOST_MAPS = 24  # in a figure
TINY = 1e-9  # a weight that is drawn in the colour of zero, but not left blank
# The first of these parts that a record has is drawn.
PARTS = ("decoder to encoder", "encoder", "decoder", "pooling")


def draw_record(record: Record, *, title: str = "") -> Figure:
    """The attention maps of a record: over the patches of an image, or between the tokens of one part.

    A translation shows its cross-attention, all other text its self-attention; of many maps, the last ones.
    """
    if record.image is not None:
        return _draw_image(record, record.image, title)
    parts = {one.part for one in record.maps}
    part = next((part for part in PARTS if part in parts), record.maps[0].part)
    chosen = [pair for pair in zip(record.maps, record.layers(), strict=True) if pair[0].part == part]
    names = [f"layer {one.layer}, head {head}" for one, _ in chosen for head in range(one.heads)]
    queries, keys = (record.sides[side] for side in (chosen[0][0].queries, chosen[0][0].keys))
    weights = torch.cat([layer for _, layer in chosen])
    weights = _without_rounded_zeros(weights, may_be_causal=part in ("encoder", "decoder"))
    return draw_attention(weights[-MOST_MAPS:], queries, keys, title=title, names=names[-MOST_MAPS:])


def _without_rounded_zeros(weights: Tensor, *, may_be_causal: bool) -> Tensor:
    """(n, T, S) -> (n, T, S), zero only where masked

    `draw_attention` leaves zeros blank, but a record also rounds small weights to zero: these become tiny.
    The only mask of a single input is that of causal self-attention: all weights above the diagonal are zero.
    """
    above_TS = torch.ones(weights.shape[1:], dtype=torch.bool).triu(1)
    is_causal = may_be_causal and not weights[:, above_TS].any()
    rounded = weights.eq(0) & ~above_TS if is_causal else weights.eq(0)
    return weights.masked_fill(rounded, TINY)


def _draw_image(record: Record, image: Picture, title: str) -> Figure:
    """The image, what the class token attends to (else the mean of all patches), and the prediction."""
    layers_lHTT = torch.stack(record.layers())

    def of_patches(weights: Tensor) -> Tensor:
        """(..., T, T) -> (..., y, x)"""
        read = weights[..., 0, image.first :] if image.first else weights.mean(-2)
        return read.unflatten(-1, (image.rows, image.columns))

    predictions = ", ".join(f"{one.text} ({one.probability:.1%})" for one in record.candidates[:3])
    return draw_patch_attention(
        image.pixels,
        of_patches(layers_lHTT),
        of_patches(rollout(list(layers_lHTT))),
        title=f"{title}: predicted {predictions}" if title else f"predicted {predictions}",
    )
