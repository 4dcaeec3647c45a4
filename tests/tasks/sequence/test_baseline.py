"""The baseline: TF-IDF with a linear model."""

import sys
from typing import Any

import pytest
import torch

from limelight.tasks.metrics import Baseline
from limelight.tasks.sequence import baseline as module
from limelight.tasks.sequence.baseline import linear_baseline

TEXTS = ["a good film", "good music", "a bad film", "bad music", "really good", "really bad"] * 5
LABELS = torch.tensor([1, 1, 0, 0, 1, 0] * 5)
TEST = ["good actors", "bad actors", "bad story"]


def value(*arguments: Any) -> float:
    found = linear_baseline(*arguments)
    assert isinstance(found, Baseline)
    return found.value


@pytest.mark.parametrize("kind", ["class", "yes-no"])
def test_classes_give_an_accuracy(kind: str) -> None:
    labels = LABELS.float() if kind == "yes-no" else LABELS
    assert value(kind, TEXTS, labels, TEST, torch.tensor([1, 0, 0])) == 1.0
    assert value(kind, TEXTS, labels, TEST, torch.tensor([1, 1, 0])) == pytest.approx(2 / 3)


def test_numbers_give_a_mean_absolute_error() -> None:
    numbers = LABELS * 20.0 - 10
    error = value("number", TEXTS, numbers, TEST, torch.tensor([10.0, -10.0, -10.0]))
    assert 0 < error < 5
    far = value("number", TEXTS, numbers, TEST, torch.tensor([110.0, 90.0, 90.0]))
    assert far == pytest.approx(100, abs=error)


def test_there_is_none_without_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.linear_model", None)
    assert linear_baseline("class", TEXTS, LABELS, TEST, torch.tensor([1, 0, 0])) is None


def test_there_is_none_for_too_many_texts_for_no_test_texts_and_for_no_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert linear_baseline("class", TEXTS, LABELS, [], torch.tensor([])) is None
    assert linear_baseline("class", ["!", "?"], torch.tensor([0, 1]), ["!"], torch.tensor([0])) is None
    monkeypatch.setattr(module, "MOST_TEXTS", 29)
    assert linear_baseline("class", TEXTS, LABELS, TEST, torch.tensor([1, 0, 0])) is None
