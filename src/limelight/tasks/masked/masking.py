"""Which tokens are predicted, and what the model reads in their place (Devlin et al. 2019, section 3.1)."""

import re
from dataclasses import dataclass

import torch
from torch import Tensor

from limelight.data.text.text_vocabulary import END, UNKNOWN, TextVocabulary

MASKED, RANDOM = 0.8, 0.1  # shares of the chosen tokens that are masked or replaced; the others are kept
LETTER = re.compile(r"\w")


@dataclass(frozen=True)
class Masking:
    """A share of the tokens of each sequence, at least one, chosen at random."""

    share: float
    size: int  # of the vocabulary
    continues: Tensor | None = None  # (V, 2): with whole words, see `continuations`
    mask: int = UNKNOWN  # what stands in the place of a token
    special: tuple[int, ...] = (UNKNOWN, END)  # tokens that are neither chosen nor put in the place of others

    def counts(self, tokens: Tensor, lengths: Tensor | None) -> Tensor:
        """(B, T), (B) -> (B), the number of tokens that are chosen in each sequence"""
        candidates_B = self._candidates(tokens, lengths).sum(1)
        return (self.share * candidates_B).round().long().clamp(min=1).minimum(candidates_B)

    def choose(self, tokens: Tensor, lengths: Tensor | None, random: Tensor) -> Tensor:
        """(B, T), (B), (B, T) -> (B, T)

        Which tokens are chosen, given random numbers between 0 and 1. With whole words, words are chosen
        until the number is reached; of the last one, only some tokens may be.
        """
        candidates_BT = self._candidates(tokens, lengths)
        score_BT = random if self.continues is None else random.gather(1, self._words(tokens))
        score_BT = score_BT.masked_fill(~candidates_BT, torch.inf)
        rank_BT = score_BT.argsort(dim=1, stable=True).argsort(1)
        return rank_BT < self.counts(tokens, lengths).unsqueeze(1)

    def _words(self, tokens: Tensor) -> Tensor:
        """(B, T) -> (B, T), the number of the word that each token belongs to"""
        assert self.continues is not None
        begins_BT, ends_BT = self.continues.to(tokens.device)[tokens].unbind(-1)
        joined_BT = begins_BT[:, 1:] & ends_BT[:, :-1]
        return torch.cat((torch.zeros_like(tokens[:, :1]), (~joined_BT).cumsum(1)), 1)

    def _candidates(self, tokens: Tensor, lengths: Tensor | None) -> Tensor:
        """(B, T), (B) -> (B, T), the known tokens of the texts: neither padding nor the end of a document"""
        known_BT = torch.isin(tokens, torch.tensor(self.special, device=tokens.device), invert=True)
        if lengths is None:
            return known_BT
        return known_BT & (torch.arange(tokens.shape[1], device=tokens.device) < lengths.unsqueeze(1))

    def replace(self, tokens: Tensor, chosen: Tensor, random: Tensor) -> Tensor:
        """(B, T), (B, T), (B, T, 2) -> (B, T)

        The chosen tokens masked (80 %), replaced by a random token (10 %) or kept (10 %).
        """
        kind_BT, which_BT = random.unbind(-1)
        ordinary_V = torch.ones(self.size, dtype=torch.bool)
        ordinary_V[list(self.special)] = False
        others_o = ordinary_V.nonzero().squeeze(1).to(tokens.device)
        other_BT = others_o[(which_BT * len(others_o)).long()]
        new_BT = torch.where(kind_BT < MASKED + RANDOM, other_BT, tokens)
        new_BT = torch.where(kind_BT < MASKED, self.mask, new_BT)
        return torch.where(chosen, new_BT, tokens)


def continuations(vocabulary: TextVocabulary) -> Tensor:
    """-> (V, 2): whether each token begins with a letter, and whether it ends with one.

    Two tokens belong to one word if the first ends and the second begins with a letter. Bytes of a longer
    character are letters.
    """
    texts = [content.decode(errors="replace").replace("\ufffd", "x") for content in vocabulary.contents]
    found = [[bool(LETTER.match(text[:1])), bool(LETTER.match(text[-1:]))] for text in texts]
    for special in vocabulary.special:
        found[special] = [False, False]
    return torch.tensor(found)
