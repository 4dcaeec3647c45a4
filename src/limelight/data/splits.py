"""Training, validation and test splits: the names of their files, and how examples are held out."""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from itertools import islice
from typing import TypeVar

import torch

from limelight.randomness import generator

T = TypeVar("T")

UNBALANCED = 20  # times as many examples in the largest class as in the smallest
MOST_NAMED = 30  # maximum number of classes in a note
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


def choose(labels: Sequence[Hashable], limit: int, seed: int) -> list[int]:
    """The indices of `limit` random examples, in order; one of each label comes first. 0: all examples."""
    if not limit or limit >= len(labels):
        return list(range(len(labels)))
    order = torch.randperm(len(labels), generator=generator(seed, "limit")).tolist()
    first = {labels[i]: i for i in reversed(order)}  # the first of each label in this order
    return sorted(islice(dict.fromkeys([*first.values(), *order]), limit))


def count_classes(names: Sequence[str], labels: Sequence[int]) -> list[str]:
    """Notes on the classes of the training split: their numbers, and a warning if these are very unequal."""
    number = Counter(labels)
    counts = {name: number[label] for label, name in enumerate(names)}
    shown = ", ".join(f"{name} {count:,}" for name, count in islice(counts.items(), MOST_NAMED))
    notes = [f"{len(names)} classes in training: {shown}{', …' * (len(names) > MOST_NAMED)}"]
    least, most = (choice(counts, key=lambda name: counts[name]) for choice in (min, max))
    if counts[most] > UNBALANCED * counts[least]:
        unequal = f"{most} has {counts[most]:,} examples, {least} has {counts[least]:,}"
        notes.append(f"warning: the classes are unbalanced: {unequal}; see recall and F1 of each class")
    return notes


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


def cover_labels(groups: Iterable[list[T]], labels: Callable[[T], Iterable[Hashable]]) -> list[list[T]]:
    """The groups, those with a label that no earlier group has first: shares are held out from the end."""
    known: set[Hashable] = set()
    first, others = list[list[T]](), list[list[T]]()
    for group in groups:
        found = {label for item in group for label in labels(item)}
        (others if found <= known else first).append(group)
        known |= found
    return first + others


def hold_out(groups: list[list[T]], shares: dict[str, float]) -> dict[str, list[T]]:
    """Split groups into training and the given shares; the shares are taken from the end of the list."""
    remaining, splits = groups, {}
    for name, share in shares.items():
        end = max(0, len(remaining) - max(1, round(share * len(groups))))
        splits[name] = [item for group in remaining[end:] for item in group]
        remaining = remaining[:end]
    return {"train": [item for group in remaining for item in group], **splits}
