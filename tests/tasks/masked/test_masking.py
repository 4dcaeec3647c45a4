"""Which tokens are hidden, and what the model reads in their place."""

from collections import Counter

import pytest
import torch
from support import must_fail
from torch import Tensor

from limelight.data.text.text_vocabulary import END, UNKNOWN, TextBytes, TextSubwords, TextWords
from limelight.tasks.masked.masking import Masking, continuations

V = 1009
MASKING = Masking(0.15, V)


def test_of_each_sequence_the_share_is_chosen_and_at_least_one_token() -> None:
    tokens = torch.randint(2, V, (3, 53))
    tokens[2, :50] = END
    lengths = torch.tensor([53, 3, 53])
    counts = MASKING.counts(tokens, lengths)
    assert counts.tolist() == [8, 1, 1]  # 15 % of 53 are 7.95; of 3 are 0.45
    chosen = MASKING.choose(tokens, lengths, torch.rand(3, 53))
    assert torch.equal(chosen.sum(1), counts)
    assert not chosen[1, 3:].any()
    assert not chosen[2, :50].any()


def test_unknown_tokens_padding_and_ends_are_never_chosen() -> None:
    tokens = torch.tensor([[UNKNOWN, END, UNKNOWN], [7, END, 0]])
    masking = Masking(0.99, V)
    assert masking.choose(tokens, torch.tensor([3, 2]), torch.rand(2, 3)).tolist() == [
        [False, False, False],
        [True, False, False],
    ]
    assert masking.counts(tokens, None).tolist() == [0, 1]


def check_shares(masking: Masking) -> None:
    """80 % masked, 10 % replaced, 10 % kept; all others are kept."""
    tokens = torch.full((1, 100_003), 5)
    chosen = torch.arange(100_003).unsqueeze(0) % 2 == 0
    new = masking.replace(tokens, chosen, torch.rand(1, 100_003, 2))
    assert torch.equal(new[~chosen], tokens[~chosen])
    counts = Counter(new[chosen].tolist())
    total = int(chosen.sum())
    assert counts[UNKNOWN] / total == pytest.approx(0.8, abs=0.01)
    assert counts[5] / total == pytest.approx(0.1, abs=0.01)
    others = total - counts[UNKNOWN] - counts[5]
    assert others / total == pytest.approx(0.1, abs=0.01)
    assert min(counts.keys() - {UNKNOWN}) == END + 1
    assert max(counts) == V - 1


class MasksAll(Masking):
    def replace(self, tokens: Tensor, chosen: Tensor, random: Tensor) -> Tensor:
        return tokens.masked_fill(chosen, UNKNOWN)


def test_chosen_tokens_are_masked_replaced_or_kept() -> None:
    check_shares(MASKING)
    must_fail(check_shares, MasksAll(0.15, V))


def test_every_position_is_equally_likely() -> None:
    tokens = torch.full((20_011, 13), 5)
    chosen = MASKING.choose(tokens, None, torch.rand(tokens.shape))
    assert chosen.double().mean(0).tolist() == pytest.approx([2 / 13] * 13, abs=0.01)


def check_whole(masking: Masking, words: list[list[int]], row: Tensor) -> None:
    """At most one word is hidden in part."""
    for _ in range(50):
        chosen = masking.choose(row.unsqueeze(0), None, torch.rand(1, len(row)))[0]
        in_part = [word for word in words if len({bool(chosen[i]) for i in word}) == 2]
        assert len(in_part) <= 1
        assert int(chosen.sum()) == round(0.4 * len(row))


def test_whole_words_are_hidden_together() -> None:
    reader = TextBytes()
    text = "ein Mädchen läuft, weil's 17 mal brennt"
    row = reader.encode(text)
    words, at = list[list[int]](), 0
    for piece in (
        "ein",
        " ",
        "Mädchen",
        " ",
        "läuft",
        ",",
        " ",
        "weil",
        "'",
        "s",
        " ",
        "17",
        " ",
        "mal",
        " ",
        "brennt",
    ):
        words.append(list(range(at, at := at + len(piece.encode()))))
    assert at == len(row)
    check_whole(Masking(0.4, reader.size, continuations(reader)), words, row)
    must_fail(check_whole, Masking(0.4, reader.size), words, row)


def test_subwords_continue_a_word_unless_they_begin_with_a_space() -> None:
    reader = TextSubwords.build(["the walking man and the talking man " * 20], 290)
    row = reader.encode("the walkings")
    begins, ends = continuations(reader)[row].unbind(-1)
    texts = [reader.contents[i].decode() for i in row.tolist()]
    assert " walking" in texts
    assert (begins[1:] & ends[:-1]).tolist() == [not text.startswith(" ") for text in texts[1:]]
    assert not texts[-1].startswith(" ")


def test_each_word_of_a_vocabulary_of_words_is_a_word() -> None:
    reader = TextWords(known=("one", "two"))
    assert not continuations(reader)[:, 0].any()
