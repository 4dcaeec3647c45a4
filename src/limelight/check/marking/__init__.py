"""Marks the submissions of a class by a rubric."""
