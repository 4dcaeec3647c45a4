"""Encodings of a line as symbols or vectors, and the kinds of answers. Saved with the weights."""

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
    """A fixed set of symbols, separated by spaces; spaces are optional if every symbol is one character."""

    kind: Literal["symbols"] = "symbols"
    symbols: tuple[str, ...] = Field(min_length=1, description="the symbols in the order of their ids")

    @property
    def size(self) -> int:
        """Number of symbols."""
        return len(self.symbols)

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {symbol: i for i, symbol in enumerate(self.symbols)}

    def encode(self, line: str) -> Tensor:
        """The symbol ids of a line, (T)."""
        symbols = line.split()
        if all(len(symbol) == 1 for symbol in self.symbols):
            symbols = list("".join(symbols))
        for symbol in symbols:
            if symbol not in self._ids:
                raise wrong("symbol", repr(symbol), " ".join(self.symbols))
        if not symbols:
            raise WrongInput("the line is empty; a sequence has at least one symbol")
        return torch.tensor([self._ids[symbol] for symbol in symbols])

    def item_names(self, row: Tensor) -> list[str]:
        """The symbol of each id."""
        return [self.symbols[i] for i in row.tolist()]

    def tokens(self, line: str) -> list[str]:
        """The symbols of a line."""
        return self.item_names(self.encode(line))

    def decode(self, row: Tensor) -> str:
        """The line that `encode` maps to these ids."""
        return " ".join(self.item_names(row))


class Vectors(Config):
    """Sequences of vectors: a line is a JSON list of lists of numbers."""

    kind: Literal["vectors"] = "vectors"
    features: int = Field(ge=1, description="numbers per vector")

    def encode(self, line: str) -> Tensor:
        """The vectors of a line, (T, features)."""
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

    def item_names(self, row: Tensor) -> list[str]:
        """The position of each item."""
        return [str(i) for i in range(len(row))]

    def tokens(self, line: str) -> list[str]:
        """The position of each item of a line."""
        return self.item_names(self.encode(line))

    def decode(self, row: Tensor) -> str:
        """Always empty: a line of hundreds of numbers is of no use as an example."""
        return ""


class Answers(Config):
    """The kind of answer that a model gives: a class, yes or no, a number, or one of the items."""

    kind: Literal["class", "yes-no", "number", "which"] = Field(
        description="class: one of the names; yes-no; number: regression; which: one item of the sequence"
    )
    names: tuple[str, ...] = Field((), description="names of the classes, in the order of their ids")
    # Numbers are standardised for training: mean 0, standard deviation 1.
    mean: float = Field(0.0, description="mean of the numbers in the training split")
    deviation: float = Field(1.0, gt=0, description="standard deviation of the numbers in the training split")

    @model_validator(mode="after")
    def _names_of_classes(self) -> Self:
        if len(self.names) < {"class": 1, "yes-no": 2}.get(self.kind, 0):
            raise ValueError(f"names is {self.names}; allowed: one name per answer")
        return self

    @property
    def outputs(self) -> int:
        """Number of outputs of the model: one per class, otherwise one."""
        return len(self.names) if self.kind == "class" else 1

    def format_number(self, output: float) -> str:
        """A standardised output in its original unit, rounded to a thousandth of the standard deviation."""
        decimals = 3 - math.floor(math.log10(self.deviation))
        return f"{round(output * self.deviation + self.mean, decimals) + 0.0:.10g}"  # not -0
