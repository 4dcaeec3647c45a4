"""How attention is seen."""

from limelight.view.images import draw_confusion, draw_looks, draw_sheet, draw_similarities, rollout
from limelight.view.plots import draw_attention, draw_curves
from limelight.view.teaching import darken, draw_mask, draw_positions
from limelight.view.watch import watch

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
