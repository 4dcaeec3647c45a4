"""Masked language modelling: hidden tokens of a text."""
