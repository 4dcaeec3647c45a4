"""The sides of an attention record: which tokens the queries and keys of each attention are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from limelight.errors import wrong
from limelight.view.collect import Attention
from limelight.view.record import Picture

BYTE_LEVEL_SPACE, BYTE_LEVEL_LINE_END = "Ġ", "Ċ"  # of GPT-2 and others
WORD_START = "▁"  # of SentencePiece, which the page shows as the start of a word

Texts = dict[str, tuple[str, ...]]


@dataclass(frozen=True)
class Place:
    """The part of the model that an attention is in, and the sides of its queries and its keys."""

    part: str
    queries: str
    keys: str
    length: int  # number of queries
    size: int  # number of keys


def places_of(attentions: Sequence[Attention]) -> list[Place]:
    """The place of each attention.

    A model with cross-attention has a source and a target. Sequences of other lengths are sides of their own.
    """
    crossing = next((one for one in attentions if one.role == "cross" and one.weights.shape[2] > 1), None)
    places = [_place(one, crossing) for one in attentions]
    first = dict[str, int]()
    return [
        replace(one, queries=_name(first, one.queries, one.length), keys=_name(first, one.keys, one.size))
        for one in places
    ]


def _place(one: Attention, crossing: Attention | None) -> Place:
    length, size = one.weights.shape[2:]
    if one.role == "cross" and crossing is not None:
        return Place("cross-attention", "target", "source", length, size)
    if length != size:
        part = "pooling" if length == 1 else "self-attention"
        return Place(part, "question" if length == 1 else "queries", "source", length, size)
    if crossing is None:
        return Place("self-attention", "source", "source", length, size)
    if _is_of_decoder(one, crossing):
        return Place("decoder", "target", "target", length, size)
    return Place("encoder", "source", "source", length, size)


def _is_of_decoder(one: Attention, crossing: Attention) -> bool:
    """Whether the queries of the cross-attention attend to each other: known by length, or by name."""
    length, (target, source) = one.weights.shape[2], crossing.weights.shape[2:]
    if target != source:
        return length == target
    return _stack(one.name) == _stack(crossing.name)


def _stack(name: str) -> list[str]:
    """The part of a name before its first number: the stack of layers that a module is in."""
    parts = name.split(".")
    return parts[: next((i for i, part in enumerate(parts) if part.isdigit()), len(parts))]


def _name(first: dict[str, int], side: str, size: int) -> str:
    """The name of a side; those of other lengths than the first have it in their name."""
    return side if first.setdefault(side, size) == size else f"{side} of {size}"


def token_texts(places: Sequence[Place], tokens: Any, ids: Sequence[Sequence[int]], number: int) -> Texts:
    """The tokens of each side of an example: those given, else the ids of that length, else the positions."""
    sizes = {one.queries: one.length for one in places} | {one.keys: one.size for one in places}
    texts = {side: tuple(map(str, range(size))) for side, size in sizes.items()}
    free = list(ids)
    for side in sorted(sizes, key=lambda one: one != "source"):
        match = next((one for one in free if len(one) == sizes[side]), None)
        if match is not None:
            free.remove(match)
            texts[side] = tuple(map(str, match))
    if tokens is None:
        return texts
    named = tokens if isinstance(tokens, Mapping) else {"": tokens}
    for side, given in named.items():
        own = _of_example(given, number)
        side = side or next((one for one, size in sizes.items() if size == len(own)), "source")
        if sizes.get(side) != len(own):
            allowed = " or ".join(f"{size} of {one}" for one, size in sizes.items())
            raise wrong("tokens", f"{len(own)} of {side}", allowed)
        texts[side] = readable(own)
    return texts


def _of_example(tokens: Any, number: int) -> list[str]:
    """A list of tokens, or that of an example among several lists."""
    if isinstance(tokens, str) or not len(tokens):
        raise wrong("tokens", repr(tokens), "a list of texts, one per token")
    if isinstance(tokens[0], str):
        return [str(one) for one in tokens]
    if number >= len(tokens):
        raise wrong("tokens", f"{len(tokens)} lists", "a list per example")
    return [str(one) for one in tokens[number]]


def readable(tokens: Sequence[str]) -> tuple[str, ...]:
    """The tokens, with the mark of SentencePiece for the start of a word in byte-level subwords, too."""
    if not any(token.startswith(BYTE_LEVEL_SPACE) for token in tokens):
        return tuple(tokens)
    first = tokens[0] if tokens[0][:1] in (BYTE_LEVEL_SPACE, "<", "[") else BYTE_LEVEL_SPACE + tokens[0]
    changes = str.maketrans({BYTE_LEVEL_SPACE: WORD_START, BYTE_LEVEL_LINE_END: "\n"})
    return tuple(token.translate(changes) for token in (first, *tokens[1:]))


def image_tokens(image: Picture) -> tuple[str, ...]:
    """The names of the tokens of an image: those before the patches, and row and column of each patch."""
    before = ("[class]",) if image.first == 1 else tuple(f"[{i}]" for i in range(image.first))
    patches = (f"{row}, {column}" for row in range(image.rows) for column in range(image.columns))
    return (*before, *patches)
