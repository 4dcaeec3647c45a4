"""Sizes are distinct primes, so that a swapped axis cannot pass."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from support import HIDDEN, B, D, H, K, T, goes_red
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from limelight.cli import main
from limelight.errors import WrongInput
from limelight.experiment import experiment, train
from limelight.experiment.explain import Layer, explain, explain_experiment
from limelight.models.classifier import ClassifierConfig
from limelight.models.labeller import LabellerConfig
from limelight.models.sizes import Sizes
from limelight.nn import Decoder, padding_mask
from limelight.view import watch

V, L = 13, 17
SIZES = Sizes(outputs=L, vocabulary=V, longest=T)
SHAPE: dict[str, Any] = {"width": D, "depth": 2, "heads": H, "hidden": HIDDEN}
POOLINGS = ("mean", "max", "class-token", "attention")
CONFIGS = {
    "labeller": LabellerConfig(**SHAPE),
    "pre-norm": LabellerConfig(**SHAPE, norm="pre", positions="none", dropout=0.1),
    **{pooling: ClassifierConfig(**SHAPE, pooling=pooling, positions="learned") for pooling in POOLINGS},
}
EACH = pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
RAGGED = pytest.mark.parametrize("lengths", [None, torch.tensor([T, 3, 1])], ids=["whole", "padded"])
SETTINGS = {"task.data.train": 31, "task.data.validation": 7, "task.data.test": 7, "train.batch": 17}
SMALL = [word for key, value in SETTINGS.items() for word in ("--set", f"{key}={value}")]


def ids() -> Tensor:
    return torch.randint(V, (B, T))


class Reading(nn.Module):
    """A decoder over a memory of another length than its target."""

    def __init__(self) -> None:
        super().__init__()
        self.decoder = Decoder(1, D, H, HIDDEN)

    def forward(self, memory: Tensor, lengths: Tensor | None) -> Tensor:
        mask = None if lengths is None else padding_mask(lengths, memory.shape[1])
        return self.decoder(torch.randn(B, 2, D), memory, memory_mask=mask)


def check_cost(model: nn.Module, inputs: Tensor, lengths: Tensor | None, layers: list[Layer]) -> None:
    """Against torch's own count; watched, because it does not know the fused kernel of CPUs."""
    with watch(model), FlopCounterMode(display=False) as counter:
        model.eval()(inputs, lengths)
    assert 2 * B * sum(layer.cost for layer in layers) == counter.get_total_flops()


def check_parameters(model: nn.Module, layers: list[Layer]) -> None:
    assert sum(layer.count for layer in layers) == sum(p.numel() for p in model.parameters())


@EACH
@RAGGED
def test_costs_and_parameters_are_those_of_the_model(config: LabellerConfig, lengths: Tensor | None) -> None:
    model, inputs = config.build(SIZES), ids()
    layers = explain(model, inputs, lengths)
    check_parameters(model, layers)
    check_cost(model, inputs, lengths, layers)
    goes_red(check_parameters, model, layers[1:])
    goes_red(check_cost, model, inputs, lengths, [layer for layer in layers if not layer.per_head])


@RAGGED
def test_attention_to_a_memory_costs_by_both_lengths(lengths: Tensor | None) -> None:
    model, memory = Reading(), torch.randn(B, T, D)
    layers = explain(model, memory, lengths)
    check_cost(model, memory, lengths, layers)
    cross = next(layer for layer in layers if "cross" in layer.name and layer.per_head)
    real = T if lengths is None else 3
    assert cross.cost == 2 * 2 * D * D + 2 * real * D * D + 2 * 2 * T * D
    assert cross.inputs == ((B, 2, D), (B, T, D) if lengths is None else (B * real, D))


def test_a_labeller_is_as_counted_by_hand() -> None:
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


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_layers_stand_in_the_order_in_which_they_work(norm: Any) -> None:
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


def test_the_model_is_as_before() -> None:
    model, inputs = CONFIGS["mean"].build(SIZES), ids()
    model.output.eval()  # what is not being trained stays so
    check_untouched(model, lambda: explain(model, inputs))
    check_untouched(model, lambda: fail(model))
    goes_red(check_untouched, model, lambda: model.output.register_forward_hook(lambda *_: None))
    goes_red(check_untouched, model, model.train)


def test_a_shared_parameter_counts_once_and_a_part_never_called_is_named() -> None:
    model = LabellerConfig(**SHAPE).build(Sizes(outputs=V, vocabulary=V, longest=T))
    model.output[4].weight = model.encoder.input.weight
    model.spare = nn.Linear(D, L)
    layers = explain(model, ids())
    check_parameters(model, layers)
    assert [layer.name for layer in layers if not layer.outputs] == ["spare"]
    assert layers[-1].row[1] == "not called"
    assert next(layer for layer in layers if layer.name == "output.4").parameters == {"bias": (V,)}


def say(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        main(["explain", *arguments])
    return int(stop.value.code or 0), *capsys.readouterr()


def test_json_holds_every_layer_and_the_totals(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = say(capsys, "reverse", "--json", "--set", "model.heads=2", *SMALL)
    told = json.loads(out)
    assert code == 0
    assert told["words"] == "labeller: 1 layer, 2 heads of width 16, pre-norm, sinusoidal positions"
    assert told["inputs"] == [17, 16]
    attention = next(layer for layer in told["layers"] if layer["kind"] == "MultiHeadAttention")
    assert attention["per_head"]["W_q"] == [16, 32]
    assert attention["inputs"] == [[17, 16, 32]]
    assert told["totals"] == {"parameters": 10_378, "cost": sum(layer["cost"] for layer in told["layers"])}


def check_same_content(table: str, other: str) -> None:
    """However it is folded; the rule under the titles is as long as there is room."""
    assert sorted(re.sub(r"[\s─]", "", table)) == sorted(re.sub(r"[\s─]", "", other))


@pytest.mark.parametrize("columns", [40, 80])
def test_a_narrow_table_loses_nothing(
    columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ("brackets", "--set", "model.pooling=attention", *SMALL)
    monkeypatch.setenv("COLUMNS", "300")
    _, wide, _ = say(capsys, *arguments)
    monkeypatch.setenv("COLUMNS", str(columns))
    _, narrow, _ = say(capsys, *arguments)
    assert max(map(len, narrow.splitlines())) <= columns
    check_same_content(narrow, wide)
    goes_red(check_same_content, "\n".join(line[: columns - 2] for line in narrow.splitlines()), wide)


def test_the_table_shows_each_layer_and_the_totals(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = say(capsys, "reverse", *SMALL)
    lines = [line.strip() for line in out.splitlines()]
    assert lines[0] == "labeller: 1 layer, 1 head of width 32, pre-norm, sinusoidal positions"
    explained = explain_experiment("reverse", SETTINGS)
    for line in "\n".join(layer.row[0] for layer in explained.layers).splitlines():
        assert any(shown.startswith(line) for shown in lines), line
    total = next(line.split() for line in lines if line.startswith("total"))
    assert total == ["total", *(f"{value:,}" for value in explained.totals.values())]


def test_a_run_is_explained_as_its_recipe_without_its_data(tmp_path: Path) -> None:
    wanted = SETTINGS | {"task.data.shortest": 20, "train.epochs": 1}
    train("majority", wanted, tmp_path, device="cpu")
    expected = explain_experiment("majority", wanted)
    other = explain_experiment(tmp_path, {"task.data.symbols": 7, "model.heads": 4})
    assert other.layers[0].parameters == {"weight": (7, 32)}
    assert other.words == "classifier: 1 layer, 4 heads of width 8, pre-norm, no positions, mean pooling"
    file = tmp_path / "experiment.toml"
    file.write_text(re.sub("(shortest|longest) = 20", r"\1 = 1", file.read_text()))
    with pytest.raises(WrongInput, match="different sequences"):  # data that cannot be loaded any more
        explain_experiment(file)
    assert explain_experiment(tmp_path) == expected


def test_a_run_on_vectors_is_explained_as_its_recipe_is(tmp_path: Path) -> None:
    wanted = SETTINGS | {"train.epochs": 1}
    train("odd-one-out", wanted, tmp_path, device="cpu")
    assert explain_experiment(tmp_path) == explain_experiment("odd-one-out", wanted)


def test_the_longest_sequences_are_shown_and_no_random_number_is_used_up() -> None:
    random = torch.get_rng_state()
    explained = explain_experiment("majority", SETTINGS)
    assert torch.equal(random, torch.get_rng_state())
    lengths = experiment("majority", SETTINGS).task.load(1).lengths("train")
    assert explained.inputs == (17, int(lengths.max()))
    assert explained.layers[1].inputs == ((int(lengths.sort(descending=True)[0][:17].sum()), 32),)


WRONG = [["revers"], ["reverse", "--set", "model.heads=3"], ["reverse", "--set", "nonsense"], ["text"]]


@pytest.mark.parametrize("arguments", WRONG, ids=" ".join)
def test_wrong_input_gets_one_line_and_exit_code_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, error = say(capsys, *arguments)
    assert (code, out, error.count("\n")) == (2, "", 1)
    assert error.startswith("limelight: ")
