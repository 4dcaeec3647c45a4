"""The logit lens: the answers after each layer."""

import torch
from support import EXACT, HIDDEN, B, D, H, T
from torch import Tensor, nn

from limelight.nn import BlockConfig, Encoder
from limelight.view.lens import logit_lens


class Model(nn.Module):
    def __init__(self, depth: int) -> None:
        super().__init__()
        self.encoder = Encoder(depth, BlockConfig(D, H, HIDDEN))
        self.output = nn.Linear(D, 7)

    def forward(self, x: Tensor) -> Tensor:
        return self.output(self.encoder(x))


def name(number: int) -> str:
    return f"class {number}"


@torch.no_grad()
def test_each_entry_is_the_answer_of_the_model_without_the_later_layers() -> None:
    model, x = Model(3).eval(), torch.randn(B, T, D)
    found = logit_lens(model, lambda: model(x)[0].softmax(-1), name)
    assert [len(answers) for answers in found] == [T, T, T]
    for count, answers in enumerate(found, 1):
        hidden = x
        for block in list(model.encoder.blocks)[:count]:
            hidden = block(hidden)
        likely = model.output(hidden)[0].softmax(-1)
        assert [one.text for one in answers] == [name(int(i)) for i in likely.argmax(-1)]
        torch.testing.assert_close(torch.tensor([one.probability for one in answers]), likely.amax(-1))


@torch.no_grad()
def test_the_model_is_as_before_also_after_an_error() -> None:
    model, x = Model(3).eval(), torch.randn(B, T, D)
    expected, blocks = model(x), list(model.encoder.blocks)

    def fail() -> Tensor:
        raise ArithmeticError

    try:
        logit_lens(model, fail, name)
    except ArithmeticError:
        pass
    else:
        raise AssertionError
    assert list(model.encoder.blocks) == blocks
    torch.testing.assert_close(model(x), expected, **EXACT)


def test_a_single_layer_and_numbers_have_no_lens() -> None:
    x = torch.randn(B, T, D)
    assert logit_lens(Model(1), lambda: torch.ones(1, 2), name) == ()
    assert logit_lens(Model(2), lambda: torch.ones(0), name) == ()
    assert logit_lens(nn.Linear(D, D), lambda: x, name) == ()
