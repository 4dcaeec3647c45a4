"""The linear path of a classifier."""

from typing import Any

import pytest
import torch
from support import must_fail
from torch import Tensor

from limelight.errors import WrongInput
from limelight.models.classifier import Classifier, ClassifierConfig
from limelight.models.linear_path import LinearPath, distinct
from limelight.models.sizes import Sizes

B, T, M, V, N, L = 3, 7, 5, 11, 29, 13
SIZES = Sizes(outputs=L, vocabulary=V, ngrams=N, longest=T)
LENGTHS = torch.tensor([7, 2, 5])


def path(factor: float = 2.0) -> LinearPath:
    made = LinearPath(N, L, factor)
    torch.nn.init.normal_(made.scores.weight[1:])
    return made


def inputs() -> Tensor:
    words_BT1 = torch.randint(1, V, (B, T, 1))
    return torch.cat((words_BT1, torch.randint(N, (B, T, M - 1))), 2)


def test_repetitions_are_replaced_with_zero() -> None:
    assert distinct(torch.tensor([[3, 0, 5, 3, 5], [2, 2, 2, 2, 1]])).tolist() == [
        [0, 3, 0, 5, 0],
        [1, 2, 0, 0, 0],
    ]


@torch.no_grad()
def test_the_scores_of_different_ids_are_added_and_divided_by_the_root_of_their_number() -> None:
    linear = path()
    weight_NL = linear.scores.weight
    given = torch.tensor([[[3, 17], [3, 0], [7, 17]]])
    expected = 2.0 * (weight_NL[3] + weight_NL[7] + weight_NL[17]) / 3**0.5
    torch.testing.assert_close(linear(given, None)[0], expected)


@torch.no_grad()
def test_at_initialisation_and_for_unknown_ids_the_scores_are_zero() -> None:
    assert not LinearPath(N, L, 2.0)(inputs(), LENGTHS).any()
    assert not path()(torch.zeros(B, T, M, dtype=torch.long), None).any()


def test_the_score_of_an_unknown_id_is_not_trained() -> None:
    linear = path()
    given = inputs()
    given[:, 0] = 0
    linear(given, None).sum().backward()
    gradient = linear.scores.weight.grad
    assert gradient is not None
    assert not gradient[0].any()
    assert gradient[int(given[0, 1, 0])].all()


def check_padding(function: Any) -> None:
    given = inputs()
    whole = function(given, LENGTHS)
    for row, length in enumerate(LENGTHS):
        alone = function(given[row : row + 1, :length], None)[0]
        torch.testing.assert_close(whole[row], alone, rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_padding_has_no_effect() -> None:
    linear, model = path(), classifier(linear=3.0)
    check_padding(linear)
    check_padding(model)
    must_fail(check_padding, lambda given, lengths: linear(given, None))


def classifier(**settings: Any) -> Classifier:
    config = ClassifierConfig(width=22, heads=2, hidden=17, **settings)
    made = config.build(SIZES).eval()
    if made.linear is not None:
        torch.nn.init.normal_(made.linear.scores.weight[1:])
    return made


@torch.no_grad()
def test_the_transformer_reads_the_words_and_the_linear_path_also_their_ngrams() -> None:
    given = inputs()
    plain, model = classifier(), classifier(linear=3.0)
    torch.testing.assert_close(plain(given), plain(given[..., 0]))
    assert model.linear is not None
    with_path = model(given) - model.linear(given, None)
    model.load_state_dict(plain.state_dict(), strict=False)
    torch.testing.assert_close(model(given), plain(given) + model.linear(given, None))
    assert not torch.allclose(with_path, model(given))


def test_without_ngrams_the_linear_path_reads_the_tokens() -> None:
    model = ClassifierConfig(linear=1.0).build(Sizes(outputs=L, vocabulary=V, longest=T))
    assert model.linear is not None
    assert model.linear.scores.weight.shape == (V, L)
    assert model(torch.randint(V, (B, T))).shape == (B, L)


@torch.no_grad()
def test_ids_are_treated_as_unknown_in_training_only() -> None:
    model, given = classifier(unknown=0.97), inputs()
    plain = classifier()
    model.load_state_dict(plain.state_dict())
    assert torch.equal(model(given), plain(given))
    unknown = plain(torch.zeros(1, T, dtype=torch.long))
    model.train()
    alike = [torch.allclose(output, unknown[0], atol=1e-5) for output in model(given.repeat(67, 1, 1))]
    assert len(alike) // 2 < sum(alike) < len(alike)  # all seven words are unknown in 0.97⁷ = 81 %


@torch.no_grad()
def test_what_is_left_of_the_linear_path_in_training_is_scaled() -> None:
    """A score that all ids share is as large in training as in evaluation."""
    model = classifier(linear=1.0, unknown=0.5)
    assert model.linear is not None
    model.linear.scores.weight[1:] = 1.0
    for parameter in list(model.output.parameters())[-2:]:
        parameter.zero_()
    ngrams_BT = torch.arange(1, N).repeat(499, 1)  # 28 different ids
    given = torch.stack((torch.zeros_like(ngrams_BT), ngrams_BT), 2)
    expected = float(model(given).mean())
    found = float(model.train()(given).mean())
    assert found == pytest.approx(expected, rel=0.05)
    assert expected == pytest.approx(28**0.5)


@pytest.mark.parametrize("settings", [{"linear": 1.0}, {"unknown": 0.5}])
def test_vectors_have_no_linear_path(settings: dict[str, Any]) -> None:
    config = ClassifierConfig(**settings)
    with pytest.raises(WrongInput, match="if the inputs are vectors"):
        config.build(Sizes(outputs=L, features=5, longest=T))
