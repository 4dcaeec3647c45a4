"""Sentences and their translations: as text by split, and as the numbers that a model reads."""

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor

from limelight.config import Config
from limelight.data.batching import Examples
from limelight.data.ragged import Ragged
from limelight.data.text.vocabulary import (
    AFTER_A_SPACE,
    HUGS_THE_LAST,
    Characters,
    Subwords,
    Words,
    build_vocabulary,
)

Vocabulary = Annotated[Words | Characters | Subwords, Field(discriminator="kind")]
Pair = tuple[str, str]  # a sentence and its translation


@dataclass(frozen=True)
class Sentences:
    """What every source of sentence pairs gives. Held-out source sentences do not stand in training."""

    splits: dict[str, list[Pair]]
    notes: tuple[str, ...] = ()
    example: str = ""  # a source sentence worth looking at, where one is known


class Language(Config):
    """A vocabulary and two marks more: where a sentence begins, and where it ends.

    Where it is read `plain`, capitals and a space before a full stop do not count: "I lost." is "i lost ."
    """

    vocabulary: Vocabulary
    plain: bool = False

    @property
    def begin(self) -> int:
        return self.vocabulary.size

    @property
    def end(self) -> int:
        return self.vocabulary.size + 1

    @property
    def size(self) -> int:
        return self.vocabulary.size + 2

    def encode(self, sentence: str) -> Tensor:
        """Closed by its end mark: where a sentence ends is something to look at, too."""
        end = torch.tensor([self.end])
        return torch.cat((self.vocabulary.encode(self._read(sentence)), end)) if sentence.strip() else end

    def encode_whole(self, sentence: str) -> Tensor:
        """Between its two marks."""
        return torch.cat((torch.tensor([self.begin]), self.encode(sentence)))

    @cached_property
    def halves(self) -> Tensor:
        """(V, 2), the two tokens that each may be cut into; 0 where it cannot."""
        whole = torch.zeros(self.size, 2, dtype=torch.long)
        if isinstance(self.vocabulary, Subwords):
            whole[: self.vocabulary.size] = self.vocabulary.halves
        return whole

    def write(self, row: Tensor) -> str:
        """The sentence, without marks."""
        return self.vocabulary.write(row[row < self.begin])

    def words(self, sentence: str) -> list[int]:
        """Which word each token of a sentence belongs to, the end mark aside; white space separates words."""
        words = sentence.split()
        # Read plainly, a full stop that stood alone belongs to the word before it.
        first = [i for i, word in enumerate(words) if not (i and self.plain and word[0] in HUGS_THE_LAST)]
        return [first[word] for word in self.vocabulary.words(self._read(sentence))]

    def _read(self, sentence: str) -> str:
        return make_plain(sentence) if self.plain else sentence

    def show(self, row: Tensor) -> list[str]:
        """A name for each token, as a picture's axis shows it."""
        return [self.name(i) for i in row.tolist()]

    def tokens(self, sentence: str) -> list[str]:
        """Each token of a sentence and the end mark, as `encode` reads them; what is unknown is marked."""
        read = self._read(sentence)
        return [*(self.vocabulary.tokens(read) if read.strip() else []), self.name(self.end)]

    def name(self, token: int) -> str:
        marks = {self.begin: "[begin]", self.end: "[end]"}
        return marks[token] if token in marks else self.vocabulary.show(torch.tensor([token]))[0]


def make_plain(sentence: str) -> str:
    """In small letters, without spaces before full stops and their like."""
    return AFTER_A_SPACE.sub(r"\1", " ".join(sentence.lower().split()))


class VocabularyConfig(Config):
    kind: Literal["words", "characters", "subwords"] = "subwords"
    size: int = Field(8_000, ge=2, le=1_000_000)
    rarest: int = Field(
        2, ge=1, le=1_000_000
    )  # times that a word or character must stand in training to be known
    shared: bool = False  # one vocabulary for both languages
    plain_source: bool = False  # whether capitals and spaces before full stops do not count in sources
    split: float = Field(0.0, ge=0, lt=1)  # how often a subword of training is cut in two

    @model_validator(mode="after")
    def _can_be_split(self) -> Self:
        if self.split and self.kind != "subwords":
            raise ValueError(f"split is {self.split:g}; allowed with {self.kind}: 0")
        return self

    def languages(self, pairs: list[Pair]) -> tuple[Language, Language]:
        """Of sources and of targets, from the pairs of training alone."""
        sources, targets = ([pair[side] for pair in pairs] for side in (0, 1))
        if self.plain_source:
            sources = [make_plain(source) for source in sources]
        both = [sources + targets] if self.shared else [sources, targets]
        found = [build_vocabulary(self.kind, texts, self.size, self.rarest) for texts in both]
        return Language(vocabulary=found[0], plain=self.plain_source), Language(vocabulary=found[-1])


def split_some(
    tokens: Tensor, lengths: Tensor | None, halves: Tensor, often: float
) -> tuple[Tensor, Tensor | None]:
    """(B, T), (B), (V, 2) -> (B, U), (B)

    So many of the tokens cut in two, where they can be: the same sentences, spelled in other ways, so that
    a model learns what words are made of (BPE-dropout, Provilkov et al. 2020, of which this is one step).
    """
    halves_BT2 = halves.to(tokens.device)[tokens]
    cut_BT = (torch.rand(tokens.shape, device=tokens.device) < often) & (halves_BT2[..., 0] > 0)
    real_BT = torch.ones_like(cut_BT)
    if lengths is not None:
        real_BT = torch.arange(tokens.shape[1], device=tokens.device) < lengths.unsqueeze(1)
    first_BT = torch.where(cut_BT, halves_BT2[..., 0], tokens)
    keep_BT2 = torch.stack((real_BT, real_BT & cut_BT), -1)
    values = torch.stack((first_BT, halves_BT2[..., 1]), -1)[keep_BT2]
    return Ragged.cut(values, keep_BT2.sum((1, 2))).pad(torch.arange(len(tokens), device=tokens.device))


@dataclass(frozen=True)
class PairData:
    """Inputs are sources, targets are targets; the text of each pair is kept to judge translations by."""

    texts: dict[str, list[Pair]]
    splits: dict[str, Examples]
    source: Language
    target: Language
    notes: tuple[str, ...] = ()
    example: str = ""

    @staticmethod
    def of(sentences: Sentences, config: VocabularyConfig) -> "PairData":
        source, target = config.languages(sentences.splits["train"])
        splits = {
            name: Examples(
                Ragged.of([source.encode(text) for text, _ in pairs]),
                Ragged.of([target.encode_whole(text) for _, text in pairs]),
            )
            for name, pairs in sentences.splits.items()
        }
        sizes = f"vocabulary: {source.size:,} {config.kind}"
        note = (
            f"{sizes}, shared" if config.shared else f"{sizes} of the source, {target.size:,} of the target"
        )
        notes = (*sentences.notes, note)
        if config.kind == "words":
            notes += ("words are written in small letters, which exact and cased BLEU count as mistakes",)
        return PairData(sentences.splits, splits, source, target, notes, sentences.example)

    def references(self, split: str) -> dict[str, list[str]]:
        """Each source once, with all of its translations."""
        found: dict[str, list[str]] = {}
        for source, target in self.texts[split]:
            found.setdefault(source, []).append(target)
        return found

    @cached_property
    def digest(self) -> str:
        """Changes when any pair or a vocabulary does."""
        languages = [self.source.model_dump_json(), self.target.model_dump_json()]
        return hashlib.sha256(json.dumps([languages, self.texts]).encode()).hexdigest()
