"""Figures of attention records: the same data as the pages show."""

import torch
from matplotlib.figure import Figure
from torch import Tensor

from limelight.view.plots.attention import draw_attention, shorten
from limelight.view.plots.images import draw_patch_attention, rollout
from limelight.view.record import Picture, Record

MOST_MAPS = 24  # in a figure
LONGEST_TEXT = 80  # characters of an input or an answer in a title
LONGEST_NAME = 30  # characters of a class in a title
TINY = 1e-9  # a weight that is drawn in the colour of zero, but not left blank
# The first of these parts that a record has is drawn.
PARTS = ("cross-attention", "encoder", "decoder", "self-attention", "pooling")


def draw_record(record: Record, *, title: str = "") -> Figure:
    """The attention maps of a record: over the patches of an image, or between the tokens of one part.

    A translation shows its cross-attention, all other text its self-attention; of many maps, the last ones.
    The input, the prediction and the correct answer follow the title.
    """
    if record.image is not None:
        return _draw_image(record, record.image, title)
    parts = {one.part for one in record.maps}
    part = next((part for part in PARTS if part in parts), record.maps[0].part)
    first = next(one for one in record.maps if one.part == part)
    place = (part, first.queries, first.keys)  # layers of other lengths are not drawn
    chosen = [
        (one, layer)
        for one, layer in zip(record.maps, record.layers(), strict=True)
        if (one.part, one.queries, one.keys) == place
    ]
    names = [f"layer {one.layer}, head {head}" for one, _ in chosen for head in range(one.heads)]
    queries, keys = record.sides[first.queries], record.sides[first.keys]
    weights = torch.cat([layer for _, layer in chosen])
    weights = _without_rounded_zeros(weights, may_be_causal=first.queries == first.keys)
    title = f"{title}: {_describe(record)}" if title else _describe(record)
    return draw_attention(weights[-MOST_MAPS:], queries, keys, title=title, names=names[-MOST_MAPS:])


def _describe(record: Record) -> str:
    """The input, the prediction with its probability, and the correct answer where it is known."""
    if not record.answer:
        return shorten(record.given, LONGEST_TEXT)
    answer = shorten(record.answer, LONGEST_TEXT)
    is_translation = "target" in record.sides
    text = f"“{shorten(record.given, LONGEST_TEXT)}” → {f'“{answer}”' if is_translation else answer}"
    if record.probability is not None:
        text += f" ({_percent(record.probability)})"
    if record.truth is None:
        return text
    if record.right:
        return f"{text}, correct"
    truth = shorten(record.truth, LONGEST_TEXT)
    # A translation that differs from the reference may still be correct.
    return f"{text}; reference “{truth}”" if is_translation else f"{text}, expected {truth}"


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
    size = image.first + image.rows * image.columns
    whole = [one for one in record.layers() if one.shape[1:] == (size, size)]
    layers_lHTT = torch.stack([one for one in whole if len(one) == len(whole[0])])

    def of_patches(weights: Tensor) -> Tensor:
        """(..., T, T) -> (..., y, x)"""
        read = weights[..., 0, image.first :] if image.first else weights.mean(-2)
        return read.unflatten(-1, (image.rows, image.columns))

    predictions = ", ".join(
        f"{shorten(one.text, LONGEST_NAME)} ({_percent(one.probability)})" for one in record.candidates[:3]
    )
    if record.truth is not None:
        predictions += f"; true class {shorten(record.truth, LONGEST_NAME)}"
    return draw_patch_attention(
        image.pixels,
        of_patches(layers_lHTT),
        of_patches(rollout(list(layers_lHTT))),
        title=": ".join(part for part in (title, predictions and f"predicted {predictions}") if part),
    )


def _percent(probability: float) -> str:
    """Only 0 and 1 are 0.0% and 100.0%."""
    if 0 < probability < 0.001:
        return "< 0.1%"
    return "> 99.9%" if 0.999 < probability < 1 else f"{probability:.1%}"
