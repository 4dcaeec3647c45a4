"""Sentences and their translations, as text and as token ids."""

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Literal, Self

import torch
import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import Tensor

from limelight.config import Config
from limelight.data.batching import Examples
from limelight.data.dataset import Dataset
from limelight.data.ragged import Ragged
from limelight.data.text.sentence_pieces import SentencePieces
from limelight.data.text.vocabulary import (
    CLOSING_PUNCTUATION,
    SPACE_BEFORE_PUNCTUATION,
    Characters,
    Subwords,
    Words,
    build_vocabulary,
)

Vocabulary = Annotated[Words | Characters | Subwords | SentencePieces, Field(discriminator="kind")]
Pair = tuple[str, str]  # a sentence and its translation


@dataclass(frozen=True)
class SentencePairs:
    """Sentence pairs by split: what every source of translations loads."""

    splits: dict[str, list[Pair]]
    notes: tuple[str, ...] = ()
    example: str = ""  # a source sentence to show in reports, if there is one


class Language(Config):
    """A vocabulary with two special tokens, [begin] and [end]."""

    vocabulary: Vocabulary = Field(description="the tokens of this language, without special tokens")
    plain: bool = Field(
        False, description='ignore case and spaces before punctuation: "I lost." equals "i lost ."'
    )

    @property
    def begin(self) -> int:
        """The id of the token [begin]."""
        vocabulary = self.vocabulary
        return vocabulary.begin if isinstance(vocabulary, SentencePieces) else vocabulary.size

    @property
    def end(self) -> int:
        """The id of the token [end]."""
        vocabulary = self.vocabulary
        return vocabulary.end if isinstance(vocabulary, SentencePieces) else vocabulary.size + 1

    @property
    def unknown(self) -> int:
        """The id of unknown tokens."""
        return self.vocabulary.unknown if isinstance(self.vocabulary, SentencePieces) else 0

    @property
    def banned(self) -> int | None:
        """The token that is never generated: pre-trained translators pad with [begin]."""
        return self.begin if isinstance(self.vocabulary, SentencePieces) else None

    @property
    def size(self) -> int:
        """Number of tokens, including the special tokens."""
        vocabulary = self.vocabulary
        return vocabulary.size if isinstance(vocabulary, SentencePieces) else vocabulary.size + 2

    def has_ids_of(self, other: "Language") -> bool:
        """Whether each id stands for the same token in both languages."""
        mine, theirs = self.vocabulary, other.vocabulary
        if isinstance(mine, SentencePieces) and isinstance(theirs, SentencePieces):
            return mine.pieces == theirs.pieces
        return mine == theirs

    def encode(self, sentence: str) -> Tensor:
        """The token ids of a sentence and [end], (S)."""
        if not sentence.strip():
            return torch.tensor([self.end])
        return F.pad(self.vocabulary.encode(self._normalise(sentence)), (0, 1), value=self.end)

    def encode_target(self, sentence: str) -> Tensor:
        """[begin], the token ids of a sentence, and [end], (T)."""
        return torch.cat((torch.tensor([self.begin]), self.encode(sentence)))

    @cached_property
    def halves(self) -> Tensor:
        """(V, 2), the two tokens that each token can be split into; 0 for tokens that cannot be split."""
        halves_V2 = torch.zeros(self.size, 2, dtype=torch.long)
        if isinstance(self.vocabulary, Subwords):
            halves_V2[: self.vocabulary.size] = self.vocabulary.halves
        return halves_V2

    def decode(self, row: Tensor) -> str:
        """The sentence of these ids, without special tokens."""
        special = {self.begin, self.end}
        only_words = special.isdisjoint(row.tolist())  # faster than to select the others
        if not only_words:
            row = row[(row != self.begin) & (row != self.end)]
        return self.vocabulary.decode(row)

    def words(self, sentence: str) -> list[int]:
        """For each token of a sentence except [end], the index of its word; white space separates words."""
        words = sentence.split()
        # With `plain`, a separate punctuation mark is joined to the word before it.
        first = [
            i for i, word in enumerate(words) if not (i and self.plain and word[0] in CLOSING_PUNCTUATION)
        ]
        return [first[word] for word in self.vocabulary.words(self._normalise(sentence))]

    def _normalise(self, sentence: str) -> str:
        return make_plain(sentence) if self.plain else sentence

    def item_names(self, row: Tensor) -> list[str]:
        """The token of each id."""
        return [self.name(i) for i in row.tolist()]

    def tokens(self, sentence: str) -> list[str]:
        """The tokens of a sentence and [end], one per id of `encode`; unknown ones are marked with (unk)."""
        text = self._normalise(sentence)
        return [*(self.vocabulary.tokens(text) if text.strip() else []), self.name(self.end)]

    def name(self, token: int) -> str:
        """The token with this id."""
        special = {self.begin: "[begin]", self.end: "[end]"}
        return special[token] if token in special else self.vocabulary.item_names(torch.tensor([token]))[0]


def make_plain(sentence: str) -> str:
    """Lower case, without spaces before punctuation."""
    return SPACE_BEFORE_PUNCTUATION.sub(r"\1", " ".join(sentence.lower().split()))


class VocabularyConfig(Config):
    """The vocabularies of source and target."""

    kind: Literal["words", "characters", "subwords"] = Field("subwords", description="kind of tokens")
    size: int = Field(8_000, ge=2, le=1_000_000, description="maximum number of tokens per vocabulary")
    rarest: int = Field(
        2,
        ge=1,
        le=1_000_000,
        description="minimum number of occurrences of a known word or character; no effect on subwords",
    )
    shared: bool = Field(False, description="use one vocabulary for both languages")
    plain_source: bool = Field(
        False, description="ignore case and spaces before punctuation in source sentences"
    )
    split: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="probability that a subword is split in two during training; 0 disables splitting",
    )

    @model_validator(mode="after")
    def _can_be_split(self) -> Self:
        if self.split and self.kind != "subwords":
            raise ValueError(f"split is {self.split:g}; allowed with {self.kind}: 0")
        return self

    def languages(self, pairs: list[Pair]) -> tuple[Language, Language]:
        """Build the source and the target language from the training pairs."""
        sources, targets = ([pair[side] for pair in pairs] for side in (0, 1))
        if self.plain_source:
            sources = [make_plain(source) for source in sources]
        both = [sources + targets] if self.shared else [sources, targets]
        found = [build_vocabulary(self.kind, texts, self.size, self.rarest) for texts in both]
        return Language(vocabulary=found[0], plain=self.plain_source), Language(vocabulary=found[-1])


def split_subwords(
    tokens: Tensor, lengths: Tensor | None, halves: Tensor, probability: float
) -> tuple[Tensor, Tensor | None]:
    """(B, T), (B), (V, 2) -> (B, U), (B)

    Split random subwords in two: the same sentences with other segmentations, as regularisation. This is
    one step of BPE-dropout (Provilkov et al. 2020).
    """
    halves_BT2 = halves.to(tokens.device)[tokens]
    split_BT = (torch.rand(tokens.shape, device=tokens.device) < probability) & (halves_BT2[..., 0] > 0)
    real_BT = torch.ones_like(split_BT)
    if lengths is not None:
        real_BT = torch.arange(tokens.shape[1], device=tokens.device) < lengths.unsqueeze(1)
    first_BT = torch.where(split_BT, halves_BT2[..., 0], tokens)
    keep_BT2 = torch.stack((real_BT, real_BT & split_BT), -1)
    values = torch.stack((first_BT, halves_BT2[..., 1]), -1)[keep_BT2]
    return Ragged.from_lengths(values, keep_BT2.sum((1, 2))).pad(
        torch.arange(len(tokens), device=tokens.device)
    )


@dataclass(frozen=True)
class PairData(Dataset[Examples]):
    """Encoded sentence pairs by split, with both languages and the original texts."""

    texts: dict[str, list[Pair]]
    splits: dict[str, Examples]
    source: Language
    target: Language
    notes: tuple[str, ...] = ()
    example: str = ""

    @staticmethod
    def from_pairs(pairs: SentencePairs, config: VocabularyConfig) -> "PairData":
        """Build the vocabularies from the training split and encode all pairs."""
        source, target = config.languages(pairs.splits["train"])
        sizes = f"vocabulary: {source.size:,} {config.kind}"
        note = (
            f"{sizes}, shared" if config.shared else f"{sizes} of the source, {target.size:,} of the target"
        )
        notes = (*pairs.notes, note)
        if config.kind == "words":
            notes += ("words are generated in lower case, which exact match and cased BLEU count as errors",)
        return PairData.encode(pairs, source, target, notes)

    @staticmethod
    def encode(
        pairs: SentencePairs, source: Language, target: Language, notes: tuple[str, ...]
    ) -> "PairData":
        """Encode all pairs in these languages."""
        splits = {
            name: Examples(
                Ragged.from_rows([source.encode(text) for text, _ in split]),
                Ragged.from_rows([target.encode_target(text) for _, text in split]),
            )
            for name, split in pairs.splits.items()
        }
        return PairData(pairs.splits, splits, source, target, notes, pairs.example)

    def lengths(self, split: str) -> Tensor:
        """-> (N), of both sides together, so that neither has much padding"""
        return sum(self.examples(split).lengths, start=torch.tensor(0))

    def references(self, split: str) -> dict[str, list[str]]:
        """All translations of each distinct source sentence."""
        found: dict[str, list[str]] = {}
        for source, target in self.texts[split]:
            found.setdefault(source, []).append(target)
        return found

    @cached_property
    def digest(self) -> str:
        """A checksum of all pairs and both vocabularies."""
        languages = [self.source.model_dump_json(), self.target.model_dump_json()]
        return hashlib.sha256(json.dumps([languages, self.texts]).encode()).hexdigest()
