"""The summary of a model config: one line about the network that it builds."""

from typing import Any

import pytest

from limelight.models.classifier import ClassifierConfig
from limelight.models.labeller import LabellerConfig
from limelight.models.recurrent import RecurrentConfig
from limelight.models.transformer import TransformerConfig
from limelight.models.vit import ViTConfig

SUMMARIES: dict[str, Any] = {
    "labeller: 1 layer, 1 head of width 32, pre-norm, sinusoidal positions": LabellerConfig(norm="pre"),
    "labeller: 2 layers, 3 heads of width 4, post-norm, no positions": LabellerConfig(
        depth=2, width=12, heads=3, positions="none"
    ),
    "classifier: 1 layer, 2 heads of width 16, post-norm, learned positions, class-token pooling": (
        ClassifierConfig(heads=2, positions="learned", pooling="class-token")
    ),
    "classifier: 1 layer, 1 head of width 32, post-norm, no positions, mean pooling, linear path": (
        ClassifierConfig(positions="none", linear=3.0)
    ),
    "transformer: 2 + 3 layers, 4 heads of width 8, post-norm, sinusoidal positions": TransformerConfig(
        decoder_depth=3, heads=4
    ),
    "transformer: 1 + 1 layers, 1 head of width 32, pre-norm, learned positions, tied output": (
        TransformerConfig(encoder_depth=1, decoder_depth=1, norm="pre", positions="learned", tied="output")
    ),
    "transformer: 2 + 2 layers, 1 head of width 32, post-norm, sinusoidal positions, tied embeddings": (
        TransformerConfig(tied="all")
    ),
    "recurrent: 1 layer, width 256, both directions, additive attention": RecurrentConfig(),
    "recurrent: 2 layers, width 19, one direction, additive attention": RecurrentConfig(
        depth=2, width=19, bidirectional=False
    ),
    "vit: 6 layers, 1 head of width 32, pre-norm, learned positions, class-token pooling": ViTConfig(),
    "vit: 1 layer, 1 head of width 32, post-norm, sinusoidal positions, mean pooling": ViTConfig(
        depth=1, norm="post", positions="sinusoidal", pooling="mean"
    ),
}


@pytest.mark.parametrize("summary", SUMMARIES)
def test_a_summary_names_kind_depth_heads_norm_and_positions(summary: str) -> None:
    assert SUMMARIES[summary].summary == summary


@pytest.mark.parametrize("config", dict.fromkeys(type(config) for config in SUMMARIES.values()))
def test_every_setting_has_a_description(config: Any) -> None:
    for name, field in config.model_fields.items():
        assert field.description, f"{config.__name__}.{name}"
