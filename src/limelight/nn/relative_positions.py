"""Positions inside attention: rotations of queries and keys (RoPE), and biases of the scores (ALiBi)."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from limelight.errors import wrong
from limelight.nn.validation import check_axes, check_size

PRECOMPUTED = 512  # positions whose rotations are computed in the constructor
PAIRINGS = ("halves", "interleaved")


@dataclass(frozen=True)
class Frequencies:
    """How fast the pairs of features rotate: pair i by base^(-2i/K) per position (Su et al. 2021).

    For texts longer than those of training, `factor` divides the frequencies (Chen et al. 2023). With
    `original`, the length of these texts, only low frequencies are divided, as in Llama 3.1: those with fewer
    than `low` periods in that length; with more than `high` periods they stay, and between they are
    interpolated.
    """

    base: float = 10_000.0
    factor: float = 1.0
    low: float = 1.0
    high: float = 4.0
    original: int = 0

    def of(self, width: int, device: torch.device | None = None) -> Tensor:
        """-> (k)

        In radians per position, for heads of this width.
        """
        frequency_k = self.base ** (torch.arange(0, width, 2, device=device, dtype=torch.float32) / -width)
        if not self.original:
            return frequency_k / self.factor
        periods_k = frequency_k * (self.original / (2 * math.pi))
        share_k = ((periods_k - self.low) / (self.high - self.low)).clamp(0, 1)
        return frequency_k * (share_k + (1 - share_k) / self.factor)


STANDARD = Frequencies()


def rotation_table(
    length: int,
    width: int,
    start: int = 0,
    *,
    frequencies: Frequencies = STANDARD,
    device: torch.device | None = None,
) -> Tensor:
    """-> (2, T, k)

    The cosines and sines of p/base^(2i/K) for position p and pair i, for the positions from `start` on
    (Su et al. 2021, section 3.2.2).
    """
    position_T = torch.arange(start, start + length, device=device, dtype=torch.float32)
    frequency_k = frequencies.of(width, device)
    angle_Tk = position_T.unsqueeze(1) * frequency_k
    return torch.stack((angle_Tk.cos(), angle_Tk.sin()))


def rotate(x: Tensor, table: Tensor, pairing: str = "halves") -> Tensor:
    """(..., T, K), (2, T, k) -> (..., T, K)

    Rotates each pair of features by the angle of its position. With the pairing "halves", feature i is paired
    with feature i + K/2, as in GPT-NeoX and Llama; with "interleaved", features 2i and 2i + 1 are a pair, as
    in the paper and GPT-J. A permutation of the rows of W_q and W_k turns one into the other.
    """
    cosine_Tk, sine_Tk = table.to(x.dtype)
    if pairing == "interleaved":
        even, odd = x[..., 0::2], x[..., 1::2]
        pairs = even * cosine_Tk - odd * sine_Tk, odd * cosine_Tk + even * sine_Tk
        return torch.stack(pairs, -1).flatten(-2)
    first, second = x.chunk(2, -1)
    return torch.cat((first * cosine_Tk - second * sine_Tk, second * cosine_Tk + first * sine_Tk), -1)


class Rotary(nn.Module):
    """Rotary positions: the product of a rotated query and a rotated key depends on their distance only."""

    def __init__(self, width: int, pairing: str = "halves", frequencies: Frequencies = STANDARD) -> None:
        """`width` is that of one head; it must be even."""
        super().__init__()
        if check_size("width of a head", width) % 2:
            raise wrong("width of a head", width, "an even number for rotary positions")
        if pairing not in PAIRINGS:
            raise wrong("pairing", repr(pairing), " or ".join(map(repr, PAIRINGS)))
        self.width, self.pairing, self.frequencies = width, pairing, frequencies
        self.table: Tensor
        self.register_buffer(
            "table", rotation_table(PRECOMPUTED, width, frequencies=frequencies), persistent=False
        )

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        """(..., T, K) -> (..., T, K)

        `start` is the position of the first token, for example the length of a cache.
        """
        check_axes("x", x, "(..., T, K)", self.width)
        return rotate(x, self.rotations(x.shape[-2], start), self.pairing)

    def rotations(self, length: int, start: int = 0) -> Tensor:
        """-> (2, T, k)

        The cosines and sines of the positions from `start` on.
        """
        if not torch.compiler.is_exporting() and start + length <= PRECOMPUTED:
            return self.table[:, start : start + length]
        return rotation_table(
            length, self.width, start, frequencies=self.frequencies, device=self.table.device
        )

    def extra_repr(self) -> str:
        """The pairing, for `print(module)`."""
        return f"{self.width}, pairing={self.pairing!r}"


def alibi_slopes(heads: int) -> Tensor:
    """-> (H)

    The slope of each head: 2^(-8/H), 2^(-16/H), … for a power of two; for another number of heads, the slopes
    of the next lower power of two, followed by every second one of the next higher (Press et al. 2022).
    """
    power = 2 ** (heads.bit_length() - 1)
    slopes = 2.0 ** (torch.arange(1, power + 1) * (-8.0 / power))
    if power == heads:
        return slopes
    between = 2.0 ** (torch.arange(1, 2 * power, 2) * (-4.0 / power))
    return torch.cat((slopes, between[: heads - power]))


class Alibi(nn.Module):
    """Attention with linear biases: each score is lowered by slope × distance (Press et al. 2022).

    Without parameters, and for any length. In an encoder, the distance is counted in both directions.
    """

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.slopes: Tensor
        self.register_buffer("slopes", alibi_slopes(check_size("heads", heads)), persistent=False)

    def forward(self, length: int, past: int = 0) -> Tensor:
        """-> (1, H, T, S)

        The biases of `length` queries after `past` earlier positions, for S = past + T keys.
        """
        query_T1 = torch.arange(past, past + length, device=self.slopes.device).unsqueeze(1)
        distance_TS = (query_T1 - torch.arange(past + length, device=self.slopes.device)).abs()
        return (-self.slopes[:, None, None] * distance_TS).unsqueeze(0)
