"""The devices that a model can run on."""

import torch

from limelight.errors import WrongInput, unknown


def choose(device: str) -> torch.device:
    """The device of this name; "auto" is the fastest one that is available."""
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if device == "auto":
        device = next(name for name in available if available[name])
    if device not in available:
        raise unknown("device", device, ["auto", *available])
    if not available[device]:
        names = ", ".join(name for name in available if available[name])
        raise WrongInput(f"device is {device!r}; allowed on this machine: {names}")
    return torch.device(device)
