"""Whole networks, each in one file with its config."""
