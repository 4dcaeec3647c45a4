"""Translation and language models in the format of CTranslate2, which computes them faster on CPUs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import nn

from limelight.bridge.ctranslate2.language import LanguageEngine, write_language
from limelight.bridge.ctranslate2.translation import TranslationEngine, write_translation
from limelight.bridge.ctranslate2.verify import (
    compare_bleu,
    compare_perplexity,
    compare_texts,
    compare_translations,
)
from limelight.errors import WrongInput
from limelight.models.decoder_only import LanguageModel
from limelight.models.recurrent import Recurrent
from limelight.models.transformer import Transformer
from limelight.tasks.language.task import Language
from limelight.tasks.task import Task
from limelight.tasks.translate.task import Translate

__all__ = ["load", "write"]


def write(
    task: Task[Any], model: nn.Module, dataset: Callable[[], Any], folder: Path, quantize: str
) -> list[str]:
    """Write a model, compare it with the model on the validation data, and return what was found.

    The translation of the layers is always verified with float32 weights, where all results must be equal. If
    they are quantized, the loss of quality is measured.
    """
    if isinstance(task, Translate) and isinstance(model, Transformer):
        write_translation(task, model, folder, "float32")
        data = _load(dataset)
        notes = [compare_translations(task, model, TranslationEngine(model, task, folder), data)]
        if quantize:
            write_translation(task, model, folder, quantize)
            if data is not None:
                notes.append(compare_bleu(task, model, TranslationEngine(model, task, folder), data))
        return notes + _unmeasured(data, quantize)
    if isinstance(task, Language) and isinstance(model, LanguageModel):
        write_language(task, model, folder, "float32")
        data = _load(dataset)
        notes = [compare_texts(task, model, LanguageEngine(model, task, folder), data)]
        if quantize:
            write_language(task, model, folder, quantize)
            if data is not None:
                notes.append(compare_perplexity(model, LanguageEngine(model, task, folder), data))
        return notes + _unmeasured(data, quantize)
    if isinstance(model, Recurrent):
        raise WrongInput("ctranslate2 does not support recurrent models")
    raise WrongInput("ctranslate2 computes translation and language models; use --to onnx")


def _load(dataset: Callable[[], Any]) -> Any:
    """The data of a run; None if it was imported, or its files are gone."""
    try:
        return dataset()
    except WrongInput:
        return None


def _unmeasured(data: Any, quantize: str) -> list[str]:
    return (
        [f"the effect of {quantize} was not measured: the run has no data"] if quantize and not data else []
    )


def load(task: Task[Any], model: nn.Module, folder: Path) -> nn.Module:
    """The model with the same layers; CTranslate2 finds its translations or generates its texts."""
    if isinstance(task, Translate) and isinstance(model, Transformer):
        return TranslationEngine(model, task, folder)
    assert isinstance(task, Language)
    assert isinstance(model, LanguageModel)
    return LanguageEngine(model, task, folder)
