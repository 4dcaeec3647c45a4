"""Data sets: from files or generators to batches of tensors. Independent of models."""
