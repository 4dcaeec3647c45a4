"""The result of a linear model without a neural network, to compare with."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from limelight.tasks.metrics import Baseline

MOST_TEXTS = 200_000  # with more, fitting takes minutes


def linear_baseline(
    kind: str, texts: Sequence[str], targets: Tensor, test_texts: Sequence[str], test_targets: Tensor
) -> Baseline | None:
    """The result of TF-IDF with a linear model of scikit-learn, both with their default settings.

    Logistic regression and its accuracy for answers of the kind "class" or "yes-no"; ridge regression and its
    mean absolute error for a "number". It is fitted on `texts` with `targets` (N), and evaluated on the test
    texts. None if scikit-learn is not installed, if there are more than 200,000 texts, if no text contains a
    word, or if there is nothing to test.
    """
    if not 0 < len(texts) <= MOST_TEXTS or not test_texts:
        return None
    try:
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.linear_model import LogisticRegression, Ridge
    except ImportError:
        return None
    vectorizer = TfidfVectorizer()
    try:
        features: Any = vectorizer.fit_transform(texts)
    except ValueError:  # no text contains a word of two letters
        return None
    number = kind == "number"
    model = Ridge() if number else LogisticRegression(max_iter=1000)
    predicted = model.fit(features, targets.numpy()).predict(vectorizer.transform(test_texts))
    wanted = test_targets.numpy()
    if number:
        return Baseline("TF-IDF with ridge regression", "mae", float(abs(predicted - wanted).mean()))
    return Baseline("TF-IDF with logistic regression", "accuracy", float((predicted == wanted).mean()))
