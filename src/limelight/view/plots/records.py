"""Figures of attention records: the same data as the pages show."""

import torch
from matplotlib.figure import Figure
from torch import Tensor

from limelight.view.plots.attention import draw_attention
from limelight.view.plots.images import draw_patch_attention, rollout
from limelight.view.record import Picture, Record

MOST_MAPS = 24  # in a figure
PARTS = (
    "decoder to encoder",
    "encoder",
    "decoder",
    "pooling",
)  # the first of these that a record has is drawn


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
    return draw_attention(weights[-MOST_MAPS:], queries, keys, title=title, names=names[-MOST_MAPS:])


def _draw_image(record: Record, image: Picture, title: str) -> Figure:
    """The image, what the class token attends to (else the mean of all patches), and the prediction."""
    layers_lHTT = torch.stack(record.layers())

    def of_patches(weights: Tensor) -> Tensor:
        """(..., T, T) -> (..., y, x)"""
        read = weights[..., 0, image.first :] if image.first else weights.mean(-2)
        return read.unflatten(-1, (image.rows, image.columns))

    words = ", ".join(f"{one.text} {one.probability:.1%}" for one in record.candidates[:3])
    return draw_patch_attention(
        image.pixels,
        of_patches(layers_lHTT),
        of_patches(rollout(list(layers_lHTT))),
        title=f"{title}: {words}" if title else words,
    )
