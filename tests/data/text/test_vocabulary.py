"""Vocabularies of words, characters and subwords."""

import os
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from pydantic import TypeAdapter
from support import must_fail

from limelight.data.dataset import Reader
from limelight.data.text.vocabulary import UNKNOWN_CHARACTER, Characters, Subwords, Words
from limelight.errors import WrongInput

TEXTS = [
    f"The {animal} won't eat {food}, it sleeps." for animal in ("cat", "dog") for food in ("tea", "soup")
]
Build = Callable[[list[str], int], Any]
BUILDERS = pytest.mark.parametrize("build", [Words.build, Characters.build, Subwords.build])


@BUILDERS
@pytest.mark.parametrize("line", ["", " ", "\t \u2028"])
def test_an_empty_line_is_an_error(build: Build, line: str) -> None:
    with pytest.raises(WrongInput, match="the line is empty"):
        build(TEXTS, 101).encode(line)


@BUILDERS
@pytest.mark.parametrize("line", ["Ξένος 日本 🙂", "\u200b", "\udcff", "cat\0dog", "<unk>", "▁"])
def test_every_other_line_is_encoded_with_ids_of_the_vocabulary(build: Build, line: str) -> None:
    vocabulary = build(TEXTS, 101)
    row = vocabulary.encode(line)
    assert row.dtype == torch.long
    assert len(row) >= 1
    assert 0 <= int(row.min()) <= int(row.max()) < vocabulary.size
    assert len(vocabulary.item_names(row)) == len(row)


@BUILDERS
@pytest.mark.parametrize("line", ["Ξένος cat 日本 🙂", "\u200b", "\udcff", "cat\0dog", "<unk>", "▁", *TEXTS])
def test_there_is_one_token_per_id_and_unknown_tokens_are_marked(build: Build, line: str) -> None:
    vocabulary = build(TEXTS, 101)
    row, tokens = vocabulary.encode(line).tolist(), vocabulary.tokens(line)
    assert [token.endswith(" (unk)") for token in tokens] == [number == 0 for number in row]


def test_an_unknown_word_is_shown_as_typed() -> None:
    assert Words.build(TEXTS, 101).tokens("The zebra sleeps.") == ["the", "zebra (unk)", "sleeps", "."]
    assert Characters.build(TEXTS, 101).tokens("cat♥") == ["c", "a", "t", "♥ (unk)"]
    assert Subwords.build(TEXTS, 101).tokens("cat ♥")[-1] == "♥ (unk)"


@BUILDERS
def test_decoding_is_the_inverse_of_encoding(build: Build) -> None:
    vocabulary = build(TEXTS, 101)
    for text in TEXTS:
        row = vocabulary.encode(text)
        assert (row != 0).all()
        assert vocabulary.encode(vocabulary.decode(row)).tolist() == row.tolist()


@BUILDERS
def test_a_vocabulary_survives_a_json_round_trip(build: Build) -> None:
    vocabulary = build(TEXTS, 101)
    again: Any = TypeAdapter(Reader).validate_json(vocabulary.model_dump_json())
    assert again == vocabulary
    assert again.encode(TEXTS[0]).tolist() == vocabulary.encode(TEXTS[0]).tolist()


@BUILDERS
def test_a_vocabulary_is_not_larger_than_its_maximum_size(build: Build) -> None:
    assert build(TEXTS, 31).size <= 31
    assert build(TEXTS, 10_007).size < 10_007


@BUILDERS
def test_the_same_texts_give_the_same_vocabulary(build: Build) -> None:
    def check(texts: list[str]) -> None:
        assert build(texts, 101) == build(TEXTS, 101)

    check(list(TEXTS))
    must_fail(check, TEXTS[:2])


def test_words_are_in_lower_case_with_punctuation_apart_and_apostrophes_inside() -> None:
    assert Words.split("Don't—STOP, l’été 3.5!") == ["don't", "—", "stop", ",", "l’été", "3", ".", "5", "!"]


@pytest.mark.parametrize("word", ["हिन्दी", "e\u0301te\u0301", "שָׁלוֹם", "สวัสดี"])
def test_accents_and_vowel_signs_do_not_split_a_word(word: str) -> None:
    assert Words.split(f"{word} {word}.") == [word, word, "."]


def test_the_most_frequent_words_are_kept_and_ties_are_sorted() -> None:
    assert Words.build(["b b b a a", "d c c"], 3).known == ("b", "a")
    assert Words.build(["b b b a a", "d c c"], 11).known == ("b", "a", "c", "d")
    assert Words.build(["b b b a a", "d c c"], 11, rarest=2).known == ("b", "a", "c")


def test_unknown_items_have_a_special_name() -> None:
    assert Words.build(["a b"], 11).item_names(torch.tensor([0, 1])) == ["<unk>", "a"]
    assert Words.build(["a b"], 11).encode("zebra <unk>").tolist() == [0, 0]
    assert Characters.build(["ab"], 11).decode(torch.tensor([1, 0])) == "a\ufffd"


@pytest.mark.parametrize("build", [Words.build, Characters.build])
def test_a_vocabulary_without_known_items_is_an_error(build: Any) -> None:
    with pytest.raises(WrongInput, match=r"^no item occurs 99 times in the texts; lower rarest"):
        build(TEXTS, 101, 99)


def check_words(vocabulary: Any, line: str, expected: list[int]) -> None:
    words = vocabulary.words(line)
    assert list(dict.fromkeys(words)) == expected
    assert len(words) == len(vocabulary.encode(line))


@BUILDERS
def test_every_item_belongs_to_one_word_separated_by_white_space(build: Build) -> None:
    vocabulary = build(TEXTS, 101)
    check_words(vocabulary, " the  tea won´t\x1ceat ¨ ▁soup ﷺ.\u2028dog ", list(range(8)))
    must_fail(check_words, vocabulary, "the tea", [0])
    draw = random.Random(1)
    letters = "ate.´¨ \x1c\x85\u200b\u0301▁ﷺ½\ufb01\u3000日🙂"
    for _ in range(1_000):
        line = "cat " + "".join(draw.choices(letters, k=8))
        assert len(vocabulary.words(line)) == len(vocabulary.encode(line))
        assert vocabulary.words(line)[-1] < len(line.split())


def test_characters_keep_case_and_join_white_space() -> None:
    assert Characters.split("  a\u2028\tB ") == ["a", " ", "B"]


def test_the_error_for_too_few_subwords_contains_the_minimum() -> None:
    with pytest.raises(WrongInput, match=r"^the vocabulary size is 5; allowed: at least 2\d,"):
        Subwords.build(TEXTS, 5)


@pytest.mark.parametrize("texts", [[], ["", " "]])
def test_subwords_of_empty_texts_are_an_error(texts: list[str]) -> None:
    with pytest.raises(WrongInput, match="the texts are empty"):
        Subwords.build(texts, 101)


def test_long_texts_are_used_for_subword_training() -> None:
    assert (Subwords.build(["zebra " * 4_999, "cat"], 101).encode("zebra") != 0).all()


def test_building_subwords_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    def check(noise: str) -> None:
        os.write(2, noise.encode())
        Subwords.build(TEXTS, 10_007).encode("cat")
        assert capfd.readouterr() == ("", "")

    check("")
    must_fail(check, "trainer_interface.cc(591) LOG(INFO)")


@pytest.mark.parametrize("model", ["junk", "Í", "AAAA", "CgoKA2NhdA=="])
def test_a_damaged_subword_model_is_an_error(model: str) -> None:
    with pytest.raises(WrongInput, match="damaged"):
        Subwords(model=model).encode("cat")


def test_a_letter_that_occurs_once_in_ten_thousand_is_known() -> None:
    texts = ["the cat sat on the mat"] * 1000 + ["la fenêtre"]
    known = Subwords.build(texts, 100)
    assert known.decode(known.encode("fenêtre")) == "fenêtre"
    assert UNKNOWN_CHARACTER in known.decode(known.encode("fenôtre"))
