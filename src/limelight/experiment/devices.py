"""The one place that names devices."""

import torch

from limelight.errors import unknown, wrong


def choose(device: str) -> torch.device:
    """auto: the fastest there is."""
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if device == "auto":
        device = next(name for name in there if there[name])
    if device not in there:
        raise unknown("device", device, ["auto", *there])
    if not there[device]:
        raise wrong(
            "device", repr(device), "one that this machine has: " + ", ".join(d for d in there if there[d])
        )
    return torch.device(device)
