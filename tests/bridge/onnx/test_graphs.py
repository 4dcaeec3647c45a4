"""Every variant of every model as a graph: its logits are those of torch, for any batch, length and past."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnxruntime
import pytest
import torch
from small_recipes import small
from support import must_fail
from torch import Tensor, nn

from limelight.bridge.onnx import write
from limelight.bridge.onnx.graphs import graphs_of
from limelight.bridge.onnx.verify import verify
from limelight.data.dataset import Dataset
from limelight.errors import Stopped, WrongInput
from limelight.experiment.config import experiment
from limelight.tasks.task import Task

MODERN = {
    "model.positions": "rotary",
    "model.norm": "pre-rms",
    "model.feedforward": "swiglu",
    "model.query_key_norm": True,
    "model.key_value_heads": 1,
    "model.window": 5,
    "model.sinks": 2,
}
ALIBI = {"model.positions": "alibi", "model.norm": "post", "model.feedforward": "geglu"}
INTERLEAVED = {"model.positions": "rotary-interleaved", "model.norm": "post-rms", "model.key_value_heads": 2}
LEARNED = {"model.positions": "learned"}
SINUSOIDAL = {"model.positions": "sinusoidal", "model.norm": "post"}
BERT = LEARNED | {"model.embedding_norm": True, "model.segments": True, "model.head": "tanh"}
LLAMA = MODERN | {"model.bias": "none", "model.rotary_scaling": [8.0, 1.0, 4.0, 20.0], "model.window": 0}
MARIAN = {"model.positions": "sinusoidal-halves", "model.norm": "post", "model.activation": "silu"}
DEIT = {"model.distillation": "output"}
FORMS: dict[str, tuple[str, dict[str, Any]]] = {
    "n-grams, linear path": ("text", MODERN),
    "maximum, causal": ("brackets", ALIBI | {"model.pooling": "max", "model.causal": True}),
    "class token": ("majority", LEARNED | {"model.pooling": "class-token"}),
    "attention pooling of pairs": ("pairs", INTERLEAVED | {"model.pooling": "attention"}),
    "first item": ("majority", BERT | {"model.pooling": "first"}),
    "affixes": ("tag", SINUSOIDAL),
    "vectors, causal": ("odd-one-out", MODERN | {"model.causal": True}),
    "masked": ("masked", ALIBI),
    "class token of patches": (
        "digits",
        {"model.key_value_heads": 1, "model.norm": "post-rms", "model.init": "xavier"},
    ),
    "mean of patches": ("digits", {"model.pooling": "mean", "model.positions": "learned"}),
    "two tokens of patches": ("digits", DEIT),
    "language, modern": ("language", MODERN),
    "language, Llama": ("language", LLAMA),
    "language, alibi": ("language", ALIBI | {"model.window": 3, "model.tied": False}),
    "language, learned": ("language", LEARNED),
    "language, sinusoidal": ("language", SINUSOIDAL),
    "translate, as in the paper": ("translate", SINUSOIDAL),
    "translate, modern": ("translate", MODERN),
    "translate, Marian": ("translate", MARIAN | {"model.tied": "output", "model.output_bias": True}),
    "translate, learned": ("translate", LEARNED | {"model.tied": "output"}),
}
# Together they have most variants; the others are tested by `make torture`.
SOME = ("n-grams, linear path", "class token", "affixes", "language, modern", "translate, modern")


def made(recipe: str, settings: Mapping[str, Any], folder: Path) -> tuple[Task[Any], nn.Module, Dataset[Any]]:
    """Task, model and data of a small recipe. No weight of the model is zero or one."""
    own, data = small(recipe, folder)
    wanted = experiment(recipe, own | {"model.heads": 4} | dict(settings), data)
    task, dataset = wanted.task.load(wanted.seed)
    model = wanted.model.build(task.sizes).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape))
        for part in model.modules():
            if isinstance(part, nn.Embedding) and part.padding_idx is not None:
                part.weight[part.padding_idx] = 0
    return task, model, dataset


@pytest.mark.slow
@pytest.mark.parametrize(
    "form", [form if form in SOME else pytest.param(form, marks=pytest.mark.torture) for form in FORMS]
)
def test_every_variant_has_the_logits_of_torch(form: str, tmp_path: Path) -> None:
    """On held-out data, and on random inputs that are longer than the tables of positions."""
    task, model, dataset = made(*FORMS[form], tmp_path)
    (note,) = write(task, model, lambda: dataset, tmp_path)
    assert "held-out examples" in note


def run(path: Path, inputs: Mapping[str, Tensor]) -> list[Tensor]:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return [torch.from_numpy(x) for x in session.run(None, {name: x.numpy() for name, x in inputs.items()})]


def test_logits_of_other_weights_are_refused(tmp_path: Path) -> None:
    """The comparison sees a difference, and padding has no effect on real items."""
    task, model, dataset = made("reverse", {}, tmp_path)
    write(task, model, lambda: dataset, tmp_path)
    inputs, lengths = torch.randint(10, (3, 17)), torch.tensor([17, 5, 1])

    def check(inputs: Tensor, lengths: Tensor) -> None:
        (logits,) = run(tmp_path / "model.onnx", {"tokens": inputs, "lengths": lengths})
        for row, length, found in zip(inputs, [17, 5, 1], logits, strict=True):
            torch.testing.assert_close(found[:length], model(row[None, :length])[0], rtol=0, atol=1e-4)

    with torch.no_grad():
        check(inputs, lengths)
        must_fail(check, inputs, torch.tensor([17, 6, 1]))
        model.encoder.encoder.blocks[0].feedforward.contract.bias[0] += 0.01  # type: ignore[union-attr,index]
    with pytest.raises(Stopped, match=r"differs from torch: a logit by .*e-0.; allowed: 1e-04"):
        verify(task, model, lambda: dataset, tmp_path)


def test_without_its_data_a_model_is_compared_on_random_inputs(tmp_path: Path) -> None:
    task, model, _ = made("reverse", {}, tmp_path)

    def moved() -> Dataset[Any]:
        raise WrongInput("films.csv does not exist")

    (note,) = write(task, model, moved, tmp_path)
    assert "compared with torch on random inputs" in note
    assert note.endswith("; without held-out examples: films.csv does not exist")


def test_names_of_inputs_and_outputs_are_those_of_the_documentation(tmp_path: Path) -> None:
    task, model, _ = made("translate", {}, tmp_path)
    encoder, decoder = graphs_of(model, task)
    memory, past = ([f"{name}.0.{part}" for part in ("key", "value")] for name in ("memory", "past"))
    assert list(encoder.inputs) == ["tokens", "lengths"]
    assert list(encoder.outputs) == memory
    assert list(decoder.inputs) == ["tokens", "lengths", *memory, *past]
    assert decoder.outputs == ("logits", "present.0.key", "present.0.value")


def test_files_name_no_folder_of_this_computer(tmp_path: Path) -> None:
    task, model, dataset = made("reverse", {}, tmp_path)
    write(task, model, lambda: dataset, tmp_path)
    content = (tmp_path / "model.onnx").read_bytes()
    assert str(Path(__file__).parent.parent.parent.parent).encode() not in content
    assert b".py" not in content


def test_models_that_are_not_of_this_library_are_refused(tmp_path: Path) -> None:
    """Those of plug-ins, and recurrent ones."""
    task, _, _ = made("reverse", {}, tmp_path)

    class Own(nn.Module):
        pass

    with pytest.raises(WrongInput, match="the model Own cannot be exported to onnx; allowed: "):
        graphs_of(Own(), task)
    wanted = experiment("translate-rnn", *small("translate-rnn", tmp_path))
    task, _ = wanted.task.load(1)
    with pytest.raises(WrongInput, match="a recurrent model cannot be exported to onnx"):
        graphs_of(wanted.model.build(task.sizes), task)
