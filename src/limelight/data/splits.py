"""Training, validation and test splits: the names of their files, and how examples are held out."""

from collections.abc import Callable, Collection, Iterable
from typing import TypeVar

import torch

T = TypeVar("T")

FILE_NAMES = {"train": ("train",), "validation": ("dev", "valid", "val", "validation"), "test": ("test",)}


def check_shares(validation: float, test: float) -> None:
    """Raise an error if the held-out shares leave no training examples."""
    if validation + test >= 1:
        raise ValueError(f"validation + test is {validation + test:g}; allowed: less than 1")


def missing_shares(found: Collection[str], validation: float, test: float) -> dict[str, float]:
    """The shares to hold out from training, given the splits that have files of their own.

    Nothing is held out if there is a validation file.
    """
    if "validation" in found:
        return {}
    return {"validation": validation} | ({"test": test} if test and "test" not in found else {})


def normalise(text: str) -> str:
    """Lower case with single spaces: texts that differ only in case and white space become equal."""
    return " ".join(text.lower().split())


def shuffle_groups(items: Iterable[T], text: Callable[[T], str], rng: torch.Generator) -> list[list[T]]:
    """Items grouped by equal text, the groups in random order."""
    same: dict[str, list[T]] = {}
    for item in items:
        same.setdefault(normalise(text(item)), []).append(item)
    groups = list(same.values())
    return [groups[i] for i in torch.randperm(len(groups), generator=rng).tolist()]


def hold_out(groups: list[list[T]], shares: dict[str, float]) -> dict[str, list[T]]:
    """Split groups into training and the given shares; the shares are taken from the end of the list."""
    remaining, splits = groups, {}
    for name, share in shares.items():
        end = max(0, len(remaining) - max(1, round(share * len(groups))))
        splits[name] = [item for group in remaining[end:] for item in group]
        remaining = remaining[:end]
    return {"train": [item for group in remaining for item in group], **splits}
