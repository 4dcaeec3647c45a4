"""Words with their n-grams."""

from typing import Any

import pytest
import torch
from pydantic import TypeAdapter

from limelight.data.dataset import Reader
from limelight.data.text.ngrams import COLUMNS, NGRAMS_PER_WORD, WordNgrams, ngrams
from limelight.data.text.vocabulary import Words
from limelight.errors import WrongInput

TEXTS = ["A wonderful film.", "a dull film, a wonder", "Films!"]


def names(vocabulary: WordNgrams, line: str) -> list[list[str]]:
    """The known word and n-grams of each position."""
    known = ["", *vocabulary.words_known.known, *vocabulary.ngrams]
    return [[known[i] for i in row] for row in vocabulary.encode(line).tolist()]


def test_a_word_has_its_pair_its_first_and_its_last_letters() -> None:
    assert ngrams(["a", "wonderful", "films", "film"]) == [
        (" a", "", "", ""),
        ("a wonderful", "wond…", "wonder…", "…ful"),
        ("wonderful films", "film…", "", "…lms"),
        ("films film", "", "", "…ilm"),
    ]


def test_a_line_is_encoded_as_a_word_and_four_ngrams_per_position() -> None:
    vocabulary = WordNgrams.build(TEXTS, 101)
    assert names(vocabulary, "A wonderful film") == [
        ["a", " a", "", "", ""],
        ["wonderful", "a wonderful", "wond…", "wonder…", "…ful"],
        ["film", "wonderful film", "", "", "…ilm"],
    ]
    assert vocabulary.encode("film").shape == (1, COLUMNS)
    assert int(vocabulary.encode(" ".join(TEXTS)).max()) < vocabulary.total


def test_an_unknown_word_shares_ngrams_with_known_words() -> None:
    vocabulary = WordNgrams.build(TEXTS, 101)
    assert names(vocabulary, "Wonderfully") == [["", "", "wond…", "wonder…", ""]]
    assert vocabulary.tokens("Wonderfully dull") == ["wonderfully (unk)", "dull"]


def test_words_have_the_ids_of_a_vocabulary_of_words() -> None:
    vocabulary, words = WordNgrams.build(TEXTS, 101), Words.build(TEXTS, 101)
    for text in TEXTS:
        row = vocabulary.encode(text)
        assert row[:, 0].tolist() == words.encode(text).tolist()
        assert vocabulary.decode(row) == words.decode(words.encode(text))
        assert vocabulary.item_names(row) == words.split(text)
        assert vocabulary.words(text) == words.words(text)
    assert vocabulary.size == words.size


def test_rare_words_and_ngrams_are_unknown() -> None:
    vocabulary = WordNgrams.build(TEXTS, 101, rarest=2)
    assert vocabulary.words_known.known == ("a", "film")
    assert set(vocabulary.ngrams) == {" a", "wond…", "…ilm"}


def test_the_most_frequent_ngrams_are_kept() -> None:
    texts = [f"common{i} start" for i in range(97)]
    vocabulary = WordNgrams.build(texts, 3)
    assert len(vocabulary.ngrams) == 3 * NGRAMS_PER_WORD
    assert {"comm…", "common…", "star…", "…art"} <= set(vocabulary.ngrams)


def test_an_empty_line_is_an_error() -> None:
    with pytest.raises(WrongInput, match="the line is empty"):
        WordNgrams.build(TEXTS, 101).encode(" ")


def test_a_vocabulary_survives_a_json_round_trip() -> None:
    vocabulary = WordNgrams.build(TEXTS, 101)
    again: Any = TypeAdapter(Reader).validate_json(vocabulary.model_dump_json())
    assert again == vocabulary
    assert torch.equal(again.encode(TEXTS[0]), vocabulary.encode(TEXTS[0]))
