"""The tokenizer of a pre-trained model of Hugging Face, from its own files."""

import json
import re
from collections.abc import Sequence
from functools import cached_property
from importlib.util import find_spec
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from limelight.data.text.text_vocabulary import SPACE, TextVocabulary
from limelight.data.text.vocabulary import UNKNOWN_CHARACTER, mark_unknown
from limelight.errors import WrongInput

BYTE = re.compile(r"<0x([0-9A-F]{2})>")  # how SentencePiece writes a byte that is no character
NONE = -1  # the id of a special token that a tokenizer does not have


class PretrainedTokenizer(TextVocabulary):
    """WordPiece, byte-level BPE, BPE or Unigram, with all ids as in the pre-trained model.

    `encode` adds the special tokens that the model was trained with, such as [CLS] and [SEP], and truncates
    the text between them; `encode_text` does neither.
    """

    kind: Literal["pretrained"] = "pretrained"
    unit: ClassVar[str] = "subwords"

    tokenizer: str = Field(min_length=1, repr=False, description="the content of tokenizer.json")
    entries: int = Field(ge=1, description="number of rows of the embedding, which may be more than tokens")
    longest: int = Field(ge=1, description="maximum number of tokens of a text, with special tokens")
    begin: tuple[int, ...] = Field((), description="special tokens before a text")
    between: tuple[int, ...] = Field((), description="special tokens between two texts")
    finish: tuple[int, ...] = Field((), description="special tokens after a text")
    unknown_token: int = Field(NONE, ge=NONE, description="the id of unknown tokens; -1: there are none")
    end_token: int = Field(NONE, ge=NONE, description="the id of the end of a document; -1: there is none")
    mask_token: int = Field(NONE, ge=NONE, description="the id of a masked token; -1: there is none")

    @property
    def unknown(self) -> int:
        """The id of unknown tokens."""
        return self.unknown_token

    @property
    def end(self) -> int:
        """The id of the end of a document."""
        return self.end_token

    @property
    def mask(self) -> int:
        """The id that stands for a hidden token."""
        return self.mask_token

    @cached_property
    def special(self) -> tuple[int, ...]:
        """The ids that stand for no text."""
        added = {one["id"] for one in self._content.get("added_tokens", ()) if one.get("special")}
        known = {*self.begin, *self.between, *self.finish, self.unknown, self.end, self.mask, *added}
        return tuple(sorted(known - {NONE}))

    @property
    def size(self) -> int:
        """Number of rows of the embedding."""
        return self.entries

    def shortened(self, longest: int) -> "PretrainedTokenizer":
        """The same with texts of at most `longest` tokens, special tokens included."""
        least = len(self.begin) + len(self.finish) + 1
        return self.model_copy(update={"longest": min(self.longest, max(longest, least))})

    def encode(self, line: str) -> Tensor:
        """The ids of a text with special tokens, (T); the text is truncated."""
        row = super().encode(line).tolist()[: self._most]
        return torch.tensor([*self.begin, *row, *self.finish])

    def is_truncated(self, line: str) -> bool:
        """Whether a text is too long."""
        return len(self.encode_text(line)) > self._most

    @property
    def _most(self) -> int:
        return max(1, self.longest - len(self.begin) - len(self.finish))

    def encode_text(self, text: str) -> np.ndarray:
        """The ids of a text, without special tokens."""
        return np.array(self._rust.encode(text, add_special_tokens=False).ids, np.uint32)

    def decode(self, row: Tensor) -> str:
        """The text of these ids, without special tokens."""
        ids = [i for i in row.tolist() if i not in self.special and i < self._rust.get_vocab_size()]
        return str(self._rust.decode(ids, skip_special_tokens=False))

    def name(self, number: int) -> str:
        """The display form of a token: that of the tokenizer for special tokens and WordPiece."""
        token = self._rust.id_to_token(number)
        if token is None:
            return f"[unused {number}]"
        if number in self.special or self._decoder == "WordPiece":
            return str(token)
        return super().name(number)

    def tokens(self, line: str) -> list[str]:
        """The display forms of the tokens of `encode`; unknown ones are marked with (unk)."""
        row = self.encode(line).tolist()
        return [mark_unknown(self.name(i)) if i == self.unknown else self.name(i) for i in row]

    @cached_property
    def contents(self) -> tuple[bytes, ...]:
        """The UTF-8 bytes that each token stands for; empty for special tokens."""
        found = [b""] * self.size
        for token, number in self._rust.get_vocab(with_added_tokens=True).items():
            if number < self.size and number not in self.special:
                found[number] = self._bytes_of(token)
        if self.unknown != NONE:
            found[self.unknown] = UNKNOWN_CHARACTER.encode()
        return tuple(found)

    def _bytes_of(self, token: str) -> bytes:
        if self._decoder == "ByteLevel":
            known = [BYTE_OF.get(character) for character in token]
            return token.encode() if None in known else bytes(byte for byte in known if byte is not None)
        if self._decoder == "WordPiece":
            return (token.removeprefix("##") if token.startswith("##") else f" {token}").encode()
        if byte := BYTE.fullmatch(token):
            return bytes([int(byte[1], 16)])
        return token.replace(SPACE, " ").encode()

    @cached_property
    def _content(self) -> dict[str, Any]:
        try:
            content = json.loads(self.tokenizer)
        except (ValueError, RecursionError):
            content = None
        if not isinstance(content, dict):
            raise WrongInput("the tokenizer is damaged: it is not a JSON object")
        return content

    @cached_property
    def _decoder(self) -> str:
        """The kind of the decoder: ByteLevel, WordPiece, or one of SentencePiece."""
        return str((self._content.get("decoder") or {}).get("type"))

    @cached_property
    def _rust(self) -> Any:
        """The tokenizer of the package `tokenizers`."""
        return load_tokenizer(self.tokenizer)


def load_tokenizer(content: str) -> Any:
    """The content of a tokenizer.json as a tokenizer, without truncation and padding."""
    if find_spec("tokenizers") is None:
        extra = "pip install 'limelight[huggingface]'"
        raise WrongInput(f"pre-trained models need the package tokenizers; install it with: {extra}")
    from tokenizers import Tokenizer

    try:
        found = Tokenizer.from_str(content)
    except Exception as error:  # the package raises Exception itself
        raise WrongInput(f"tokenizer.json is damaged: {' '.join(str(error).split())[:200]}") from None
    found.no_truncation()
    found.no_padding()
    return found


def special_tokens(tokenizer: Any) -> tuple[Sequence[int], Sequence[int], Sequence[int]]:
    """The ids that a tokenizer adds before, between and after two texts."""
    text = next(iter("a1."))
    plain = tokenizer.encode(text, add_special_tokens=False).ids
    one = tokenizer.encode(text).ids
    start = _find(one, plain)
    two = tokenizer.encode(text, text).ids
    middle = two[start + len(plain) : len(two) - len(plain) - (len(one) - start - len(plain))]
    return one[:start], middle, one[start + len(plain) :]


def _find(row: Sequence[int], part: Sequence[int]) -> int:
    places = (at for at in range(len(row) - len(part) + 1) if row[at : at + len(part)] == part)
    return next(places, 0)


def _byte_of_character() -> dict[str, int]:
    """The byte that each character stands for in byte-level BPE (Radford et al. 2019).

    Printable characters of Latin-1 stand for themselves; the other bytes have the characters from U+0100 on.
    """
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(others)}


BYTE_OF = _byte_of_character()
