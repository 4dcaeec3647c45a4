"""Vectors of texts, by their meaning."""
