"""Generated sentences with parts of speech."""

import re
from collections import defaultdict
from itertools import pairwise

import pytest
from support import must_fail

from limelight.data.synthetic.phrasebook.parts_of_speech import PartsOfSpeech, distinct, tag_sentence
from limelight.data.text.conll import Sentence
from limelight.errors import WrongInput

SMALL = PartsOfSpeech(train=1_999, validation=211, test=499)
Splits = dict[str, list[Sentence]]


@pytest.fixture(scope="module")
def splits() -> Splits:
    return SMALL.read(3)[0]


def words_of(splits: Splits, name: str) -> dict[str, set[str]]:
    """The parts of speech of each word of a split."""
    found = defaultdict[str, set[str]](set)
    for one in splits[name]:
        for token, part in zip(one.tokens, one.labels, strict=True):
            found[token.lower()].add(part)
    return found


def test_splits_have_the_configured_sizes_and_all_sentences_are_distinct(splits: Splits) -> None:
    assert {name: len(split) for name, split in splits.items()} == {
        "train": 1_999,
        "validation": 211,
        "test": 499,
    }
    texts = [one.text for split in splits.values() for one in split]
    assert len(set(texts)) == len(texts)


def test_the_seed_determines_the_sentences(splits: Splits) -> None:
    assert SMALL.read(3)[0] == splits
    assert SMALL.read(4)[0] != splits


def check_grammar(sentences: list[Sentence]) -> None:
    """What may follow what, whatever the words are."""
    allowed = {
        "DET": "NOUN|ADJ",
        "AUX": "DET|PRON|PART|ADJ|ADV|ADP|NOUN|VERB",
        "ADJ": "NOUN|PUNCT|CCONJ|ADP|ADV|DET|NOUN",
    }
    for one in sentences:
        assert one.labels[-1] == "PUNCT"
        assert one.labels.count("VERB") + one.labels.count("AUX") >= 1
        for before, after in pairwise(one.labels):
            if before in allowed:
                assert re.fullmatch(allowed[before], after), one


def test_parts_of_speech_follow_each_other_as_in_english(splits: Splits) -> None:
    check_grammar(splits["train"])
    wrong = [Sentence("", one.tokens, tuple(reversed(one.labels))) for one in splits["train"]]
    must_fail(check_grammar, wrong)


def test_many_words_are_ambiguous_and_some_occur_only_outside_training(splits: Splits) -> None:
    train, test = (words_of(splits, name) for name in ("train", "test"))
    assert sum(len(parts) > 1 for parts in train.values()) > 30
    assert {"water", "book", "her", "open", "orange"} <= {
        word for word, parts in train.items() if len(parts) > 1
    }
    new = test.keys() - train.keys()
    assert len(new) > 10
    assert {part for word in new for part in test[word]} == {"NOUN", "ADJ", "VERB"}


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("I see her.", "PRON VERB PRON PUNCT"),
        ("Her red car is old.", "DET ADJ NOUN AUX ADJ PUNCT"),
        ("Are these your friends' cats?", "AUX PRON DET NOUN PART NOUN PUNCT"),
        ("She waters|VERB this tree, but we do not.", "PRON VERB DET NOUN PUNCT CCONJ PRON AUX PART PUNCT"),
    ],
)
def test_the_parts_of_speech_of_a_sentence(sentence: str, expected: str) -> None:
    tokens, parts = tag_sentence(sentence)
    assert " ".join(parts) == expected
    assert "|" not in "".join(tokens)


def test_a_limit_applies_to_each_split() -> None:
    assert SMALL.model_copy(update={"limit": 7}).read(1)[1] == ["21 sentences of the phrasebook"]


def test_more_sentences_than_there_are_is_an_error() -> None:
    found = distinct(lambda: "I see her.", set())
    assert next(found) == (("I", "see", "her", "."), ("PRON", "VERB", "PRON", "PUNCT"))
    with pytest.raises(WrongInput, match=r"the phrasebook has about 1 distinct sentences; use fewer"):
        next(found)
