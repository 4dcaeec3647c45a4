"""An exported model that differs from its model is noticed, and no file of it stays."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from limelight.bridge.ctranslate2.language import LanguageEngine, write_language
from limelight.bridge.ctranslate2.translation import TranslationEngine, write_translation
from limelight.bridge.ctranslate2.verify import compare_texts, compare_translations
from limelight.errors import Stopped
from limelight.experiment import Run
from limelight.experiment.exports import export
from limelight.nn.kernels.linear import Linear

DIFFERS = "the exported model differs from the model"


def with_another_weight(model: Any, name: str) -> Any:
    other = deepcopy(model)
    change(other.get_parameter(name))
    return other


@torch.no_grad()
def change(weight: Tensor) -> None:
    weight += 0.3 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(1))


class Changed(Run):
    """A weight changes after the model was written, before it is compared."""

    @property
    def dataset(self) -> Any:
        """The data of the run."""
        change(next(part for part in self.model.modules() if isinstance(part, Linear)).weight)
        return super().dataset


def test_equal_models_are_verified(translation: Run, language: Run, tmp_path: Path) -> None:
    notes = [
        (export(run, "ctranslate2", tmp_path / name) / "export.json").read_text()
        for name, run in (("translation", translation), ("language", language))
    ]
    assert "greedy translations of the validation split are equal" in notes[0]
    assert "log-probabilities of the validation split agree; 20 of 20 greedy continuations" in notes[1]


@pytest.mark.parametrize(
    "name",
    [
        "source_embedding.weight",
        "encoder.blocks.0.feedforward_residual.norm.weight",
        "decoder.blocks.1.cross_attention.key.weight",
        "output.bias",
    ],
)
def test_a_translation_model_with_another_weight_is_noticed(
    name: str, translation: Run, tmp_path: Path
) -> None:
    task: Any = translation.task
    model: Any = translation.model
    write_translation(task, with_another_weight(model, name), tmp_path, "float32")
    with pytest.raises(Stopped, match=DIFFERS):
        compare_translations(task, model, TranslationEngine(model, task, tmp_path), translation.dataset)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["embedding.weight", "decoder.blocks.1.self_attention.value.weight"])
def test_a_language_model_with_another_weight_is_noticed(name: str, language: Run, tmp_path: Path) -> None:
    task: Any = language.task
    model: Any = language.model
    write_language(task, with_another_weight(model, name), tmp_path, "float32")
    with pytest.raises(Stopped, match=DIFFERS):
        compare_texts(task, model, LanguageEngine(model, task, tmp_path), language.dataset)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["translation", "language"])
def test_no_file_of_a_different_model_stays(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    run: Run = request.getfixturevalue(kind)
    with pytest.raises(Stopped, match=DIFFERS):
        export(Changed(run.path, run.device), "ctranslate2", tmp_path / "exported")
    assert not list(tmp_path.iterdir())
