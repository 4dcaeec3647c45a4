"""Randomness that is derived, not carried: each draw depends on what it is for and where, on no history."""

import hashlib

import torch


def derive(seed: int, purpose: str, *where: int) -> int:
    """A seed for one purpose at one place (an epoch, a step, a rank), whatever was drawn elsewhere."""
    text = "/".join(map(str, (seed, purpose, *where)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def generator(seed: int, purpose: str, *where: int) -> torch.Generator:
    return torch.Generator().manual_seed(derive(seed, purpose, *where))
