"""Damaged and hostile folders: one clear line, nothing executed, nothing written."""

import json
import os
import pickle
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from command import command
from folders import byte_level, save, wordpiece
from safetensors.torch import load_file, save_file
from support import must_fail, mutated, refused

from limelight.experiment import import_model

SIZES: dict[str, Any] = {
    "hidden_size": 22,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 29,
    "max_position_embeddings": 47,
}


class Attack:
    """Creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.mkdir, (str(self.path),)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    model: Any = transformers.BertModel
    config = transformers.BertConfig(vocab_size=131, **SIZES)
    return save(model(config), wordpiece(), tmp_path_factory.mktemp("bert"))


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "model"))


def change(folder: Path, **values: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def change_weights(folder: Path, edit: Callable[[dict[str, torch.Tensor]], Any]) -> None:
    tensors = load_file(folder / "model.safetensors")
    edit(tensors)
    save_file(tensors, folder / "model.safetensors")


def truncate(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-7])


def make_shards(folder: Path, name: str) -> None:
    """The weights in two files, the second of which has the name `name` in the index."""
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = list(tensors)
    save_file({key: tensors[key] for key in names[::2]}, folder / "one.safetensors")
    save_file({key: tensors[key] for key in names[1::2]}, folder / "two.safetensors")
    where = {key: name if i % 2 else "one.safetensors" for i, key in enumerate(names)}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": where}))


def make_pickle(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Attack(folder.parent / "executed")))


def rename_pickle(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(pickle.dumps(Attack(folder.parent / "executed")))


def make_pipe(folder: Path) -> None:
    (folder / "config.json").unlink()
    os.mkfifo(folder / "config.json")


FAULTS: dict[str, tuple[Callable[[Path], Any], str]] = {
    "truncated weights": (truncate, "is damaged"),
    "pickled weights": (make_pickle, "pickled weights can execute code and are not read"),
    "a pickle with another name": (rename_pickle, "is damaged"),
    "code of its own": (
        lambda folder: change(folder, auto_map={"AutoModel": "evil.Model"}),
        "asks for code of its own (auto_map), which is not executed",
    ),
    "a shard elsewhere": (
        lambda folder: make_shards(folder, "../outside.safetensors"),
        "'../outside.safetensors' is not the name of a file in this folder",
    ),
    "a missing shard": (lambda folder: make_shards(folder, "three.safetensors"), "the file is missing"),
    "a tensor of another shape": (
        lambda folder: change_weights(
            folder, lambda all: all.update({"embeddings.LayerNorm.weight": torch.ones(23)})
        ),
        "bert.embeddings.LayerNorm.weight has shape (23,); allowed by config.json: (22,)",
    ),
    "a tensor with other axes": (
        lambda folder: change_weights(
            folder, lambda all: all.update({"embeddings.position_embeddings.weight": torch.ones(())})
        ),
        "a tensor has another shape",
    ),
    "a missing tensor": (
        lambda folder: change_weights(folder, lambda all: all.pop("encoder.layer.1.output.dense.bias")),
        "has no tensor bert.encoder.layer.1.output.dense.bias",
    ),
    "more layers than tensors": (
        lambda folder: change(folder, num_hidden_layers=999),
        "has no tensor bert.encoder.layer.2.attention.self.query.weight and 15,951 others",
    ),
    "a weight that is not finite": (
        lambda folder: change_weights(
            folder, lambda all: all.update({"embeddings.LayerNorm.bias": torch.full((22,), torch.nan)})
        ),
        "has values that are not finite",
    ),
    "a huge width": (lambda folder: change(folder, hidden_size=10**9), "allowed: an integer from 1 to"),
    "more embeddings than the file": (
        lambda folder: change(folder, vocab_size=10**6),
        "has shape (131, 22); allowed by config.json: (1000000, 22)",
    ),
    "fewer embeddings than tokens": (lambda folder: change(folder, vocab_size=7), "the tokenizer has 131"),
    "a size that is text": (lambda folder: change(folder, hidden_size="22"), "hidden_size is '22'"),
    "heads that do not divide": (
        lambda folder: change(folder, num_attention_heads=3),
        "a divisor of width=22",
    ),
    "relative positions": (
        lambda folder: change(folder, position_embedding_type="relative_key"),
        "position_embedding_type is 'relative_key'; limelight has only 'absolute'",
    ),
    "another activation": (
        lambda folder: change(folder, hidden_act="gelu_fast"),
        "hidden_act is 'gelu_fast'",
    ),
    "an unknown family": (lambda folder: change(folder, model_type="xlnet"), "model_type 'xlnet' is unknown"),
    "another architecture": (
        lambda folder: change(folder, architectures=["BertForQuestionAnswering"]),
        "architectures is 'BertForQuestionAnswering'",
    ),
    "a config that is no JSON": (
        lambda folder: (folder / "config.json").write_text("[" * 100_000),
        "config.json: not valid JSON",
    ),
    "a config that is a list": (
        lambda folder: (folder / "config.json").write_text("[1]"),
        "config.json: not a JSON object",
    ),
    "a config that is a pipe": (make_pipe, "config.json: not a regular file"),
    "no config": (lambda folder: (folder / "config.json").unlink(), "has no config.json"),
    "no weights": (lambda folder: (folder / "model.safetensors").unlink(), "has no model.safetensors"),
    "no tokenizer": (lambda folder: (folder / "tokenizer.json").unlink(), "has no tokenizer.json"),
    "a damaged tokenizer": (
        lambda folder: (folder / "tokenizer.json").write_text('{"model": {"type": "WordPiece"}}'),
        "tokenizer.json is damaged",
    ),
    "a dense layer after the pooling": (
        lambda folder: (folder / "modules.json").write_text(
            json.dumps([{"type": "sentence_transformers.models.Dense", "path": "2_Dense"}])
        ),
        "'sentence_transformers.models.Dense'; limelight has Transformer, Pooling and Normalize",
    ),
    "a pooling elsewhere": (
        lambda folder: (folder / "modules.json").write_text(
            json.dumps([{"type": "sentence_transformers.models.Pooling", "path": "../.."}])
        ),
        "is not a folder in this folder",
    ),
}


def check_refused(folder: Path, words: str) -> None:
    run = folder.parent / "run"
    message = refused(import_model, folder, run)
    assert words in message
    assert "\n" not in message
    assert not run.exists()
    assert not (folder.parent / "executed").exists()


@pytest.mark.parametrize(("fault", "words"), FAULTS.values(), ids=FAULTS)
def test_a_faulty_folder_is_refused_by_name(folder: Path, fault: Callable[[Path], Any], words: str) -> None:
    must_fail(check_refused, folder, words)
    shutil.rmtree(folder.parent / "run")
    fault(folder)
    check_refused(folder, words)


def test_the_attack_would_be_noticed(tmp_path: Path) -> None:
    pickle.loads(pickle.dumps(Attack(tmp_path / "executed")))
    assert (tmp_path / "executed").exists()


def test_the_command_line_prints_one_line(folder: Path, tmp_path: Path) -> None:
    truncate(folder)
    done = command("import", str(folder), "--out", str(tmp_path / "run"))
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("limelight: ")
    assert not (tmp_path / "run").exists()


def test_sharded_weights_are_read(folder: Path, original: Path, tmp_path: Path) -> None:
    make_shards(folder, "two.safetensors")
    ours, whole = import_model(folder, tmp_path / "a"), import_model(original, tmp_path / "b")
    for one, other in zip(ours.model.parameters(), whole.model.parameters(), strict=True):
        assert one.equal(other)


def test_half_precision_is_read_as_float32(folder: Path, tmp_path: Path) -> None:
    def halve(tensors: dict[str, torch.Tensor]) -> None:
        tensors.update({name: one.bfloat16() for name, one in tensors.items()})

    change_weights(folder, halve)
    assert {one.dtype for one in import_model(folder, tmp_path / "run").model.parameters()} == {torch.float32}


def test_a_folder_that_is_not_empty_is_not_written_to(folder: Path, tmp_path: Path) -> None:
    place = tmp_path / "notes"
    place.mkdir()
    (place / "mine.txt").write_text("mine")
    assert "is not empty" in refused(import_model, folder, place)
    assert [path.name for path in place.iterdir()] == ["mine.txt"]


def test_an_unknown_source_is_refused() -> None:
    assert "did you mean 'minilm'" in refused(import_model, "minilmm")
    assert "no such folder" in refused(import_model, "models/bert")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_file_with_random_faults_is_refused_or_read(folder: Path, tmp_path: Path, name: str) -> None:
    content, draw = (folder / name).read_bytes(), random.Random(11)
    marks = [b'"', b"{", b"}", b"[", b",", b":", b"0", b"\x00", b"null", b"weight"]
    messages = set[str]()
    for number in range(30):
        (folder / name).write_bytes(mutated(content, marks, draw))
        message = refused(import_model, folder, tmp_path / f"run-{number}")
        messages.add(message)
        assert (tmp_path / f"run-{number}").exists() == (not message)
    assert len(messages) > 3
    assert not (tmp_path / "executed").exists()


LLAMA: dict[str, Any] = {
    "vocab_size": 307,
    "hidden_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 29,
    "max_position_embeddings": 61,
}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"rope_parameters": {"rope_type": "yarn", "factor": 4.0}}, "rope_type is 'yarn'"),
        ({"rope_scaling": {"type": "dynamic", "factor": 2.0}, "rope_parameters": None}, "is 'dynamic'"),
        ({"head_dim": 16}, "head_dim is 16; limelight has only 10"),
        ({"hidden_act": "relu"}, "hidden_act is 'relu'"),
        ({"attention_bias": True}, "limelight has only equal ones"),
        ({"layer_types": ["full_attention", "sliding_attention"]}, "layer_types differ"),
    ],
)
def test_a_language_model_that_is_different_is_refused(
    tmp_path: Path, values: dict[str, Any], words: str
) -> None:
    model: Any = transformers.LlamaForCausalLM
    made = model(transformers.LlamaConfig(**LLAMA))
    folder = save(made, byte_level(["<unk>", "<s>", "</s>"]), tmp_path / "model")
    must_fail(check_refused, folder, words)
    shutil.rmtree(tmp_path / "run")
    change(folder, **values)
    check_refused(folder, words)
