"""What a step is computed on, and the order in which an epoch visits its examples."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from operator import itemgetter

import torch
from torch import Tensor

from limelight.data.ragged import Ragged
from limelight.randomness import generator

# Batches of similar length are cut from this many at a time: enough to sort, few enough to stay mixed.
SORTED_TOGETHER = 50
MOST_TOKENS = 50_000  # of a batch that is not learned from: 1.6 GB of logits over 8,000 subwords


@dataclass(frozen=True)
class Batch:
    """Inputs (B, T), (B, T, features) or (B, C, Y, X), what is to be said of them, and which examples they
    are."""

    inputs: Tensor
    targets: Tensor
    index: Tensor
    lengths: Tensor | None = None
    target_lengths: Tensor | None = None  # where a target has as many items as it likes

    def __len__(self) -> int:
        return len(self.index)

    @property
    def tokens(self) -> int:
        """How many real items its inputs have; an image is one."""
        return len(self) if self.inputs.dim() == 4 else _real(self.inputs, self.lengths)

    @property
    def target_tokens(self) -> int:
        """How many real items its targets have, (B, T)."""
        return _real(self.targets, self.target_lengths)

    def to(self, device: torch.device) -> "Batch":
        return self._each(lambda tensor: tensor.to(device, non_blocking=True))

    def split(self, pieces: int) -> list["Batch"]:
        """As many pieces as asked for, as even as can be; some are empty if it has too few examples."""
        if pieces == 1:
            return [self]
        cuts = [len(self) * i // pieces for i in range(pieces + 1)]
        return [self._each(itemgetter(slice(begin, end))) for begin, end in pairwise(cuts)]

    def _each(self, change: Callable[[Tensor], Tensor]) -> "Batch":
        changed = {
            field.name: change(getattr(self, field.name))
            for field in fields(self)
            if getattr(self, field.name) is not None
        }
        return replace(self, **changed)


@dataclass(frozen=True)
class Examples:
    """One split: sequences, and for each an answer (N) or one answer an item."""

    inputs: Ragged
    targets: Ragged | Tensor

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def lengths(self) -> tuple[Tensor, ...]:
        """Of the inputs; and of the targets, where they are as long as they like."""
        return tuple(part.lengths for part in (self.inputs, self.targets) if isinstance(part, Ragged))

    def batch(self, index: Tensor) -> Batch:
        inputs, lengths = self.inputs.pad(index)
        if not isinstance(self.targets, Ragged):
            return Batch(inputs, self.targets[index], index, lengths)
        targets, target_lengths = self.targets.pad(index)
        return Batch(inputs, targets, index, lengths, target_lengths)


def _real(items: Tensor, lengths: Tensor | None) -> int:
    return items.shape[0] * items.shape[1] if lengths is None else int(lengths.sum())


def epoch_batches(lengths: Tensor, batch: int, seed: int, epoch: int) -> list[Tensor]:
    """Which examples each batch of an epoch has: a function of seed and epoch, not of what came before.

    Sequences of similar length stand together, so that little is padding; batches come in random order.
    """
    draw = generator(seed, "order", epoch)
    order = torch.randperm(len(lengths), generator=draw)
    if bool((lengths == lengths[0]).all()):
        return list(order.split(batch))
    chunks = order.split(batch * SORTED_TOGETHER)
    batches = [piece for chunk in chunks for piece in chunk[lengths[chunk].argsort(stable=True)].split(batch)]
    return [batches[i] for i in torch.randperm(len(batches), generator=draw).tolist()]


def even_batches(lengths: Tensor, batch: int) -> list[Tensor]:
    """Every example once, by length: for evaluation and prediction, where order does not matter.

    Of long examples there are fewer together: what a batch takes of memory goes by its tokens.
    """
    batches = list[Tensor]()
    for piece in lengths.argsort(stable=True).split(batch):
        longest = max(1, int(lengths[piece[-1]]))
        batches += piece.split(max(1, MOST_TOKENS // longest))
    return batches
