"""Words with their n-grams: pairs of words, and the first and last letters of each word."""

from collections import Counter
from collections.abc import Iterable
from functools import cached_property
from typing import Literal, Self

import torch
from pydantic import Field
from torch import Tensor

from limelight.config import Config
from limelight.data.text.vocabulary import Words

NGRAMS_PER_WORD = 5  # maximum number of known n-grams, relative to that of words
COLUMNS = 5  # of an encoded line: the word and its four n-grams


class WordNgrams(Config):
    """Words; each is encoded as five ids: its own, and those of its n-grams.

    The n-grams of "wonderful" after "a" are "a wonderful", "wond…", "wonder…" and "…ful": the pair with the
    word before it, the first four and six letters, the last three. They relate a word that does not occur in
    training to similar words that do, which matters most when there are few texts.

    Id 0 is an unknown word or n-gram, or one that a short word does not have. Words come first, in the order
    of their ids in `words`; n-grams have the ids that follow.
    """

    kind: Literal["ngrams"] = "ngrams"
    words_known: Words = Field(description="the words")
    ngrams: tuple[str, ...] = Field(description="the n-grams in the order of their ids")

    @classmethod
    def build(cls, texts: Iterable[str], size: int, rarest: int = 1) -> Self:
        """The most frequent words and n-grams that occur at least `rarest` times; `size` limits the words."""
        texts = list(texts)
        return cls.of(Words.build(texts, size, rarest), texts, size, rarest)

    @classmethod
    def of(cls, words: Words, texts: Iterable[str], size: int, rarest: int = 1) -> Self:
        """Given words, with the most frequent n-grams; `size` limits them as in `build`."""
        counts = Counter(ngram for text in texts for row in ngrams(Words.split(text)) for ngram in row)
        del counts[""]
        frequent = sorted(counts, key=lambda item: (-counts[item], item))[: NGRAMS_PER_WORD * size]
        return cls(words_known=words, ngrams=tuple(item for item in frequent if counts[item] >= rarest))

    @property
    def size(self) -> int:
        """Number of words, including the unknown word."""
        return self.words_known.size

    @property
    def total(self) -> int:
        """Number of words and n-grams."""
        return self.size + len(self.ngrams)

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {ngram: i for i, ngram in enumerate(self.ngrams, start=self.size)}

    def encode(self, line: str) -> Tensor:
        """The ids of a line, (T, 5): the word of each position, then its n-grams."""
        words_T = self.words_known.encode(line)
        rows = ngrams(Words.split(line))
        ngrams_T4 = torch.tensor([[self._ids.get(ngram, 0) for ngram in row] for row in rows])
        return torch.cat((words_T.unsqueeze(1), ngrams_T4), 1)

    def words(self, line: str) -> list[int]:
        """For each position of `encode`, the index of its word; words are separated by white space."""
        return self.words_known.words(line)

    def item_names(self, row: Tensor) -> list[str]:
        """(T, 5) -> the word of each position"""
        return self.words_known.item_names(row[:, 0])

    def tokens(self, line: str) -> list[str]:
        """The words of a line, one per position of `encode`; unknown words are marked with (unk)."""
        return self.words_known.tokens(line)

    def decode(self, row: Tensor) -> str:
        """(T, 5) -> the text of the words, with conventional spaces around punctuation"""
        return self.words_known.decode(row[:, 0])


def ngrams(words: list[str]) -> list[tuple[str, str, str, str]]:
    """The n-grams of each word; empty where the word is not longer than the n-gram."""
    return [
        (
            f"{before} {word}",
            f"{word[:4]}…" if len(word) > 4 else "",
            f"{word[:6]}…" if len(word) > 6 else "",
            f"…{word[-3:]}" if len(word) > 3 else "",
        )
        for before, word in zip(["", *words], words, strict=False)
    ]
