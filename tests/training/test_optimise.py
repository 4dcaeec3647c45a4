"""Muon: hidden matrices go by their orthogonalised momentum, the rest by AdamW."""

import pytest
import torch
from support import goes_red
from torch import Tensor, nn

from limelight.training.optimise import Optimiser, orthogonalise


@pytest.mark.parametrize("shape", [(7, 13), (13, 7), (11, 11), (5, 23), (23, 5)])
def test_orthogonalised_matrices_turn_and_stretch_nothing(shape: tuple[int, int]) -> None:
    torch.manual_seed(1)
    matrices = torch.randn(3, *shape)

    def check(found: Tensor) -> None:
        stretched = torch.linalg.svdvals(found)
        assert stretched.min() > 0.5
        assert stretched.max() < 1.3
        u, _, v = torch.linalg.svd(matrices, full_matrices=False)
        torch.testing.assert_close(found, u @ v, rtol=0, atol=0.35)

    check(orthogonalise(matrices))
    goes_red(check, matrices)


def test_wide_matrices_go_a_shorter_way_to_the_same_end() -> None:
    wide = torch.randn(3, 5, 23)
    expected = (wide / torch.linalg.matrix_norm(wide, keepdim=True)).double()

    def check(found: Tensor) -> None:
        torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=1e-5)

    goes_red(check, orthogonalise(wide))
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


def moved(model: nn.Module, optimiser: Optimiser, rate: float) -> dict[str, Tensor]:
    """How far each parameter goes in one step."""
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    optimiser.clear()
    model(torch.arange(7)).square().sum().backward()
    optimiser.step(rate)
    return {name: parameter.detach() - before[name] for name, parameter in model.named_parameters()}


def test_hidden_matrices_are_moved_by_muon_and_all_else_by_adam() -> None:
    one, two = small(), small()
    with_muon, adam = moved(one, Optimiser(one, 0.0, muon=True), 0.01), moved(two, Optimiser(two, 0.0), 0.01)
    different = {name for name in adam if not torch.allclose(with_muon[name], adam[name], atol=1e-6)}
    assert different == {"1.weight", "2.weight", "3.weight"}


def test_matrices_of_one_shape_are_moved_each_by_its_own_gradient() -> None:
    model = small()
    optimiser = Optimiser(model, 0.0, muon=True)
    optimiser.clear()
    gradients = {name: torch.randn_like(model.get_parameter(name)) for name in ("1.weight", "3.weight")}
    before = {name: model.get_parameter(name).detach().clone() for name in gradients}
    for name, gradient in gradients.items():
        model.get_parameter(name).grad.copy_(gradient)
    optimiser.step(0.01)
    for name, gradient in gradients.items():
        way = before[name] - model.get_parameter(name).detach()
        expected = 0.01 * 0.2 * 11**0.5 * orthogonalise(gradient.unsqueeze(0))[0]
        torch.testing.assert_close(way, expected, rtol=1e-4, atol=1e-6)


def test_the_average_is_the_mean_of_the_weights_that_there_were() -> None:
    model = small()
    optimiser = Optimiser(model, 0.0, average=0.9)
    weight = model.get_parameter("1.weight")
    expected = weight.detach().clone()
    for step in range(1, 31):
        moved(model, optimiser, 0.01)
        expected += (weight.detach() - expected) * (1 - min(0.9, (1 + step) / (10 + step)))
    before = weight.detach().clone()
    with optimiser.averaged():
        torch.testing.assert_close(weight.detach(), expected)
        assert not weight.equal(before)
    assert weight.equal(before)
