"""Generated pairs of sentences: neither sentence alone tells the label."""

from collections import Counter, defaultdict

import pytest
import torch
from support import must_fail
from torch import Tensor

from limelight.data.dataset import SequenceData
from limelight.data.synthetic.phrasebook.agreement import NAMES, Agreement

DATA = Agreement(train=3_600, validation=120, test=1_200)


@pytest.fixture(scope="module")
def data() -> SequenceData:
    return DATA.load(5)


def pairs(data: SequenceData, split: str) -> list[tuple[str, str, str]]:
    targets = data.splits[split].targets
    assert isinstance(targets, Tensor)
    return [
        (*line.split("\t"), NAMES[int(label)])  # type: ignore[misc]
        for line, label in zip(data.texts[split], targets.tolist(), strict=True)
    ]


def check_balance(found: list[tuple[str, str, str]], side: int) -> None:
    """Each sentence of a side occurs equally often with each label."""
    labels = defaultdict[str, Counter[str]](Counter)
    for pair in found:
        labels[pair[side]][pair[2]] += 1
    assert all(set(count.values()) == {count[NAMES[0]]} and len(count) == 3 for count in labels.values())


@pytest.mark.parametrize("side", [0, 1])
def test_each_sentence_occurs_equally_often_with_each_label(data: SequenceData, side: int) -> None:
    for split in data.splits:
        check_balance(pairs(data, split), side)
    must_fail(check_balance, pairs(data, "test")[1:], side)


def accuracy_of_words(data: SequenceData, side: int | None) -> float:
    """Held-out accuracy of a linear model on the words of one side, or of each of both sides."""
    vocabulary: dict[str, int] = {}

    def bag(split: str) -> Tensor:
        rows = []
        for first, second, _ in pairs(data, split):
            sides = (first, second) if side is None else ((first, second)[side],)
            rows.append(
                [
                    vocabulary.setdefault(f"{i} {w}", len(vocabulary))
                    for i, s in enumerate(sides)
                    for w in s.split()
                ]
            )
        bags = torch.zeros(len(rows), 1_999)
        for i, row in enumerate(rows):
            bags[i, row] = 1
        return bags

    train, test = bag("train"), bag("test")
    labels = {split: data.splits[split].targets.long() for split in ("train", "test")}  # type: ignore[union-attr]
    weights = torch.zeros(1_999, 3, requires_grad=True)
    optimiser = torch.optim.Adam([weights], 0.03)
    for _ in range(100):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(train @ weights, labels["train"]).backward()
        optimiser.step()
    return float(((test @ weights).argmax(1) == labels["test"]).float().mean())


def check_one_side(data: SequenceData, side: int | None) -> None:
    assert abs(accuracy_of_words(data, side) - 1 / 3) < 0.02


def test_the_words_of_one_sentence_do_not_tell_the_label(data: SequenceData) -> None:
    check_one_side(data, 0)
    check_one_side(data, 1)


def test_the_check_finds_a_sentence_that_gives_its_label_away(data: SequenceData) -> None:
    """If entailed sentences were always affirmative, the words of the second sentence would tell much."""
    texts = {
        name: [
            line.replace(" not ", " ") if label == 1 else line
            for line, label in zip(lines, data.splits[name].targets.tolist(), strict=True)  # type: ignore[union-attr]
        ]
        for name, lines in data.texts.items()
    }
    broken = SequenceData(data.splits, data.reader, data.answers, texts=texts)
    must_fail(check_one_side, broken, 1)


def test_no_first_sentence_occurs_in_two_splits(data: SequenceData) -> None:
    firsts = [{pair[0] for pair in pairs(data, split)} for split in data.splits]
    assert sum(map(len, firsts)) == len(set().union(*firsts))


def check_labels(found: list[tuple[str, str, str]]) -> None:
    """Opposite moods contradict; equal moods with the same content words agree."""
    for first, second, label in found:
        same = (" not " in first) == (" not " in second)
        assert label != "entailment" or same
        assert label != "contradiction" or not same


def test_labels_agree_with_the_negations(data: SequenceData) -> None:
    check_labels(pairs(data, "train"))
    turned = {"entailment": "contradiction", "contradiction": "entailment", "neutral": "neutral"}
    must_fail(check_labels, [(first, second, turned[label]) for first, second, label in pairs(data, "test")])


def test_the_seed_determines_the_pairs_and_the_limit_their_number(data: SequenceData) -> None:
    assert DATA.load(5).digest == data.digest != DATA.load(6).digest
    small = DATA.model_copy(update={"limit": 24}).load(5)
    assert {len(split) for split in small.splits.values()} == {24}
