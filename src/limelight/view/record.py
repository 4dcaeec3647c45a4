"""What a model said of one input and what it looked at: small enough to stand in a page."""

import base64
import zlib
from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from limelight.config import Config

STEPS = 255  # of a byte, from nothing to the largest weight of a row


class AttentionMap(Config):
    """Which side looks at which; the weights of all maps stand one after the other in the record."""

    name: str  # of the attention in the model
    part: str  # where that is, in words: encoder, decoder, decoder to encoder, pooling
    layer: int
    heads: int
    queries: str  # the side whose tokens look
    keys: str  # the side that is looked at


class Candidate(Config):
    text: str
    probability: float


class Picture(Config):
    """An image as a PNG in base64, and its patches: rows × columns tokens, after so many others."""

    png: str
    rows: int
    columns: int
    first: int


class Record(Config):
    """One input, one answer, every map. As JSON it is what pages read; `version` changes when that does."""

    version: Literal[1] = 1
    name: str  # of the experiment
    given: str
    answer: str
    probability: float | None = None
    truth: str | None = None  # what would have been right, where that is known
    right: bool | None = None  # whether the answer is, where that can be said
    sides: dict[str, tuple[str, ...]]  # tokens, by the name of what they are
    maps: tuple[AttentionMap, ...]
    weights: str  # `pack` of all maps
    candidates: tuple[Candidate, ...] = ()  # other answers: classes, or what beams have found
    steps: tuple[tuple[Candidate, ...], ...] = ()  # for each token of `stepped`: what else might stand there
    stepped: str = ""  # the side that was answered token by token
    image: Picture | None = None

    def layers(self) -> list[Tensor]:
        """-> (H, T, S) of each map, as a page shows it"""
        return unpack(
            self.weights,
            [(one.heads, len(self.sides[one.queries]), len(self.sides[one.keys])) for one in self.maps],
        )


def pack(layers: Sequence[Tensor]) -> str:
    """(H, T, S) of each map -> base64

    Of every row a step (float32), a 255th of its largest weight, and its weights in steps (bytes); first the
    steps of a map's rows, then the bytes; all maps together compressed by zlib. No weight is off by more than
    a step, no row's sum by more than half of one: what rounding takes from a weight its neighbours get.
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
    """base64 -> (H, T, S) of each map"""
    whole, at, layers = zlib.decompress(base64.b64decode(packed)), 0, []
    for heads, rows, columns in shapes:
        step = np.frombuffer(whole, "<f4", heads * rows, at).reshape(heads, rows, 1)
        at += 4 * heads * rows
        counts = np.frombuffer(whole, np.uint8, heads * rows * columns, at).reshape(heads, rows, columns)
        at += heads * rows * columns
        layers.append(torch.from_numpy(step * counts))
    return layers
