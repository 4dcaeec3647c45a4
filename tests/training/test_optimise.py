"""Muon updates the hidden matrices, AdamW all other parameters; the average of the weights."""

import pytest
import torch
from support import must_fail, not_none
from torch import Tensor, nn

from limelight.training import optimise
from limelight.training.optimise import Optimiser, orthogonalise


@pytest.mark.parametrize("bfloat16", [False, True])
@pytest.mark.parametrize("shape", [(7, 13), (13, 7), (11, 11), (5, 23), (23, 5)])
def test_orthogonalised_matrices_have_singular_values_near_one(
    shape: tuple[int, int], bfloat16: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(optimise, "MULTIPLIES_BFLOAT16", bfloat16)
    torch.manual_seed(1)
    matrices = torch.randn(3, *shape)

    def check(found: Tensor) -> None:
        singular_values = torch.linalg.svdvals(found)
        assert singular_values.min() > 0.5
        assert singular_values.max() < 1.3
        u, _, v = torch.linalg.svd(matrices, full_matrices=False)
        torch.testing.assert_close(found, u @ v, rtol=0, atol=0.35)

    check(orthogonalise(matrices))
    must_fail(check, matrices)


@pytest.mark.parametrize("shape", [(131, 137), (53, 211)])
def test_bfloat16_changes_orthogonalised_matrices_by_two_percent_at_most(
    shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(1)
    matrices = torch.randn(3, *shape)
    monkeypatch.setattr(optimise, "MULTIPLIES_BFLOAT16", False)
    expected = orthogonalise(matrices)
    monkeypatch.setattr(optimise, "MULTIPLIES_BFLOAT16", True)

    def check(found: Tensor) -> None:
        assert found.dtype == torch.float32
        assert float((found - expected).norm() / expected.norm()) < 0.02

    check(orthogonalise(matrices))
    check(orthogonalise(matrices.mT).mT)
    must_fail(check, 1.03 * expected)


def test_the_shortcut_for_wide_matrices_gives_the_same_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optimise, "MULTIPLIES_BFLOAT16", False)
    wide = torch.randn(3, 5, 23)
    expected = (wide / torch.linalg.matrix_norm(wide, keepdim=True)).double()

    def check(found: Tensor) -> None:
        torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=1e-5)

    must_fail(check, orthogonalise(wide))
    for _ in range(5):
        gram = expected @ expected.mT
        expected = 3.4445 * expected - 4.7750 * gram @ expected + 2.0315 * gram @ gram @ expected
    check(orthogonalise(wide))
    check(orthogonalise(wide.mT).mT)


def small() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Embedding(7, 5),
        nn.Linear(5, 11),
        nn.Linear(11, 5),
        nn.Linear(5, 11),
        nn.LayerNorm(11),
        nn.Linear(11, 3),
    )


def changes(model: nn.Module, optimiser: Optimiser, rate: float) -> dict[str, Tensor]:
    """The change of each parameter in one step."""
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    optimiser.zero_grad()
    model(torch.arange(7)).square().sum().backward()
    optimiser.step(rate)
    return {name: parameter.detach() - before[name] for name, parameter in model.named_parameters()}


def test_muon_updates_the_hidden_matrices_and_adam_everything_else() -> None:
    one, two = small(), small()
    with_muon, adam = (
        changes(one, Optimiser(one, 0.0, muon=True), 0.01),
        changes(two, Optimiser(two, 0.0), 0.01),
    )
    different = {name for name in adam if not torch.allclose(with_muon[name], adam[name], atol=1e-6)}
    assert different == {"1.weight", "2.weight", "3.weight"}


def test_each_matrix_of_one_shape_is_updated_with_its_own_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optimise, "MULTIPLIES_BFLOAT16", False)
    model = small()
    optimiser = Optimiser(model, 0.0, muon=True)
    optimiser.zero_grad()
    gradients = {name: torch.randn_like(model.get_parameter(name)) for name in ("1.weight", "3.weight")}
    before = {name: model.get_parameter(name).detach().clone() for name in gradients}
    for name, gradient in gradients.items():
        not_none(model.get_parameter(name).grad).copy_(gradient)
    optimiser.step(0.01)
    for name, gradient in gradients.items():
        change = before[name] - model.get_parameter(name).detach()
        expected = 0.01 * 0.2 * 11**0.5 * orthogonalise(gradient.unsqueeze(0))[0]
        torch.testing.assert_close(change, expected, rtol=1e-4, atol=1e-6)


def test_the_average_is_an_exponential_moving_average_of_the_weights() -> None:
    model = small()
    optimiser = Optimiser(model, 0.0, average=0.9)
    weight = model.get_parameter("1.weight")
    expected = weight.detach().clone()
    for step in range(1, 31):
        changes(model, optimiser, 0.01)
        expected += (weight.detach() - expected) * (1 - min(0.9, (1 + step) / (10 + step)))
    before = weight.detach().clone()
    with optimiser.averaged():
        torch.testing.assert_close(weight.detach(), expected)
        assert not weight.equal(before)
    assert weight.equal(before)
