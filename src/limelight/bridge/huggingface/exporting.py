"""A run as a folder that transformers reads, where it has an equal architecture."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from safetensors.torch import save
from torch import nn

from limelight.bridge.huggingface.export_decoders import export_decoder
from limelight.bridge.huggingface.export_encoders import export_encoder
from limelight.bridge.huggingface.export_marian import export_translator
from limelight.bridge.huggingface.export_tokenizers import tokenizer_files
from limelight.bridge.huggingface.export_vision import export_vit
from limelight.bridge.huggingface.exported import Export, Weights
from limelight.bridge.huggingface.folder import WEIGHTS
from limelight.bridge.huggingface.verifying import first_different, verify
from limelight.errors import wrong
from limelight.models.config import ModelConfig

KINDS: dict[str, Callable[[Any, Any, Weights], Export]] = {
    "masked-encoder": export_encoder,
    "classifier": export_encoder,
    "embedder": export_encoder,
    "decoder-only": export_decoder,
    "vit": export_vit,
    "transformer": export_translator,
}
# AutoTokenizer ignores how the tokenizer.json of these families splits a text into words.
LOADERS = {"qwen2": "PreTrainedTokenizerFast"}


@dataclass(frozen=True)
class Written:
    """What was written, for a model card."""

    architecture: str  # the class of transformers
    auto: str  # the class that finds it
    tokenizer: str  # the class of transformers that reads the tokenizer; empty if there is none
    notes: tuple[str, ...]


def write_model(
    folder: Path, config: ModelConfig, task: Any, model: nn.Module, weights: Weights, texts: Sequence[str]
) -> Written:
    """Write a model for transformers, and verify it; refused if no architecture computes the same.

    The tokenizer is written only if it gives the same ids for these texts.
    """
    if config.kind not in KINDS:
        raise wrong("model.kind", repr(config.kind), f"{', '.join(map(repr, KINDS))} with --to huggingface")
    export = KINDS[config.kind](config, task, {name: one.detach().cpu() for name, one in weights.items()})
    files, notes = dict(export.files), export.notes
    if config.kind not in ("vit", "transformer"):
        longest = export.config.get("max_position_embeddings") or export.config["n_positions"]
        more, said = tokenizer_files(
            task.reader,
            texts,
            longest,
            ends=config.kind == "decoder-only",
            types=export.config.get("type_vocab_size", 1) == 2,
        )
        files |= more or {"data.json": task.state.encode()}
        notes += said
    files["config.json"] = {
        "architectures": [export.architecture],
        **export.config,
        "dtype": "float32",
    }
    files[WEIGHTS] = save({name: one.contiguous() for name, one in export.weights.items()}, {"format": "pt"})
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else _json(content))
    verified = verify(folder, export, model, task)
    loader = ""
    if "tokenizer.json" in files or "vocab.json" in files:
        loader = LOADERS.get(export.config["model_type"], "AutoTokenizer")
        different = None
        if find_spec("transformers") is not None:
            different = first_different(folder, loader, task, texts)
        if different is not None:
            notes += (f"no tokenizer: {loader} reads {different!r:.60} in another way",)
            loader = ""
            _replace_tokenizer(folder, task)
        elif loader in LOADERS.values():
            notes += (
                f"load the tokenizer with {loader}: AutoTokenizer of this family splits texts differently",
            )
    return Written(export.architecture, export.auto, loader, (*verified, *notes))


def _replace_tokenizer(folder: Path, task: Any) -> None:
    for pattern in ("tokenizer*.json", "special_tokens_map.json", "*vocab.json", "*.spm"):
        for path in folder.glob(pattern):
            path.unlink()
    (folder / "data.json").write_bytes(task.state.encode())


def _json(content: Any) -> bytes:
    return json.dumps(content, indent=1, ensure_ascii=False).encode() + b"\n"
