"""Text generated token by token, and the probability of a given text."""

import codecs
import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from pydantic import Field
from torch import Tensor

from limelight.data.text.text_vocabulary import END, UNKNOWN, TextVocabulary
from limelight.models.decoder_only import LanguageGenerator, LanguageModel
from limelight.nn import FastCache
from limelight.nn.tap import is_edited
from limelight.tasks.sampling import Sampling, draw_noise, sample

GUESSES = 31  # tokens that are guessed before their logits are computed at once


class LanguageOptions(Sampling):
    """How a text is continued, or that it is scored instead."""

    length: int = Field(100, ge=1, le=1_000_000, description="maximum number of generated tokens")
    repetition: float = Field(
        1.0, gt=0, le=100, description="divides the logits of tokens that occurred; 1 changes nothing"
    )
    stop: str = Field("", description="text at which generation ends")
    score: bool = Field(False, description="give the log-probability of the text instead of continuing it")


class OwnGeneration(ABC):
    """A generator that can also generate whole texts by itself, for example with another library."""

    @abstractmethod
    def generate(
        self, start: Sequence[int], context: int, options: LanguageOptions
    ) -> Iterator[tuple[int, float]] | None:
        """The result of `next_tokens`; None if it has to be computed token by token."""


@torch.inference_mode()
def next_tokens(
    model: LanguageModel,
    start: Sequence[int],
    context: int,
    options: LanguageOptions,
    *,
    end: int = END,
    unknown: int = UNKNOWN,
) -> Iterator[tuple[int, float]]:
    """The tokens after `start`, each with its log-probability, until the end of the document.

    `end` and `unknown` are the ids of these tokens; -1 if there are none.

    The model reads at most `context` tokens. When they are full, it goes on with the second half of them. A
    large model first guesses several tokens with weights of eight bits, and then computes the logits of all
    of them at once (Leviathan et al. 2023). Guesses up to the first wrong one are kept: apart from rounding,
    the tokens do not depend on the guesses.
    """
    # Fast copies of the weights know nothing of changed attention weights.
    generator: Any = model if is_edited(model) else model.generator()
    if isinstance(generator, OwnGeneration):
        own = generator.generate(start, context, options)
        if own is not None:
            yield from own
            return
    draft = None if generator is model else generator.draft()
    device = next(model.parameters()).device
    choose = _Choice(options, device, unknown)
    tokens = list(start)
    row_1T = torch.tensor([tokens[-context:]], device=device)
    capacity = min(context, row_1T.shape[1] + options.length)
    logits_1TV, cache = generator.start(row_1T, capacity=capacity)
    logits_TV, guesses, most, left = logits_1TV[0, -1:], list[int](), GUESSES, options.length
    while True:
        for right, logits_1V in enumerate(logits_TV.split(1)):
            token, log_probability = choose(logits_1V, tokens)
            yield token, log_probability
            left -= 1
            if token == end or not left:
                return
            tokens.append(token)
            if guesses[right : right + 1] != [token]:
                break
        if guesses:
            most = min(GUESSES, 2 * right + 1)  # fewer where many are wrong
            cache.length -= len(guesses) - right
        if cache.length < capacity:
            count = min(most, left - 1, capacity - cache.length - 1)
            guesses = _guess(draft, tokens, cache, choose, count) if draft else []
            logits_TV = generator.step(torch.tensor([tokens[-1], *guesses], device=device), cache)
        else:
            row_1T = torch.tensor([tokens[-max(1, context // 2) :]], device=device)
            logits_1TV, cache = generator.start(row_1T, capacity=capacity)
            logits_TV, guesses = logits_1TV[0, -1:], []


def _guess(
    draft: LanguageGenerator, tokens: Sequence[int], cache: FastCache, choose: "_Choice", count: int
) -> list[int]:
    """The next tokens, if the approximate model is right; the cache keeps its length."""
    length, all_tokens = cache.length, list(tokens)
    for ahead in range(count):
        logits_1V = draft.step(torch.tensor(all_tokens[-1:], device=choose.device), cache)
        all_tokens.append(choose.ahead(logits_1V, all_tokens, ahead))
    cache.length = length
    return all_tokens[len(tokens) :]


class _Choice:
    """Chooses the next token. The random numbers belong to its position, so that a guess draws the same."""

    def __init__(self, options: LanguageOptions, device: torch.device, unknown: int) -> None:
        self.options, self.device, self.unknown = options, device, unknown
        self._random = torch.Generator(device).manual_seed(options.seed)
        self._noise = deque[Tensor]()  # of the next positions

    def __call__(self, logits: Tensor, tokens: Sequence[int]) -> tuple[int, float]:
        """(1, V) -> the next token and its log-probability"""
        logits = self._changed(logits, tokens)
        token = self._pick(logits, 0)
        if self._noise:
            self._noise.popleft()
        return token, float(logits.log_softmax(-1)[0, token])

    def ahead(self, logits: Tensor, tokens: Sequence[int], ahead: int) -> int:
        """(1, V) -> the token that would be chosen after `ahead` others"""
        return self._pick(self._changed(logits, tokens), ahead)

    def _changed(self, logits: Tensor, tokens: Sequence[int]) -> Tensor:
        if self.unknown >= 0:
            # It stands for many words or characters, and cannot be written.
            logits[:, self.unknown] = -math.inf
        repetition = self.options.repetition
        return logits if repetition == 1 else penalise(logits, tokens, repetition)

    def _pick(self, logits: Tensor, ahead: int) -> int:
        if not self.options.temperature:
            return int(logits.argmax(-1))
        while len(self._noise) <= ahead:
            self._noise.append(draw_noise(logits, self._random))
        return int(sample(logits, self.options, self._noise[ahead]))


def penalise(logits: Tensor, tokens: Sequence[int], penalty: float) -> Tensor:
    """(1, V) -> (1, V)

    The logits of these tokens are divided by the penalty, or multiplied by it if they are negative (Keskar et
    al. 2019, section 4.1).
    """
    index = torch.tensor(sorted(set(tokens)), device=logits.device)
    found = logits[:, index]
    return logits.index_copy(1, index, torch.where(found > 0, found / penalty, found * penalty))


def text_pieces(tokens: Iterator[int], vocabulary: TextVocabulary, stop: str = "") -> Iterator[str]:
    """The text of tokens, in pieces of whole characters, up to the text `stop`."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    held = ""  # may be the beginning of `stop`
    for token in tokens:
        held += decoder.decode(vocabulary.contents[token])
        if stop and stop in held:
            yield held[: held.index(stop)]
            return
        ready = len(held) - _beginning(held, stop)
        if ready:
            yield held[:ready]
            held = held[ready:]
    if rest := held + decoder.decode(b"", final=True):
        yield rest


def _beginning(text: str, stop: str) -> int:
    """How many characters at the end of the text may be the beginning of `stop`."""
    return next((size for size in range(len(stop) - 1, 0, -1) if text.endswith(stop[:size])), 0)


@torch.inference_mode()
def log_probabilities(model: LanguageModel, row: Tensor, context: int) -> Tensor:
    """(T) -> (t)

    The log-probability of each token but the first. Each is predicted from the tokens before it in a window
    of `context` tokens; a window shares half of its tokens with the one before.
    """
    device, found, read = next(model.parameters()).device, list[Tensor](), 0
    while read < len(row) - 1:
        start = max(0, read - context // 2)
        window = row[start : start + context + 1]
        logits_TV = model(window[:-1].unsqueeze(0).to(device))[0].float().log_softmax(-1).cpu()
        likely_T = logits_TV.gather(1, window[1:].unsqueeze(1)).squeeze(1)
        found.append(likely_T[read - start :])
        read = start + len(window) - 1
    return torch.cat(found) if found else torch.zeros(0)
