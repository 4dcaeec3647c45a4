"""Open vocabularies, built from training texts: any line can be read, what was not seen is unknown."""

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

# Marks that are characters of their own (accents, points, vowel signs) belong to the word, which `\w` denies.
MARKS = r"\u0300-\u036f\u0591-\u05bd\u05bf-\u05c7\u064b-\u065f\u0900-\u0963\u0966-\u0dff\u0e31-\u0e4e"
LETTER = rf"[\w{MARKS}]"
HUGS_THE_LAST = ".,!?;:…%)]}"
AFTER_A_SPACE = re.compile(rf" ([{re.escape(HUGS_THE_LAST)}])")
BEFORE_A_SPACE = re.compile(r"([(\[{¿¡]) ")
HYPHEN = re.compile(rf"(?<={LETTER}) - (?={LETTER})")
WORD = re.compile(rf"<unk>|{LETTER}+(?:['’]{LETTER}+)*|\S")
UNSEEN = "\ufffd"
LONG = 4192  # bytes: sentencepiece leaves out what is longer, unless told


def mark_unknown(item: str) -> str:
    """How a word, a character or a piece that the vocabulary does not have is shown."""
    return f"{item} (unk)"


class Listed(Config, ABC):
    """The items that were seen, the most frequent first; item 0 stands for all others."""

    known: tuple[str, ...]

    unknown: ClassVar[str]
    between: ClassVar[str]

    @staticmethod
    @abstractmethod
    def split(line: str) -> list[str]: ...

    @classmethod
    def of(cls, texts: Iterable[str], size: int, rarest: int = 1) -> Self:
        """The most frequent, `size` with the unknown one; what stands less than `rarest` times is unknown."""
        counts = Counter(item for text in texts for item in cls.split(text))
        del counts[cls.unknown]
        often = [item for item, count in counts.items() if count >= rarest]
        if not often:
            raise WrongInput(
                f"nothing stands {rarest} times in the texts: all would be unknown; lower rarest"
            )
        return cls(known=tuple(sorted(often, key=lambda item: (-counts[item], item))[: size - 1]))

    @property
    def size(self) -> int:
        return 1 + len(self.known)

    def words(self, line: str) -> list[int]:
        """For each item of the line, which word it is in, as white space separates words."""
        return [place for place, word in enumerate(line.split()) for _ in self.split(word)]

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {item: i for i, item in enumerate(self.known, start=1)}

    def encode(self, line: str) -> Tensor:
        items = self.split(line)
        if not items:
            raise WrongInput("the line is empty; a text has at least one character")
        return torch.tensor([self._ids.get(item, 0) for item in items])

    def show(self, row: Tensor) -> list[str]:
        return [self.known[i - 1] if i else self.unknown for i in row.tolist()]

    def tokens(self, line: str) -> list[str]:
        """Each item of the line, as `encode` reads it; one that is unknown is marked."""
        return [item if item in self._ids else mark_unknown(item) for item in self.split(line)]

    def write(self, row: Tensor) -> str:
        return self.between.join(self.show(row))


class Words(Listed):
    """Words in lower case, and each other character for itself; an apostrophe inside a word belongs to it.

    Where spaces were, nobody knows any more: they are written as most languages of Europe do.
    """

    kind: Literal["words"] = "words"
    unknown: ClassVar[str] = "<unk>"
    between: ClassVar[str] = " "

    @staticmethod
    def split(line: str) -> list[str]:
        return WORD.findall(line.lower())

    def write(self, row: Tensor) -> str:
        line = AFTER_A_SPACE.sub(r"\1", super().write(row))
        return HYPHEN.sub("-", BEFORE_A_SPACE.sub(r"\1", line))


class Characters(Listed):
    """Each character is an item; white space is one space, and none at the ends."""

    kind: Literal["characters"] = "characters"
    unknown: ClassVar[str] = UNSEEN
    between: ClassVar[str] = ""

    def words(self, line: str) -> list[int]:
        """A space belongs to the word that it follows."""
        return [place for place, word in enumerate(line.split()) for _ in f"{word} "][:-1]

    @staticmethod
    def split(line: str) -> list[str]:
        return list(" ".join(line.split()))


class Subwords(Config):
    """Pieces of words that byte-pair encoding found (Sennrich et al. 2016), by sentencepiece."""

    kind: Literal["subwords"] = "subwords"
    model: str = Field(min_length=1, repr=False)  # sentencepiece's own file, in base64

    @classmethod
    def of(cls, texts: Sequence[str], size: int) -> Self:
        """`size` pieces, or as many as the texts have: a small text has few."""
        if not any(text.strip() for text in texts):
            raise WrongInput("the texts are empty; a vocabulary is built from at least one word")
        written = io.BytesIO()
        few = 2 * len(set().union(*texts)) <= size
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(texts),
                model_writer=written,
                model_type="bpe",
                vocab_size=size,
                hard_vocab_limit=False,
                # A rare letter is known, unless there are so many that they would leave no room for words.
                character_coverage=1.0 if few else 0.9995,
                # One thread and every sentence in its order: nothing is left to chance, so no seed is needed.
                num_threads=1,
                input_sentence_size=0,
                shuffle_input_sentence=False,
                max_sentence_length=max(LONG, *(len(text.encode()) for text in texts)),
                unk_id=0,
                bos_id=-1,
                eos_id=-1,
                pad_id=-1,
                unk_surface=UNSEEN,
                minloglevel=2,
            )
        except RuntimeError as error:
            least = re.search(r"required_chars\. \d+ vs (\d+)", str(error))
            if least is None:
                raise WrongInput(
                    "sentencepiece finds no subwords in the texts; try words or characters"
                ) from None
            raise wrong(
                "the vocabulary's size", size, f"at least {least[1]}, for the characters that the texts have"
            ) from None
        return cls(model=base64.b64encode(written.getvalue()).decode())

    @cached_property
    def _processor(self) -> sentencepiece.SentencePieceProcessor:
        try:
            model = base64.b64decode(self.model, validate=True)
            return sentencepiece.SentencePieceProcessor(model_proto=model)
        except (RuntimeError, ValueError):
            raise WrongInput("the subword vocabulary is damaged: sentencepiece cannot read it") from None

    @property
    def size(self) -> int:
        return self._processor.get_piece_size()

    def encode(self, line: str) -> Tensor:
        if not line.strip():
            raise WrongInput("the line is empty; a text has at least one character")
        # What is invisible leaves no piece.
        return torch.tensor(self._pieces(" ".join(line.split())) or [0])

    def _pieces(self, text: str) -> list[int]:
        # A terminal may hand over half of a character, which is no UTF-8.
        return self._processor.encode(text.encode(errors="replace").decode())

    @cached_property
    def halves(self) -> Tensor:
        """(V, 2), the two pieces that each was joined from; 0 where it is a single character.

        sentencepiece does not keep them. Of all ways to cut a piece in two, it was the one whose halves were
        both known first: characters from the beginning, the others in the order of their numbers.
        """
        ids = {self._processor.id_to_piece(i): i for i in range(1, self.size)}
        since = {piece: i if len(piece) > 1 else 0 for piece, i in ids.items()}
        found = torch.zeros(self.size, 2, dtype=torch.long)
        for piece, i in ids.items():
            cuts = [(piece[:at], piece[at:]) for at in range(1, len(piece))]
            known = [cut for cut in cuts if since.keys() >= set(cut)]
            if known:
                left, right = min(known, key=lambda cut: max(since[cut[0]], since[cut[1]]))
                found[i] = torch.tensor([ids[left], ids[right]])
        return found

    def words(self, line: str) -> list[int]:
        """For each piece of the line, which word it is in, as white space separates words."""
        # No piece goes beyond a space. A word may have spaces for sentencepiece alone: it reads ´ as one.
        return [place for place, word in enumerate(line.split()) for _ in self._pieces(word)]

    def show(self, row: Tensor) -> list[str]:
        return [self._processor.id_to_piece(i) for i in row.tolist()]

    def tokens(self, line: str) -> list[str]:
        """Each piece of the line, as `encode` reads it; one that is unknown is marked."""
        row = self.encode(line).tolist()
        text = " ".join(line.split()).encode(errors="replace").decode()
        pieces = self._processor.encode(text, out_type=str) or [line]
        return [piece if i else mark_unknown(piece) for i, piece in zip(row, pieces, strict=True)]

    def write(self, row: Tensor) -> str:
        return self._processor.decode(row.tolist()).strip()


def build_vocabulary(
    kind: str, texts: Sequence[str], size: int, rarest: int
) -> Words | Characters | Subwords:
    """`kind` is words, characters or subwords; sentencepiece needs no `rarest`."""
    if kind == "subwords":
        return Subwords.of(texts, size)
    return (Words if kind == "words" else Characters).of(texts, size, rarest)
