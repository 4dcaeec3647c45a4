"""Vocabularies of running text keep every character."""

import base64

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support import must_fail

from limelight.data.text.text_vocabulary import (
    END,
    UNKNOWN,
    TextBytes,
    TextCharacters,
    TextSubwords,
    TextVocabulary,
    code_points,
)
from limelight.errors import WrongInput

TEXT = "To be, or  not\tto be:\n\n  that is the question.\r\nÉtoile – 漢字 🎉\u00a0end " * 7
SUBWORDS = TextSubwords.build([TEXT], 400)
CHARACTERS = TextCharacters.build(np.bincount(code_points(TEXT)), 97)
VOCABULARIES: dict[str, TextVocabulary] = {
    "bytes": TextBytes(),
    "characters": CHARACTERS,
    "subwords": SUBWORDS,
}
each = pytest.mark.parametrize("vocabulary", VOCABULARIES.values(), ids=VOCABULARIES)


def check_text_is_kept(vocabulary: TextVocabulary, text: str) -> None:
    assert vocabulary.decode(vocabulary.encode(text)) == text


class LosesSpaces(TextBytes):
    def encode_text(self, text: str) -> np.ndarray:
        return super().encode_text(" ".join(text.split()))


@each
def test_decoding_gives_back_every_character(vocabulary: TextVocabulary) -> None:
    check_text_is_kept(vocabulary, TEXT)
    check_text_is_kept(vocabulary, TEXT[3:])  # begins with a space
    must_fail(check_text_is_kept, LosesSpaces(), TEXT)


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\u2581\0"), min_size=1))
def test_bytes_and_subwords_keep_any_text(text: str) -> None:
    for vocabulary in (TextBytes(), SUBWORDS):
        check_text_is_kept(vocabulary, text)


@each
def test_there_is_one_name_per_token_and_white_space_is_visible(vocabulary: TextVocabulary) -> None:
    names = vocabulary.tokens("a b\nt")
    assert len(names) == len(vocabulary.encode("a b\nt"))
    assert not set("".join(names)) & set(" \n")
    assert "↵" in names
    assert vocabulary.name(END) == "[end]"
    assert vocabulary.decode(torch.tensor([END])) == ""


def test_characters_that_cannot_be_printed_are_shown_as_escapes() -> None:
    assert TextBytes().tokens("\a\x7f") == ["\\x07", "\\x7f"]
    assert CHARACTERS.tokens("\u200b") == ["\\u200b (unk)"]


def test_unknown_characters_are_marked_and_half_characters_are_numbers() -> None:
    assert CHARACTERS.tokens("bé") == ["b", "é (unk)"]
    assert CHARACTERS.encode("é").tolist() == [UNKNOWN]
    assert TextBytes().tokens("é") == ["\\xc3", "\\xa9"]
    assert TextBytes().decode(TextBytes().encode("é")[:1]) == "\ufffd"
    assert all(SUBWORDS.encode("ω𝕏").tolist())  # encoded as bytes


def test_the_most_frequent_characters_are_kept() -> None:
    small = TextCharacters.build(np.bincount(code_points("aaabbc")), 4)
    assert small.known == "ab"
    assert small.encode("abc").tolist() == [2, 3, UNKNOWN]


def test_subwords_are_the_same_each_time_and_shorter_than_the_text() -> None:
    assert TextSubwords.build([TEXT], 400) == SUBWORDS
    assert len(SUBWORDS.encode(TEXT)) < len(TEXT) / 2


def test_a_vocabulary_is_restored_from_json() -> None:
    for vocabulary in VOCABULARIES.values():
        restored = type(vocabulary).model_validate_json(vocabulary.model_dump_json())
        assert torch.equal(restored.encode(TEXT), vocabulary.encode(TEXT))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TextSubwords.build([TEXT], 7), r"vocabulary size is 7; allowed: at least \d+"),
        (lambda: TextSubwords.build([""], 400), "no subwords"),
        (lambda: TextBytes().encode(""), "the text is empty"),
        (lambda: TextSubwords(model=base64.b64encode(b"x").decode()).size, "damaged"),
    ],
)
def test_what_cannot_be_a_vocabulary_is_refused(make: object, message: str) -> None:
    with pytest.raises(WrongInput, match=message):
        make()  # type: ignore[operator]


def test_input_that_is_not_utf8_is_replaced() -> None:
    assert TextBytes().decode(TextBytes().encode("a\udce9")) == "a?"
