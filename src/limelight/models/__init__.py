"""Whole networks, each beside its config."""
