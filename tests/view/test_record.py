import pytest
import torch
from support import must_fail
from torch import Tensor

from limelight.view.record import AttentionMap, Record, pack, unpack

SHAPES = [(2, 5, 7), (1, 1, 1), (3, 2, 509), (5, 11, 1)]


def maps(sharpness: float) -> list[Tensor]:
    return [(sharpness * torch.randn(shape)).softmax(-1) for shape in SHAPES]


def check_same(shown: list[Tensor], weights: list[Tensor]) -> None:
    """Each weight to a 255th of its row's largest, each sum to half of that."""
    for got, expected in zip(shown, weights, strict=True):
        step = expected.amax(-1, keepdim=True) / 255 * 1.0001 + 1e-12
        assert ((got - expected).abs() <= step).all()
        assert ((got.sum(-1) - expected.sum(-1)).abs() <= step[..., 0] / 2).all()


@pytest.mark.parametrize("sharpness", [0.0, 1.0, 4.0, 30.0])
def test_unpacked_weights_equal_the_packed_ones_up_to_rounding(sharpness: float) -> None:
    weights = maps(sharpness)
    shown = unpack(pack(weights), SHAPES)
    check_same(shown, weights)
    must_fail(check_same, [one.roll(1, -2) * 0.9 for one in shown], weights)


def test_the_sum_of_many_small_weights_is_preserved() -> None:
    weights = torch.cat((torch.full((1, 1, 1), 0.5), torch.full((1, 1, 509), 0.5 / 509)), -1)
    check_same(unpack(pack([weights]), [(1, 1, 510)]), [weights])
    rounded_down = weights * (weights > 0.01)  # each for itself, all of them would vanish
    must_fail(check_same, [rounded_down], [weights])


def test_masked_weights_stay_exactly_zero() -> None:
    weights = torch.randn(2, 13, 13).masked_fill(torch.ones(13, 13).triu(1).bool(), -torch.inf).softmax(-1)
    weights[1, 4] = 0  # it may attend to nothing
    (shown,) = unpack(pack([weights]), [(2, 13, 13)])
    assert (shown[weights == 0] == 0).all()
    assert (shown > 0).sum() > 100


def test_six_layers_of_eight_heads_and_64_tokens_take_less_than_300_kilobytes() -> None:
    layers = [(2 * torch.randn(8, 64, 64)).softmax(-1) for _ in range(6)]
    assert len(pack(layers)) < 300_000


def test_a_record_and_its_maps_survive_a_json_round_trip() -> None:
    weights = maps(1.0)[:1]
    one = AttentionMap(name="a", part="cross-attention", layer=0, heads=2, queries="target", keys="source")
    sides = {"source": tuple("abcdefg"), "target": tuple("vwxyz")}
    record = Record(name="n", given="g", answer="a", sides=sides, maps=(one,), weights=pack(weights))
    again = Record.model_validate_json(record.model_dump_json())
    assert again == record
    check_same(again.layers(), weights)
