"""The vocabulary of a pre-trained translator: subwords of SentencePiece with ids from another file."""

import base64
import re
from functools import cached_property
from typing import Literal

import sentencepiece
import torch
from pydantic import Field
from torch import Tensor

from limelight.config import Config
from limelight.data.text.text_vocabulary import SPACE
from limelight.data.text.vocabulary import mark_unknown
from limelight.errors import WrongInput

LANGUAGE = re.compile(r">>\S+?<<")  # the first word of a sentence, if a model has several target languages


class SentencePieces(Config):
    """Subwords with the ids of a pre-trained translator, among which are its special tokens."""

    kind: Literal["pieces"] = "pieces"
    model: str = Field(min_length=1, repr=False, description="the sentencepiece model file in base64")
    pieces: tuple[str, ...] = Field(min_length=1, repr=False, description="the subwords with ids 0, 1, …")
    unknown: int = Field(ge=0, description="the id of unknown subwords")
    begin: int = Field(ge=0, description="the id of the token before a translation")
    end: int = Field(ge=0, description="the id of the token after a sentence")

    @property
    def size(self) -> int:
        """Number of subwords, including special tokens."""
        return len(self.pieces)

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {piece: number for number, piece in enumerate(self.pieces)}

    @cached_property
    def _processor(self) -> sentencepiece.SentencePieceProcessor:
        try:
            model = base64.b64decode(self.model, validate=True)
            return sentencepiece.SentencePieceProcessor(model_proto=model)
        except (RuntimeError, ValueError):
            raise WrongInput("the subword vocabulary is damaged: sentencepiece cannot read it") from None

    def encode(self, line: str) -> Tensor:
        """The ids of a line, (T)."""
        pieces = self._split(line)
        if not pieces:
            raise WrongInput("the line is empty; a text has at least one character")
        return torch.tensor([self._ids.get(piece, self.unknown) for piece in pieces])

    def _split(self, line: str) -> list[str]:
        # Input from a terminal may contain incomplete characters, which cannot be encoded as UTF-8.
        text = line.encode(errors="replace").decode()
        language = LANGUAGE.match(text)
        first = [language[0]] if language and language[0] in self._ids else []
        rest = text[len(first[0]) :] if first else text
        found: list[str] = self._processor.encode(rest, out_type=str)
        return [*first, *found]

    def words(self, line: str) -> list[int]:
        """For each subword of the line, the index of its word; words are separated by white space."""
        return [index for index, word in enumerate(line.split()) for _ in self._split(word)]

    def item_names(self, row: Tensor) -> list[str]:
        """The subword of each id."""
        return [self.pieces[i] for i in row.tolist()]

    def tokens(self, line: str) -> list[str]:
        """The subwords of a line, one per id of `encode`; unknown ones are marked with (unk)."""
        return [piece if piece in self._ids else mark_unknown(piece) for piece in self._split(line)]

    def decode(self, row: Tensor) -> str:
        """The text of these ids, without special tokens."""
        special = {self.begin, self.end}
        text = self._processor.decode([self.pieces[i] for i in row.tolist() if i not in special])
        return str(text).replace(SPACE, " ").strip()  # pieces of the other language stay as they are
