"""A record of one input: the answer of a model and all of its attention maps, small enough for a page."""

import base64
import io
import zlib
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
import torch
from PIL import Image
from pydantic import Field
from torch import Tensor

from limelight.config import Config
from limelight.view.collect import Attention

STEPS = 255  # of a byte, from zero to the largest weight of a row
MOST_CANDIDATES = 5  # per position
MOST_VARIANTS = 48  # heads that can be switched off in a saved page, counted for each record
LARGEST_VARIANTS = 1_500_000  # bytes of their weights


class AttentionMap(Config):
    """One attention module; the weights of all maps are concatenated in the record."""

    name: str = Field(description="the attention module in the model")
    part: str = Field(description="where it is: encoder, decoder, cross-attention, pooling")
    layer: int = Field(description="its number within the part, from 0")
    heads: int = Field(description="its number of heads")
    queries: str = Field(description="the side of the record whose tokens are the queries")
    keys: str = Field(description="the side of the record whose tokens are the keys")


class Candidate(Config):
    """A possible answer, or a possible token, with its probability."""

    text: str = Field(description="the answer or token")
    probability: float = Field(description="its probability")


class Picture(Config):
    """An image and its grid of patches."""

    png: str = Field(description="the image as a PNG file in base64")
    rows: int = Field(description="rows of patches")
    columns: int = Field(description="columns of patches")
    first: int = Field(description="number of tokens before the first patch")

    @staticmethod
    def of(pixels: Tensor, patch: int, first: int) -> "Picture":
        """(C, Y, X) of bytes, in patches of `patch` × `patch` pixels after `first` other tokens"""
        stream = io.BytesIO()
        Image.fromarray(pixels.permute(1, 2, 0).squeeze(-1).cpu().numpy()).save(stream, "png")
        png = base64.b64encode(stream.getvalue()).decode()
        rows, columns = (size // patch for size in pixels.shape[1:])
        return Picture(png=png, rows=rows, columns=columns, first=first)

    @property
    def pixels(self) -> Tensor:
        """-> (C, Y, X)"""
        array = np.array(Image.open(io.BytesIO(base64.b64decode(self.png))))
        return torch.from_numpy(array if array.ndim == 3 else array[..., None]).permute(2, 0, 1)


class Continuation(Config):
    """How the text of a language model can go on.

    At a temperature, the probability of a candidate is (p / largest p)^(1 / temperature) / total, where p is
    its probability in `steps`.
    """

    tokens: tuple[int, ...] = Field(description="ids of the tokens that were added to the typed text")
    ended: bool = Field(description="whether the last of them ends the document")
    room: int = Field(description="number of tokens that can still be added")
    choices: tuple[int, ...] = Field(description="ids of the candidates after the last token")
    temperatures: tuple[float, ...] = Field(description="the temperatures of the totals")
    totals: tuple[tuple[float, ...], ...] = Field(
        description="per token: the sum of (p / largest p)^(1 / temperature) over all tokens"
    )


class VariantRecord(Config):
    """What a record becomes if a head is switched off."""

    answer: str = Field(description="the prediction")
    probability: float | None = Field(None, description="probability of the prediction; none for a number")
    right: bool | None = Field(None, description="whether the prediction is correct, where that is defined")
    sides: dict[str, tuple[str, ...]] = Field(description="tokens by side")
    weights: str = Field(description="the weights of all maps")
    candidates: tuple[Candidate, ...] = Field((), description="other answers")
    steps: tuple[tuple[Candidate, ...], ...] = Field((), description="candidates per token")


class Variant(Config):
    """The result without one head, so that a saved page can switch it off."""

    map: int = Field(description="the index of the map")
    head: int = Field(description="the head that is switched off")
    record: VariantRecord = Field(description="the fields of the record that differ")

    @staticmethod
    def of(number: int, head: int, record: "Record") -> "Variant":
        """The variant for the record without a head of the map with this number."""
        fields = {name: getattr(record, name) for name in VariantRecord.model_fields}
        return Variant(map=number, head=head, record=VariantRecord(**fields))


class Record(Config):
    """One input, its answer, and every attention map. Pages read it as JSON."""

    version: Literal[1] = Field(1, description="version of this format")
    name: str = Field("", description="name of the experiment")
    given: str = Field(description="the input")
    answer: str = Field(description="the prediction")
    probability: float | None = Field(None, description="probability of the prediction; none for a number")
    truth: str | None = Field(None, description="the correct answer, where it is known")
    right: bool | None = Field(None, description="whether the prediction is correct, where that is defined")
    sides: dict[str, tuple[str, ...]] = Field(description="tokens by side: source, target, ...")
    maps: tuple[AttentionMap, ...] = Field(description="the attention maps")
    weights: str = Field(description="the weights of all maps, packed by `pack`")
    candidates: tuple[Candidate, ...] = Field((), description="other answers: classes, or beams")
    steps: tuple[tuple[Candidate, ...], ...] = Field((), description="candidates per token of `stepped`")
    stepped: str = Field("", description="the side that was predicted token by token")
    image: Picture | None = Field(None, description="the input, where it is an image")
    continuation: Continuation | None = Field(None, description="of a language model: how the text can go on")
    lens: tuple[tuple[Candidate, ...], ...] = Field(
        (), description="the most likely answers after each layer: one, or one per step"
    )
    variants: tuple[Variant, ...] = Field((), description="the results without one head each")

    def layers(self) -> list[Tensor]:
        """-> (H, T, S) per map"""
        return unpack(
            self.weights,
            [(one.heads, len(self.sides[one.queries]), len(self.sides[one.keys])) for one in self.maps],
        )


def attention_maps(
    attentions: Sequence[Attention], place: Callable[[Attention], tuple[str, str, str]]
) -> tuple[tuple[AttentionMap, ...], str]:
    """The maps of one input and their packed weights, as a `Record` has them.

    `place` gives the part of the model that an attention is in, the side of its queries and that of its keys.
    """
    maps, counts = list[AttentionMap](), dict[str, int]()
    for attention in attentions:
        part, queries, keys = place(attention)
        layer = counts[part] = counts.get(part, -1) + 1
        heads = attention.weights.shape[1]
        maps.append(
            AttentionMap(name=attention.name, part=part, layer=layer, heads=heads, queries=queries, keys=keys)
        )
    return tuple(maps), pack([attention.weights[0] for attention in attentions])


def place_in_encoder(attention: Attention) -> tuple[str, str, str]:
    """The place of an attention in a model that is one encoder, with or without attention pooling."""
    if attention.role == "pooling":
        return "pooling", "question", "source"
    return "encoder", "source", "source"


def most_likely(
    probabilities: Tensor, name: Callable[[int], str], most: int = MOST_CANDIDATES
) -> tuple[Candidate, ...]:
    """(L) -> the most likely candidates, the best first"""
    best = probabilities.topk(min(most, len(probabilities)))
    found = zip(best.indices.tolist(), best.values.tolist(), strict=True)
    return tuple(Candidate(text=name(number), probability=value) for number, value in found)


def pack(layers: Sequence[Tensor]) -> str:
    """(H, T, S) per map -> base64

    Each row is stored as a step (float32), a 255th of its largest weight, and its weights in steps (bytes):
    first the steps of all rows of a map, then the bytes. All maps together are compressed by zlib. The error
    is at most one step per weight and half a step per row sum: rounding errors are passed on along the row.
    """
    parts: list[bytes] = []
    for weights_HTS in layers:
        weights = weights_HTS.detach().cpu().double().numpy()
        step = weights.max(-1, keepdims=True).astype("<f4") / np.float32(STEPS)
        ends = np.rint(np.divide(weights, step, out=np.zeros_like(weights), where=step > 0).cumsum(-1))
        counts = np.diff(ends, prepend=0).clip(0, STEPS).astype(np.uint8)
        parts += [step.tobytes(), counts.tobytes()]
    return base64.b64encode(zlib.compress(b"".join(parts), 9)).decode()


def unpack(packed: str, shapes: Sequence[tuple[int, int, int]]) -> list[Tensor]:
    """base64 -> (H, T, S) per map"""
    whole, at, layers = zlib.decompress(base64.b64decode(packed)), 0, []
    for heads, rows, columns in shapes:
        step = np.frombuffer(whole, "<f4", heads * rows, at).reshape(heads, rows, 1)
        at += 4 * heads * rows
        counts = np.frombuffer(whole, np.uint8, heads * rows * columns, at).reshape(heads, rows, columns)
        at += heads * rows * columns
        layers.append(torch.from_numpy(step * counts))
    return layers
