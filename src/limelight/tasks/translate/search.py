"""How a sentence is written, token by token: the most likely one, the best of several beams, or by chance."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor

from limelight.config import Config

COLDEST = 0.001  # temperature: below it logits overflow, and nothing is left to chance anyway
LEAVE = 0.25  # the share of a batch that has ended when it is moved out: moving costs as much as computing


class Writer(Protocol):
    """A model that writes: `start` reads the sources, `step` says what may follow the last tokens."""

    longest: int | None  # tokens that it can read or write; None: any number

    def start(self, source: Tensor, lengths: Tensor | None = None, *, capacity: int) -> Any:
        """(B, S), (B) -> a state

        Its `reorder(index, sources=...)` keeps the sentences that `index` names; without `sources`, each
        row goes on with the source that it had.
        """

    def step(self, tokens: Tensor, state: Any) -> Tensor:
        """(B) -> (B, V)"""


class Search(Config):
    """How to write. One beam takes the most likely token each time; a temperature draws instead."""

    beam: int = Field(1, ge=1, le=1_000)
    n_best: int = Field(1, ge=1, le=1_000)
    length_penalty: float = Field(1.0, ge=0, le=10)  # beams go by log-probability / length^penalty
    temperature: float = Field(0.0, ge=0)
    top_k: int = Field(0, ge=0, le=1_000_000)  # draw only from the k most likely; 0: from all
    top_p: float = Field(1.0, gt=0, le=1)  # draw only from the most likely that make up this share
    seed: int = Field(1, ge=0, le=2**63 - 1)

    @model_validator(mode="after")
    def _goes_together(self) -> Self:
        if self.temperature and self.beam > 1:
            raise ValueError(f"beam is {self.beam}; allowed with a temperature: 1")
        if not self.temperature and self.n_best > self.beam:
            raise ValueError(f"n_best is {self.n_best}; allowed: at most beam={self.beam}, or a temperature")
        if 0 < self.temperature < COLDEST:
            raise ValueError(f"temperature is {self.temperature}; allowed: 0, or at least {COLDEST}")
        if self.beam == 1 and self.length_penalty != 1:
            raise ValueError(f"length_penalty is {self.length_penalty}; allowed with one beam: 1")
        if not self.temperature and (self.top_k or self.top_p < 1):
            raise ValueError("temperature is 0; allowed with top_k or top_p: more than 0")
        return self


@dataclass(frozen=True)
class Hypothesis:
    """Tokens without marks, and the logarithm of their probability, the end mark's too."""

    tokens: list[int]
    log_probability: float


@dataclass(frozen=True)
class Sources:
    """(B, S), (B): what is to be translated, and how many tokens each may become, its end mark too."""

    tokens: Tensor
    lengths: Tensor | None
    limits: Sequence[int]
    begin: int
    end: int


@torch.inference_mode()
def decode(model: Writer, sources: Sources, search: Search) -> list[list[Hypothesis]]:
    """For each source the `n_best`, the best first."""
    if search.beam > 1:
        found = beam_search(model, sources, search.beam, search.length_penalty)
        return [hypotheses[: search.n_best] for hypotheses in found]
    if not search.temperature:
        return [[hypothesis] for hypothesis in write(model, sources, most_likely)]
    draw = torch.Generator(sources.tokens.device).manual_seed(search.seed)
    drawn = [
        write(model, sources, lambda logits: by_chance(logits, search, draw)) for _ in range(search.n_best)
    ]
    return [sorted(several, key=lambda h: -h.log_probability) for several in zip(*drawn, strict=True)]


def most_likely(logits: Tensor) -> Tensor:
    """(B, V) -> (B)"""
    return logits.argmax(-1)


def by_chance(logits: Tensor, search: Search, draw: torch.Generator) -> Tensor:
    """(B, V) -> (B)"""
    logits = logits / search.temperature
    if search.top_k:
        least = logits.topk(min(search.top_k, logits.shape[-1])).values[:, -1:]
        logits = logits.masked_fill(logits < least, -torch.inf)
    if search.top_p < 1:
        sorted_BV, order_BV = logits.softmax(-1).sort(-1, descending=True)
        # What comes before a token makes up the share already: the token is not needed. The first always is.
        beyond_BV = sorted_BV.cumsum(-1) - sorted_BV >= search.top_p
        logits = logits.masked_fill(beyond_BV.gather(-1, order_BV.argsort(-1)), -torch.inf)
    return torch.multinomial(logits.softmax(-1), 1, generator=draw).squeeze(-1)


def write(model: Writer, sources: Sources, choose: Callable[[Tensor], Tensor]) -> list[Hypothesis]:
    """One token after another, each chosen by its logits (B, V); sentences that ended leave the batch."""
    state = model.start(sources.tokens, sources.lengths, capacity=max(sources.limits))
    count = len(sources.limits)
    rows = list(range(count))  # which sentence each row of the batch is
    done = [False] * count
    written: list[list[int]] = [[] for _ in rows]
    sums = [0.0] * count
    tokens = torch.full((count,), sources.begin, device=sources.tokens.device)
    while not all(done):
        logits_BV = model.step(tokens, state)
        tokens = choose(logits_BV)
        likely = logits_BV.log_softmax(-1).gather(1, tokens.unsqueeze(1)).squeeze(1).tolist()
        for row, token, log_probability in zip(rows, tokens.tolist(), likely, strict=True):
            if done[row]:
                continue
            sums[row] += log_probability
            if token != sources.end:
                written[row].append(token)
            done[row] = token == sources.end or len(written[row]) + 1 >= sources.limits[row]
        left = [place for place, row in enumerate(rows) if not done[row]]
        if left and len(left) <= (1 - LEAVE) * len(rows):
            index = torch.tensor(left, device=tokens.device)
            state.reorder(index)
            tokens, rows = tokens.index_select(0, index), [rows[place] for place in left]
    return [Hypothesis(*one) for one in zip(written, sums, strict=True)]


class Beams:
    """The beams of one sentence: those that go on, and those that have ended."""

    def __init__(self, width: int, penalty: float, limit: int, end: int) -> None:
        self.width, self.penalty, self.limit, self.end = width, penalty, limit, end
        self.going: list[Hypothesis] = [Hypothesis([], 0.0)]
        self.ended: list[Hypothesis] = []
        self.cut: list[Hypothesis] = []  # at the limit, before they ended

    @property
    def done(self) -> bool:
        return bool(self.cut) or len(self.ended) >= self.width

    @property
    def best(self) -> list[Hypothesis]:
        """What was cut comes last: it has not paid for an end mark."""
        return (sorted(self.ended, key=self._loss) + sorted(self.cut, key=self._loss))[: self.width]

    def _loss(self, hypothesis: Hypothesis) -> float:
        return -hypothesis.log_probability / (len(hypothesis.tokens) + 1) ** self.penalty

    def advance(self, candidates: list[tuple[int, int, float]]) -> list[int]:
        """Take the best of (beam, token, log-probability); -> the beams that the new ones come from."""
        before, self.going, origins = self.going, [], []
        for rank, (beam, token, log_probability) in enumerate(candidates):
            if token == self.end:
                if rank < self.width:
                    self.ended.append(Hypothesis(before[beam].tokens, log_probability))
            elif len(self.going) < self.width:
                self.going.append(Hypothesis([*before[beam].tokens, token], log_probability))
                origins.append(beam)
        if len(self.going[0].tokens) + 1 >= self.limit:
            self.cut = self.going
        return origins


def beam_search(model: Writer, sources: Sources, width: int, penalty: float) -> list[list[Hypothesis]]:
    """The best `width` beams go on at every step; a sentence is done when as many have ended."""
    device = sources.tokens.device
    state = model.start(sources.tokens, sources.lengths, capacity=max(sources.limits))
    every = [Beams(width, penalty, limit, sources.end) for limit in sources.limits]
    going, tokens = every, torch.full((len(every),), sources.begin, device=device)
    sums_BK = torch.zeros(len(every), 1, device=device)
    while going:
        likely_BKV = model.step(tokens, state).log_softmax(-1).unflatten(0, (len(going), -1))
        total_BKV = likely_BKV + sums_BK.unsqueeze(-1)
        # Twice as many candidates: even if every beam might end, as many go on.
        best = total_BKV.flatten(1).topk(min(2 * width, total_BKV[0].numel()))
        size, rows = total_BKV.shape[-1], total_BKV.shape[1]
        origins: list[int] = []
        for place, (beams, places, values) in enumerate(
            zip(going, best.indices.tolist(), best.values.tolist(), strict=True)
        ):
            candidates = [(at // size, at % size, value) for at, value in zip(places, values, strict=True)]
            came_from = beams.advance(candidates)
            if not beams.done:
                origins += [place * rows + beam for beam in came_from]
        before, going = len(going), [beams for beams in going if not beams.done]
        if going:
            same = len(going) == before and len(origins) == len(tokens)  # as many beams of the same sentences
            state.reorder(torch.tensor(origins, device=device), sources=not same)
            tokens = torch.tensor([h.tokens[-1] for beams in going for h in beams.going], device=device)
            sums_BK = torch.tensor(
                [[h.log_probability for h in beams.going] for beams in going], device=device
            )
    return [beams.best for beams in every]
