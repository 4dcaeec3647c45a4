"""Subwords that are cut in two while training: other spellings of the same sentences."""

import pytest
import torch
from pydantic import ValidationError
from support import goes_red
from torch import Tensor

from limelight.data.ragged import Ragged
from limelight.data.text.translation_data import Language, VocabularyConfig, split_some
from limelight.data.text.vocabulary import Subwords

LINES = ["she is walking", "he walks", "walking is talking, she talked", "he is talking and walking"]


@pytest.fixture(scope="module")
def language() -> Language:
    return Language(vocabulary=Subwords.of(LINES * 5, 53))


def test_a_piece_is_what_its_halves_are_joined_to(language: Language) -> None:
    def check(halves: Tensor) -> None:
        for number, pair in enumerate(halves[:-2]):
            whole, both = language.name(number), "".join(language.show(pair))
            assert both == whole if len(whole) > 1 and number else not pair.any()

    check(language.halves)
    assert (language.halves[:, 0] > 0).sum() > 10
    assert not language.halves[-2:].any()  # marks are not cut
    goes_red(check, language.halves.flip(1))


def spellings(language: Language, often: float) -> tuple[Ragged, list[list[int]]]:
    rows = Ragged.of([language.encode_whole(line) for line in LINES])
    tokens, lengths = rows.pad(torch.arange(len(rows)))
    spelled, counts = split_some(tokens, lengths, language.halves, often)
    counts = torch.full((len(rows),), spelled.shape[1]) if counts is None else counts
    return rows, [row[:count].tolist() for row, count in zip(spelled, counts.tolist(), strict=True)]


@pytest.mark.parametrize("often", [0.1, 0.5, 0.99])
def test_cut_in_two_a_sentence_is_longer_and_reads_the_same(language: Language, often: float) -> None:
    torch.manual_seed(1)
    rows, spelled = spellings(language, often)
    can_be_cut = (language.halves[rows.values, 0] > 0).sum()
    more = sum(map(len, spelled)) - len(rows.values)
    assert 0 < more <= can_be_cut
    assert more >= 0.8 * can_be_cut or often < 0.9
    for line, row in zip(LINES, spelled, strict=True):
        assert language.write(torch.tensor(row)) == line
        assert (row[0], row[-1]) == (language.begin, language.end)


def test_never_cut_sentences_stay_as_they_are(language: Language) -> None:
    rows, spelled = spellings(language, 0.0)
    assert spelled == [rows[i].tolist() for i in range(len(rows))]


def test_as_many_are_cut_as_was_asked_for() -> None:
    halves = torch.tensor([[0, 0], [0, 0], [1, 1]])
    tokens = torch.full((101, 103), 2)
    _, lengths = split_some(tokens, None, halves, 0.3)
    assert lengths is not None
    cut = float(lengths.sum() - tokens.numel()) / tokens.numel()
    assert abs(cut - 0.3) < 0.02


def test_what_cannot_be_cut_is_not_asked_to() -> None:
    with pytest.raises(ValidationError, match=r"split is 0.1; allowed with words: 0"):
        VocabularyConfig(kind="words", split=0.1)
