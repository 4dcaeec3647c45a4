"""Word alignments: which word of the source each word of a translation attends to most."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

Alignment = tuple[tuple[int, int], ...]  # (word of the source, word of the translation), counted from 0


def word_alignment(weights: Tensor, source: Sequence[int], target: Sequence[int]) -> Alignment:
    """(H, T, S) -> for each word of the target, the word of the source that its tokens attend to most

    `source` and `target` give the word of each token, without the end mark. Heads are averaged.
    """
    if not source or not target:
        return ()
    weights_TS = weights.mean(0)[: len(target), : len(source)]
    by_source_TW = torch.zeros(len(target), max(source) + 1)
    by_source_TW.index_add_(1, torch.tensor(source), weights_TS)
    by_both_WW = torch.zeros(max(target) + 1, by_source_TW.shape[1])
    by_both_WW.index_add_(0, torch.tensor(target), by_source_TW)
    return tuple((int(word), place) for place, word in enumerate(by_both_WW.argmax(1)))


def crossings(alignment: Alignment) -> int:
    """How often two neighbouring words of the translation are in the opposite order in the source."""
    return sum(source > later for (source, _), (later, _) in pairwise(alignment))
