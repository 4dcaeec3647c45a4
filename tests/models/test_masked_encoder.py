"""The contract of the masked language model: padding, chosen tokens, tied weights."""

import pytest
import torch
from support import check_same_seed_same_weights, must_fail
from torch import Tensor, nn

from limelight.models.masked_encoder import MaskedEncoderConfig
from limelight.models.sizes import Sizes

B, T, V = 3, 7, 13
SIZES = Sizes(outputs=V, vocabulary=V, longest=T, shared=True)
CONFIG = MaskedEncoderConfig(width=20, heads=2, depth=2, hidden=17)
LENGTHS = torch.tensor([7, 2, 5])


def check_padding(model: nn.Module, tokens: Tensor) -> None:
    whole = model(tokens, LENGTHS)
    for row, length in enumerate(LENGTHS):
        alone = model(tokens[row : row + 1, :length])[0]
        torch.testing.assert_close(whole[row, :length], alone, rtol=1e-5, atol=1e-5)


class IgnoresLengths(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor, lengths: Tensor | None = None) -> Tensor:
        return self.model(tokens)


@torch.no_grad()
def test_padding_has_no_effect_on_real_tokens() -> None:
    model, tokens = CONFIG.build(SIZES).eval(), torch.randint(V, (B, T))
    check_padding(model, tokens)
    must_fail(check_padding, IgnoresLengths(model), tokens)


@torch.no_grad()
def test_the_logits_of_chosen_tokens_are_those_of_the_whole_model() -> None:
    model, tokens = CONFIG.build(SIZES).eval(), torch.randint(V, (B, T))
    chosen = torch.tensor([0, 5, 8, 16])
    some = model.output(model(tokens, LENGTHS, chosen))
    torch.testing.assert_close(some, model(tokens, LENGTHS).flatten(0, 1)[chosen], rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_a_prediction_depends_on_both_sides_and_on_the_order() -> None:
    model, tokens = CONFIG.build(SIZES).eval(), torch.arange(T).unsqueeze(0)
    logits = model(tokens)[0, 3]
    for other in ((0, 9), (6, 9)):
        changed = tokens.clone()
        changed[0, other[0]] = other[1]
        assert not torch.allclose(model(changed)[0, 3], logits, atol=1e-5)
    swapped = tokens[:, [1, 0, 2, 3, 4, 5, 6]]
    assert not torch.allclose(model(swapped)[0, 3], logits, atol=1e-5)


def test_embedding_and_output_layer_share_their_weights_and_every_parameter_gets_a_gradient() -> None:
    model = CONFIG.build(SIZES)
    assert model.output.weight is model.encoder.input.weight
    output = model(torch.randint(V, (B, T)), LENGTHS)
    (output * torch.randn_like(output)).sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert name.endswith("key.bias") or parameter.grad.abs().max() > 1e-7, name


def test_the_same_seed_gives_the_same_weights() -> None:
    check_same_seed_same_weights(lambda: CONFIG.build(SIZES))


@pytest.mark.parametrize(("depth", "words"), [(1, "1 layer"), (2, "2 layers")])
def test_the_summary_names_the_parts(depth: int, words: str) -> None:
    summary = CONFIG.model_copy(update={"depth": depth}).summary
    assert summary == f"masked-encoder: {words}, 2 heads of width 10, pre-norm, rotary positions, tied output"
