"""An export is compared with the model: by our own import, and by transformers if it is installed."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from limelight.bridge.huggingface.exported import Export
from limelight.bridge.huggingface.folder import ModelFolder
from limelight.bridge.huggingface.imported import Imported
from limelight.bridge.huggingface.importing import read_opened
from limelight.data.text.pretrained_tokenizer import PretrainedTokenizer
from limelight.data.text.text_pair import TextPair, split_pair
from limelight.errors import Stopped, WrongInput
from limelight.nn import padding_mask
from limelight.randomness import generator

LARGEST = 1e-4  # difference of an output, relative to the largest one if that is above 1
MOST_TEXTS = 200  # whose ids are compared with those of transformers
SAMPLES = "The sky is blue.", "Why does the naïve reader ask twice? 42!"
LENGTHS = 61, 29, 2  # of the random inputs
# A tokenizer of one token, in the place of one that could not be written.
STAND_IN = (
    '{"version":"1.0","added_tokens":[],"model":{"type":"WordLevel","vocab":{"<unk>":0},"unk_token":"<unk>"}}'
)


@dataclass(frozen=True)
class Inputs:
    """Random inputs with padding: the arguments of our model, those of transformers, and the real outputs."""

    ours: tuple[Tensor | None, ...]
    theirs: dict[str, Tensor]
    real: Tensor | None = None


def verify(folder: Path, export: Export, model: nn.Module, task: Any) -> tuple[str, ...]:
    """Compare the files in a folder with a model, and return what was found; `Stopped` if they differ."""
    inputs = random_inputs(model, task)
    with torch.no_grad():
        expected = model(*inputs.ours)
        found = _imported(folder)
        _check_weights(found, export)
        own = _difference(_rebuilt(found)(*inputs.ours), expected)
    if not own <= LARGEST:
        raise Stopped(f"the exported model differs from that of the run by {own:.1e}; nothing was exported")
    notes = (f"read back by limelight: all weights equal, outputs within {own:.1e}",)
    if find_spec("transformers") is None:
        return (*notes, "not compared with transformers, which is not installed")
    name = import_module("transformers").__version__
    other = difference_in_transformers(folder, export, inputs, expected)
    if not other <= LARGEST:
        raise Stopped(f"transformers {name} computes other outputs, by {other:.1e}; nothing was exported")
    return (*notes, f"transformers {name} computes the same outputs, within {other:.1e}")


def random_inputs(model: nn.Module, task: Any) -> Inputs:
    """Inputs for a model: random tokens of several lengths, or random images."""
    rng, sizes = generator(0, "export"), task.sizes
    if sizes.image[0]:
        images = torch.randn(2, *sizes.image, generator=rng)
        return Inputs((images,), {"pixel_values": images})
    most = sizes.longest if sizes.longest else max(LENGTHS)
    lengths = torch.tensor([min(length, most) for length in LENGTHS])
    tokens = torch.randint(sizes.vocabulary, (len(lengths), int(lengths.max())), generator=rng)
    mask = padding_mask(lengths, tokens.shape[1]).squeeze(1)
    theirs = {"input_ids": tokens, "attention_mask": mask.long()}
    if task.command == "generate":
        return Inputs((tokens,), theirs, mask)
    if hasattr(model, "target_embedding"):
        backwards = lengths.flip(0)
        target = torch.randint(sizes.outputs, tokens.shape, generator=rng)
        theirs |= {"decoder_input_ids": target}
        real = padding_mask(backwards, tokens.shape[1]).squeeze(1)
        return Inputs((tokens, target, lengths, backwards), theirs, real)
    segments = getattr(getattr(model, "encoder", None), "segments", None)
    if segments is not None and segments.separator:
        at = (tokens == segments.separator).long()
        theirs["token_type_ids"] = (at.cumsum(1) - at).clamp(max=1)
    return Inputs((tokens, lengths), theirs, mask)


def first_different(folder: Path, loader: str, task: Any, texts: Sequence[str]) -> str | None:
    """The first text to which a tokenizer of transformers gives other ids; None if there is none."""
    reader = task.source if hasattr(task, "source") else task.reader
    pairs = isinstance(reader, TextPair)
    texts = texts[:MOST_TEXTS] or [f"{one} ||| {one}" if pairs else one for one in SAMPLES]
    with _quietly() as transformers:
        tokenizer = getattr(transformers, loader).from_pretrained(folder, local_files_only=True)
        for text in texts:
            try:
                expected = reader.encode(text).tolist()
            except WrongInput:
                continue
            if pairs and reader.is_truncated(text):
                continue
            parts = split_pair(text) if pairs else (text,)
            cut = isinstance(reader, PretrainedTokenizer)  # other vocabularies do not truncate
            if tokenizer(*parts, truncation=cut)["input_ids"] != expected:
                return text
    return None


class _Folder(ModelFolder):
    """A folder that may lack a tokenizer."""

    def text(self, name: str) -> str | None:
        """The content of a text file."""
        found = super().text(name)
        return STAND_IN if found is None and name == "tokenizer.json" else found

    def json(self, name: str) -> dict[str, Any] | None:
        """The object in a JSON file."""
        found = super().json(name)
        roles = {"unk_token": "<unk>", "mask_token": "<unk>"}
        return roles if found is None and name == "special_tokens_map.json" else found


def _imported(folder: Path) -> Imported:
    return read_opened(_Folder(folder))


def _check_weights(found: Imported, export: Export) -> None:
    for name in found.weights.keys() | export.ours.keys():
        one, other = found.weights.get(name), export.ours.get(name)
        if one is None or other is None or not torch.equal(one, other):
            raise Stopped(f"{name} differs after it was read back; nothing was exported")


def _rebuilt(found: Imported) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        model = found.model.build(found.task.restore(found.state).sizes)
    model.load_state_dict(found.weights, strict=False)  # shared tensors have one name
    return model.eval()


def difference_in_transformers(folder: Path, export: Export, inputs: Inputs, expected: Tensor) -> float:
    """The largest difference of the outputs of transformers from the expected ones."""
    with _quietly() as transformers, torch.no_grad():
        options: dict[str, Any] = {"local_files_only": True, "dtype": torch.float32}
        theirs = getattr(transformers, export.auto).from_pretrained(folder, **options).eval()
        if type(theirs).__name__ != export.architecture:
            raise Stopped(f"transformers reads {type(theirs).__name__}, not {export.architecture}")
        accepted = dict(inputs.theirs)
        if export.config["model_type"] == "distilbert":
            accepted.pop("token_type_ids", None)
        output = theirs(**accepted)
    if "logits" in output:
        found = output.logits
        if found.dim() == 3 and inputs.real is not None:
            found = found[inputs.real]
            expected = expected if expected.dim() == 2 else expected[inputs.real]
        return _difference(found, expected)
    return _difference(pooled(output.last_hidden_state, export, inputs), expected)


def pooled(hidden: Tensor, export: Export, inputs: Inputs) -> Tensor:
    """(B, T, D) -> (B, D)

    The vectors of texts, computed as the files for sentence-transformers say.
    """
    mask_BT1 = inputs.theirs["attention_mask"].unsqueeze(2)
    modes = export.files["1_Pooling/config.json"]
    if modes["pooling_mode_mean_tokens"]:
        vectors = (hidden * mask_BT1).sum(1) / mask_BT1.sum(1)
    elif modes["pooling_mode_max_tokens"]:
        vectors = hidden.masked_fill(mask_BT1 == 0, -torch.inf).amax(1)
    else:
        vectors = hidden[:, 0]
    return normalize(vectors, dim=-1) if len(export.files["modules.json"]) == 3 else vectors


def _difference(found: Tensor, expected: Tensor) -> float:
    if found.shape != expected.shape:
        return float("inf")
    largest = max(1.0, float(expected.abs().max()))
    return float((found - expected).abs().max()) / largest


@contextmanager
def _quietly() -> Iterator[Any]:
    """transformers without its warnings and progress bars, which are as before afterwards."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        transformers = import_module("transformers")
        log = transformers.utils.logging
        level, shown = log.get_verbosity(), log.is_progress_bar_enabled()
        log.set_verbosity_error()
        log.disable_progress_bar()
        try:
            yield transformers
        finally:
            log.set_verbosity(level)
            if shown:
                log.enable_progress_bar()
