import os
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from pydantic import TypeAdapter
from support import goes_red

from limelight.data.dataset import Reader
from limelight.data.text.vocabulary import UNSEEN, Characters, Subwords, Words
from limelight.errors import WrongInput

TEXTS = [
    f"The {animal} won't eat {food}, it sleeps." for animal in ("cat", "dog") for food in ("tea", "soup")
]
Build = Callable[[list[str], int], Any]
BUILDERS = pytest.mark.parametrize("build", [Words.of, Characters.of, Subwords.of])


@BUILDERS
@pytest.mark.parametrize("line", ["", " ", "\t \u2028"])
def test_an_empty_line_is_refused(build: Build, line: str) -> None:
    with pytest.raises(WrongInput, match="the line is empty"):
        build(TEXTS, 101).encode(line)


@BUILDERS
@pytest.mark.parametrize("line", ["Ξένος 日本 🙂", "\u200b", "\udcff", "cat\0dog", "<unk>", "▁"])
def test_any_other_line_is_read_and_stays_within_the_vocabulary(build: Build, line: str) -> None:
    vocabulary = build(TEXTS, 101)
    row = vocabulary.encode(line)
    assert row.dtype == torch.long
    assert len(row) >= 1
    assert 0 <= int(row.min()) <= int(row.max()) < vocabulary.size
    assert len(vocabulary.show(row)) == len(row)


@BUILDERS
@pytest.mark.parametrize("line", ["Ξένος cat 日本 🙂", "\u200b", "\udcff", "cat\0dog", "<unk>", "▁", *TEXTS])
def test_the_tokens_of_a_line_are_as_many_as_it_is_read_as_and_the_unknown_are_marked(
    build: Build, line: str
) -> None:
    vocabulary = build(TEXTS, 101)
    row, tokens = vocabulary.encode(line).tolist(), vocabulary.tokens(line)
    assert [token.endswith(" (unk)") for token in tokens] == [number == 0 for number in row]


def test_an_unknown_word_is_shown_as_it_was_typed() -> None:
    assert Words.of(TEXTS, 101).tokens("The zebra sleeps.") == ["the", "zebra (unk)", "sleeps", "."]
    assert Characters.of(TEXTS, 101).tokens("cat♥") == ["c", "a", "t", "♥ (unk)"]
    assert Subwords.of(TEXTS, 101).tokens("cat ♥")[-1] == "♥ (unk)"


@BUILDERS
def test_a_seen_line_is_written_as_it_is_read(build: Build) -> None:
    vocabulary = build(TEXTS, 101)
    for text in TEXTS:
        row = vocabulary.encode(text)
        assert (row != 0).all()
        assert vocabulary.encode(vocabulary.write(row)).tolist() == row.tolist()


@BUILDERS
def test_a_vocabulary_is_the_same_after_json(build: Build) -> None:
    vocabulary = build(TEXTS, 101)
    again: Any = TypeAdapter(Reader).validate_json(vocabulary.model_dump_json())
    assert again == vocabulary
    assert again.encode(TEXTS[0]).tolist() == vocabulary.encode(TEXTS[0]).tolist()


@BUILDERS
def test_a_vocabulary_is_no_larger_than_asked_for(build: Build) -> None:
    assert build(TEXTS, 31).size <= 31
    assert build(TEXTS, 10_007).size < 10_007


@BUILDERS
def test_the_same_texts_give_the_same_vocabulary(build: Build) -> None:
    def check(texts: list[str]) -> None:
        assert build(texts, 101) == build(TEXTS, 101)

    check(list(TEXTS))
    goes_red(check, TEXTS[:2])


def test_words_are_in_lower_case_with_punctuation_apart_and_apostrophes_inside() -> None:
    assert Words.split("Don't—STOP, l’été 3.5!") == ["don't", "—", "stop", ",", "l’été", "3", ".", "5", "!"]


@pytest.mark.parametrize("word", ["हिन्दी", "e\u0301te\u0301", "שָׁלוֹם", "สวัสดี"])
def test_accents_and_vowel_signs_do_not_take_a_word_apart(word: str) -> None:
    assert Words.split(f"{word} {word}.") == [word, word, "."]


def test_the_most_frequent_words_are_kept_and_equals_stand_in_order() -> None:
    assert Words.of(["b b b a a", "d c c"], 3).known == ("b", "a")
    assert Words.of(["b b b a a", "d c c"], 11).known == ("b", "a", "c", "d")
    assert Words.of(["b b b a a", "d c c"], 11, rarest=2).known == ("b", "a", "c")


def test_what_is_unknown_is_shown_as_unknown() -> None:
    assert Words.of(["a b"], 11).show(torch.tensor([0, 1])) == ["<unk>", "a"]
    assert Words.of(["a b"], 11).encode("zebra <unk>").tolist() == [0, 0]
    assert Characters.of(["ab"], 11).write(torch.tensor([1, 0])) == "a\ufffd"


@pytest.mark.parametrize("build", [Words.of, Characters.of])
def test_a_vocabulary_that_would_know_nothing_is_refused(build: Any) -> None:
    with pytest.raises(WrongInput, match=r"^nothing stands 99 times in the texts: all would be unknown"):
        build(TEXTS, 101, 99)


def check_words(vocabulary: Any, line: str, expected: list[int]) -> None:
    words = vocabulary.words(line)
    assert list(dict.fromkeys(words)) == expected
    assert len(words) == len(vocabulary.encode(line))


@BUILDERS
def test_every_item_belongs_to_a_word_as_white_space_separates_them(build: Build) -> None:
    vocabulary = build(TEXTS, 101)
    check_words(vocabulary, " the  tea won´t\x1ceat ¨ ▁soup ﷺ.\u2028dog ", list(range(8)))
    goes_red(check_words, vocabulary, "the tea", [0])
    draw = random.Random(1)
    letters = "ate.´¨ \x1c\x85\u200b\u0301▁ﷺ½\ufb01\u3000日🙂"
    for _ in range(1_000):
        line = "cat " + "".join(draw.choices(letters, k=8))
        assert len(vocabulary.words(line)) == len(vocabulary.encode(line))
        assert vocabulary.words(line)[-1] < len(line.split())


def test_characters_keep_case_and_join_white_space() -> None:
    assert Characters.split("  a\u2028\tB ") == ["a", " ", "B"]


def test_fewer_subwords_than_characters_are_refused_with_the_least_number() -> None:
    with pytest.raises(WrongInput, match=r"^the vocabulary's size is 5; allowed: at least 2\d,"):
        Subwords.of(TEXTS, 5)


@pytest.mark.parametrize("texts", [[], ["", " "]])
def test_subwords_of_nothing_are_refused(texts: list[str]) -> None:
    with pytest.raises(WrongInput, match="the texts are empty"):
        Subwords.of(texts, 101)


def test_a_text_of_any_length_is_part_of_the_subwords() -> None:
    assert (Subwords.of(["zebra " * 4_999, "cat"], 101).encode("zebra") != 0).all()


def test_building_subwords_says_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    def check(noise: str) -> None:
        os.write(2, noise.encode())
        Subwords.of(TEXTS, 10_007).encode("cat")
        assert capfd.readouterr() == ("", "")

    check("")
    goes_red(check, "trainer_interface.cc(591) LOG(INFO)")


@pytest.mark.parametrize("model", ["junk", "Í", "AAAA", "CgoKA2NhdA=="])
def test_a_damaged_subword_model_is_refused(model: str) -> None:
    with pytest.raises(WrongInput, match="damaged"):
        Subwords(model=model).encode("cat")


def test_a_letter_that_stands_once_in_ten_thousand_is_known() -> None:
    texts = ["the cat sat on the mat"] * 1000 + ["la fenêtre"]
    known = Subwords.of(texts, 100)
    assert known.write(known.encode("fenêtre")) == "fenêtre"
    assert UNSEEN in known.write(known.encode("fenôtre"))
