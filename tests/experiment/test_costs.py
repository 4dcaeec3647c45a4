"""Multiply-adds, compared with the FLOP counter of torch and with formulas.

Sizes are distinct primes. Lengths sum to multiples of the batch size, so that costs per sequence are whole
numbers.
"""

from math import prod
from typing import Any

import pytest
import torch
from support import HIDDEN, B, D, H, S, T, must_fail
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from limelight.experiment.explain import Layer, explain
from limelight.models.classifier import ClassifierConfig
from limelight.models.labeller import LabellerConfig
from limelight.models.recurrent import RecurrentConfig
from limelight.models.sizes import Sizes
from limelight.models.transformer import TransformerConfig
from limelight.nn import AdditiveAttention, BlockConfig, Decoder, padding_mask
from limelight.view import watch

V, L, W, E = 13, 17, 19, 23
SIZES = Sizes(outputs=L, vocabulary=V, longest=S)
SHARED = Sizes(outputs=V, vocabulary=V, longest=S, shared=True)
SHAPE: dict[str, Any] = {"width": D, "heads": H, "hidden": HIDDEN}
POOLINGS = ("mean", "max", "class-token", "attention")
CONFIGS = {
    "labeller": LabellerConfig(**SHAPE, depth=2),
    "pre-norm": LabellerConfig(**SHAPE, depth=2, norm="pre", positions="none", dropout=0.1),
    **{
        pooling: ClassifierConfig(**SHAPE | {"pooling": pooling}, positions="learned") for pooling in POOLINGS
    },
}
TRANSLATORS: dict[str, Any] = {
    "transformer": TransformerConfig(**SHAPE, encoder_depth=1),
    "pre-norm": TransformerConfig(**SHAPE, norm="pre", positions="learned", dropout=0.1, tied="output"),
    "tied": TransformerConfig(**SHAPE, decoder_depth=1, tied="all"),
    "recurrent": RecurrentConfig(width=W, embedding=E, depth=2, dropout=0.1),
    "one direction": RecurrentConfig(width=W, embedding=E, bidirectional=False),
}
LENGTHS, TARGET_LENGTHS = torch.tensor([S, 3, 2]), torch.tensor([3, T, 1])
REAL, TARGET_REAL = 12 // B, 9 // B  # tokens per sequence
RAGGED = pytest.mark.parametrize("ragged", [False, True], ids=["whole", "padded"])
# The counter of torch omits matrix-vector products, with which additive attention computes its scores.
TIMES_VECTOR = {torch.ops.aten.mv: lambda matrix, vector, **_: 2 * prod(matrix)}


def ids(*, ragged: bool) -> tuple[Tensor | None, ...]:
    return torch.randint(V, (B, S)), LENGTHS if ragged else None


def pairs(*, ragged: bool) -> tuple[Tensor | None, ...]:
    lengths = (LENGTHS, TARGET_LENGTHS) if ragged else (None, None)
    return torch.randint(V, (B, S)), torch.randint(V, (B, T)), *lengths


def check_cost(layers: list[Layer], model: nn.Module, *inputs: Tensor | None) -> None:
    """Compare with the count of torch; watched, because it does not count the fused kernel on CPUs."""
    with watch(model), FlopCounterMode(display=False, custom_mapping=TIMES_VECTOR) as counter:
        model.eval()(*inputs)
    assert 2 * B * sum(layer.cost for layer in layers) == counter.get_total_flops()


def check_all_costs(model: nn.Module, *inputs: Tensor | None) -> None:
    """Compare the total, and verify that no layer can be omitted."""
    layers = explain(model, *inputs)
    check_cost(layers, model, *inputs)
    for layer in (layer for layer in layers if layer.cost):
        must_fail(check_cost, [other for other in layers if other is not layer], model, *inputs)


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
@RAGGED
def test_the_cost_of_a_model_equals_the_flop_count_of_torch(config: Any, ragged: bool) -> None:
    check_all_costs(config.build(SIZES), *ids(ragged=ragged))


@pytest.mark.parametrize("config", TRANSLATORS.values(), ids=TRANSLATORS)
@RAGGED
def test_the_cost_of_a_translation_model_equals_the_flop_count_of_torch(config: Any, ragged: bool) -> None:
    check_all_costs(config.build(SHARED), *pairs(ragged=ragged))


class CrossAttending(nn.Module):
    """A decoder whose memory and target have different lengths."""

    def __init__(self) -> None:
        super().__init__()
        self.decoder = Decoder(1, BlockConfig(D, H, HIDDEN))

    def forward(self, memory: Tensor, lengths: Tensor | None) -> Tensor:
        mask = None if lengths is None else padding_mask(lengths, memory.shape[1])
        return self.decoder(torch.randn(B, T, D), memory, memory_mask=mask)


@RAGGED
def test_the_cost_of_cross_attention_depends_on_both_lengths(ragged: bool) -> None:
    inputs = torch.randn(B, S, D), LENGTHS if ragged else None
    check_all_costs(CrossAttending(), *inputs)
    cross = next(
        layer for layer in explain(CrossAttending(), *inputs) if layer.name.endswith("cross_attention")
    )
    assert cross.cost == 2 * T * D * D + 2 * (REAL if ragged else S) * D * D + 2 * T * S * D
    assert cross.inputs == ((B, T, D), (B * REAL, D) if ragged else (B, S, D))


def check_transformer(layers: list[Layer]) -> None:
    """Projections of real tokens; scores and weighted sums with padding."""
    costs = {layer.name: layer.cost for layer in layers}
    block, mixed = "decoder.blocks.1.", 2 * D * T
    assert costs["encoder.blocks.0.self_attention"] == 4 * REAL * D * D + 2 * D * S * S
    assert costs[block + "self_attention"] == 4 * TARGET_REAL * D * D + mixed * T
    assert costs[block + "cross_attention"] == 2 * (TARGET_REAL + REAL) * D * D + mixed * S
    assert costs[block + "feedforward.expand"] == TARGET_REAL * D * HIDDEN
    assert costs["output"] == TARGET_REAL * D * L
    assert costs["source_embedding"] == costs["target_positions"] == 0


def test_the_cost_of_a_transformer_equals_its_formula() -> None:
    model = TRANSLATORS["transformer"].build(SIZES)
    check_transformer(explain(model, *pairs(ragged=True)))
    must_fail(check_transformer, explain(model, *pairs(ragged=False)))


def check_recurrent(layers: list[Layer]) -> None:
    """Two layers; the second of the encoder reads both directions. Each step of the decoder is a call."""
    costs = {layer.name: layer.cost for layer in layers if layer.cost}
    assert costs == {
        "encoder": REAL * 2 * 3 * W * ((E + W) + (2 * W + W)),
        "bridge": 2 * (2 * W) * W,
        "attention.memory": S * (2 * W) * W,
        "attention.query": T * W * W,
        "attention": T * S * W + T * S * (2 * W),
        "decoder": T * 3 * W * ((E + 2 * W + W) + (W + W)),
        "mixture": TARGET_REAL * (W + 2 * W + E) * E,
        "output": TARGET_REAL * E * L,
    }


def test_the_cost_of_a_recurrent_model_equals_its_formula() -> None:
    model = TRANSLATORS["recurrent"].build(SIZES)
    check_recurrent(explain(model, *pairs(ragged=True)))
    must_fail(check_recurrent, explain(model, *pairs(ragged=False)))


class KeywordCall(nn.Module):
    """All queries in one call, with keyword arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = AdditiveAttention(D, W, E)

    def forward(self, memory: Tensor) -> Tensor:
        return self.attention(queries=torch.randn(B, T, D), memory=memory)


def test_the_cost_of_additive_attention_is_the_same_with_keyword_arguments() -> None:
    memory = torch.randn(B, S, W)
    check_all_costs(KeywordCall(), memory)
    costs = {layer.name: layer.cost for layer in explain(KeywordCall(), memory)}
    assert costs == {
        "attention.memory": S * W * E,
        "attention.query": T * D * E,
        "attention": T * S * E + T * S * W,
    }
