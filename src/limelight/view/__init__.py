"""How attention is seen."""

from limelight.view.plots import draw_attention
from limelight.view.watch import watch

__all__ = ["draw_attention", "watch"]
