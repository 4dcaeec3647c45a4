"""Text generated token by token, and the probability of a given text."""

import codecs
from collections.abc import Iterator, Sequence

import torch
from pydantic import Field
from torch import Tensor

from limelight.data.text.text_vocabulary import END, TextVocabulary
from limelight.models.decoder_only import LanguageModel
from limelight.tasks.sampling import Sampling, sample


class LanguageOptions(Sampling):
    """How a text is continued, or that it is scored instead."""

    length: int = Field(100, ge=1, le=1_000_000, description="maximum number of generated tokens")
    repetition: float = Field(
        1.0, gt=0, le=100, description="divides the logits of tokens that occurred; 1 changes nothing"
    )
    stop: str = Field("", description="text at which generation ends")
    score: bool = Field(False, description="give the log-probability of the text instead of continuing it")


@torch.inference_mode()
def next_tokens(
    model: LanguageModel, start: Sequence[int], context: int, options: LanguageOptions
) -> Iterator[tuple[int, float]]:
    """The tokens after `start`, each with its log-probability, until the end of the document.

    The model reads at most `context` tokens. When they are full, it goes on with the second half of them.
    """
    generator = model.generator()
    device = next(model.parameters()).device
    random = torch.Generator(device).manual_seed(options.seed)
    tokens = list(start)
    row_1T = torch.tensor([tokens[-context:]], device=device)
    capacity = min(context, row_1T.shape[1] + options.length)
    logits_1TV, cache = generator.start(row_1T, capacity=capacity)
    logits_1V = logits_1TV[:, -1]
    for count in range(1, options.length + 1):
        if options.repetition != 1:
            logits_1V = penalise(logits_1V, tokens, options.repetition)
        chosen_1 = sample(logits_1V, options, random) if options.temperature else logits_1V.argmax(-1)
        token = int(chosen_1)
        yield token, float(logits_1V.log_softmax(-1)[0, token])
        if token == END or count == options.length:
            return
        tokens.append(token)
        if cache.length < capacity:
            logits_1V = generator.step(chosen_1, cache)
        else:
            row_1T = torch.tensor([tokens[-max(1, context // 2) :]], device=device)
            logits_1TV, cache = generator.start(row_1T, capacity=capacity)
            logits_1V = logits_1TV[:, -1]


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
