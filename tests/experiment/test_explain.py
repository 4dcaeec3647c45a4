"""Sizes are distinct primes, so that swapped axes are detected."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from support import HIDDEN, B, D, H, K, S, T, must_fail
from torch import Tensor, nn

from limelight.errors import WrongInput
from limelight.experiment import experiment, recipes, train
from limelight.experiment.explain import Layer, explain, explain_experiment
from limelight.models.classifier import ClassifierConfig
from limelight.models.labeller import LabellerConfig
from limelight.models.recurrent import RecurrentConfig
from limelight.models.sizes import Sizes
from limelight.models.transformer import TransformerConfig

V, L, W, E = 13, 17, 19, 23
SIZES = Sizes(outputs=L, vocabulary=V, longest=T)
SHARED = Sizes(outputs=V, vocabulary=V, longest=S, shared=True, image=(3, 12, 20))
SHAPE: dict[str, Any] = {"width": D, "depth": 2, "heads": H, "hidden": HIDDEN}
BLOCKS: dict[str, Any] = {"width": D, "heads": H, "hidden": HIDDEN}
SETTINGS = {"task.data.train": 31, "task.data.validation": 7, "task.data.test": 7, "train.batch": 17}


def ids() -> Tensor:
    return torch.randint(V, (B, T))


def pairs() -> tuple[Tensor, ...]:
    """Source and target with their lengths: nine real tokens in the source, seven in the target."""
    tokens = torch.randint(V, (B, S)), torch.randint(V, (B, T))
    return *tokens, torch.tensor([S, 1, 1]), torch.tensor([1, T, 1])


def check_parameters(model: nn.Module, layers: list[Layer]) -> None:
    assert sum(layer.count for layer in layers) == sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize("recipe", recipes())
def test_each_parameter_of_a_recipe_counts_once_and_each_layer_is_called(recipe: str) -> None:
    wanted = experiment(recipe)
    model = wanted.model.build(SHARED)
    of_task: dict[str, tuple[Tensor, ...]] = {
        "translate": pairs(),
        "images": (torch.randn(B, 3, 12, 20),),
        "language": pairs()[:1],
    }
    inputs = of_task.get(wanted.task.kind, pairs()[::2])
    layers = explain(model, *inputs)
    check_parameters(model, layers)
    assert all(layer.calls for layer in layers)
    for layer in (layer for layer in layers if layer.parameters):
        must_fail(check_parameters, model, [other for other in layers if other is not layer])


def test_the_layers_of_a_labeller_have_the_expected_shapes_and_costs() -> None:
    layers = {layer.name: layer for layer in explain(LabellerConfig(**SHAPE).build(SIZES), ids())}
    block = "encoder.encoder.blocks.1."
    attention, expand = layers[block + "self_attention"], layers[block + "feedforward.expand"]
    assert layers["encoder.input"].cost == layers[block + "self_residual.norm"].cost == 0
    assert attention.cost == 4 * T * D * D + 2 * T * T * D
    assert expand.cost == layers[block + "feedforward.contract"].cost == T * D * HIDDEN
    assert layers["output.4"].cost == T * D * L
    assert (expand.inputs, expand.outputs) == (((B, T, D),), (B, T, HIDDEN))
    assert expand.parameters == {"weight": (HIDDEN, D), "bias": (HIDDEN,)}
    assert attention.kind == "MultiHeadAttention"
    assert attention.parameters == {f"W_{x}": (D, D) for x in "qkvo"} | {f"b_{x}": (D,) for x in "qkvo"}
    rows = {f"W_{x}": (K, D) for x in "qkv"} | {f"b_{x}": (K,) for x in "qkv"}
    assert attention.per_head == rows | {"W_o": (D, K)}


def test_cross_attention_reads_the_real_tokens_of_both_sides() -> None:
    model = TransformerConfig(**BLOCKS).build(SHARED)
    layers = {layer.name: layer for layer in explain(model, *pairs())}
    cross = layers["decoder.blocks.1.cross_attention"]
    assert (cross.inputs, cross.outputs) == (((7, D), (9, D)), (7, D))
    assert cross.per_head["W_k"] == (K, D)
    assert layers["encoder.blocks.1.self_attention"].inputs == ((9, D),)
    assert (layers["output"].inputs, layers["output"].outputs) == (((7, D),), (7, V))


def test_the_layers_of_a_recurrent_model_have_the_expected_shapes_and_calls() -> None:
    layers = {
        layer.name: layer for layer in explain(RecurrentConfig(width=W, embedding=E).build(SIZES), *pairs())
    }
    steps = ["target_embedding", "attention.query", "attention", "decoder", "mixture", "output"]
    assert list(layers) == ["source_embedding", "encoder", "bridge", "attention.memory", *steps]
    encoder, attention, decoder = (layers[name] for name in ("encoder", "attention", "decoder"))
    assert (encoder.inputs, encoder.outputs, encoder.calls) == (((9, E),), (9, 2 * W), 1)
    assert (decoder.inputs, decoder.outputs) == (((B, 1, E + 2 * W), (1, B, W)), (B, 1, W))
    assert (attention.inputs, attention.outputs) == (((B, 1, W), (B, S, 2 * W)), (B, 1, 2 * W))
    assert attention.calls == layers["attention.query"].calls == decoder.calls == T
    assert attention.kind == "AdditiveAttention"
    assert attention.parameters == {"vector.weight": (1, W)}
    assert layers["attention.memory"].parameters == {"weight": (W, 2 * W)}
    gates: dict[str, tuple[int, ...]] = {"weight_ih_l0": (3 * W, E), "weight_hh_l0": (3 * W, W)}
    gates |= {"bias_ih_l0": (3 * W,), "bias_hh_l0": (3 * W,)}
    assert encoder.parameters == gates | {f"{name}_reverse": shape for name, shape in gates.items()}
    assert decoder.parameters == gates | {"weight_ih_l0": (3 * W, E + 2 * W)}
    assert [line.split(":")[0] for line in encoder.row[2].splitlines()[:-1]] == list(encoder.parameters)
    assert f"bias_ih_l0 bias_hh_l0: {3 * W}" in decoder.row[2].splitlines()


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_layers_are_listed_in_the_order_of_their_calls(norm: Any) -> None:
    names = [layer.name for layer in explain(LabellerConfig(**SHAPE, norm=norm).build(SIZES), ids())]
    assert (names[0], names[-1]) == ("encoder.input", "output.4")
    places = [names.index(f"encoder.encoder.blocks.0.self_{part}") for part in ("residual.norm", "attention")]
    assert (places == sorted(places)) == (norm == "pre")


def check_untouched(model: nn.Module, act: Callable[[], Any]) -> None:
    def state() -> list[tuple[bool, int]]:
        return [(part.training, len(part._forward_hooks)) for part in model.modules()]

    before, random = state(), torch.get_rng_state()
    act()
    assert before == state()
    assert torch.equal(random, torch.get_rng_state())


def fail(model: nn.Module) -> None:
    with pytest.raises(WrongInput, match="positions"):
        explain(model, torch.zeros(B, T + 1, dtype=torch.long))


def test_explain_does_not_change_the_model_or_the_random_state() -> None:
    model, inputs = ClassifierConfig(**SHAPE, positions="learned").build(SIZES), ids()
    model.output.eval()  # a part in evaluation mode stays in it
    check_untouched(model, lambda: explain(model, inputs))
    check_untouched(model, lambda: fail(model))
    must_fail(check_untouched, model, lambda: model.output.register_forward_hook(lambda *_: None))
    must_fail(check_untouched, model, model.train)


def test_a_shared_parameter_counts_once_and_an_uncalled_layer_is_listed() -> None:
    model = LabellerConfig(**SHAPE).build(Sizes(outputs=V, vocabulary=V, longest=T))
    model.output[4].weight = model.encoder.input.weight
    model.spare = nn.Linear(D, L)
    layers = explain(model, ids())
    check_parameters(model, layers)
    assert [layer.name for layer in layers if not layer.calls] == ["spare"]
    assert layers[-1].row[1] == "not called"
    output = next(layer for layer in layers if layer.name == "output.4")
    assert output.parameters == {"bias": (V,)}
    assert output.shared == {"weight": "encoder.input.weight"}


def test_tied_embeddings_are_one_layer_to_which_the_output_refers() -> None:
    layers = explain(TransformerConfig(**BLOCKS, tied="all").build(SHARED), *pairs())
    embeddings = [layer for layer in layers if layer.kind == "Embedding"]
    assert [(layer.name, layer.calls) for layer in embeddings] == [("target_embedding", 2)]
    assert layers[-1].name == "output"
    assert (layers[-1].parameters, layers[-1].shared) == ({}, {"weight": "target_embedding.weight"})
    assert layers[-1].row[2] == "weight: shared with\ntarget_embedding.weight"


def test_a_run_is_explained_like_its_recipe_without_its_data(tmp_path: Path) -> None:
    wanted = SETTINGS | {"task.data.shortest": 20, "train.epochs": 1}
    train("majority", wanted, tmp_path, device="cpu")
    expected = explain_experiment("majority", wanted)
    other = explain_experiment(tmp_path, {"task.data.symbols": 7, "model.heads": 4})
    assert other.layers[0].parameters == {"weight": (7, 32)}
    assert other.words == "classifier: 1 layer, 4 heads of width 8, pre-norm, no positions, mean pooling"
    file = tmp_path / "experiment.toml"
    file.write_text(re.sub("(shortest|longest) = 20", r"\1 = 1", file.read_text()))
    with pytest.raises(WrongInput, match="distinct sequences"):  # the data can no longer be loaded
        explain_experiment(file)
    with pytest.warns(UserWarning, match=r"task\.data\.longest was 20, is 1"):
        assert explain_experiment(tmp_path) == expected


def test_a_run_on_vectors_is_explained_like_its_recipe(tmp_path: Path) -> None:
    wanted = SETTINGS | {"train.epochs": 1}
    train("odd-one-out", wanted, tmp_path, device="cpu")
    assert explain_experiment(tmp_path) == explain_experiment("odd-one-out", wanted)


@pytest.mark.parametrize("recipe", ["translate", "translate-rnn"])
def test_a_translation_run_is_explained_without_its_data(recipe: str, book: str, tmp_path: Path) -> None:
    settings = {"train.epochs": 1, "train.batch": 11, "model.width": 8, "task.vocabulary.kind": "words"}
    train(recipe, settings, tmp_path / "run", data=book, device="cpu")
    expected = explain_experiment(recipe, settings, book)
    Path(book).unlink()
    with pytest.raises(WrongInput, match="No such file"):
        explain_experiment(tmp_path / "run" / "experiment.toml")
    explained = explain_experiment(tmp_path / "run")
    assert explained.inputs == (11, 32)  # the longest sentence: 30 words between two marks
    assert explained.words == expected.words
    for ours, theirs in zip(explained.layers, expected.layers, strict=True):
        assert (ours.name, ours.parameters) == (theirs.name, theirs.parameters)


def test_explain_uses_the_longest_sequences_and_no_random_numbers() -> None:
    random = torch.get_rng_state()
    explained = explain_experiment("majority", SETTINGS)
    assert torch.equal(random, torch.get_rng_state())
    lengths = experiment("majority", SETTINGS).task.load(1)[1].lengths("train")
    assert explained.inputs == (17, int(lengths.max()))
    assert explained.layers[1].inputs == ((int(lengths.sort(descending=True)[0][:17].sum()), 32),)


def test_grouped_heads_have_fewer_keys_and_values() -> None:
    config = LabellerConfig(**{**SHAPE, "width": 4 * K, "heads": 4}, key_value_heads=2)
    layers = {layer.name: layer for layer in explain(config.build(SIZES), ids())}
    attention = layers["encoder.encoder.blocks.0.self_attention"]
    assert attention.parameters["W_k"] == (2 * K, 4 * K)
    assert attention.per_head["W_q"] == attention.per_head["W_k"] == attention.per_head["W_v"] == (K, 4 * K)
    assert attention.per_head["W_o"] == (4 * K, K)
