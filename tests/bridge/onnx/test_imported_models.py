"""Models of other libraries that were imported are exported like trained ones."""

from pathlib import Path
from typing import Any

import pytest
import transformers
from folders import LINES, byte_level, save, wordpiece
from support import must_fail

import limelight
from limelight.experiment import Run, import_model
from limelight.experiment.exports import export
from limelight.training.progress import Watcher

SIZES: dict[str, Any] = {"num_attention_heads": 2, "num_hidden_layers": 2, "max_position_embeddings": 47}


class Notes(Watcher):
    """Keeps the notes."""

    def __init__(self) -> None:
        self.notes = list[str]()

    def note(self, text: str) -> None:
        self.notes.append(text)


def imported(model: Any, tokenizer: Any, folder: Path) -> tuple[Run, Run]:
    """The same run with torch and with onnxruntime."""
    (folder / "theirs").mkdir()
    run = import_model(save(model, tokenizer, folder / "theirs"), folder / "run")
    watcher = Notes()
    export(run, "onnx", watcher=watcher)
    assert "on random inputs" in watcher.notes[-1]
    return run, limelight.open_run(run.path, device="cpu", engine="onnx")


def test_sentence_vectors_are_equal(tmp_path: Path) -> None:
    config = transformers.BertConfig(vocab_size=131, hidden_size=22, intermediate_size=29, **SIZES)
    model: Any = transformers.BertModel
    ours, other = imported(model(config), wordpiece(), tmp_path)

    def check(lines: list[str]) -> None:
        for one, found in zip(ours.predict(LINES), other.predict(lines), strict=True):
            assert found.vector == pytest.approx(one.vector, abs=1e-5)

    check(LINES)
    must_fail(check, LINES[::-1])
    assert "vectors" in (ours.path / "exports" / "onnx" / "limelight.json").read_text()


def test_generated_text_is_equal(tmp_path: Path) -> None:
    tokenizer = byte_level(["<|endoftext|>"])
    ids: dict[str, Any] = {"vocab_size": tokenizer.get_vocab_size(), "bos_token_id": 0, "eos_token_id": 0}
    config: Any = transformers.GPT2Config(n_embd=22, n_layer=2, n_head=2, n_positions=47, **ids)
    model: Any = transformers.GPT2LMHeadModel
    ours, other = imported(model(config), tokenizer, tmp_path)
    for line in LINES:
        texts = ["".join(run.generate(line, length=60)) for run in (ours, other)]
        assert texts[0] == texts[1]
