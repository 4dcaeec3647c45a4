"""Implementations for speed; each is tested against the readable module that it replaces."""
