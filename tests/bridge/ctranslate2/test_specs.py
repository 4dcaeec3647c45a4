"""Every variant that CTranslate2 has gives the results of the model; every other is refused by its name."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch

from limelight.bridge.ctranslate2 import write
from limelight.bridge.ctranslate2.language import LanguageEngine, write_language
from limelight.bridge.ctranslate2.translation import TranslationEngine, write_translation
from limelight.data.ragged import Ragged
from limelight.data.text.text_vocabulary import TextCharacters
from limelight.data.text.translation_data import Language as Tokens
from limelight.data.text.vocabulary import Words
from limelight.errors import WrongInput
from limelight.experiment import Run
from limelight.models.decoder_only import DecoderOnlyConfig, LanguageModel
from limelight.models.recurrent import RecurrentConfig
from limelight.models.transformer import Transformer, TransformerConfig
from limelight.tasks.language.generation import LanguageOptions, next_tokens
from limelight.tasks.language.task import Language, LanguageState
from limelight.tasks.translate.search import Search
from limelight.tasks.translate.task import Translate, TranslateState

WIDTH: dict[str, Any] = {"width": 20, "heads": 2, "hidden": 29}
CONTEXT = 13

COMMON: list[dict[str, Any]] = [
    {"norm": "post"},
    {"norm": "pre"},
    {"norm": "post-rms"},
    {"norm": "pre-rms", "feedforward": "swiglu"},
    {"feedforward": "geglu"},
    {"activation": "relu"},
    {"activation": "gelu"},
    {"activation": "gelu-tanh"},
    {"positions": "none"},
    {"positions": "sinusoidal"},
    {"positions": "learned"},
    {"positions": "rotary"},
    {"positions": "rotary-interleaved"},
    {"width": 24, "heads": 4, "key_value_heads": 2},
    {"key_value_heads": 1},
]
TRANSLATION = [*COMMON, {"tied": "output"}, {"tied": "all"}]
LANGUAGE = [
    *COMMON,
    {"tied": False},
    {"positions": "alibi"},
    {"positions": "alibi", "width": 30, "heads": 6},
    {"query_key_norm": True, "norm": "pre-rms"},
    {"query_key_norm": True, "norm": "post", "key_value_heads": 1},
]


def named(settings: dict[str, Any]) -> str:
    return ",".join(map(str, settings.values()))


def translate_task() -> Translate:
    """Source and target have the same words, so that their matrices can be shared."""
    words = Words(known=tuple(f"w{i}" for i in range(43)))
    tokens = Tokens(vocabulary=words)
    return Translate(TranslateState(source=tokens, target=tokens, longest=23))


def translation_model(settings: dict[str, Any]) -> tuple[Translate, Transformer]:
    task = translate_task()
    torch.manual_seed(1)
    config = TransformerConfig(**(WIDTH | {"encoder_depth": 2, "decoder_depth": 3} | settings))
    return task, strong(config.build(task.sizes))


def language_model(settings: dict[str, Any]) -> tuple[Language, LanguageModel]:
    reader = TextCharacters(known="".join(sorted("abcdefghijklmnopqrstuvwxyz .,\n")))
    task = Language(LanguageState(reader=reader, context=CONTEXT, start=1))
    torch.manual_seed(2)
    return task, strong(DecoderOnlyConfig(**(WIDTH | {"depth": 3} | settings)).build(task.sizes), 4)


@torch.no_grad()
def strong(model: Any, factor: float = 2) -> Any:
    """Large random weights, norms and biases: every layer changes the result."""
    for name, parameter in model.named_parameters():
        if parameter.dim() == 2:
            parameter.mul_(factor)
        else:
            parameter.normal_(float("norm.weight" in name), 0.3)
    return deepcopy(model).eval()  # a copy can be exported, too


@pytest.mark.parametrize("settings", TRANSLATION, ids=named)
def test_translations_equal_those_of_the_model_in_a_padded_batch(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    task, model = translation_model(settings)
    write_translation(task, model, tmp_path, "float32")
    engine = TranslationEngine(model, task, tmp_path)
    rows = Ragged.from_rows([torch.randint(1, task.source.begin, (length,)) for length in (3, 5, 11, 7)])
    ours, theirs = (task.decode(one, rows, Search()) for one in (model, engine))
    for (mine,), (other,) in zip(ours, theirs, strict=True):
        assert mine.tokens == other.tokens
        assert other.log_probability == pytest.approx(mine.log_probability, abs=1e-3)


@pytest.mark.parametrize("settings", LANGUAGE, ids=named)
def test_log_probabilities_and_greedy_texts_equal_those_of_the_model(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    task, model = language_model(settings)
    write_language(task, model, tmp_path, "float32")
    engine = LanguageEngine(model, task, tmp_path)
    tokens_BT = torch.randint(2, task.reader.size, (3, CONTEXT))
    with torch.no_grad():
        expected = model(tokens_BT).log_softmax(-1)
    torch.testing.assert_close(engine.log_probabilities(tokens_BT), expected, rtol=1e-4, atol=1e-4)
    # Longer than the context: generation goes on with the second half of it.
    options = LanguageOptions(length=2 * CONTEXT)
    ours, theirs = (list(next_tokens(one, [5, 3, 7], CONTEXT, options)) for one in (model, engine))
    assert [token for token, _ in theirs] == [token for token, _ in ours]
    assert [likely for _, likely in theirs] == pytest.approx([likely for _, likely in ours], abs=1e-3)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"window": 5, "sinks": 1}, "a window"),
        ({"query_key_norm": True}, "query_key_norm in a decoder with a memory"),
        ({"positions": "alibi"}, "alibi positions in an encoder"),
    ],
)
def test_what_ctranslate2_does_not_have_is_refused_by_its_name(
    settings: dict[str, Any], named: str, tmp_path: Path
) -> None:
    task, model = translation_model(settings)
    with pytest.raises(WrongInput, match=f"^ctranslate2 does not support .*{named}; use --to onnx$"):
        write(task, model, dict, tmp_path, "")
    assert not list(tmp_path.iterdir())


def test_other_models_are_refused(language: Run, tmp_path: Path) -> None:
    task = translate_task()
    recurrent = RecurrentConfig(width=8, embedding=8).build(task.sizes)
    with pytest.raises(WrongInput, match="recurrent models"):
        write(task, recurrent, dict, tmp_path, "")
    classifier = torch.nn.Linear(2, 3)
    with pytest.raises(WrongInput, match="translation and language models; use --to onnx"):
        write(language.task, classifier, dict, tmp_path, "")
    assert not list(tmp_path.iterdir())
