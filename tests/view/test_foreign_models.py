"""`capture` of models that were not written for this library: all layers, heads and weights are found."""

import gc
import sys
from collections.abc import Callable, Iterator
from copy import deepcopy
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest
import torch
from support import EXACT, HIDDEN, MANY, B, D, H, S, T, must_fail
from torch import Tensor, nn
from view import foreign
from view.foreign import Softmaxes

from limelight.errors import WrongInput
from limelight.view import Capture, capture

ORIGINALS = Path(__file__).parent.parent / "check" / "originals"
V = 31

Expected = list[tuple[str, str, int]]  # name, role and number of heads of each attention


def original(name: str) -> Any:
    """A module of tests/check/originals: attention as it is written in courses and repositories."""
    sys.path.insert(0, str(ORIGINALS))
    try:
        return import_module(name)
    finally:
        sys.path.remove(str(ORIGINALS))


def x(*shape: int) -> Tensor:
    return torch.randn(*(shape or (B, T, D)))


def memory() -> Tensor:
    return x(B, S, D)


def ids(length: int = T) -> Tensor:
    return torch.randint(1, V, (B, length))


class Case(NamedTuple):
    """A model with its inputs, and what is expected."""

    model: nn.Module
    inputs: tuple[Any, ...]
    expected: Expected
    arrange: Callable[[Tensor], Tensor] = lambda weights: weights  # of a softmax, to (B, ..., T, S)


def layers(name: str, count: int = 2, role: str = "self", heads: int = H) -> Expected:
    return [(name.format(layer), role, heads) for layer in range(count)]


def both(first: str, second: str, count: int = 2) -> Expected:
    """The self-attention and the cross-attention of each layer of a decoder."""
    return [
        one
        for layer in range(count)
        for one in ((first.format(layer), "self", H), (second.format(layer), "cross", H))
    ]


def annotated() -> Case:
    style = original("annotated_style")
    model = style.make_model(V, V, N=2, d_model=D, d_ff=HIDDEN, h=H)
    masks = torch.ones(B, 1, S, dtype=torch.bool), style.subsequent_mask(T)
    encoder = layers("encoder.layers.{}.self_attn")
    decoder = both("decoder.layers.{}.self_attn", "decoder.layers.{}.src_attn")
    return Case(model, (ids(S), ids(), *masks), encoder + decoder)


def lecture() -> Case:
    style = original("constants_style")
    return Case(style.LectureGPT(), (ids(),), layers("blocks.{}.sa.heads", style.n_layer, heads=style.n_head))


def d2l() -> Case:
    model = original("d2l_style").TransformerEncoder(V, D, HIDDEN, H, 2, 0.1)
    return Case(model, (ids(), torch.tensor([5, 3, 1])), layers("blks.{}.attention.attention"))


def uva() -> Case:
    model = original("uva_style").TransformerEncoder(2, input_dim=D, num_heads=H, dim_feedforward=HIDDEN)
    return Case(model, (x(),), layers("layers.{}.self_attn"))


def config() -> Case:
    style = original("config_style")
    model = style.MultiHeadAttention(D, D, 16, 0.0, H)
    return Case(model, (x(),), [("", "self", H)])


def plain_gpt() -> Case:
    style = original("plain_style")
    model = style.GPT(style.GPTConfig(n_head=4))
    return Case(model, (ids(),), layers("h.{}.attn", heads=4))


def of_course(name: str, *arguments: int) -> Any:
    return getattr(original("course_style"), name)(*arguments)


CASES: dict[str, Callable[[], Case]] = {
    "annotated": annotated,
    "lecture": lecture,
    "d2l": d2l,
    "uva": uva,
    "config": config,
    "plain gpt": plain_gpt,
    "bahdanau": lambda: Case(
        of_course("BahdanauAttention", D, D, 13), (x(B, D), memory()), [("", "cross", 1)]
    ),
    "recurrent": lambda: Case(
        of_course("RecurrentDecoder", V, 9, D), (ids(), memory(), x(B, D)), [("attention", "cross", 1)]
    ),
    "luong": lambda: Case(
        of_course("LuongDecoder", V, 9, D), (ids(), x(1, B, D), memory()), [("", "cross", 1)]
    ),
    "decoder block": lambda: Case(
        of_course("BlocDecodeur", D, H, HIDDEN),
        (x(), memory()),
        [("soi", "self", H), ("croisee", "cross", H)],
    ),
    "layer of torch style": lambda: Case(
        original("torch_style").MultiheadAttention(D, H), (x(), *[memory()] * 2), [("", "cross", H)]
    ),
    "einsum": lambda: Case(foreign.Einsum(), (x(), memory()), [("", "cross", H)]),
    "heads of the input": lambda: Case(foreign.HeadsOfTheInput(), (x(),), [("", "self", H)]),
    "heads in the batch": lambda: Case(
        foreign.HeadsInTheBatch(),
        (x(),),
        [("", "self", H)],
        lambda weights: weights.unflatten(0, (H, B)).transpose(0, 1),
    ),
    "keys first": lambda: Case(
        foreign.KeysFirst(), (x(), memory()), [("", "cross", H)], lambda weights: weights.mT
    ),
    "written out": lambda: Case(foreign.WrittenOut(), (x(),), [("", "self", H)]),
    "log-sum-exp": lambda: Case(foreign.LogSumExp(), (x(),), [("", "self", H)]),
    "heads in a loop": lambda: Case(foreign.OneProjection(), (x(),), [("", "self", H)]),
    "grouped": lambda: Case(foreign.Grouped(repeat=True), (x(),), [("", "self", 6)]),
    "grouped, fused": lambda: Case(foreign.Grouped(repeat=False), (x(),), [("", "self", 6)]),
    "multi-query": lambda: Case(foreign.MultiQuery(), (x(),), [("", "self", H)]),
    "talking heads": lambda: Case(foreign.TalkingHeads(), (x(),), [("", "self", H)]),
    "weighted sum": lambda: Case(foreign.WeightedSum(), (x(),), [("", "cross", 1)]),
    "learned queries": lambda: Case(foreign.LearnedQueries(), (x(),), [("", "cross", 1)]),
    "modules of softmax and dropout": lambda: Case(foreign.InnerSoftmax(), (x(),), [("", "self", H)]),
}


def check(case: Case, found: Capture) -> None:
    """Whether all attentions were found, with the weights that the model computed."""
    assert [(one.name, one.role, one.weights.shape[1]) for one in found.attentions] == case.expected
    softmaxes = Softmaxes()
    with torch.no_grad(), softmaxes:
        case.model(*case.inputs)
    own = getattr(case.model, "attention_weights", None)  # of a softmax that is not one of torch's
    computed = iter([own] if own is not None else map(case.arrange, softmaxes.weights))
    for attention in found.attentions:
        expected = arranged(attention.weights.shape, computed)
        torch.testing.assert_close(attention.weights, expected, rtol=0.0, atol=1e-5)
    assert next(computed, None) is None


def arranged(shape: torch.Size, computed: Iterator[Tensor]) -> Tensor:
    """(B, H, T, S), from one softmax, or from one per head or per step of a recurrent decoder"""
    batch, heads, length, size = shape
    pieces = list[Tensor]()
    while sum(piece.numel() for piece in pieces) < shape.numel():
        piece = next(computed)
        rows = piece.numel() // (batch * size)
        pieces.append(piece.reshape(batch, -1, rows if heads == 1 else length, size))
    return torch.cat(pieces, 2 if heads == 1 else 1)


def assert_same_output(after: Any, before: Any) -> None:
    if isinstance(before, Tensor):
        torch.testing.assert_close(after, before, **EXACT)
    elif isinstance(before, (list, tuple)):
        for one, other in zip(after, before, strict=True):
            assert_same_output(one, other)


@pytest.mark.parametrize("name", CASES)
def test_every_layer_and_head_of_a_handwritten_model_is_found_and_its_output_is_unchanged(name: str) -> None:
    torch.manual_seed(1)
    case = CASES[name]()
    case.model.eval()
    expected = case.model(*case.inputs)
    found = capture(case.model, *case.inputs)
    check(case, found)
    assert_same_output(found.output, expected)


def test_the_check_notices_swapped_heads_and_a_missing_layer() -> None:
    case = CASES["annotated"]()
    found = capture(case.model.eval(), *case.inputs)
    swapped = [replaced(one, one.weights.flip(1)) for one in found.attentions]
    must_fail(check, case, Capture(None, tuple(swapped)))
    must_fail(check, case, Capture(None, found.attentions[1:]))


def replaced(attention: Any, weights: Tensor) -> Any:
    return type(attention)(attention.name, attention.role, weights)


# torch.nn


def explicit_weights(model: nn.Module, *inputs: Tensor, **masks: Any) -> list[Tensor]:
    """The weights that each nn.MultiheadAttention returns when it is asked for those of every head."""
    found = list[Tensor]()

    def ask(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return args, kwargs | {"need_weights": True, "average_attn_weights": False}

    def keep(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        found.append(output[1].detach())

    twin = deepcopy(model)
    for part in twin.modules():
        if isinstance(part, nn.MultiheadAttention):
            part.register_forward_pre_hook(ask, with_kwargs=True)
            part.register_forward_hook(keep)
    twin(*inputs, **masks)
    return found


PADDING = torch.arange(T) >= torch.tensor([[5], [3], [1]])
CAUSAL = nn.Transformer.generate_square_subsequent_mask(T)
MASKS: dict[str, dict[str, Any]] = {
    "no mask": {},
    "padding": {"src_key_padding_mask": PADDING},
    "causal": {"mask": CAUSAL, "is_causal": True},
    "both": {"mask": CAUSAL, "src_key_padding_mask": torch.zeros(B, T).masked_fill(PADDING, -torch.inf)},
}
GRAD = pytest.mark.parametrize("grad", [True, False], ids=["with gradients", "fast path"])


def encoder(*, nested: bool = True, batch_first: bool = True, norm_first: bool = False) -> nn.Module:
    layer = nn.TransformerEncoderLayer(D, H, HIDDEN, batch_first=batch_first, norm_first=norm_first)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=nested and not norm_first).eval()


# torch warns of its prototype of nested tensors, and of layers that cannot use them.
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors", "ignore:enable_nested_tensor is True")
@GRAD
@pytest.mark.parametrize("masks", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("kind", ["nested", "padded", "norm first", "sequence first"])
def test_an_encoder_of_torch(kind: str, masks: dict[str, Any], grad: bool) -> None:
    model = encoder(
        nested=kind == "nested", batch_first=kind != "sequence first", norm_first=kind == "norm first"
    )
    given = x(T, B, D) if kind == "sequence first" else x()
    expected = explicit_weights(model, given, **masks)
    with torch.set_grad_enabled(grad):
        before = model(given, **masks)
        found = capture(model, given, **masks)
    torch.testing.assert_close(found.output, before, **EXACT)
    assert [one.name for one in found.attentions] == ["layers.0.self_attn", "layers.1.self_attn"]
    assert [one.causal for one in found.attentions] == ["mask" in masks] * 2
    for one, weights in zip(found.attentions, expected, strict=True):
        # The fast path does not compute padded queries.
        real = ~PADDING[:, None, :, None] if "src_key_padding_mask" in masks else True
        torch.testing.assert_close(one.weights * real, weights * real, rtol=0.0, atol=1e-5)


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
@GRAD
@pytest.mark.parametrize("batch_first", [True, False])
def test_an_encoder_decoder_of_torch(batch_first: bool, grad: bool) -> None:
    model = nn.Transformer(D, H, 2, 1, HIDDEN, batch_first=batch_first).eval()
    source, target = (memory(), x()) if batch_first else (x(S, B, D), x(T, B, D))
    expected = explicit_weights(model, source, target, tgt_mask=CAUSAL)
    with torch.set_grad_enabled(grad):
        found = capture(model, source, target, tgt_mask=CAUSAL)
        torch.testing.assert_close(found.output, model(source, target, tgt_mask=CAUSAL), **EXACT)
    assert [(one.name, one.role, one.causal) for one in found.attentions] == [
        ("encoder.layers.0.self_attn", "self", False),
        ("encoder.layers.1.self_attn", "self", False),
        ("decoder.layers.0.self_attn", "self", True),
        ("decoder.layers.0.multihead_attn", "cross", False),
    ]
    for one, weights in zip(found.attentions, expected, strict=True):
        torch.testing.assert_close(one.weights, weights, rtol=0.0, atol=1e-5)


@GRAD
@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("batch_first", [True, False])
def test_multihead_attention_of_torch(batch_first: bool, need_weights: bool, grad: bool) -> None:
    model = nn.MultiheadAttention(D, H, batch_first=batch_first).eval()
    given, other = (x(), memory()) if batch_first else (x(T, B, D), x(S, B, D))
    for keys in (given, other):
        (expected,) = explicit_weights(model, given, keys, keys)
        with torch.set_grad_enabled(grad):
            (one,) = capture(model, given, keys, keys, need_weights=need_weights).attentions
        assert (one.name, one.role) == ("", "self" if keys is given else "cross")
        torch.testing.assert_close(one.weights, expected, rtol=0.0, atol=1e-5)


# What is kept, and what is not attention


def test_other_softmaxes_are_not_attention() -> None:
    found = capture(foreign.Classifier(), x())
    assert [one.name for one in found.attentions] == ["attention"]


def test_weights_that_are_never_computed_as_a_whole_are_named() -> None:
    class Model(nn.Sequential):
        pass

    found = capture(Model(foreign.InnerSoftmax(), foreign.Chunked()), x())
    assert [one.name for one in found.attentions] == ["0"]
    assert found.missing == ("1",)


def test_a_softmax_over_products_that_is_not_used_as_a_whole_is_named() -> None:
    class Windows(foreign.Projections):
        def forward(self, x: Tensor) -> Tensor:
            weights = (self.q(x) @ self.k(x).mT).softmax(-1)
            return torch.stack([weights[:, i : i + 1, :2] @ self.v(x)[:, :2] for i in range(x.shape[1])], 1)

    found = capture(nn.Sequential(foreign.InnerSoftmax(), Windows()), x())
    assert found.missing == ("1",)


def test_dropout_does_not_change_the_captured_weights() -> None:
    model = foreign.InnerSoftmax().train()
    given = x()
    model.drop.inplace = True
    found = capture(model, given)
    torch.testing.assert_close(
        found.attentions[0].weights, capture(model.eval(), given).attentions[0].weights
    )


def test_only_the_chosen_layers_and_heads_are_kept() -> None:
    model, given = encoder(), x()
    every = capture(model, given).attentions
    by_number = capture(model, given, layers=[1], heads=[1]).attentions
    by_name = capture(model, given, layers=["layers.1"]).attentions
    assert [one.name for one in (*by_number, *by_name)] == ["layers.1.self_attn"] * 2
    torch.testing.assert_close(by_number[0].weights, every[1].weights[:, 1:], **EXACT)
    torch.testing.assert_close(by_name[0].weights, every[1].weights, **EXACT)


def test_no_other_maps_are_kept_while_the_model_runs() -> None:
    model = nn.Sequential(*(foreign.InnerSoftmax() for _ in range(5)))

    def alive() -> int:
        gc.collect()
        return sum(type(one) is Tensor and one.shape[-2:] == (MANY, MANY) for one in gc.get_objects())

    counts = list[int]()
    model[4].register_forward_pre_hook(lambda *_: counts.append(alive()))
    given = x(B, MANY, D)
    with torch.no_grad():
        before = alive()
        capture(model, given, layers=[0])
        capture(model, given, layers=[4])
        capture(model, given)
    assert [count - before for count in counts] == [1, 0, 4]


def test_heads_that_are_computed_one_by_one_can_be_chosen() -> None:
    model, given = foreign.OneProjection(), x()
    every = capture(model, given).attentions[0].weights
    torch.testing.assert_close(capture(model, given, heads=[1]).attentions[0].weights, every[:, 1:], **EXACT)


def test_a_module_that_is_used_twice_has_two_maps() -> None:
    layer = foreign.InnerSoftmax()
    found = capture(nn.Sequential(layer, nn.ReLU(), layer), x())
    assert [one.name for one in found.attentions] == ["0", "0 (2)"]


def test_a_compiled_model_is_captured_by_calling_the_model_that_it_was_compiled_from() -> None:
    model = encoder()
    found = capture(cast(nn.Module, torch.compile(model, backend="eager")), x())
    assert [one.name for one in found.attentions] == ["layers.0.self_attn", "layers.1.self_attn"]


def test_a_model_without_attention_is_refused() -> None:
    with pytest.raises(WrongInput, match="a Linear in which no attention was found"):
        capture(nn.Linear(D, D), x())


def test_nothing_stays_behind_after_an_error_in_the_model() -> None:
    model = encoder()
    with pytest.raises(AssertionError, match="embedding dimension"):
        capture(model, x(B, T, D + 1))
    assert not nn.modules.module._global_forward_hooks
    assert not nn.modules.module._global_forward_pre_hooks
    assert len(capture(model, x()).attentions) == 2


def test_gradients_are_those_of_an_ordinary_call() -> None:
    model, given = foreign.InnerSoftmax().eval(), x().requires_grad_()
    (expected,) = torch.autograd.grad(model(given).sum(), given)
    (found,) = torch.autograd.grad(capture(model, given).output.sum(), given)
    torch.testing.assert_close(found, expected, **EXACT)
