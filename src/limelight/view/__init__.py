"""Attention weights: captured, recorded, drawn and served."""

from limelight.view.capture import Capture, capture, watch
from limelight.view.collect import Attention
from limelight.view.intervene import Intervention, blocked, intervene, off, pattern, temperature, uniform
from limelight.view.plots.attention import draw_attention, draw_curves
from limelight.view.plots.images import (
    draw_confusion,
    draw_image_grid,
    draw_patch_attention,
    draw_position_similarity,
    rollout,
)
from limelight.view.plots.masks_and_positions import darken, draw_mask, draw_positions

__all__ = [
    "Attention",
    "Capture",
    "Intervention",
    "blocked",
    "capture",
    "darken",
    "draw_attention",
    "draw_confusion",
    "draw_curves",
    "draw_image_grid",
    "draw_mask",
    "draw_patch_attention",
    "draw_position_similarity",
    "draw_positions",
    "intervene",
    "off",
    "pattern",
    "rollout",
    "temperature",
    "uniform",
    "watch",
]
