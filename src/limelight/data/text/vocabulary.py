"""Vocabularies of words, characters and subwords, built from training texts."""

import base64
import io
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import ClassVar, Literal, Self

import sentencepiece
import torch
from pydantic import Field
from torch import Tensor

from limelight.config import Config
from limelight.errors import WrongInput, wrong

# Combining marks (accents, points, vowel signs) belong to the word, but `\w` does not match them.
MARKS = r"\u0300-\u036f\u0591-\u05bd\u05bf-\u05c7\u064b-\u065f\u0900-\u0963\u0966-\u0dff\u0e31-\u0e4e"
LETTER = rf"[\w{MARKS}]"
CLOSING_PUNCTUATION = ".,!?;:…%)]}"
SPACE_BEFORE_PUNCTUATION = re.compile(rf" ([{re.escape(CLOSING_PUNCTUATION)}])")
SPACE_AFTER_BRACKET = re.compile(r"([(\[{¿¡]) ")
HYPHEN = re.compile(rf"(?<={LETTER}) - (?={LETTER})")
WORD = re.compile(rf"<unk>|{LETTER}+(?:['’]{LETTER}+)*|\S")
UNKNOWN_CHARACTER = "\ufffd"
MAX_SENTENCE_LENGTH = 4192  # bytes: the default of sentencepiece, which skips longer sentences


def mark_unknown(item: str) -> str:
    """The display form of a word, character or subword that is not in the vocabulary."""
    return f"{item} (unk)"


def with_conventional_spaces(words: str) -> str:
    """Words and punctuation marks that are separated by spaces, with spaces where most languages put them."""
    line = SPACE_BEFORE_PUNCTUATION.sub(r"\1", words)
    return HYPHEN.sub("-", SPACE_AFTER_BRACKET.sub(r"\1", line))


class FrequencyVocabulary(Config, ABC):
    """The most frequent items of the training texts; id 0 is the unknown item."""

    known: tuple[str, ...] = Field(description="the items with ids 1, 2, …, the most frequent first")

    unknown: ClassVar[str]
    separator: ClassVar[str]

    @staticmethod
    @abstractmethod
    def split(line: str) -> list[str]:
        """The items of a line, known or not."""

    @classmethod
    def build(cls, texts: Iterable[str], size: int, rarest: int = 1) -> Self:
        """The most frequent items that occur at least `rarest` times; `size` includes the unknown item."""
        counts = Counter(item for text in texts for item in cls.split(text))
        del counts[cls.unknown]
        frequent = [item for item, count in counts.items() if count >= rarest]
        if not frequent:
            raise WrongInput(f"no item occurs {rarest} times in the texts; lower rarest")
        return cls(known=tuple(sorted(frequent, key=lambda item: (-counts[item], item))[: size - 1]))

    @property
    def size(self) -> int:
        """Number of items, including the unknown item."""
        return 1 + len(self.known)

    def words(self, line: str) -> list[int]:
        """For each item of the line, the index of its word; words are separated by white space."""
        return [index for index, word in enumerate(line.split()) for _ in self.split(word)]

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {item: i for i, item in enumerate(self.known, start=1)}

    def encode(self, line: str) -> Tensor:
        """The ids of a line, (T)."""
        items = self.split(line)
        if not items:
            raise WrongInput("the line is empty; a text has at least one character")
        return torch.tensor([self._ids.get(item, 0) for item in items])

    def item_names(self, row: Tensor) -> list[str]:
        """The item of each id."""
        return [self.known[i - 1] if i else self.unknown for i in row.tolist()]

    def tokens(self, line: str) -> list[str]:
        """The items of a line, one per id of `encode`; unknown items are marked with (unk)."""
        return [item if item in self._ids else mark_unknown(item) for item in self.split(line)]

    def decode(self, row: Tensor) -> str:
        """The text of these ids."""
        return self.separator.join(self.item_names(row))


class Words(FrequencyVocabulary):
    """Words in lower case; every other character is a token. An apostrophe inside a word belongs to it.

    The original spaces are lost: `decode` puts them where most European languages do.
    """

    kind: Literal["words"] = "words"
    unknown: ClassVar[str] = "<unk>"
    separator: ClassVar[str] = " "

    @staticmethod
    def split(line: str) -> list[str]:
        """The words and punctuation marks of a line."""
        return WORD.findall(line.lower())

    def decode(self, row: Tensor) -> str:
        """The text of these ids, with conventional spaces around punctuation."""
        return with_conventional_spaces(super().decode(row))


class Characters(FrequencyVocabulary):
    """Characters; white space becomes a single space and is removed at both ends."""

    kind: Literal["characters"] = "characters"
    unknown: ClassVar[str] = UNKNOWN_CHARACTER
    separator: ClassVar[str] = ""

    def words(self, line: str) -> list[int]:
        """For each character, the index of its word; a space belongs to the word before it."""
        return [index for index, word in enumerate(line.split()) for _ in f"{word} "][:-1]

    @staticmethod
    def split(line: str) -> list[str]:
        """The characters of a line."""
        return list(" ".join(line.split()))


class Subwords(Config):
    """Subwords found by byte-pair encoding (Sennrich et al. 2016), trained with sentencepiece."""

    kind: Literal["subwords"] = "subwords"
    model: str = Field(min_length=1, repr=False, description="the sentencepiece model file in base64")

    @classmethod
    def build(cls, texts: Sequence[str], size: int) -> Self:
        """Train on texts; there may be fewer than `size` subwords if the texts are short."""
        if not any(text.strip() for text in texts):
            raise WrongInput("the texts are empty; a vocabulary needs at least one word")
        file = io.BytesIO()
        few_characters = 2 * len(set().union(*texts)) <= size
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(texts),
                model_writer=file,
                model_type="bpe",
                vocab_size=size,
                hard_vocab_limit=False,
                # Include rare characters unless they would take up more than half of the vocabulary.
                character_coverage=1.0 if few_characters else 0.9995,
                # With one thread and all sentences in their order, the result is deterministic.
                num_threads=1,
                input_sentence_size=0,
                shuffle_input_sentence=False,
                max_sentence_length=max(MAX_SENTENCE_LENGTH, *(len(text.encode()) for text in texts)),
                unk_id=0,
                bos_id=-1,
                eos_id=-1,
                pad_id=-1,
                unk_surface=UNKNOWN_CHARACTER,
                minloglevel=2,
            )
        except RuntimeError as error:
            least = re.search(r"required_chars\. \d+ vs (\d+)", str(error))
            if least is None:
                raise WrongInput(
                    "sentencepiece found no subwords in the texts; try words or characters"
                ) from None
            raise wrong(
                "the vocabulary size", size, f"at least {least[1]}, the number of characters in the texts"
            ) from None
        return cls(model=base64.b64encode(file.getvalue()).decode())

    @property
    def file(self) -> bytes:
        """The content of the sentencepiece model file."""
        return base64.b64decode(self.model, validate=True)

    @cached_property
    def _processor(self) -> sentencepiece.SentencePieceProcessor:
        try:
            return sentencepiece.SentencePieceProcessor(model_proto=self.file)
        except (RuntimeError, ValueError):
            raise WrongInput("the subword vocabulary is damaged: sentencepiece cannot read it") from None

    @property
    def size(self) -> int:
        """Number of subwords, including the unknown one."""
        return self._processor.get_piece_size()

    def encode(self, line: str) -> Tensor:
        """The subword ids of a line, (T)."""
        if not line.strip():
            raise WrongInput("the line is empty; a text has at least one character")
        # Invisible characters alone give no subword.
        return torch.tensor(self._encode(" ".join(line.split())) or [0])

    def _encode(self, text: str) -> list[int]:
        # Input from a terminal may contain incomplete characters, which cannot be encoded as UTF-8.
        return self._processor.encode(text.encode(errors="replace").decode())

    @cached_property
    def halves(self) -> Tensor:
        """(V, 2), the two subwords that each subword was merged from; 0 for single characters.

        sentencepiece does not store the merges. Of all splits into two subwords, the merge is the one whose
        parts were both available first: characters from the start, other subwords in the order of their ids.
        """
        ids = {self._processor.id_to_piece(i): i for i in range(1, self.size)}
        available = {subword: i if len(subword) > 1 else 0 for subword, i in ids.items()}
        halves_V2 = torch.zeros(self.size, 2, dtype=torch.long)
        for subword, i in ids.items():
            splits = [(subword[:at], subword[at:]) for at in range(1, len(subword))]
            known = [split for split in splits if available.keys() >= set(split)]
            if known:
                left, right = min(known, key=lambda split: max(available[split[0]], available[split[1]]))
                halves_V2[i] = torch.tensor([ids[left], ids[right]])
        return halves_V2

    def words(self, line: str) -> list[int]:
        """For each subword of the line, the index of its word; words are separated by white space."""
        # No subword spans a space. Words are encoded one by one, as sentencepiece also splits at ´.
        return [index for index, word in enumerate(line.split()) for _ in self._encode(word)]

    def item_names(self, row: Tensor) -> list[str]:
        """The subword of each id."""
        return [self._processor.id_to_piece(i) for i in row.tolist()]

    def tokens(self, line: str) -> list[str]:
        """The subwords of a line, one per id of `encode`; unknown ones are marked with (unk)."""
        row = self.encode(line).tolist()
        text = " ".join(line.split()).encode(errors="replace").decode()
        subwords = self._processor.encode(text, out_type=str) or [line]
        return [subword if i else mark_unknown(subword) for i, subword in zip(row, subwords, strict=True)]

    def decode(self, row: Tensor) -> str:
        """The text of these ids."""
        return self._processor.decode(row.tolist()).strip()


def build_vocabulary(
    kind: str, texts: Sequence[str], size: int, rarest: int
) -> Words | Characters | Subwords:
    """Build a vocabulary of words, characters or subwords; `rarest` does not apply to subwords."""
    if kind == "subwords":
        return Subwords.build(texts, size)
    return (Words if kind == "words" else Characters).build(texts, size, rarest)
