"""Tokens with their affixes: the first and last letters, and the shape, of each token."""

import re
from collections import Counter
from collections.abc import Iterable
from functools import cached_property
from typing import ClassVar, Literal, Self

import torch
from pydantic import Field
from torch import Tensor

from limelight.config import Config
from limelight.data.text.vocabulary import FrequencyVocabulary

KNOWN_AFFIXES = 20_000  # maximum number; the most frequent are kept
REPEATED = re.compile(r"(.)\1+")


class Tokens(FrequencyVocabulary):
    """Tokens in lower case, exactly as white space separates them."""

    kind: Literal["tokens"] = "tokens"
    unknown: ClassVar[str] = "<unk>"
    separator: ClassVar[str] = " "

    @staticmethod
    def split(line: str) -> list[str]:
        """The tokens of a line."""
        return line.lower().split()


class Affixes(Config):
    """Tokens; each is encoded as five ids: its own, and those of its affixes and its shape.

    Those of "Dancers" are "danc…", "…rs", "…ers" and the shape "Xx": upper case, then lower case. They tell
    much about a token that does not occur in training. Upper and lower case differ only in the shape.

    Id 0 is an unknown token or affix, or one that a short token does not have. Tokens come first, in the
    order of their ids in `tokens_known`; affixes and shapes have the ids that follow.
    """

    kind: Literal["affixes"] = "affixes"
    tokens_known: Tokens = Field(description="the tokens")
    affixes: tuple[str, ...] = Field(description="the affixes and shapes in the order of their ids")

    @classmethod
    def build(cls, texts: Iterable[str], size: int, rarest: int = 1) -> Self:
        """The most frequent tokens that occur at least `rarest` times, and affixes; `size` limits the tokens.

        An affix is known if it belongs to two different tokens: otherwise it tells no more than its token.
        """
        texts = list(texts)
        tokens = Tokens.build(texts, size, rarest)
        different = dict.fromkeys(token for text in texts for token in text.split())
        counts = Counter(affix for token in different for affix in affixes(token))
        del counts[""]
        frequent = sorted(counts, key=lambda item: (-counts[item], item))[:KNOWN_AFFIXES]
        return cls(tokens_known=tokens, affixes=tuple(item for item in frequent if counts[item] > 1))

    @property
    def size(self) -> int:
        """Number of tokens, including the unknown token."""
        return self.tokens_known.size

    @property
    def total(self) -> int:
        """Number of tokens, affixes and shapes."""
        return self.size + len(self.affixes)

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {affix: i for i, affix in enumerate(self.affixes, start=self.size)}

    def encode(self, line: str) -> Tensor:
        """The ids of a line, (T, 5): the token of each position, then its affixes and its shape."""
        tokens_T = self.tokens_known.encode(line)
        affixes_T4 = [[self._ids.get(affix, 0) for affix in affixes(token)] for token in line.split()]
        return torch.cat((tokens_T.unsqueeze(1), torch.tensor(affixes_T4)), 1)

    def item_names(self, row: Tensor) -> list[str]:
        """(T, 5) -> the token of each position"""
        return self.tokens_known.item_names(row[:, 0])

    def tokens(self, line: str) -> list[str]:
        """The tokens of a line as they were given; unknown ones are marked with (unk)."""
        known = self.tokens_known.tokens(line)
        return [token + marked[len(token) :] for token, marked in zip(line.split(), known, strict=True)]

    def decode(self, row: Tensor) -> str:
        """(T, 5) -> the text of the tokens, separated by spaces"""
        return self.tokens_known.decode(row[:, 0])


def affixes(token: str) -> tuple[str, str, str, str]:
    """The first four letters, the last two and three, and the shape; empty where the token has no more."""
    lower = token.lower()
    return (
        f"{lower[:4]}…" if len(lower) > 4 else "",
        f"…{lower[-2:]}" if len(lower) > 2 else "",
        f"…{lower[-3:]}" if len(lower) > 3 else "",
        shape(token),
    )


def shape(token: str) -> str:
    """Upper case as X, lower case as x, digits as 0, other characters as they are; repetitions once."""
    kinds = (
        "X" if one.isupper() else "x" if one.isalpha() else "0" if one.isdigit() else one for one in token
    )
    return REPEATED.sub(r"\1", "".join(kinds))
