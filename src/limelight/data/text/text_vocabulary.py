"""Vocabularies of running text: characters, bytes, subwords and words.

`decode` gives back every character, except for words.
"""

import base64
import io
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from functools import cached_property
from typing import ClassVar, Literal, Self

import numpy as np
import sentencepiece
import torch
from pydantic import Field
from torch import Tensor

from limelight.config import Config
from limelight.data.text.vocabulary import UNKNOWN_CHARACTER, Words, mark_unknown, with_conventional_spaces
from limelight.errors import WrongInput, wrong

UNKNOWN, END = 0, 1  # the first two ids
SPACE = "\u2581"  # how sentencepiece writes a space
SHOWN = {"\n": "↵", " ": "␣", "\t": "⇥", "\r": "␍"}  # white space in the display form of a token


class TextVocabulary(Config, ABC):
    """Tokens of running text. Id 0 is the unknown token, also used for masked ones; id 1 ends a document.

    A pre-trained tokenizer has other ids.
    """

    unit: ClassVar[str]
    """What a token is, in the plural."""

    @property
    def unknown(self) -> int:
        """The id of unknown tokens; -1 if there are none."""
        return UNKNOWN

    @property
    def end(self) -> int:
        """The id of the end of a document."""
        return END

    @property
    def mask(self) -> int:
        """The id that stands for a hidden token."""
        return UNKNOWN

    @property
    def special(self) -> tuple[int, ...]:
        """The ids that stand for no text."""
        return UNKNOWN, END

    @property
    @abstractmethod
    def contents(self) -> tuple[bytes, ...]:
        """The UTF-8 bytes that each token stands for; empty for the end of a document."""

    @abstractmethod
    def encode_text(self, text: str) -> np.ndarray:
        """The ids of a text, without an end."""

    @property
    def size(self) -> int:
        """Number of tokens, including the unknown one and the end of a document."""
        return len(self.contents)

    def encode(self, line: str) -> Tensor:
        """The ids of a text, (T)."""
        # Input from a terminal may contain incomplete characters, which cannot be encoded as UTF-8.
        row = self.encode_text(line.encode(errors="replace").decode())
        if not len(row):
            raise WrongInput("the text is empty")
        return torch.from_numpy(row.astype(np.int64))

    def decode(self, row: Tensor) -> str:
        """The text of these ids; incomplete characters at its end are replaced by U+FFFD."""
        return b"".join(self.contents[i] for i in row.tolist()).decode(errors="replace")

    def name(self, number: int) -> str:
        """The display form of a token: white space is visible, a part of a character is a number."""
        if number == self.end:
            return "[end]"
        try:
            text = self.contents[number].decode()
        except UnicodeDecodeError:
            return "".join(f"\\x{byte:02x}" for byte in self.contents[number])
        return "".join(map(_visible, text))

    def item_names(self, row: Tensor) -> list[str]:
        """The display form of each id."""
        return [self.name(i) for i in row.tolist()]

    def tokens(self, line: str) -> list[str]:
        """The display forms of the tokens of a text; unknown ones are marked with (unk)."""
        row = self.encode(line)
        names = self.item_names(row)
        return [name if i else mark_unknown(name) for i, name in zip(row.tolist(), names, strict=True)]


class TextBytes(TextVocabulary):
    """The bytes of the UTF-8 encoding: any text, without unknown tokens."""

    kind: Literal["bytes"] = "bytes"
    unit: ClassVar[str] = "bytes"

    @cached_property
    def contents(self) -> tuple[bytes, ...]:
        """The byte of each token."""
        return (UNKNOWN_CHARACTER.encode(), b"", *(bytes([byte]) for byte in range(256)))

    def encode_text(self, text: str) -> np.ndarray:
        """The bytes of a text, from 2 on."""
        return np.frombuffer(text.encode(), np.uint8).astype(np.uint16) + 2


class TextCharacters(TextVocabulary):
    """The most frequent characters."""

    kind: Literal["text-characters"] = "text-characters"
    unit: ClassVar[str] = "characters"
    known: str = Field(min_length=1, description="the characters with ids 2, 3, …, in the order of Unicode")

    @classmethod
    def build(cls, counts: np.ndarray, size: int) -> Self:
        """The most frequent characters, given the number of occurrences of each code point."""
        found = counts.nonzero()[0]
        frequent = found[np.argsort(-counts[found], kind="stable")][: size - 2]
        return cls(known="".join(map(chr, sorted(frequent))))

    @cached_property
    def contents(self) -> tuple[bytes, ...]:
        """The character of each token."""
        return (UNKNOWN_CHARACTER.encode(), b"", *(character.encode() for character in self.known))

    @cached_property
    def _ids(self) -> np.ndarray:
        """The id of each code point up to the largest known one, and of one more."""
        ids = np.zeros(max(map(ord, self.known)) + 2, np.uint32)
        ids[code_points(self.known)] = np.arange(2, len(self.known) + 2)
        return ids

    def encode_text(self, text: str) -> np.ndarray:
        """The ids of all characters; 0 for unknown ones."""
        return self._ids[np.minimum(code_points(text), len(self._ids) - 1)]

    def tokens(self, line: str) -> list[str]:
        """The characters of a text; unknown ones are marked with (unk)."""
        shown = map(_visible, line)
        return [
            one if i else mark_unknown(one) for i, one in zip(self.encode(line).tolist(), shown, strict=True)
        ]


class TextSubwords(TextVocabulary):
    """Subwords found by byte-pair encoding (Sennrich et al. 2016), trained with sentencepiece.

    Unlike `Subwords`, they keep line ends and repeated spaces; rare characters are encoded as bytes. Only
    U+2581, with which sentencepiece writes a space, becomes a space.
    """

    kind: Literal["text-subwords"] = "text-subwords"
    unit: ClassVar[str] = "subwords"
    model: str = Field(min_length=1, repr=False, description="the sentencepiece model file in base64")

    @classmethod
    def build(cls, texts: Iterable[str], size: int) -> Self:
        """Train on texts; there may be fewer than `size` subwords if the texts are short."""
        file = io.BytesIO()
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=(line for text in texts for line in text.split("\n") if line),
                model_writer=file,
                model_type="bpe",
                vocab_size=size,
                hard_vocab_limit=False,
                character_coverage=0.9995,
                byte_fallback=True,
                normalization_rule_name="identity",
                remove_extra_whitespaces=False,
                add_dummy_prefix=False,
                allow_whitespace_only_pieces=True,
                user_defined_symbols=["\n"],
                # With one thread and all sentences in their order, the result is deterministic.
                num_threads=1,
                input_sentence_size=0,
                shuffle_input_sentence=False,
                max_sentence_length=2**24,
                unk_id=UNKNOWN,
                eos_id=END,
                eos_piece="[end]",
                bos_id=-1,
                pad_id=-1,
                minloglevel=2,
            )
        except RuntimeError as error:
            least = re.search(r"required_chars\. \d+ vs (\d+)", str(error))
            if least is None:
                raise WrongInput("sentencepiece found no subwords in the text; try characters") from None
            allowed = f"at least {least[1]}, for all characters and bytes"
            raise wrong("the vocabulary size", size, allowed) from None
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

    @cached_property
    def contents(self) -> tuple[bytes, ...]:
        """The text of each subword."""
        pieces = self._processor
        found = list[bytes]()
        for i in range(pieces.get_piece_size()):
            piece = pieces.id_to_piece(i)
            is_byte = pieces.is_byte(i)
            found.append(bytes([int(piece[1:-1], 16)]) if is_byte else piece.replace(SPACE, " ").encode())
        found[UNKNOWN], found[END] = UNKNOWN_CHARACTER.encode(), b""
        return tuple(found)

    def encode_text(self, text: str) -> np.ndarray:
        """The subwords of a text."""
        return np.array(self._processor.encode(text), np.uint32)


class TextWords(TextVocabulary):
    """The most frequent words in lower case; every other character is a token, as in `Words`.

    The original spaces are lost: `decode` puts them where most European languages do.
    """

    kind: Literal["text-words"] = "text-words"
    unit: ClassVar[str] = "words"
    known: tuple[str, ...] = Field(min_length=1, description="the words with ids 2, 3, …")

    @classmethod
    def build(cls, texts: Iterable[str], size: int) -> Self:
        """The most frequent words, the most frequent first."""
        return cls(known=Words.build(texts, size - 1).known)

    @cached_property
    def words(self) -> Words:
        """The same words with the same ids, for readers that have no end of a document."""
        return Words(known=("[end]", *self.known))

    @cached_property
    def contents(self) -> tuple[bytes, ...]:
        """The word of each token, after a space."""
        return (UNKNOWN_CHARACTER.encode(), b"", *(f" {word}".encode() for word in self.known))

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {word: i for i, word in enumerate(self.known, start=2)}

    def encode_text(self, text: str) -> np.ndarray:
        """The ids of all words; 0 for unknown ones."""
        return np.array([self._ids.get(word, UNKNOWN) for word in Words.split(text)], np.uint32)

    def name(self, number: int) -> str:
        """The word."""
        return super().name(number) if number <= END else self.known[number - 2]

    def decode(self, row: Tensor) -> str:
        """The text of these ids, with conventional spaces around punctuation."""
        return with_conventional_spaces(" ".join(self.name(i) for i in row.tolist() if i != END))

    def tokens(self, line: str) -> list[str]:
        """The words of a text; unknown ones are marked with (unk)."""
        return [word if word in self._ids else mark_unknown(word) for word in Words.split(line)]


def _visible(character: str) -> str:
    """White space as a symbol, and other characters that cannot be printed as an escape."""
    if character in SHOWN:
        return SHOWN[character]
    return character if character.isprintable() else ascii(character)[1:-1]


def code_points(text: str) -> np.ndarray:
    """The Unicode code point of each character."""
    return np.frombuffer(text.encode("utf-32-le"), np.uint32)
