"""Generation token by token: greedy search, beam search and sampling."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor

from limelight.tasks.sampling import Sampling, draw_noise, greedy, sample

FINISHED_SHARE = 0.25  # share of finished sentences at which they are removed, because removal has a cost


class Generator(Protocol):
    """A model that generates: `start` encodes the sources, `step` gives the logits of the next tokens."""

    longest: int | None  # maximum number of tokens that it can read or generate; None: no limit

    def start(self, source: Tensor, lengths: Tensor | None = None, *, capacity: int) -> Any:
        """(B, S), (B) -> a state

        Its `reorder(index, sources=...)` keeps the sentences that `index` selects; without `sources`, each
        row keeps its source.
        """

    def step(self, tokens: Tensor, state: Any) -> Tensor:
        """(B) -> (B, V)"""


class OwnSearch(ABC):
    """A generator that can also search for whole translations by itself, for example with another library."""

    @abstractmethod
    def search(self, sources: "Sources", search: "Search") -> "list[list[Hypothesis]] | None":
        """The result of `decode`; None if it has to be computed token by token."""


class Search(Sampling):
    """How tokens are chosen. One beam is greedy search; a temperature above 0 samples instead."""

    beam: int = Field(1, ge=1, le=1_000, description="number of beams; 1 is greedy search")
    n_best: int = Field(1, ge=1, le=1_000, description="number of answers per input")
    length_penalty: float = Field(
        1.0,
        ge=0,
        le=10,
        description="answers are ranked by log-probability / length^penalty, with the length in tokens",
    )

    probability: bool = Field(
        True,
        description="whether answers have their probability; without it, an engine may be faster",
    )

    @model_validator(mode="after")
    def _check_combination(self) -> Self:
        if self.temperature and self.beam > 1:
            raise ValueError(f"beam is {self.beam}; allowed with a temperature: 1")
        if not self.temperature and self.n_best > self.beam:
            raise ValueError(f"n_best is {self.n_best}; allowed: at most beam={self.beam}, or a temperature")
        if self.beam == 1 and self.length_penalty != 1:
            raise ValueError(f"length_penalty is {self.length_penalty}; allowed with one beam: 1")
        return self


@dataclass(frozen=True)
class Hypothesis:
    """Tokens without begin and end marks, and their log-probability including that of the end mark.

    It is NaN if it was not computed.
    """

    tokens: list[int]
    log_probability: float


@dataclass(frozen=True)
class Sources:
    """(B, S), (B): source sentences, and the maximum length of each translation with its end mark."""

    tokens: Tensor
    lengths: Tensor | None
    limits: Sequence[int]
    begin: int
    end: int
    banned: int | None = None  # a token that is never generated


@torch.inference_mode()
def decode(model: Generator, sources: Sources, search: Search) -> list[list[Hypothesis]]:
    """The `n_best` hypotheses of each source, the best first."""
    if isinstance(model, OwnSearch) and (own := model.search(sources, search)) is not None:
        return own
    if search.beam > 1:
        found = beam_search(model, sources, search.beam, search.length_penalty)
        return [hypotheses[: search.n_best] for hypotheses in found]
    if not search.temperature:
        return [[hypothesis] for hypothesis in generate(model, sources, greedy)]
    random = torch.Generator(sources.tokens.device).manual_seed(search.seed)
    sampled = [
        generate(model, sources, lambda logits: sample(logits, search, draw_noise(logits, random)))
        for _ in range(search.n_best)
    ]
    return [sorted(several, key=lambda h: -h.log_probability) for several in zip(*sampled, strict=True)]


def generate(model: Generator, sources: Sources, choose: Callable[[Tensor], Tensor]) -> list[Hypothesis]:
    """One token after another, chosen from logits (B, V); finished sentences are removed from the batch."""
    state = model.start(sources.tokens, sources.lengths, capacity=max(sources.limits))
    count = len(sources.limits)
    rows = list(range(count))  # the sentence in each row of the batch
    done = [False] * count
    generated: list[list[int]] = [[] for _ in rows]
    sums = [0.0] * count
    tokens = torch.full((count,), sources.begin, device=sources.tokens.device)
    while not all(done):
        logits_BV = _without(sources.banned, model.step(tokens, state))
        tokens = choose(logits_BV)
        likely = logits_BV.log_softmax(-1).gather(1, tokens.unsqueeze(1)).squeeze(1).tolist()
        for row, token, log_probability in zip(rows, tokens.tolist(), likely, strict=True):
            if done[row]:
                continue
            sums[row] += log_probability
            if token != sources.end:
                generated[row].append(token)
            done[row] = token == sources.end or len(generated[row]) + 1 >= sources.limits[row]
        left = [place for place, row in enumerate(rows) if not done[row]]
        if left and len(left) <= (1 - FINISHED_SHARE) * len(rows):
            index = torch.tensor(left, device=tokens.device)
            state.reorder(index)
            tokens, rows = tokens.index_select(0, index), [rows[place] for place in left]
    return [Hypothesis(*one) for one in zip(generated, sums, strict=True)]


def _without(token: int | None, logits: Tensor) -> Tensor:
    """(N, V) -> (N, V)"""
    if token is not None:
        logits[:, token] = -torch.inf
    return logits


class Beams:
    """The beams of one sentence: active, finished, and truncated at the maximum length."""

    def __init__(self, width: int, penalty: float, limit: int, end: int) -> None:
        self.width, self.penalty, self.limit, self.end = width, penalty, limit, end
        self.active: list[Hypothesis] = [Hypothesis([], 0.0)]
        self.finished: list[Hypothesis] = []
        self.truncated: list[Hypothesis] = []

    @property
    def done(self) -> bool:
        """Whether the search for this sentence is complete."""
        return bool(self.truncated) or len(self.finished) >= self.width

    @property
    def best(self) -> list[Hypothesis]:
        """The best hypotheses; truncated ones come last, because they have no end mark."""
        return (sorted(self.finished, key=self._loss) + sorted(self.truncated, key=self._loss))[: self.width]

    def _loss(self, hypothesis: Hypothesis) -> float:
        return -hypothesis.log_probability / (len(hypothesis.tokens) + 1) ** self.penalty

    def advance(self, candidates: list[tuple[int, int, float]]) -> list[int]:
        """Extend the beams by the best candidates (beam, token, log-probability).

        Returns the beam that each active one extends.
        """
        before, self.active, origins = self.active, [], []
        for rank, (beam, token, log_probability) in enumerate(candidates):
            if token == self.end:
                if rank < self.width:
                    self.finished.append(Hypothesis(before[beam].tokens, log_probability))
            elif len(self.active) < self.width:
                self.active.append(Hypothesis([*before[beam].tokens, token], log_probability))
                origins.append(beam)
        if len(self.active[0].tokens) + 1 >= self.limit:
            self.truncated = self.active
        return origins


def beam_search(model: Generator, sources: Sources, width: int, penalty: float) -> list[list[Hypothesis]]:
    """Each step keeps the best `width` beams; a sentence is done when as many have finished."""
    device = sources.tokens.device
    state = model.start(sources.tokens, sources.lengths, capacity=max(sources.limits))
    every = [Beams(width, penalty, limit, sources.end) for limit in sources.limits]
    active, tokens = every, torch.full((len(every),), sources.begin, device=device)
    sums_Bb = torch.zeros(len(every), 1, device=device)
    while active:
        logits_NV = _without(sources.banned, model.step(tokens, state))
        log_probability_BbV = logits_NV.log_softmax(-1).unflatten(0, (len(active), -1))
        total_BbV = log_probability_BbV + sums_Bb.unsqueeze(-1)
        # Twice as many candidates, so that `width` beams stay active even if each of them can end.
        best = total_BbV.flatten(1).topk(min(2 * width, total_BbV[0].numel()))
        size, rows = total_BbV.shape[-1], total_BbV.shape[1]
        origins: list[int] = []
        for place, (beams, places, values) in enumerate(
            zip(active, best.indices.tolist(), best.values.tolist(), strict=True)
        ):
            candidates = [(at // size, at % size, value) for at, value in zip(places, values, strict=True)]
            extended = beams.advance(candidates)
            if not beams.done:
                origins += [place * rows + beam for beam in extended]
        before, active = len(active), [beams for beams in active if not beams.done]
        if active:
            # Whether the rows are the same number of beams of the same sentences.
            same = len(active) == before and len(origins) == len(tokens)
            state.reorder(torch.tensor(origins, device=device), sources=not same)
            tokens = torch.tensor([h.tokens[-1] for beams in active for h in beams.active], device=device)
            sums_Bb = torch.tensor(
                [[h.log_probability for h in beams.active] for beams in active], device=device
            )
    return [beams.best for beams in every]
