"""How attention is seen."""

from limelight.view.capture import watch
from limelight.view.plots.attention import draw_attention, draw_curves
from limelight.view.plots.images import draw_confusion, draw_looks, draw_sheet, draw_similarities, rollout
from limelight.view.plots.masks_and_positions import darken, draw_mask, draw_positions

__all__ = [
    "darken",
    "draw_attention",
    "draw_confusion",
    "draw_curves",
    "draw_looks",
    "draw_mask",
    "draw_positions",
    "draw_sheet",
    "draw_similarities",
    "rollout",
    "watch",
]
