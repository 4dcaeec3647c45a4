"""A linear path beside a Transformer: the score of each word and n-gram, added to the logits."""

import torch.nn.functional as F
from torch import Tensor, nn

from limelight.nn import padding_mask


class LinearPath(nn.Module):
    """Adds one learned score per class for each id of a sequence: a linear model on a bag of n-grams.

    "Wide and deep" (Cheng et al. 2016). A linear model learns from a few hundred texts which words belong to
    which class; the Transformer beside it has to learn only what depends on several words together.
    """

    def __init__(self, ids: int, outputs: int, factor: float) -> None:
        """`factor` multiplies the scores; with AdamW it acts as a factor on their learning rate."""
        super().__init__()
        self.factor = factor
        # Scores start at zero, so that ids which do not occur in training have no effect. Id 0 never has one.
        self.scores = nn.Embedding(ids, outputs, padding_idx=0)
        nn.init.zeros_(self.scores.weight)

    def forward(self, inputs: Tensor, lengths: Tensor | None) -> Tensor:
        """(B, T) | (B, T, ids), (B) -> (B, L)

        The sum of the scores of all different ids, divided by the square root of their number: a long text
        has more of everything, but most of it cancels out.
        """
        if lengths is not None:
            real_BT = padding_mask(lengths, inputs.shape[1]).squeeze(1)
            inputs = inputs * (real_BT if inputs.dim() == 2 else real_BT.unsqueeze(2))
        ids_BN = distinct(inputs.flatten(1))
        count_B1 = (ids_BN != 0).sum(1, keepdim=True).clamp(min=1)
        return self.factor * self.scores(ids_BN).sum(1) / count_B1.sqrt()


def distinct(ids: Tensor) -> Tensor:
    """(B, N) -> (B, N)

    The ids of each row in ascending order; repetitions are replaced with 0.
    """
    ids_BN = ids.sort(1).values
    return ids_BN * F.pad(ids_BN[:, 1:] != ids_BN[:, :-1], (1, 0), value=True)
