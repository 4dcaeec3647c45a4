"""A BPE model of sentencepiece as one of the package `tokenizers`."""

import base64
from collections.abc import Iterator
from typing import Any

import sentencepiece

from limelight.data.text.text_vocabulary import SPACE

NORMALIZER, CHARACTER_MAP = 3, 2  # numbers of the fields in sentencepiece_model.proto


def bpe_model(model: str, *, byte_fallback: bool) -> dict[str, Any]:
    """The `model` of a tokenizer.json: subwords with their ids, and merges in their order.

    sentencepiece merges the two neighbours whose subword has the lowest id. The package `tokenizers` has a
    list of merges: all ways to split each subword in two, in the order of the ids.
    """
    pieces = _processor(model)
    ids = {pieces.id_to_piece(i): i for i in range(pieces.get_piece_size())}
    normal = {
        piece: i
        for piece, i in ids.items()
        if not (pieces.is_control(i) or pieces.is_unknown(i) or pieces.is_byte(i) or pieces.is_unused(i))
    }
    merges = list[list[str]]()
    for piece in sorted(normal, key=normal.__getitem__):
        splits = [(piece[:at], piece[at:]) for at in range(1, len(piece))]
        known = [split for split in splits if split[0] in normal and split[1] in normal]
        merges += map(list, sorted(known, key=lambda split: (normal[split[0]], normal[split[1]])))
    return {
        "type": "BPE",
        "unk_token": pieces.id_to_piece(pieces.unk_id()),
        "fuse_unk": True,
        "byte_fallback": byte_fallback,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "dropout": None,
        "ignore_merges": False,
        "vocab": ids,
        "merges": merges,
    }


def character_map(model: str) -> bytes:
    """The map by which sentencepiece normalises characters; empty if it changes none."""
    for number, content in _fields(base64.b64decode(model)):
        if number == NORMALIZER:
            return next((inner for key, inner in _fields(content) if key == CHARACTER_MAP), b"")
    return b""


def decoder(*, prefixed: bool) -> dict[str, Any]:
    """The `decoder` of a tokenizer.json."""
    steps: list[dict[str, Any]] = [
        {"type": "Replace", "pattern": {"String": SPACE}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
    ]
    steps += [{"type": "Strip", "content": " ", "start": 1, "stop": 0}] if prefixed else []
    return {"type": "Sequence", "decoders": steps}


def _processor(model: str) -> sentencepiece.SentencePieceProcessor:
    return sentencepiece.SentencePieceProcessor(model_proto=base64.b64decode(model))


def _fields(content: bytes) -> Iterator[tuple[int, bytes]]:
    """The number and the content of each field of a message of protocol buffers that has a length."""
    at = 0
    while at < len(content):
        key, at = _number(content, at)
        kind = key & 7
        if kind == 2:
            length, at = _number(content, at)
            yield key >> 3, content[at : at + length]
            at += length
        elif kind == 0:
            _, at = _number(content, at)
        else:
            at += 8 if kind == 1 else 4


def _number(content: bytes, at: int) -> tuple[int, int]:
    """An integer of variable length, and the place after it."""
    value, shift = 0, 0
    while True:
        byte = content[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
