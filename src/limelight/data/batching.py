"""Batches of examples, and the order in which an epoch visits the examples."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from operator import itemgetter

import torch
from torch import Tensor

from limelight.data.ragged import Ragged
from limelight.randomness import generator

# Examples are sorted by length within chunks of this many batches: little padding, yet a random order.
SORTED_TOGETHER = 50
MOST_TOKENS = 50_000  # per batch in evaluation: 1.6 GB of logits for a vocabulary of 8,000 subwords


@dataclass(frozen=True)
class Batch:
    """Inputs, their targets, and their indices in the split (B).

    The inputs are (B, T), (B, T, ids), (B, T, features) or (B, C, Y, X).
    """

    inputs: Tensor
    targets: Tensor
    index: Tensor
    lengths: Tensor | None = None
    target_lengths: Tensor | None = None  # (B), if the targets are sequences with padding

    def __len__(self) -> int:
        return len(self.index)

    @property
    def tokens(self) -> int:
        """Number of input tokens without padding; an image counts as one."""
        return len(self) if self.inputs.dim() == 4 else _count_tokens(self.inputs, self.lengths)

    @property
    def target_tokens(self) -> int:
        """Number of target tokens without padding; the targets must be sequences."""
        return _count_tokens(self.targets, self.target_lengths)

    def to(self, device: torch.device) -> "Batch":
        """Copy all tensors to a device."""
        return self._map(lambda tensor: tensor.to(device, non_blocking=True))

    def split(self, parts: int) -> list["Batch"]:
        """Split into `parts` batches of nearly equal size; some are empty if there are fewer examples."""
        if parts == 1:
            return [self]
        bounds = [len(self) * i // parts for i in range(parts + 1)]
        return [self._map(itemgetter(slice(start, end))) for start, end in pairwise(bounds)]

    def _map(self, function: Callable[[Tensor], Tensor]) -> "Batch":
        changed = {
            field.name: function(getattr(self, field.name))
            for field in fields(self)
            if getattr(self, field.name) is not None
        }
        return replace(self, **changed)


@dataclass(frozen=True)
class Examples:
    """One split: input sequences, and one target per sequence (N) or one target sequence each."""

    inputs: Ragged
    targets: Ragged | Tensor

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def lengths(self) -> tuple[Tensor, ...]:
        """Lengths of the inputs (N) and, if the targets are sequences, of the targets (N)."""
        return tuple(part.lengths for part in (self.inputs, self.targets) if isinstance(part, Ragged))

    def batch(self, index: Tensor) -> Batch:
        """The examples with these indices (B), padded."""
        inputs, lengths = self.inputs.pad(index)
        if not isinstance(self.targets, Ragged):
            return Batch(inputs, self.targets[index], index, lengths)
        targets, target_lengths = self.targets.pad(index)
        return Batch(inputs, targets, index, lengths, target_lengths)


def _count_tokens(items: Tensor, lengths: Tensor | None) -> int:
    return items.shape[0] * items.shape[1] if lengths is None else int(lengths.sum())


def epoch_batches(lengths: Tensor, batch: int, seed: int, epoch: int) -> list[Tensor]:
    """The indices of the examples in each batch of an epoch, a function of seed and epoch alone.

    A batch contains sequences of similar length, which saves padding; the order of the batches is random.
    """
    rng = generator(seed, "order", epoch)
    order = torch.randperm(len(lengths), generator=rng)
    if bool((lengths == lengths[0]).all()):
        return list(order.split(batch))
    chunks = order.split(batch * SORTED_TOGETHER)
    batches = [index for chunk in chunks for index in chunk[lengths[chunk].argsort(stable=True)].split(batch)]
    return [batches[i] for i in torch.randperm(len(batches), generator=rng).tolist()]


def even_batches(lengths: Tensor, batch: int) -> list[Tensor]:
    """The indices of all examples, sorted by length: for evaluation, where the order does not matter.

    Batches of long sequences contain fewer examples, so that no batch has more than `MOST_TOKENS` tokens.
    """
    batches = list[Tensor]()
    for index in lengths.argsort(stable=True).split(batch):
        longest = max(1, int(lengths[index[-1]]))
        batches += index.split(max(1, MOST_TOKENS // longest))
    return batches
