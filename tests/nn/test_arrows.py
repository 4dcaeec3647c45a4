"""The arrow line of every public tensor function, compared with the shapes of a real call."""

import inspect
import re
from collections.abc import Callable, Iterator
from functools import partial, update_wrapper
from typing import Any

import pytest
import torch
from support import HIDDEN, B, D, H, K, S, T, must_fail
from torch import Tensor

import limelight.nn
from limelight.nn import (
    AdditiveAttention,
    Alibi,
    BlockConfig,
    CausalCache,
    Decoder,
    DecoderBlock,
    DecoderOnly,
    Dropout,
    Encoder,
    EncoderBlock,
    FastDecoder,
    FastDecoderOnly,
    FeedForward,
    Frequencies,
    GatedFeedForward,
    GridPositions,
    LearnedPositions,
    MultiHeadAttention,
    Packing,
    PatchEmbedding,
    RMSNorm,
    Rotary,
    SinusoidalPositions,
    Tap,
    padding_mask,
    rotation_table,
    scaled_dot,
)
from limelight.nn.blocks import PostNorm, PreNorm

M, Q, A, W, N, V = 13, 17, 19, 23, 31, 37


def shapes_of(side: str) -> list[list[str]]:
    """Of "(B, T|1), (D)": ["B", "T|1"] and ["D"]."""
    return [
        [axis.strip() for axis in shape.split(",") if axis.strip()]
        for shape in re.findall(r"\(([^)]*)\)", side)
    ]


def bind(axes: list[str], shape: torch.Size, sizes: dict[str, int]) -> None:
    """Compares a shape with its axes; the first use of a letter defines its size."""
    if "..." in axes:
        where = axes.index("...")
        # If an axis may be 1, the tensor is a mask, and its leading axes may be 1, too.
        may_be_1 = "|1" if any("|1" in axis for axis in axes) else ""
        lead = [f"...{i}{may_be_1}" for i in range(len(shape) - len(axes) + 1)]
        axes = axes[:where] + lead + axes[where + 1 :]
    assert len(axes) == len(shape), f"{axes} is not {tuple(shape)}"
    for axis, size in zip(axes, shape, strict=True):
        name, _, alternative = axis.partition("|")
        if name.isdigit():
            assert size == int(name), f"{axes} is not {tuple(shape)}"
        elif not (alternative and size == int(alternative)):
            assert sizes.setdefault(name, size) == size, f"{axis} is {sizes[name]}, not {size}"


def check_arrow(function: Callable[..., Any], *arguments: Any) -> None:
    line = (inspect.getdoc(function) or "").splitlines()[0]
    assert "->" in line, f"no arrow line: {line!r}"
    before, after = line.split("->")
    expected, given = shapes_of(before), [a for a in arguments if a is None or isinstance(a, Tensor)]
    assert len(given) == len(expected), f"{line!r} has another number of tensors than the call"
    sizes: dict[str, int] = {}
    for axes, tensor in zip(expected, given, strict=True):
        if tensor is not None:
            bind(axes, tensor.shape, sizes)
    result = function(*arguments)
    results = result if isinstance(result, tuple) else (result,)
    for axes, tensor in zip(shapes_of(after), results, strict=True):
        bind(axes, tensor.shape, sizes)


def floats(*shape: int) -> Tensor:
    return torch.randn(shape)


def mask(*shape: int) -> Tensor:
    return torch.ones(shape, dtype=torch.bool)


def started(decoder: Any) -> Callable[[Tensor], Tensor]:
    cache = decoder.start(floats(B, S, D), capacity=T)

    def step(x: Tensor) -> Tensor:
        return decoder.step(x, cache)

    step.__doc__ = type(decoder).step.__doc__
    return step


def with_doc(function: Callable[..., Any], **named: Any) -> Callable[..., Any]:
    """A partial function that keeps its docstring."""
    return update_wrapper(partial(function, **named), function)


BLOCK = BlockConfig(D, H, HIDDEN)
FAST = FastDecoderOnly(DecoderOnly(2, BLOCK))
PACKING = Packing(padding_mask([5, 2, 3]))

CASES: dict[str, tuple[Any, ...]] = {
    "padding_mask": (limelight.nn.padding_mask, torch.tensor([2, 0, 7])),
    "causal_mask": (limelight.nn.causal_mask, T, 2),
    "dot": (limelight.nn.dot, floats(2, B, T, K), floats(2, B, S, K)),
    "scaled_dot": (limelight.nn.scaled_dot, floats(B, T, K), floats(B, S, K)),
    "additive": (limelight.nn.additive, floats(B, T, A), floats(B, S, A), floats(A)),
    "gaussian": (limelight.nn.gaussian, floats(B, T, K), floats(B, S, K)),
    "masked_softmax": (limelight.nn.masked_softmax, floats(2, B, T, S), mask(2, 1, 1, S)),
    "attention_weights": (limelight.nn.attention_weights, floats(B, T, K), floats(B, S, K), mask(1, T, S)),
    "attend": (limelight.nn.attend, floats(B, T, K), floats(B, S, K), floats(B, S, W), mask(B, 1, S)),
    "pool": (limelight.nn.pool, floats(B, T, K), floats(B, S, K), floats(B, S, W), scaled_dot, mask(B, T, S)),
    "sinusoids": (limelight.nn.sinusoids, T, D),
    "AdditiveAttention.forward": (
        AdditiveAttention(Q, M, A).forward, floats(B, T, Q), floats(B, S, M), mask(B, 1, S),
    ),
    "AdditiveAttention.project": (AdditiveAttention(Q, M, A).project, floats(B, S, M)),
    "AdditiveAttention.score": (AdditiveAttention(Q, M, A).score, floats(B, T, Q), floats(B, S, A)),
    "MultiHeadAttention.forward": (
        MultiHeadAttention(D, H, memory_width=M).forward, floats(B, T, D), floats(B, S, M), mask(1, T, S),
    ),
    "MultiHeadAttention.project": (MultiHeadAttention(D, H, memory_width=M).project, floats(B, S, M)),
    "Tap.forward": (Tap().forward, floats(B, H, T, S)),
    "Packing.take": (PACKING.take, floats(B, T, D)),
    "Packing.pad": (PACKING.pad, floats(10, D)),
    "SinusoidalPositions.forward": (SinusoidalPositions(D).forward, floats(B, T, D)),
    "LearnedPositions.forward": (LearnedPositions(D, S).forward, floats(B, T, D)),
    "GridPositions.forward": (
        with_doc(GridPositions(D, 2, 3).forward, rows=4, columns=3), floats(B, 12, D),
    ),
    "GridPositions.vectors": (GridPositions(D, 2, 3).vectors, 4, 3),
    "dropout": (with_doc(limelight.nn.dropout, share=0.5), floats(2, B, T, K)),
    "Dropout.forward": (Dropout(0.5).forward, floats(B, T, D)),
    "cross_entropy": (
        limelight.nn.cross_entropy, floats(N, D), torch.nn.Linear(D, V), torch.randint(V, (N,)),
    ),
    "FeedForward.forward": (FeedForward(D, HIDDEN).forward, floats(B, T, D)),
    "PostNorm.forward": (PostNorm(torch.nn.LayerNorm(D), 0.0).forward, floats(B, T, D), torch.tanh),
    "PreNorm.forward": (PreNorm(torch.nn.LayerNorm(D), 0.0).forward, floats(B, T, D), torch.tanh),
    "GatedFeedForward.forward": (GatedFeedForward(D, HIDDEN).forward, floats(B, T, D)),
    "RMSNorm.forward": (RMSNorm(D).forward, floats(B, T, D)),
    "Frequencies.of": (Frequencies(factor=2.0).of, 2 * K),
    "rotation_table": (limelight.nn.rotation_table, T, 2 * K),
    "rotate": (limelight.nn.rotate, floats(B, H, T, 2 * K), rotation_table(T, 2 * K)),
    "Rotary.forward": (Rotary(2 * K).forward, floats(B, H, T, 2 * K)),
    "Rotary.rotations": (Rotary(2 * K).rotations, T),
    "alibi_slopes": (limelight.nn.alibi_slopes, H),
    "Alibi.forward": (Alibi(H).forward, T, 2),
    "window_mask": (limelight.nn.window_mask, T, 3, 2),
    "DecoderOnly.forward": (DecoderOnly(2, BLOCK).forward, floats(B, T, D), mask(B, 1, T)),
    "DecoderOnly.step": (
        with_doc(DecoderOnly(2, BLOCK).step, cache=CausalCache(2, T)), floats(B, T, D),
    ),
    "FastDecoderOnly.step": (
        with_doc(FAST.step, cache=FAST.start(floats(B, T, D), capacity=S)[1]), floats(B, D),
    ),
    "EncoderBlock.forward": (EncoderBlock(BLOCK).forward, floats(B, T, D), mask(B, 1, T)),
    "DecoderBlock.forward": (
        DecoderBlock(BLOCK).forward, floats(B, T, D), floats(B, S, D), mask(B, T, T), mask(B, 1, S),
    ),
    "Encoder.forward": (Encoder(2, BLOCK).forward, floats(B, T, D), mask(B, 1, T)),
    "Decoder.forward": (
        Decoder(2, BLOCK).forward, floats(B, T, D), floats(B, S, D), mask(B, 1, T), mask(B, 1, S),
    ),
    "Decoder.step": (started(Decoder(2, BLOCK)), floats(B, T, D)),
    "FastDecoder.step": (started(FastDecoder(Decoder(2, BLOCK))), floats(B, D)),
    "PatchEmbedding.forward": (PatchEmbedding(7, 2, D).forward, floats(B, 7, 6, 10)),
}  # fmt: skip

# Functions with other arguments or results than tensors; each has its own tests.
OTHER = {"Decoder.start", "DecoderOnly.start", "FastDecoderOnly.start", "CausalCache.reorder",
         "FastDecoderOnly.in_eight_bits",
         "FastCache.check_space", "RMSNorm.extra_repr", "Rotary.extra_repr",
         "FastDecoder.start", "FastCache.append", "FastCache.reorder",
         "Cache.append", "Cache.reorder", "DecoderCache.reorder", "KeyValues.reordered",
         "MultiHeadAttention.extra_repr", "Packing.heads", "Tap.buffer", "Tap.watching",
         "Tap.editing"}  # fmt: skip


def public_tensor_functions() -> Iterator[str]:
    for name in [*limelight.nn.__all__, "PostNorm", "PreNorm"]:
        thing = getattr(limelight.nn, name, None) or getattr(limelight.nn.blocks, name)
        if not inspect.isclass(thing):
            yield name
            continue
        for method, function in vars(thing).items():
            if inspect.isfunction(function) and not method.startswith("_"):
                yield f"{name}.{method}"


@pytest.mark.parametrize("name", sorted(set(public_tensor_functions()) - OTHER))
def test_the_arrow_line_is_correct(name: str) -> None:
    check_arrow(*CASES[name])


def test_the_check_catches_a_wrong_arrow_line() -> None:
    def swapped(x: Tensor) -> Tensor:
        """(B, T, D) -> (B, D, T)"""
        return x

    def axis_too_many(x: Tensor) -> Tensor:
        """(B, T) -> (B, T, D)"""
        return x

    def two_sizes_for_one_letter(x: Tensor, y: Tensor) -> Tensor:
        """(B, T, D), (B, T, D) -> (B, T, D)"""
        return x

    def lead_lost(x: Tensor) -> Tensor:
        """(..., D) -> (..., D)"""
        return x[:1]

    def no_arrow(x: Tensor) -> Tensor:
        """The same."""
        return x

    x = floats(B, T, D)
    must_fail(check_arrow, swapped, x)
    must_fail(check_arrow, axis_too_many, x)
    must_fail(check_arrow, two_sizes_for_one_letter, x, floats(B, S, D))
    must_fail(check_arrow, lead_lost, x)
    must_fail(check_arrow, no_arrow, x)


def test_every_exception_to_the_arrow_check_exists() -> None:
    assert set(public_tensor_functions()) >= OTHER
