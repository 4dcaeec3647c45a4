"""Texts with missing tokens: read, filled in and written."""

import re
from collections.abc import Sequence

import torch
from pydantic import Field
from torch import Tensor

from limelight.config import Config
from limelight.data.text.pretrained_tokenizer import PretrainedTokenizer
from limelight.data.text.text_readers import TextReader

MASK = "[mask]"
# Vocabularies in which a token contains the space before it.
SPACED = ("text-subwords", "text-words", "pretrained")
GAP = re.compile(r"\[mask\]|_{3,}", re.IGNORECASE)


class MaskedOptions(Config):
    """Options of `predict`."""

    n_best: int = Field(1, ge=1, le=1_000, description="number of answers per input")


def read_masked(text: str, reader: TextReader) -> tuple[Tensor, Tensor]:
    """-> (T), (N): the ids of a text in which [mask] or ___ stands for a missing token, and their places"""
    row, places = list[int](), list[int]()
    for number, known in enumerate(pieces := _pieces(text, reader)):
        blank = not known.strip() if reader.unit == "words" else not known
        row += [] if blank else reader.encode_text(known.encode(errors="replace").decode()).tolist()
        if number < len(pieces) - 1:
            places.append(len(row))
            row.append(reader.mask)
    begin, finish = (reader.begin, reader.finish) if isinstance(reader, PretrainedTokenizer) else ((), ())
    places = [len(begin) + place for place in places]
    return torch.tensor([*begin, *row, *finish], dtype=torch.long), torch.tensor(places, dtype=torch.long)


def fill(text: str, tokens: Sequence[int], reader: TextReader) -> str:
    """The text with these tokens where tokens are missing."""
    first, *others = _pieces(text, reader)
    content = first.encode(errors="replace")
    for token, known in zip(tokens, others, strict=True):
        found = reader.contents[token] if content else reader.contents[token].lstrip(b" ")
        space = b" " if reader.unit == "words" and known[:1].isalnum() else b""
        content += found + space + known.encode(errors="replace")
    return content.decode(errors="replace")


def _pieces(text: str, reader: TextReader) -> list[str]:
    """The parts of a text between missing tokens. A subword or word contains the space before it."""
    *pieces, last = GAP.split(text)
    spaced = reader.kind in SPACED
    return [*(piece.removesuffix(" ") if spaced else piece for piece in pieces), last]


def write_masked(row: Tensor, hidden: Tensor, reader: TextReader) -> str:
    """(T), (T) -> the text of these ids, with [mask] for those that are hidden"""
    texts, begin = list[str](), 0
    for place in [*hidden.nonzero().flatten().tolist(), len(row)]:
        texts.append(reader.decode(row[begin:place]))
        begin = place + 1
    spaced = reader.kind in SPACED
    joined = texts[0]
    for text in texts[1:]:
        before = " " if spaced and joined and not joined[-1].isspace() else ""
        after = " " if reader.unit == "words" and text and text[0].isalnum() else ""
        joined += f"{before}{MASK}{after}{text}"
    return joined


def best_fillings(probabilities: Tensor, count: int) -> list[tuple[float, tuple[int, ...]]]:
    """(N, V) -> the `count` most likely choices of a token for each of N places, each with its probability

    The places are independent of each other.
    """
    found: list[tuple[float, tuple[int, ...]]] = [(1.0, ())]
    for p_V in probabilities:
        best = p_V.topk(min(count, len(p_V)))
        tokens = list(zip(best.values.tolist(), best.indices.tolist(), strict=True))
        longer = [(p * q, (*chosen, token)) for p, chosen in found for q, token in tokens]
        found = sorted(longer, key=lambda one: -one[0])[:count]
    return found


def token_probabilities(logits: Tensor, special: Sequence[int]) -> Tensor:
    """(..., V) -> (..., V), the probabilities of all tokens that can stand in a text, without special ones"""
    hidden = torch.zeros(logits.shape[-1], dtype=torch.bool, device=logits.device)
    hidden[list(special)] = True
    return logits.float().masked_fill(hidden, -torch.inf).softmax(-1)
