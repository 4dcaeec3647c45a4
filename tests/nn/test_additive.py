from collections.abc import Callable

import pytest
import torch
from support import EXACT, B, S, T, gradients, must_fail, random_mask
from torch import Tensor

from limelight.nn import AdditiveAttention, padding_mask
from limelight.view import watch

Q, M, A = 11, 13, 17


@pytest.fixture
def attention() -> AdditiveAttention:
    return AdditiveAttention(Q, M, A)


def test_additive_attention_equals_the_formula_of_bahdanau(attention: AdditiveAttention) -> None:
    queries, memory, mask = torch.randn(B, T, Q), torch.randn(B, S, M), random_mask(B, T, S)
    output = attention(queries, memory, mask)
    for b in range(B):
        for t in range(T):
            energies = torch.stack(
                [
                    attention.vector.weight[0]
                    @ (attention.query.weight @ queries[b, t] + attention.memory.weight @ memory[b, s]).tanh()
                    for s in range(S)
                ]
            )
            allowed = mask[b, t]
            context = energies[allowed].softmax(0) @ memory[b, allowed]
            torch.testing.assert_close(output[b, t], context, rtol=1e-5, atol=1e-6)


def test_projected_keys_give_the_same_result_as_the_memory(attention: AdditiveAttention) -> None:
    queries, memory, mask = torch.randn(B, T, Q), torch.randn(B, S, M), padding_mask([7, 2, 4])
    keys = attention.project(memory)
    steps = [attention(queries[:, t : t + 1], memory, mask, keys=keys) for t in range(T)]
    torch.testing.assert_close(torch.cat(steps, 1), attention(queries, memory, mask), rtol=1e-5, atol=1e-6)


def test_the_tap_of_additive_attention_gets_one_head(attention: AdditiveAttention) -> None:
    queries, memory, mask = torch.randn(B, T, Q), torch.randn(B, S, M), padding_mask([7, 2, 4])
    with watch(attention) as seen:
        output = attention(queries, memory, mask)
    (weights,) = seen["weights"]
    assert weights.shape == (B, 1, T, S)
    torch.testing.assert_close(weights[:, 0] @ memory, output)
    torch.testing.assert_close(weights.sum(-1), torch.ones(B, 1, T))
    torch.testing.assert_close(attention(queries, memory, mask), output, **EXACT)


def check_padding(attend: Callable[..., Tensor], lengths: list[int]) -> None:
    queries, mask = torch.randn(B, T, Q), padding_mask(lengths, S)
    memory = torch.randn(B, S, M, requires_grad=True)
    output = attend(queries, memory, mask)
    other = torch.where(mask.transpose(1, 2), memory, 1000.0)
    torch.testing.assert_close(attend(queries, other, mask), output, rtol=0, atol=1e-6)
    (gradient,) = gradients(output, memory)
    assert gradient[~mask[:, 0]].eq(0).all()
    assert gradient[mask[:, 0]].ne(0).all()
    assert output[torch.tensor(lengths) == 0].eq(0).all()


def test_padding_has_no_effect_and_no_gradient(attention: AdditiveAttention) -> None:
    check_padding(attention, [7, 2, 0])
    must_fail(check_padding, lambda queries, memory, mask: attention(queries, memory), [7, 2, 0])


def test_every_parameter_gets_a_gradient(attention: AdditiveAttention) -> None:
    attention(torch.randn(B, T, Q), torch.randn(B, S, M)).square().sum().backward()
    assert all(p.grad is not None and p.grad.ne(0).any() for p in attention.parameters())


def test_invalid_inputs_raise_an_error_that_names_them(attention: AdditiveAttention) -> None:
    with pytest.raises(ValueError, match=r"queries is of shape \(3, 5, 13\); allowed: \(B, T, Q\)"):
        attention(torch.randn(B, T, M), torch.randn(B, S, M))
    with pytest.raises(ValueError, match=r"memory is of shape \(3, 7, 11\); allowed: \(B, S, M\)"):
        attention(torch.randn(B, T, Q), torch.randn(B, S, Q))
    memory = torch.randn(B, S, M)
    with pytest.raises(ValueError, match=r"memory is of shape \(3, 7, 11\)"):
        attention(torch.randn(B, T, Q), torch.randn(B, S, Q), keys=attention.project(memory))
    with pytest.raises(ValueError, match=r"keys is of shape \(3, 5, 17\); allowed: the result of `project`"):
        attention(torch.randn(B, T, Q), memory, keys=attention.project(memory[:, :T]))
    with pytest.raises(ValueError, match="batch size of memory is 1; allowed: 3, that of the queries"):
        attention(torch.randn(B, T, Q), memory[:1])
    with pytest.raises(ValueError, match="width is 0"):
        AdditiveAttention(Q, M, 0)
