"""Subwords that are split in two during training: other segmentations of the same sentences."""

import pytest
import torch
from pydantic import ValidationError
from support import must_fail
from torch import Tensor

from limelight.data.ragged import Ragged
from limelight.data.text.translation_data import Language, VocabularyConfig, split_subwords
from limelight.data.text.vocabulary import Subwords

LINES = ["she is walking", "he walks", "walking is talking, she talked", "he is talking and walking"]


@pytest.fixture(scope="module")
def language() -> Language:
    return Language(vocabulary=Subwords.build(LINES * 5, 53))


def test_the_halves_of_a_subword_concatenate_to_it(language: Language) -> None:
    def check(halves: Tensor) -> None:
        for number, pair in enumerate(halves[:-2]):
            whole, both = language.name(number), "".join(language.item_names(pair))
            assert both == whole if len(whole) > 1 and number else not pair.any()

    check(language.halves)
    assert (language.halves[:, 0] > 0).sum() > 10
    assert not language.halves[-2:].any()  # special tokens cannot be split
    must_fail(check, language.halves.flip(1))


def spellings(language: Language, often: float) -> tuple[Ragged, list[list[int]]]:
    rows = Ragged.from_rows([language.encode_target(line) for line in LINES])
    tokens, lengths = rows.pad(torch.arange(len(rows)))
    spelled, counts = split_subwords(tokens, lengths, language.halves, often)
    counts = torch.full((len(rows),), spelled.shape[1]) if counts is None else counts
    return rows, [row[:count].tolist() for row, count in zip(spelled, counts.tolist(), strict=True)]


@pytest.mark.parametrize("often", [0.1, 0.5, 0.99])
def test_splitting_makes_a_sentence_longer_and_keeps_its_text(language: Language, often: float) -> None:
    torch.manual_seed(1)
    rows, spelled = spellings(language, often)
    can_be_cut = (language.halves[rows.values, 0] > 0).sum()
    more = sum(map(len, spelled)) - len(rows.values)
    assert 0 < more <= can_be_cut
    assert more >= 0.8 * can_be_cut or often < 0.9
    for line, row in zip(LINES, spelled, strict=True):
        assert language.decode(torch.tensor(row)) == line
        assert (row[0], row[-1]) == (language.begin, language.end)


def test_with_probability_zero_sentences_do_not_change(language: Language) -> None:
    rows, spelled = spellings(language, 0.0)
    assert spelled == [rows[i].tolist() for i in range(len(rows))]


def test_subwords_are_split_with_the_given_probability() -> None:
    halves = torch.tensor([[0, 0], [0, 0], [1, 1]])
    tokens = torch.full((101, 103), 2)
    _, lengths = split_subwords(tokens, None, halves, 0.3)
    assert lengths is not None
    cut = float(lengths.sum() - tokens.numel()) / tokens.numel()
    assert abs(cut - 0.3) < 0.02


def test_splitting_requires_subwords() -> None:
    with pytest.raises(ValidationError, match=r"split is 0.1; allowed with words: 0"):
        VocabularyConfig(kind="words", split=0.1)
