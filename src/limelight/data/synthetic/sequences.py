"""Generated sequence tasks: offline, as many examples as wanted, with answers that are known.

Sequences are drawn as rows of symbols (N, T), with -1 beyond their end.
"""

from abc import ABC, abstractmethod
from typing import Literal, Self

import torch
import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import Generator, Tensor

from limelight.config import Config
from limelight.data.batching import Examples
from limelight.data.dataset import SPLITS, ExampleCount, SequenceData
from limelight.data.ragged import Ragged
from limelight.data.text.symbols import Answers, Symbols
from limelight.errors import WrongInput
from limelight.memory import check_memory
from limelight.randomness import generator

BEYOND = -1
COPIES = 8  # of each sequence, while they are drawn and compared


class Generated(Config, ABC):
    """How many examples each split has; no sequence stands twice, in one split or in two."""

    train: ExampleCount
    validation: ExampleCount
    test: ExampleCount

    @abstractmethod
    def draw(self, count: int, draw: Generator) -> Tensor:
        """-> (N, T), at most `count` sequences"""

    @abstractmethod
    def answer(self, rows: Tensor) -> Tensor:
        """(N, T) -> (N, T) | (N)

        One answer an item, or one a sequence.
        """

    def fair(self, rows: Tensor) -> Tensor:
        """(N, T) -> (N)

        Which of these different sequences to keep, so that nothing but the answer gives the answer away.
        """
        return torch.ones(len(rows), dtype=torch.bool)

    @abstractmethod
    def reader(self) -> Symbols: ...

    @abstractmethod
    def answers(self) -> Answers: ...

    def load(self, seed: int) -> SequenceData:
        sizes = [self.train, self.validation, self.test]
        none_0T = self.draw(0, generator(seed, "none"))
        needed = sum(sizes) * none_0T.shape[1] * none_0T.element_size() * COPIES
        check_memory(needed, "lower task.data.train, task.data.validation or task.data.test")
        rows_NT = self._draw_distinct(sum(sizes), generator(seed, "examples"))
        targets = self.answer(rows_NT)
        splits = {
            name: Examples(_ragged(inputs), _ragged(answers) if answers.dim() == 2 else answers)
            for name, inputs, answers in zip(SPLITS, rows_NT.split(sizes), targets.split(sizes), strict=True)
        }
        return SequenceData(splits, self.reader(), self.answers())

    def _draw_distinct(self, count: int, draw: Generator) -> Tensor:
        """`count` different sequences, in the order in which they came."""
        rows_NT, marks_N = self.draw(0, draw), torch.empty(0, dtype=torch.long)
        while len(rows_NT) < count:
            before = len(rows_NT)
            more_NT = self.draw(count + count // 8 + 64, draw)
            factors_T = torch.randint(2**62, (more_NT.shape[1],), generator=Generator().manual_seed(1))
            marks_N = torch.cat((marks_N, ((more_NT + 2) * factors_T).sum(1)))
            rows_NT = torch.cat((rows_NT, more_NT))
            first_N = _first_of_each(marks_N)
            rows_NT, marks_N = rows_NT[first_N], marks_N[first_N]
            fair_N = self.fair(rows_NT)
            rows_NT, marks_N = rows_NT[fair_N], marks_N[fair_N]
            if len(rows_NT) < count and len(rows_NT) - before < len(more_NT) // 8:
                some = f"hardly more than {len(rows_NT)} different sequences"
                raise WrongInput(f"task.data: there are {some}, and {count} are asked for; make them longer")
        return rows_NT[:count]


class Reverse(Generated):
    """The label of an item is the symbol at the mirrored place."""

    kind: Literal["reverse"] = "reverse"
    length: int = Field(16, ge=1, le=10_000)
    symbols: int = Field(10, ge=2, le=10_000)
    train: ExampleCount = 50_000
    validation: ExampleCount = 1_000
    test: ExampleCount = 10_000

    def draw(self, count: int, draw: Generator) -> Tensor:
        return torch.randint(self.symbols, (count, self.length), generator=draw)

    def answer(self, rows: Tensor) -> Tensor:
        return rows.flip(1)

    def reader(self) -> Symbols:
        return Symbols(symbols=tuple(map(str, range(self.symbols))))

    def answers(self) -> Answers:
        return Answers(kind="class", names=self.reader().symbols)


class VariableLength(Generated):
    """Sequences of `shortest` to `longest` symbols."""

    shortest: int = Field(5, ge=1, le=10_000)
    longest: int = Field(20, ge=1, le=10_000)
    train: ExampleCount = 20_000
    validation: ExampleCount = 1_000
    test: ExampleCount = 5_000

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.shortest > self.longest:
            raise ValueError(f"shortest is {self.shortest}; allowed: at most longest={self.longest}")
        return self

    def lengths(self, count: int, draw: Generator) -> Tensor:
        return torch.randint(self.shortest, self.longest + 1, (count,), generator=draw)

    def beyond(self, lengths: Tensor) -> Tensor:
        """(N) -> (N, T)"""
        return torch.arange(self.longest) >= lengths.unsqueeze(1)


class Letters(VariableLength):
    """Sequences of random letters."""

    symbols: int = Field(4, ge=2, le=26)

    def draw(self, count: int, draw: Generator) -> Tensor:
        rows_NT = torch.randint(self.symbols, (count, self.longest), generator=draw)
        rows_NT[self.beyond(self.lengths(count, draw))] = BEYOND
        return rows_NT

    def reader(self) -> Symbols:
        return Symbols(symbols=tuple(map(chr, range(ord("a"), ord("a") + self.symbols))))


class Majority(Letters):
    """Which symbol stands there most often; no sequence has two such symbols."""

    kind: Literal["majority"] = "majority"

    def draw(self, count: int, draw: Generator) -> Tensor:
        rows_NT = super().draw(count, draw)
        best_N2 = self._counts(rows_NT).topk(2).values
        return rows_NT[best_N2[:, 0] > best_N2[:, 1]]

    def answer(self, rows: Tensor) -> Tensor:
        return self._counts(rows).argmax(1)

    def _counts(self, rows: Tensor) -> Tensor:
        """(N, T) -> (N, V)"""
        return F.one_hot(rows + 1, self.symbols + 1).sum(1)[:, 1:]

    def answers(self) -> Answers:
        return Answers(kind="class", names=self.reader().symbols)


class Count(Letters):
    """How often the first symbol stands there, itself included."""

    kind: Literal["count"] = "count"

    def answer(self, rows: Tensor) -> Tensor:
        return (rows == rows[:, :1]).sum(1).float()

    def answers(self) -> Answers:
        return Answers(kind="number")


class Brackets(VariableLength):
    """Whether every bracket is closed by one of its kind, in the right order.

    Half of the sequences of each length are balanced. The others were, until one or two of their brackets
    changed.
    """

    kind: Literal["brackets"] = "brackets"
    shortest: int = Field(2, ge=2, le=10_000)
    pairs: str = "()[]"

    @model_validator(mode="after")
    def _pairs_of_two(self) -> Self:
        if not self.pairs or len(self.pairs) % 2 or len(set(self.pairs)) < len(self.pairs):
            raise ValueError(
                f"pairs is {self.pairs!r}; allowed: different characters, two a pair, as in '()[]'"
            )
        return self

    def draw(self, count: int, draw: Generator) -> Tensor:
        lengths_N = self.lengths(count, draw) // 2 * 2
        rows_NT = self._draw_balanced(lengths_N, draw)
        broken_NT = rows_NT.clone()
        every_N = torch.arange(count)
        for _ in range(2):
            place_N = (torch.rand(count, generator=draw) * lengths_N).long()
            broken_NT[every_N, place_N] = torch.randint(len(self.pairs), (count,), generator=draw)
        break_N = torch.rand(count, generator=draw) < 0.5
        rows_NT = torch.where(break_N.unsqueeze(1), broken_NT, rows_NT)
        return rows_NT[(self.answer(rows_NT) == 0) == break_N]

    def _draw_balanced(self, lengths_N: Tensor, draw: Generator) -> Tensor:
        """(N) -> (N, T)

        Opens or closes by the toss of a coin, as far as what is open and what is left allow.
        """
        count = len(lengths_N)
        every_N = torch.arange(count)
        depth_N = torch.zeros(count, dtype=torch.long)
        stack_NT = torch.zeros(count, self.longest + 1, dtype=torch.long)
        rows_NT = torch.full((count, self.longest), BEYOND)
        for t in range(self.longest):
            left_N = lengths_N - t
            opens_N = (torch.rand(count, generator=draw) < 0.5) & (depth_N < left_N) | (depth_N == 0)
            new_N = 2 * torch.randint(len(self.pairs) // 2, (count,), generator=draw)
            closed_N = stack_NT[every_N, depth_N] + 1
            rows_NT[:, t] = torch.where(opens_N, new_N, closed_N).where(left_N > 0, BEYOND)
            depth_N = depth_N + torch.where(opens_N, 1, -1)
            stack_NT[every_N, depth_N.clamp(max=self.longest)] = new_N.where(
                opens_N, stack_NT[every_N, depth_N.clamp(max=self.longest)]
            )
        return rows_NT

    def answer(self, rows: Tensor) -> Tensor:
        """(N, T) -> (N)

        Symbol 2p opens pair p and symbol 2p + 1 closes it: a stack for each row, all rows at once.
        """
        every_N = torch.arange(len(rows))
        depth_N = torch.zeros(len(rows), dtype=torch.long)
        stack_NT = torch.full((len(rows), rows.shape[1] + 1), BEYOND)
        right_N = torch.ones(len(rows), dtype=torch.bool)
        for symbol_N in rows.T:
            opens_N = (symbol_N != BEYOND) & (symbol_N % 2 == 0)
            closes_N = (symbol_N != BEYOND) & (symbol_N % 2 == 1)
            right_N &= ~closes_N | (stack_NT[every_N, depth_N] == symbol_N - 1) & (depth_N > 0)
            depth_N = (depth_N + opens_N.long() - closes_N.long()).clamp(min=0)
            stack_NT[every_N[opens_N], depth_N[opens_N]] = symbol_N[opens_N]
        return (right_N & (depth_N == 0)).float()

    def fair(self, rows: Tensor) -> Tensor:
        """(N, T) -> (N)

        Short balanced sequences are few: as many of their length may be broken, and no more.
        """
        yes_N, length_N = self.answer(rows).bool(), (rows != BEYOND).sum(1)
        kept_N = torch.zeros(len(rows), dtype=torch.bool)
        for length in length_N.unique():
            both = [((length_N == length) & answer_N).nonzero().squeeze(1) for answer_N in (yes_N, ~yes_N)]
            fewer = min(map(len, both))
            for index in both:
                kept_N[index[:fewer]] = True
        return kept_N

    def reader(self) -> Symbols:
        return Symbols(symbols=tuple(self.pairs))

    def answers(self) -> Answers:
        return Answers(kind="yes-no", names=("no", "yes"))


def _ragged(rows_NT: Tensor) -> Ragged:
    real_NT = rows_NT != BEYOND
    ends = real_NT.sum(1).cumsum(0)
    return Ragged(rows_NT[real_NT], torch.cat((ends.new_zeros(1), ends)))


def _first_of_each(marks_N: Tensor) -> Tensor:
    """Where each mark stands for the first time, in order."""
    _, group_N = marks_N.unique(return_inverse=True)
    first = torch.full((int(group_N.max()) + 1,), len(marks_N)).scatter_reduce(
        0, group_N, torch.arange(len(marks_N)), "amin"
    )
    return first.sort().values
