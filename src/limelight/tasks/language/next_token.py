"""The tokens that may follow each token of a text, and text that grows token by token."""

import codecs
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from limelight.config import read
from limelight.data.text.text_vocabulary import TextVocabulary
from limelight.errors import wrong
from limelight.models.decoder_only import LanguageModel
from limelight.tasks.language.generation import LanguageOptions, next_tokens
from limelight.view.prompt import Prompt
from limelight.view.record import Candidate, Continuation, most_likely

CANDIDATES = 16  # per token of a record
TEMPERATURES = tuple(tenths / 10 for tenths in range(1, 21))


def following(
    model: LanguageModel,
    start: Sequence[int],
    context: int,
    options: LanguageOptions,
    vocabulary: TextVocabulary,
) -> Iterator[tuple[int, float]]:
    """The tokens of a vocabulary after `start`, each with its log-probability; see `next_tokens`."""
    return next_tokens(model, start, context, options, end=vocabulary.end, unknown=vocabulary.unknown)


def add_tokens(
    model: LanguageModel, start: Sequence[int], prompt: Prompt, vocabulary: TextVocabulary, context: int
) -> list[int]:
    """The tokens after the text of the prompt, whose own tokens are `start`, with the requested one more."""
    for token in prompt.tokens:
        if token >= vocabulary.size:
            raise wrong("token id", token, f"0 to {vocabulary.size - 1:,}")
    added = list(prompt.tokens)
    if prompt.temperature is not None:
        wanted = {"length": 1, "temperature": prompt.temperature, "seed": prompt.seed}
        options = read(LanguageOptions, wanted)
        added += [token for token, _ in following(model, [*start, *added], context, options, vocabulary)]
    return added


def whole_characters(tokens: Sequence[int], vocabulary: TextVocabulary) -> str:
    """The text of tokens, without a character at its end of which bytes are missing."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    return decoder.decode(b"".join(vocabulary.contents[token] for token in tokens))


def candidates(logits: Tensor, vocabulary: TextVocabulary) -> tuple[tuple[Candidate, ...], ...]:
    """(T, V) -> the most likely tokens after each token"""
    return tuple(most_likely(one_V, vocabulary.name, CANDIDATES) for one_V in logits.softmax(-1))


def continuation(logits: Tensor, added: Sequence[int], room: int, end: int) -> Continuation:
    """(T, V) -> what a page needs to add a token, and to show probabilities at other temperatures"""
    relative_TV = logits - logits.amax(-1, keepdim=True)
    totals_TK = torch.stack([(relative_TV / one).exp().sum(-1) for one in TEMPERATURES], -1)
    likely_V = logits[-1].softmax(-1)  # equal logits are sorted as in `candidates`
    return Continuation(
        tokens=tuple(added),
        ended=bool(added) and added[-1] == end,
        room=room,
        choices=tuple(likely_V.topk(min(CANDIDATES, len(likely_V))).indices.tolist()),
        temperatures=TEMPERATURES,
        totals=tuple(tuple(float(f"{total:.6g}") for total in row) for row in totals_TK.tolist()),
    )
