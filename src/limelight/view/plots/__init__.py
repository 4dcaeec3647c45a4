"""Figures of attention, masks, positions and images, drawn with matplotlib."""
