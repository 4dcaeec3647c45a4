"""Metrics of classes and of numbers, and what each metric means."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

DESCRIPTIONS = {
    "loss": "the training objective, without label smoothing",
    "accuracy": "share of correct predictions",
    "macro_f1": "mean over the classes of F1, the harmonic mean of precision and recall",
    "mae": "mean absolute error, in the unit of the labels",
    "rmse": "root of the mean squared error, in the unit of the labels",
    "r2": "1 - squared error / variance of the labels: 1 is perfect, 0 no better than their mean",
}
MOST_CLASSES = 100  # with more, the table of metrics and the confusion matrix are left out


@dataclass(frozen=True)
class ClassMetrics:
    """The metrics of one class, and the number of its examples."""

    precision: float
    recall: float
    f1: float
    examples: int


@dataclass(frozen=True)
class Judgement:
    """Metrics of whole answers, and the signature of each metric that has one.

    Classifiers add the metrics of each class, and the confusion matrix: row i has the predictions for the
    examples of class i.
    """

    values: dict[str, float]
    signatures: dict[str, str] = field(default_factory=dict)
    classes: dict[str, ClassMetrics] = field(default_factory=dict)
    confusion: list[list[int]] = field(default_factory=list)


@dataclass(frozen=True)
class Baseline:
    """The result of a simple model without a neural network."""

    model: str  # what it is, such as "TF-IDF with logistic regression"
    metric: str
    value: float


def judge_classes(truth: Tensor, predicted: Tensor, names: Sequence[str]) -> Judgement:
    """(N), (N) -> precision, recall and F1 of each class, and the confusion matrix

    Rows of the matrix are true classes, columns predicted ones. A class without predictions has precision 0;
    one without examples has recall 0, and does not count in macro_f1.
    """
    size = len(names)
    pairs_N = truth.long() * size + predicted.long()
    counts_LL = pairs_N.bincount(minlength=size**2).unflatten(0, (size, size))
    right_L = counts_LL.diagonal().double()
    true_L, predicted_L = counts_LL.sum(1), counts_LL.sum(0)
    precision_L, recall_L = right_L / predicted_L.clamp(min=1), right_L / true_L.clamp(min=1)
    f1_L = 2 * right_L / (true_L + predicted_L).clamp(min=1)
    classes = {
        name: ClassMetrics(*values)
        for name, *values in zip(
            names, precision_L.tolist(), recall_L.tolist(), f1_L.tolist(), true_L.tolist(), strict=True
        )
    }
    values = {"macro_f1": float(f1_L[true_L > 0].mean())}
    if size > MOST_CLASSES:
        return Judgement(values)
    return Judgement(values, classes=classes, confusion=counts_LL.tolist())


def judge_numbers(truth: Tensor, predicted: Tensor) -> Judgement:
    """(N), (N) -> mae, rmse and r2"""
    errors_N = predicted.double() - truth.double()
    variance = float(truth.double().var(correction=0))
    squared = float(errors_N.square().mean())
    r2 = 1 - squared / variance if variance else (1.0 if squared == 0 else -torch.inf)
    return Judgement({"mae": float(errors_N.abs().mean()), "rmse": squared**0.5, "r2": r2})
