"""Metrics of classes and numbers, compared with scikit-learn."""

import pytest
import torch
from sklearn import metrics

from limelight.tasks.metrics import DESCRIPTIONS, judge_classes, judge_numbers

NAMES = ("ant", "bee", "cat", "dog")


@pytest.mark.parametrize("seed", range(3))
def test_metrics_of_classes_are_those_of_scikit_learn(seed: int) -> None:
    rng = torch.Generator().manual_seed(seed)
    truth = torch.randint(3, (53,), generator=rng)  # no dog
    other = torch.randint(4, (53,), generator=rng)
    predicted = torch.where(torch.rand(53, generator=rng) < 0.6, truth, other)
    judged = judge_classes(truth, predicted, NAMES)
    assert judged.confusion == metrics.confusion_matrix(truth, predicted, labels=range(4)).tolist()
    expected = metrics.precision_recall_fscore_support(truth, predicted, labels=range(4), zero_division=0.0)
    for i, name in enumerate(NAMES):
        one = judged.classes[name]
        found = (one.precision, one.recall, one.f1, one.examples)
        assert found == pytest.approx([part[i] for part in expected])
    assert judged.values["macro_f1"] == pytest.approx(expected[2][:3].mean())


def test_metrics_of_numbers_are_those_of_scikit_learn() -> None:
    rng = torch.Generator().manual_seed(1)
    truth = torch.randn(31, generator=rng) * 7 + 100
    predicted = truth + torch.randn(31, generator=rng)
    judged = judge_numbers(truth, predicted).values
    assert judged == {
        "mae": pytest.approx(metrics.mean_absolute_error(truth, predicted), rel=1e-6),
        "rmse": pytest.approx(metrics.root_mean_squared_error(truth, predicted), rel=1e-6),
        "r2": pytest.approx(metrics.r2_score(truth, predicted), rel=1e-6),
    }
    assert set(judged) <= set(DESCRIPTIONS)


def test_equal_numbers_have_a_defined_r2() -> None:
    truth = torch.full((5,), 3.0)
    assert judge_numbers(truth, truth).values["r2"] == 1
    assert judge_numbers(truth, truth + 1).values["r2"] == -torch.inf
