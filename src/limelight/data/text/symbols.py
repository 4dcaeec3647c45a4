"""How a line of text becomes the input of a model, and back. Saved beside the weights."""

import json
import math
from functools import cached_property
from typing import Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor

from limelight.config import Config
from limelight.errors import WrongInput, wrong


class Symbols(Config):
    """A closed set of symbols, separated by spaces; where each is one character, no space is needed."""

    kind: Literal["symbols"] = "symbols"
    symbols: tuple[str, ...] = Field(min_length=1)

    @property
    def size(self) -> int:
        return len(self.symbols)

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {symbol: i for i, symbol in enumerate(self.symbols)}

    def encode(self, line: str) -> Tensor:
        symbols = line.split()
        if all(len(symbol) == 1 for symbol in self.symbols):
            symbols = list("".join(symbols))
        for symbol in symbols:
            if symbol not in self._ids:
                raise wrong("symbol", repr(symbol), " ".join(self.symbols))
        if not symbols:
            raise WrongInput("the line is empty; a sequence has at least one symbol")
        return torch.tensor([self._ids[symbol] for symbol in symbols])

    def show(self, row: Tensor) -> list[str]:
        """A name for each item, as a picture's axis shows it."""
        return [self.symbols[i] for i in row.tolist()]

    def tokens(self, line: str) -> list[str]:
        """A name for each item of a line."""
        return self.show(self.encode(line))

    def write(self, row: Tensor) -> str:
        """A line that `encode` reads as this row."""
        return " ".join(self.show(row))


class Vectors(Config):
    """Items that are vectors: a line is a JSON list of lists of numbers."""

    kind: Literal["vectors"] = "vectors"
    features: int = Field(ge=1)

    def encode(self, line: str) -> Tensor:
        allowed = f"a JSON list of items, each a list of {self.features} numbers"
        try:
            items = torch.tensor(json.loads(line), dtype=torch.float32)
        except (ValueError, TypeError, OverflowError, RecursionError):
            raise wrong("the line", repr(line[:40]), allowed) from None
        if items.dim() != 2 or not len(items) or items.shape[1] != self.features:
            raise wrong("the line", f"of shape {tuple(items.shape)}", allowed)
        if not items.isfinite().all():
            raise wrong("the line", "not finite everywhere", allowed)
        return items

    def show(self, row: Tensor) -> list[str]:
        return [str(i) for i in range(len(row))]

    def tokens(self, line: str) -> list[str]:
        """A name for each item of a line."""
        return self.show(self.encode(line))

    def write(self, row: Tensor) -> str:
        return ""  # hundreds of numbers: nobody types them


class Answers(Config):
    """What is to be said: a class by name, yes or no, a number, or which of the items."""

    kind: Literal["class", "yes-no", "number", "which"]
    names: tuple[str, ...] = ()
    # Numbers are learned with mean 0 and deviation 1, whatever their unit.
    mean: float = 0.0
    deviation: float = Field(1.0, gt=0)

    @model_validator(mode="after")
    def _names_of_classes(self) -> Self:
        if len(self.names) < {"class": 1, "yes-no": 2}.get(self.kind, 0):
            raise ValueError(f"names is {self.names}; allowed: the names of the answers")
        return self

    @property
    def outputs(self) -> int:
        return len(self.names) if self.kind == "class" else 1

    def write(self, output: float) -> str:
        """A number in its own unit, to a thousandth of what such numbers differ by."""
        decimals = 3 - math.floor(math.log10(self.deviation))
        return f"{round(output * self.deviation + self.mean, decimals) + 0.0:.10g}"  # not -0
