"""Positional encodings: attention itself does not depend on the order of its inputs."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from limelight.errors import wrong
from limelight.nn.dropout import Dropout
from limelight.nn.validation import check_axes, check_size

LAYOUTS = ("interleaved", "halves")


def sinusoids(
    length: int,
    width: int,
    start: int = 0,
    *,
    layout: str = "interleaved",
    device: torch.device | None = None,
) -> Tensor:
    """-> (T, D)

    Row p holds sin(p/10000^(2i/D)) in column 2i and the cosine in column 2i + 1, for the positions from
    `start` on (Vaswani et al. 2017, section 3.5). In the layout "halves", all sines come before all cosines,
    as in Marian.
    """
    if layout not in LAYOUTS:
        raise wrong("layout", repr(layout), " or ".join(map(repr, LAYOUTS)))
    position_T = torch.arange(start, start + length, device=device, dtype=torch.float32)
    even_d = torch.arange(0, width, 2, device=device, dtype=torch.float32)
    angle_Td = position_T.unsqueeze(1) * torch.exp(even_d * (-math.log(10000.0) / width))
    if layout == "halves":
        return torch.cat((angle_Td.sin(), angle_Td.cos()), 1)[:, :width]
    # An odd width ends with a sine: there is no column for the last cosine.
    return torch.stack((angle_Td.sin(), angle_Td.cos()), -1).flatten(1)[:, :width]


PRECOMPUTED = 512  # positions whose sinusoids are computed in the constructor


class SinusoidalPositions(nn.Module):
    """Adds fixed sinusoids: for any length, without parameters or entries in the state dict."""

    def __init__(self, width: int, dropout: float = 0.0, *, layout: str = "interleaved") -> None:
        super().__init__()
        self.width, self.layout = check_size("width", width), layout
        self.dropout = Dropout(dropout)
        self.table: Tensor
        self.register_buffer("table", sinusoids(PRECOMPUTED, width, layout=layout), persistent=False)

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        """(B, T, D) -> (B, T, D)

        `start` is the position of the first token, for example the length of a decoder's cache.
        """
        check_axes("x", x, "(B, T, D)", self.width)
        end = start + x.shape[1]
        # An exported graph serves any length: whether it is in the table cannot be decided once.
        if not torch.compiler.is_exporting() and start >= 0 and end <= PRECOMPUTED:
            table_TD = self.table[start:end]
        else:
            table_TD = sinusoids(x.shape[1], self.width, start, layout=self.layout, device=x.device)
        return self.dropout(x + table_TD.to(x.dtype))


class LearnedPositions(nn.Module):
    """Adds a learned vector per position, for the first `length` positions."""

    def __init__(self, width: int, length: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.width = check_size("width", width)
        self.table = nn.Parameter(torch.empty(check_size("length", length), width))
        self.dropout = Dropout(dropout)
        nn.init.normal_(self.table, std=0.02)

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        """(B, T, D) -> (B, T, D)

        `start` is the position of the first token.
        """
        check_axes("x", x, "(B, T, D)", self.width)
        end = start + x.shape[1]
        if torch.compiler.is_exporting():  # an index beyond the table is an error, a slice would be shorter
            return x + self.table[torch.arange(start, end, device=x.device)]
        if start < 0 or end > len(self.table):
            learned = f"the {len(self.table)} learned ones, from 0 on"
            raise wrong("x", f"at positions {start} to {end - 1}", learned)
        return self.dropout(x + self.table[start:end])


class GridPositions(nn.Module):
    """Adds a vector for row and column to each patch of an image, for a grid of rows × columns.

    The vectors are learned, or sinusoids: half of the width encodes the row, the other half the column. For
    an image with another grid, learned vectors are interpolated (Dosovitskiy et al. 2021, section 3.2), and
    sinusoids are computed.
    """

    def __init__(self, width: int, rows: int, columns: int, *, learned: bool = True) -> None:
        super().__init__()
        self.width = check_size("width", width)
        self.grid = check_size("rows", rows), check_size("columns", columns)
        self.table = nn.Parameter(torch.empty(rows * columns, width)) if learned else None
        if self.table is not None:
            nn.init.normal_(self.table, std=0.02)

    def forward(self, x: Tensor, rows: int, columns: int) -> Tensor:
        """(B, P, D) -> (B, P, D)"""
        check_axes("x", x, "(B, P, D)", self.width)
        if x.shape[1] != rows * columns:
            raise wrong("x", f"of {x.shape[1]} patches", f"{rows} × {columns} of them")
        return x + self.vectors(rows, columns).to(x)

    def vectors(self, rows: int, columns: int) -> Tensor:
        """-> (P, D)

        The vectors of a grid of rows × columns.
        """
        if self.table is None:
            return self._sinusoids(rows, columns)
        if (rows, columns) == self.grid:
            return self.table
        grid_1DYX = self.table.unflatten(0, self.grid).permute(2, 0, 1).unsqueeze(0)
        resized_1DYX = F.interpolate(grid_1DYX, (rows, columns), mode="bicubic", align_corners=False)
        return resized_1DYX.squeeze(0).flatten(1).T

    def _sinusoids(self, rows: int, columns: int) -> Tensor:
        """-> (P, D)"""
        half = self.width // 2
        row_YXd = sinusoids(rows, half).unsqueeze(1).expand(-1, columns, -1)
        column_YXd = sinusoids(columns, self.width - half).unsqueeze(0).expand(rows, -1, -1)
        return torch.cat((row_YXd, column_YXd), -1).flatten(0, 1)
