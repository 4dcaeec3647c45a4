"""Frozen parts keep every bit; parts have their own learning rate."""

from pathlib import Path
from typing import Any

import pytest
import torch
from small_recipes import small
from support import must_fail
from tiny import STEPS, StopAt, fit, result, trainer
from torch import Tensor, nn

from limelight.errors import WrongInput
from limelight.experiment.config import experiment
from limelight.models.classifier import ClassifierConfig
from limelight.models.decoder_only import DecoderOnlyConfig
from limelight.models.sizes import Sizes
from limelight.training.config import TrainConfig
from limelight.training.optimise import Optimiser
from limelight.training.parts import freeze, learning_rates
from limelight.training.weights import weights_of

HARD: dict[str, Any] = {"train.decay": 0.5, "train.average": 0.9, "model.depth": 2}


def changed(path: Path, settings: dict[str, Any]) -> set[str]:
    """The names of the weights that training changes."""
    made = trainer(path, HARD | settings)
    before = {name: tensor.clone() for name, tensor in weights_of(made.model).items()}
    made.fit()
    return {name for name, tensor in weights_of(made.model).items() if not tensor.equal(before[name])}


def check_frozen(path: Path, settings: dict[str, Any], expected: set[str]) -> None:
    assert changed(path, settings) == expected


@pytest.mark.parametrize("optimiser", ["adam", "muon"])
def test_frozen_parts_keep_every_bit_and_all_others_are_trained(optimiser: str, tmp_path: Path) -> None:
    names = set(weights_of(trainer(tmp_path / "names", HARD).model))
    frozen = {name for name in names if name.startswith(("encoder.input.", "encoder.encoder.blocks.1."))}
    assert len(frozen) > 10
    settings = {"train.optimiser": optimiser, "train.freeze": ["encoder.input", "encoder.encoder.blocks.1"]}
    check_frozen(tmp_path / "frozen", settings, names - frozen)
    must_fail(check_frozen, tmp_path / "trained", {"train.optimiser": optimiser}, names - frozen)


def test_a_run_with_frozen_parts_and_rates_resumes_to_the_same_bits(tmp_path: Path) -> None:
    settings = {"train.freeze": ["encoder.input"], "train.rates": {"encoder": 0.3}, "train.optimiser": "muon"}
    fit(tmp_path / "whole", settings)
    assert fit(tmp_path / "half", settings, watcher=StopAt(STEPS // 2)) is None
    fit(tmp_path / "half", settings, resume=True)
    assert result(tmp_path / "half") == result(tmp_path / "whole")
    fit(tmp_path / "other", settings | {"train.rates": {"encoder": 0.2}})
    assert result(tmp_path / "other") != result(tmp_path / "whole")


@pytest.mark.parametrize("recipe", ["majority", "translate", "translate-rnn", "digits"])
def test_a_frozen_part_does_not_change_the_gradients_of_others(recipe: str, tmp_path: Path) -> None:
    """The kernels with their own backward pass, too."""
    settings, data = small(recipe, tmp_path)
    wanted = experiment(recipe, settings, data)
    task, dataset = wanted.task.load(1)
    model = wanted.model.build(task.sizes)
    batch = dataset.batch("train", torch.arange(11))

    def gradients() -> list[Tensor | None]:
        model.zero_grad()
        torch.manual_seed(1)
        task.loss(model.train(), batch).loss.backward()
        return [parameter.grad for parameter in model.parameters()]

    expected = [None if one is None else one.clone() for one in gradients()]
    for some in (0, 1):
        for number, parameter in enumerate(model.parameters()):
            parameter.requires_grad_(number % 2 == some)
        for number, (got, whole) in enumerate(zip(gradients(), expected, strict=True)):
            if number % 2 == some and whole is not None:
                torch.testing.assert_close(got, whole, rtol=1e-5, atol=1e-5)
            else:
                assert got is None


def classifier() -> nn.Module:
    torch.manual_seed(1)
    config = ClassifierConfig(width=8, heads=2, hidden=13, depth=11, norm="pre")
    return config.build(Sizes(outputs=3, vocabulary=7, longest=5))


def step(model: nn.Module, optimiser: Optimiser | torch.optim.Optimizer, rate: float) -> None:
    """One step, with the gradient of the same loss for each optimiser."""
    optimiser.zero_grad() if isinstance(optimiser, Optimiser) else optimiser.zero_grad(set_to_none=False)
    model(torch.arange(7).unsqueeze(0)).square().sum().backward()
    optimiser.step(rate) if isinstance(optimiser, Optimiser) else optimiser.step()


def test_rates_are_those_of_groups_of_adamw() -> None:
    """Each part is updated and decayed with its own rate; the longest name counts."""
    ours, theirs = classifier(), classifier()
    rates = {"encoder": 0.1, "encoder.encoder.blocks.1": 3.0, "output": 0.5}
    optimiser = Optimiser(ours, 0.7, rates=learning_rates(ours, rates))

    def factor(name: str) -> float:
        in_block = name.startswith("encoder.encoder.blocks.1.")  # not block 10
        return 3.0 if in_block else 0.1 if name.startswith("encoder.") else 0.5

    groups = [
        {"params": [p], "lr": 0.01 * factor(name), "weight_decay": 0.7 * (p.dim() == 2)}
        for name, p in theirs.named_parameters()
    ]
    reference = torch.optim.AdamW(groups)
    for _ in range(5):
        step(ours, optimiser, 0.01)
        step(theirs, reference, 0.01)

    def check(other: nn.Module) -> None:
        for name, mine in ours.named_parameters():
            if not name.endswith("key.bias"):  # its gradient is only rounding error, which Adam scales up
                torch.testing.assert_close(mine, other.get_parameter(name), rtol=1e-4, atol=1e-6)

    check(theirs)
    without = classifier()
    equal = Optimiser(without, 0.7)
    for _ in range(5):
        step(without, equal, 0.01)
    must_fail(check, without)


@pytest.mark.parametrize("optimiser", ["adam", "muon"])
def test_a_factor_of_one_changes_no_bit(optimiser: str, tmp_path: Path) -> None:
    settings = {"train.optimiser": optimiser, "train.average": 0.9}
    fit(tmp_path / "without", settings)
    fit(tmp_path / "with", settings | {"train.rates": {"encoder": 1.0}})
    assert result(tmp_path / "with") == result(tmp_path / "without")


def test_a_tied_matrix_belongs_to_both_of_its_parts() -> None:
    model = DecoderOnlyConfig(width=8, hidden=13, depth=1).build(Sizes(outputs=7, vocabulary=7, longest=5))
    freeze(model, ["output"])
    assert not model.get_parameter("embedding.weight").requires_grad


def test_a_part_that_does_not_exist_is_refused_with_the_nearest_names() -> None:
    with pytest.raises(
        WrongInput, match=r"^train.freeze: the model has no part 'encoder.blocks.0'; did you "
    ):
        freeze(classifier(), ["encoder.blocks.0"])
    with pytest.raises(WrongInput, match=r"did you mean 'encoder.encoder.blocks.0'\? its parts begin with"):
        freeze(classifier(), ["encoder.blocks.0"])
    with pytest.raises(WrongInput, match=r"^train.rates: the model has no part 'outptu'; did you mean 'outp"):
        learning_rates(classifier(), {"outptu": 0.1})
    with pytest.raises(WrongInput, match=r"has no part 'encoder.encoder.blocks.11'"):
        freeze(classifier(), ["encoder.encoder.blocks.11"])


def test_a_model_without_a_trained_parameter_is_refused() -> None:
    with pytest.raises(WrongInput, match=r"train.freeze contains all parameters of the model"):
        freeze(classifier(), ["encoder", "output"])


def test_dots_in_the_key_of_a_rate_name_a_part() -> None:
    given = {"train.rates.encoder.encoder.blocks.0": 0.1, "train.rates.output": 2}
    wanted = experiment("majority", given)
    assert wanted.train.rates == {"encoder.encoder.blocks.0": 0.1, "output": 2}
    assert TrainConfig.model_validate(wanted.train.model_dump()) == wanted.train
    message = r"train.rates.output is -1; allowed: greater than 0"
    with pytest.raises(WrongInput, match=message):
        experiment("majority", {"train.rates.output": -1})
    with pytest.raises(
        WrongInput, match=r"train.freeze is 'encoder'; allowed: a list such as \[\"encoder\"\]"
    ):
        experiment("majority", {"train.freeze": "encoder"})
