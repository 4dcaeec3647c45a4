"""Weights of another model: what fits is taken, and the rest is listed."""

import pytest
import torch
from support import must_fail
from torch import Tensor, nn

from limelight.errors import WrongInput
from limelight.models.classifier import ClassifierConfig
from limelight.models.labeller import LabellerConfig
from limelight.models.sizes import Sizes
from limelight.training.start import take_weights
from limelight.training.weights import weights_of

SIZES = Sizes(outputs=3, vocabulary=11, longest=5)
SHAPE = {"width": 8, "heads": 2, "hidden": 13}


def model(seed: int, sizes: Sizes = SIZES, *, labeller: bool = False, **settings: object) -> nn.Module:
    torch.manual_seed(seed)
    kind = LabellerConfig if labeller else ClassifierConfig
    return kind.model_validate(SHAPE | settings).build(sizes)


def copied(to: nn.Module, source: nn.Module) -> set[str]:
    """The names of the weights that are equal in both models."""
    theirs = weights_of(source)
    return {name for name, tensor in weights_of(to).items() if name in theirs and tensor.equal(theirs[name])}


def test_all_weights_of_the_same_model_are_taken() -> None:
    source, to = model(1), model(2)

    def check() -> None:
        assert copied(to, source) == set(weights_of(to))

    must_fail(check)
    notes = take_weights(to, weights_of(source), "runs/a")
    check()
    total = sum(tensor.numel() for tensor in weights_of(to).values())
    assert notes == [f"{total:,} of {total:,} weights are those of runs/a"]


def test_what_does_not_fit_keeps_its_values_and_is_listed() -> None:
    """Another depth, another number of outputs, another way of pooling."""
    source = model(1, depth=2, labeller=True)
    to = model(2, Sizes(outputs=7, vocabulary=11, longest=5), depth=3, pooling="attention")
    before = {name: tensor.clone() for name, tensor in weights_of(to).items()}
    notes = take_weights(to, weights_of(source) | {"decoder.norm.bias": torch.ones(3)}, "runs/a")
    parts = ("encoder.encoder.blocks.2.", "pooling.", "output.4.")
    fresh = {name for name in before if name.startswith(parts)}
    assert len(fresh) > 15
    for name, tensor in weights_of(to).items():
        expected = before[name] if name in fresh else weights_of(source)[name]
        assert tensor.equal(expected), name
    assert notes[1:] == [
        "new weights: encoder.encoder.blocks.2, pooling",
        "new weights, because of another shape: output.4.weight (3×8 there, 7×8 here), "
        "output.4.bias (3 there, 7 here)",
        "not used from runs/a: decoder",
    ]


@pytest.mark.parametrize(("there", "here"), [(7, 5), (5, 7)])
def test_of_learned_positions_the_common_ones_are_taken(there: int, here: int) -> None:
    sizes = [Sizes(outputs=3, vocabulary=11, longest=longest) for longest in (there, here)]
    source, to = (model(seed, one, positions="learned") for seed, one in enumerate(sizes))

    def table(of: nn.Module) -> Tensor:
        return of.get_parameter("encoder.positions.table").detach()

    last = table(to)[5:].clone()
    notes = take_weights(to, weights_of(source), "runs/a")
    assert table(to)[:5].equal(table(source)[:5])
    assert table(to)[5:].equal(last)
    partial = ["new weights, because of another shape: encoder.positions.table from position 5 on"]
    assert notes[1:] == (partial if here > there else [])


def test_tied_weights_are_taken_once() -> None:
    embedding, output = nn.Embedding(7, 5), nn.Linear(5, 7, bias=False)
    output.weight = embedding.weight
    tied = nn.Sequential(embedding, output)
    source = {"0.weight": torch.randn(7, 5)}
    assert take_weights(tied, source, "runs/a") == ["35 of 35 weights are those of runs/a"]
    assert output.weight.equal(source["0.weight"])


def test_a_model_without_a_common_matrix_is_refused() -> None:
    with pytest.raises(WrongInput, match=r"^no matrix of runs/a fits this model"):
        take_weights(model(1), weights_of(model(2, width=6)), "runs/a")
    with pytest.raises(WrongInput, match=r"^no matrix of runs/a fits this model"):
        take_weights(model(1), {"output.4.bias": torch.ones(3)}, "runs/a")
