"""Generated sequences with known answers: reversal, majority, counting, brackets.

Sequences are sampled as rows of symbol ids (N, T), padded with -1.
"""

from abc import ABC, abstractmethod
from typing import Literal, Self

import torch
import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import Generator, Tensor

from limelight.data.batching import Examples
from limelight.data.dataset import SPLITS, DataConfig, ExampleCount, SequenceData
from limelight.data.ragged import Ragged
from limelight.data.text.symbols import Answers, Symbols
from limelight.errors import WrongInput
from limelight.memory import check_memory
from limelight.randomness import generator

PADDING = -1
COPIES = 8  # of all sequences in memory while they are sampled and compared


class GeneratedSequences(DataConfig, ABC):
    """A generated data set. All sequences are distinct, within a split and between splits."""

    train: ExampleCount = Field(description="number of training sequences")
    validation: ExampleCount = Field(description="number of validation sequences")
    test: ExampleCount = Field(description="number of test sequences")

    @abstractmethod
    def sample(self, count: int, rng: Generator) -> Tensor:
        """-> (N, T)

        At most `count` random sequences.
        """

    @abstractmethod
    def answer(self, rows: Tensor) -> Tensor:
        """(N, T) -> (N, T) | (N)

        The targets: one per item, or one per sequence.
        """

    def balance(self, rows: Tensor) -> Tensor:
        """(N, T) -> (N)

        True for the sequences to keep, so that no property such as the length predicts the answer.
        """
        return torch.ones(len(rows), dtype=torch.bool)

    @abstractmethod
    def reader(self) -> Symbols:
        """The encoding of the sequences."""

    @abstractmethod
    def answers(self) -> Answers:
        """The kind of answer."""

    def load(self, seed: int) -> SequenceData:
        """Sample the sequences of all splits and compute their answers."""
        sizes = [self.at_most(count) for count in (self.train, self.validation, self.test)]
        empty_NT = self.sample(0, generator(seed, "none"))
        needed = sum(sizes) * empty_NT.shape[1] * empty_NT.element_size() * COPIES
        check_memory(needed, "lower task.data.train, task.data.validation or task.data.test")
        rows_NT = self._sample_distinct(sum(sizes), generator(seed, "examples"))
        targets = self.answer(rows_NT)
        splits = {
            name: Examples(_ragged(inputs), _ragged(answers) if answers.dim() == 2 else answers)
            for name, inputs, answers in zip(SPLITS, rows_NT.split(sizes), targets.split(sizes), strict=True)
        }
        return SequenceData(splits, self.reader(), self.answers())

    def _sample_distinct(self, count: int, rng: Generator) -> Tensor:
        """`count` distinct sequences, in the order in which they were sampled."""
        rows_NT, hashes_N = self.sample(0, rng), torch.empty(0, dtype=torch.long)
        while len(rows_NT) < count:
            before = len(rows_NT)
            more_NT = self.sample(count + count // 8 + 64, rng)
            factors_T = torch.randint(2**62, (more_NT.shape[1],), generator=Generator().manual_seed(1))
            hashes_N = torch.cat((hashes_N, ((more_NT + 2) * factors_T).sum(1)))
            rows_NT = torch.cat((rows_NT, more_NT))
            first_N = _first_of_each(hashes_N)
            rows_NT, hashes_N = rows_NT[first_N], hashes_N[first_N]
            kept_N = self.balance(rows_NT)
            rows_NT, hashes_N = rows_NT[kept_N], hashes_N[kept_N]
            if len(rows_NT) < count and len(rows_NT) - before < len(more_NT) // 8:
                available = f"there are about {len(rows_NT)} distinct sequences"
                raise WrongInput(
                    f"task.data: {available}, but {count} are needed; make them longer, "
                    "or reduce train, validation and test"
                )
        return rows_NT[:count]


class Reverse(GeneratedSequences):
    """Reverse a sequence: the target at each position is the symbol at the mirrored position."""

    kind: Literal["reverse"] = Field("reverse", description="reverse a sequence")
    length: int = Field(16, ge=1, le=10_000, description="symbols per sequence")
    symbols: int = Field(10, ge=2, le=10_000, description="number of distinct symbols")
    train: ExampleCount = Field(50_000, description="number of training sequences")
    validation: ExampleCount = Field(1_000, description="number of validation sequences")
    test: ExampleCount = Field(10_000, description="number of test sequences")

    def sample(self, count: int, rng: Generator) -> Tensor:
        """-> (N, T)

        Uniformly random symbols.
        """
        return torch.randint(self.symbols, (count, self.length), generator=rng)

    def answer(self, rows: Tensor) -> Tensor:
        """(N, T) -> (N, T)

        The reversed sequences.
        """
        return rows.flip(1)

    def reader(self) -> Symbols:
        """Symbols named 0, 1, 2, …"""
        return Symbols(symbols=tuple(map(str, range(self.symbols))))

    def answers(self) -> Answers:
        """One symbol per position."""
        return Answers(kind="class", names=self.reader().symbols)


class VariableLength(GeneratedSequences):
    """Sequences of random length."""

    shortest: int = Field(5, ge=1, le=10_000, description="minimum length in symbols")
    longest: int = Field(20, ge=1, le=10_000, description="maximum length in symbols")
    train: ExampleCount = Field(20_000, description="number of training sequences")
    validation: ExampleCount = Field(1_000, description="number of validation sequences")
    test: ExampleCount = Field(5_000, description="number of test sequences")

    @model_validator(mode="after")
    def _lengths_in_order(self) -> Self:
        if self.shortest > self.longest:
            raise ValueError(f"shortest is {self.shortest}; allowed: at most longest={self.longest}")
        return self

    def sample_lengths(self, count: int, rng: Generator) -> Tensor:
        """-> (N)

        Uniformly random lengths.
        """
        return torch.randint(self.shortest, self.longest + 1, (count,), generator=rng)

    def padding(self, lengths: Tensor) -> Tensor:
        """(N) -> (N, T)

        True for padding.
        """
        return torch.arange(self.longest) >= lengths.unsqueeze(1)


class Letters(VariableLength):
    """Sequences of random letters."""

    symbols: int = Field(4, ge=2, le=26, description="number of distinct letters")

    def sample(self, count: int, rng: Generator) -> Tensor:
        """-> (N, T)

        Uniformly random letters.
        """
        rows_NT = torch.randint(self.symbols, (count, self.longest), generator=rng)
        rows_NT[self.padding(self.sample_lengths(count, rng))] = PADDING
        return rows_NT

    def reader(self) -> Symbols:
        """Symbols named a, b, c, …"""
        return Symbols(symbols=tuple(map(chr, range(ord("a"), ord("a") + self.symbols))))


class Majority(Letters):
    """Find the most frequent letter; it is always unique."""

    kind: Literal["majority"] = Field("majority", description="find the most frequent letter")

    def sample(self, count: int, rng: Generator) -> Tensor:
        """-> (N, T)

        Random letters, without the sequences in which two letters are equally frequent.
        """
        rows_NT = super().sample(count, rng)
        counts_N2 = self._counts(rows_NT).topk(2).values
        return rows_NT[counts_N2[:, 0] > counts_N2[:, 1]]

    def answer(self, rows: Tensor) -> Tensor:
        """(N, T) -> (N)

        The id of the most frequent letter.
        """
        return self._counts(rows).argmax(1)

    def _counts(self, rows: Tensor) -> Tensor:
        """(N, T) -> (N, V)

        How often each letter occurs.
        """
        return F.one_hot(rows + 1, self.symbols + 1).sum(1)[:, 1:]

    def answers(self) -> Answers:
        """One letter per sequence."""
        return Answers(kind="class", names=self.reader().symbols)


class Count(Letters):
    """Count how often the first letter occurs, including the first position."""

    kind: Literal["count"] = Field("count", description="count the occurrences of the first letter")

    def answer(self, rows: Tensor) -> Tensor:
        """(N, T) -> (N)

        The number of occurrences.
        """
        return (rows == rows[:, :1]).sum(1).float()

    def answers(self) -> Answers:
        """One number per sequence."""
        return Answers(kind="number")


class Brackets(VariableLength):
    """Decide whether all brackets are closed in the right order.

    Half of the sequences of each length are balanced. The others are balanced sequences in which one or two
    brackets were replaced.
    """

    kind: Literal["brackets"] = Field("brackets", description="decide whether brackets are balanced")
    shortest: int = Field(2, ge=2, le=10_000, description="minimum length in symbols")
    pairs: str = Field("()[]", description="the brackets: an opening and a closing character per pair")

    @model_validator(mode="after")
    def _valid_pairs(self) -> Self:
        if not self.pairs or len(self.pairs) % 2 or len(set(self.pairs)) < len(self.pairs):
            raise ValueError(
                f"pairs is {self.pairs!r}; allowed: distinct characters, two per pair, as in '()[]'"
            )
        return self

    def sample(self, count: int, rng: Generator) -> Tensor:
        """-> (N, T)

        Balanced sequences, about half of which are made unbalanced by replacing brackets.
        """
        lengths_N = self.sample_lengths(count, rng) // 2 * 2
        rows_NT = self._sample_balanced(lengths_N, rng)
        unbalanced_NT = rows_NT.clone()
        row_N = torch.arange(count)
        for _ in range(2):
            position_N = (torch.rand(count, generator=rng) * lengths_N).long()
            unbalanced_NT[row_N, position_N] = torch.randint(len(self.pairs), (count,), generator=rng)
        replace_N = torch.rand(count, generator=rng) < 0.5
        rows_NT = torch.where(replace_N.unsqueeze(1), unbalanced_NT, rows_NT)
        # A replaced bracket may be the same bracket again: such sequences are still balanced.
        return rows_NT[(self.answer(rows_NT) == 0) == replace_N]

    def _sample_balanced(self, lengths_N: Tensor, rng: Generator) -> Tensor:
        """(N) -> (N, T)

        Each bracket opens or closes with equal probability where both are possible.
        """
        count = len(lengths_N)
        row_N = torch.arange(count)
        depth_N = torch.zeros(count, dtype=torch.long)
        stack_NT = torch.zeros(count, self.longest + 1, dtype=torch.long)
        rows_NT = torch.full((count, self.longest), PADDING)
        for t in range(self.longest):
            remaining_N = lengths_N - t
            opens_N = (torch.rand(count, generator=rng) < 0.5) & (depth_N < remaining_N) | (depth_N == 0)
            opening_N = 2 * torch.randint(len(self.pairs) // 2, (count,), generator=rng)
            closing_N = stack_NT[row_N, depth_N] + 1
            rows_NT[:, t] = torch.where(opens_N, opening_N, closing_N).where(remaining_N > 0, PADDING)
            depth_N = depth_N + torch.where(opens_N, 1, -1)
            stack_NT[row_N, depth_N.clamp(max=self.longest)] = opening_N.where(
                opens_N, stack_NT[row_N, depth_N.clamp(max=self.longest)]
            )
        return rows_NT

    def answer(self, rows: Tensor) -> Tensor:
        """(N, T) -> (N)

        1 if balanced, 0 if not. Symbol 2p opens pair p and symbol 2p + 1 closes it; each row has a stack.
        """
        row_N = torch.arange(len(rows))
        depth_N = torch.zeros(len(rows), dtype=torch.long)
        stack_NT = torch.full((len(rows), rows.shape[1] + 1), PADDING)
        balanced_N = torch.ones(len(rows), dtype=torch.bool)
        for symbol_N in rows.T:
            opens_N = (symbol_N != PADDING) & (symbol_N % 2 == 0)
            closes_N = (symbol_N != PADDING) & (symbol_N % 2 == 1)
            balanced_N &= ~closes_N | (stack_NT[row_N, depth_N] == symbol_N - 1) & (depth_N > 0)
            depth_N = (depth_N + opens_N.long() - closes_N.long()).clamp(min=0)
            stack_NT[row_N[opens_N], depth_N[opens_N]] = symbol_N[opens_N]
        return (balanced_N & (depth_N == 0)).float()

    def balance(self, rows: Tensor) -> Tensor:
        """(N, T) -> (N)

        Keep equally many balanced and unbalanced sequences of each length.
        """
        balanced_N, length_N = self.answer(rows).bool(), (rows != PADDING).sum(1)
        kept_N = torch.zeros(len(rows), dtype=torch.bool)
        for length in length_N.unique():
            both = [
                ((length_N == length) & answer_N).nonzero().squeeze(1)
                for answer_N in (balanced_N, ~balanced_N)
            ]
            count = min(map(len, both))
            for index in both:
                kept_N[index[:count]] = True
        return kept_N

    def reader(self) -> Symbols:
        """One symbol per bracket."""
        return Symbols(symbols=tuple(self.pairs))

    def answers(self) -> Answers:
        """Yes or no."""
        return Answers(kind="yes-no", names=("no", "yes"))


def _ragged(rows_NT: Tensor) -> Ragged:
    real_NT = rows_NT != PADDING
    ends = real_NT.sum(1).cumsum(0)
    return Ragged(rows_NT[real_NT], torch.cat((ends.new_zeros(1), ends)))


def _first_of_each(values_N: Tensor) -> Tensor:
    """The indices at which each distinct value occurs for the first time, in order."""
    _, group_N = values_N.unique(return_inverse=True)
    first = torch.full((int(group_N.max()) + 1,), len(values_N)).scatter_reduce(
        0, group_N, torch.arange(len(values_N)), "amin"
    )
    return first.sort().values
