"""Randomness that is derived, not carried: each draw depends on what it is for and where, on no history."""

import hashlib

import torch


def derive(seed: int, purpose: str, *where: int) -> int:
    """A seed for one purpose at one place (an epoch, a step, a rank), whatever was drawn elsewhere."""
    text = "/".join(map(str, (seed, purpose, *where)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def seed(number: int, device: torch.device) -> None:
    """What `torch.manual_seed` does, for the devices in use and so in a tenth of the time."""
    torch.default_generator.manual_seed(number)
    if device.type != "cpu":
        torch.get_device_module(device).manual_seed(number)


def generator(seed: int, purpose: str, *where: int) -> torch.Generator:
    return torch.Generator().manual_seed(derive(seed, purpose, *where))
