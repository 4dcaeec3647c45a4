"""Figures, drawn with matplotlib."""
