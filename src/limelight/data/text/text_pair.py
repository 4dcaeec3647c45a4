"""Two texts in one sequence, with a separator between them."""

from collections.abc import Sequence
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from limelight.config import Config
from limelight.data.text.pretrained_tokenizer import PretrainedTokenizer
from limelight.data.text.text_vocabulary import (
    TextBytes,
    TextCharacters,
    TextSubwords,
    TextVocabulary,
    TextWords,
)
from limelight.data.text.vocabulary import Characters, Subwords, Words
from limelight.errors import WrongInput

PairVocabulary = (
    Words
    | Characters
    | Subwords
    | TextBytes
    | TextCharacters
    | TextSubwords
    | TextWords
    | PretrainedTokenizer
)
SEPARATOR = "[separator]"
TYPED = "|||"  # separates two texts where a tab cannot be typed


class TextPair(Config):
    """Two texts in a line, separated by a tab or by |||, as one sequence with a separator between them."""

    kind: Literal["pair"] = "pair"
    vocabulary: Annotated[PairVocabulary, Field(discriminator="kind")] = Field(
        description="the tokens of both texts"
    )
    longest: int = Field(ge=1, description="maximum number of tokens of each text; others are truncated")

    @property
    def separator(self) -> int:
        """The id of the separator: in running text that of the end of a document, otherwise a new one.

        A pre-trained tokenizer has its own.
        """
        if isinstance(self.vocabulary, PretrainedTokenizer) and self.vocabulary.between:
            return self.vocabulary.between[0]
        return self.vocabulary.end if isinstance(self.vocabulary, TextVocabulary) else self.vocabulary.size

    @property
    def size(self) -> int:
        """Number of tokens, including the separator."""
        return max(self.vocabulary.size, self.separator + 1)

    def encode(self, line: str) -> Tensor:
        """The ids of both texts and of the separator between them, (T)."""
        first, second = (self._text(text) for text in split_pair(line))
        begin, between, finish = self._special
        return torch.tensor([*begin, *first, *between, *second, *finish])

    def _text(self, text: str) -> list[int]:
        """The ids of one text, truncated, without special tokens."""
        if not isinstance(self.vocabulary, PretrainedTokenizer):
            return self.vocabulary.encode(text)[: self.longest].tolist()
        most = (self.vocabulary.longest - sum(map(len, self._special))) // 2
        return self.vocabulary.encode_text(text)[: min(self.longest, most)].tolist()

    @property
    def _special(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """The special tokens before, between and after the texts."""
        if isinstance(self.vocabulary, PretrainedTokenizer):
            return self.vocabulary.begin, self.vocabulary.between or (self.separator,), self.vocabulary.finish
        return (), (self.separator,), ()

    def is_truncated(self, line: str) -> bool:
        """Whether one of the texts is too long."""
        return any(len(self._text(text)) < self._count(text) for text in split_pair(line))

    def _count(self, text: str) -> int:
        """Number of tokens of a text that is not truncated."""
        if isinstance(self.vocabulary, PretrainedTokenizer):
            return len(self.vocabulary.encode_text(text))
        return len(self.vocabulary.encode(text))

    def item_names(self, row: Tensor) -> list[str]:
        """The token of each id."""
        if isinstance(self.vocabulary, PretrainedTokenizer):
            return self.vocabulary.item_names(row)
        at = row == self.separator
        names = self.vocabulary.item_names(row.masked_fill(at, 0))
        return [SEPARATOR if is_one else name for name, is_one in zip(names, at.tolist(), strict=True)]

    def tokens(self, line: str) -> list[str]:
        """The tokens of a line, one per id of `encode`; unknown ones are marked with (unk)."""
        if isinstance(self.vocabulary, PretrainedTokenizer):
            return self.item_names(self.encode(line))
        first, second = (self.vocabulary.tokens(text)[: self.longest] for text in split_pair(line))
        return [*first, SEPARATOR, *second]

    def decode(self, row: Tensor) -> str:
        """The texts of these ids, separated by a tab."""
        at = (row == self.separator).nonzero().flatten().tolist()
        ends = [*at, len(row)]
        starts = [0, *(end + 1 for end in at)]
        return "\t".join(
            self.vocabulary.decode(row[start:end]) for start, end in zip(starts, ends, strict=True)
        )


def split_pair(line: str) -> tuple[str, str]:
    """The two texts of a line."""
    parts = [part.strip() for part in line.split("\t" if "\t" in line else TYPED)]
    if len(parts) != 2:
        found = "one text" if len(parts) == 1 else f"{len(parts)} texts"
        raise WrongInput(f"the line has {found}; allowed: two texts, separated by a tab or by {TYPED}")
    if not all(parts):
        raise WrongInput(f"the {'second' if parts[0] else 'first'} text of the line is empty")
    return parts[0], parts[1]


def join_pair(texts: Sequence[str]) -> str:
    """A text as it is, or a line of two texts with single spaces and a tab between them."""
    return texts[0] if len(texts) == 1 else "\t".join(" ".join(text.split()) for text in texts)
