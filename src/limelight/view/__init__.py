"""How attention is seen."""

from limelight.view.plots import draw_attention, draw_curves
from limelight.view.watch import watch

__all__ = ["draw_attention", "draw_curves", "watch"]
