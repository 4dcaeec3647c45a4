"""The vocabulary of a run as a `tokenizer.json`, if it then gives the same ids."""

import base64
import json
import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from limelight.bridge.huggingface.sentencepiece_bpe import bpe_model, character_map, decoder
from limelight.data.text.pretrained_tokenizer import BYTE_OF, NONE, PretrainedTokenizer, load_tokenizer
from limelight.data.text.symbols import Symbols
from limelight.data.text.text_pair import SEPARATOR, TextPair, split_pair
from limelight.data.text.text_vocabulary import (
    SPACE,
    TextBytes,
    TextCharacters,
    TextSubwords,
    TextVocabulary,
    TextWords,
)
from limelight.data.text.vocabulary import MARKS, Characters, Subwords, Words
from limelight.errors import WrongInput

UNKNOWN, END = "<unk>", "[end]"
ANY = r"[\s\S]"


def tokenizer_files(
    reader: Any, texts: Sequence[str], longest: int, *, ends: bool, types: bool
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The files that AutoTokenizer reads, and notes; no files if the ids of a text would differ.

    `ends` tells whether the end of a document is a token of its own role, as in language models, and `types`
    whether the model reads the segments of tokens.
    """
    vocabulary = reader.vocabulary if isinstance(reader, TextPair) else reader
    if isinstance(vocabulary, PretrainedTokenizer):
        content = vocabulary.tokenizer
    else:
        made = _content(vocabulary, reader)
        if made is None:
            return {}, (
                f"no tokenizer: transformers has none for {reader.kind}; data.json has the vocabulary",
            )
        content = json.dumps(made, ensure_ascii=False)
        different = _first_different(reader, content, texts)
        if different is not None:
            why = f"it would read {different!r:.60} in another way"
            return {}, (f"no tokenizer for transformers: {why}; data.json has the vocabulary",)
    roles = _roles(vocabulary, content, ends=ends)
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": longest,
        "clean_up_tokenization_spaces": False,
        "model_input_names": ["input_ids", *["token_type_ids"] * types, "attention_mask"],
        **roles,
    }
    files = {"tokenizer.json": content.encode(), "tokenizer_config.json": settings}
    note = "the tokenizer is the original one"
    if not isinstance(vocabulary, PretrainedTokenizer):
        note = (
            f"the tokenizer gives the same ids for {len(texts):,} texts of the run"
            if texts
            else ("the tokenizer was not compared: the run has no texts")
        )
    return files | {"special_tokens_map.json": roles}, (note,)


def _first_different(reader: Any, content: str, texts: Iterable[str]) -> str | None:
    """The first text that a tokenizer.json reads in another way."""
    rust = load_tokenizer(content)
    for text in texts:
        try:
            expected = reader.encode(text).tolist()
        except WrongInput:
            continue
        parts = split_pair(text) if isinstance(reader, TextPair) else (text,)
        if isinstance(reader, TextPair) and reader.is_truncated(text):
            continue
        if _ids(rust, parts) != expected:
            return text
    return None


def _ids(rust: Any, parts: Sequence[str]) -> list[int]:
    """The ids of one or two texts; none if the tokenizer has no token for a part of them."""
    try:
        found: list[int] = rust.encode(*parts).ids
    except Exception:  # the package raises Exception itself
        return []
    return found


def _roles(vocabulary: Any, content: str, *, ends: bool) -> dict[str, str]:
    """The special tokens by role."""
    rust = load_tokenizer(content)
    if not isinstance(vocabulary, PretrainedTokenizer):
        found = {"unk_token": UNKNOWN, "pad_token": UNKNOWN, "mask_token": UNKNOWN}
        if isinstance(vocabulary, Symbols):
            found = {"pad_token": vocabulary.symbols[0]}
        return found | ({"eos_token": END} if ends and isinstance(vocabulary, TextVocabulary) else {})
    ids = {"unk_token": vocabulary.unknown, "mask_token": vocabulary.mask}
    ids["eos_token" if ends else "sep_token"] = vocabulary.end
    if vocabulary.begin:
        ids["bos_token" if ends else "cls_token"] = vocabulary.begin[0]
    found = {role: rust.id_to_token(number) for role, number in ids.items() if number != NONE}
    for pad in ("[PAD]", "<pad>", found.get("eos_token"), found.get("unk_token")):
        if pad is not None and rust.token_to_id(pad) is not None:
            return found | {"pad_token": pad}
    return found


def _content(vocabulary: Any, reader: Any) -> dict[str, Any] | None:
    """The content of a tokenizer.json; None if the package `tokenizers` has no such tokenizer."""
    makers: dict[type[Any], Any] = {
        Words: lambda one: _words([UNKNOWN, *one.known]),
        TextWords: lambda one: _words([UNKNOWN, END, *one.known]),
        Characters: _characters,
        TextCharacters: lambda one: _split([UNKNOWN, END, *one.known], None, [_matches(ANY)], "Fuse"),
        TextBytes: lambda _: _bytes(),
        Symbols: _symbols,
        Subwords: _subwords,
        TextSubwords: _text_subwords,
    }
    if type(vocabulary) not in makers:
        return None
    made: dict[str, Any] = makers[type(vocabulary)](vocabulary)
    if isinstance(reader, TextPair):
        ids = made["model"]["vocab"]
        name = next((token for token, number in ids.items() if number == reader.separator), SEPARATOR)
        ids[name] = reader.separator
        made["post_processor"] = _pairs(name, reader.separator)
    return made


def _split(tokens: Sequence[str], normalizer: Any, pre: list[dict[str, Any]], decoder: str) -> dict[str, Any]:
    """A tokenizer whose tokens are the parts into which `pre` splits a text."""
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": normalizer,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": pre},
        "post_processor": None,
        "decoder": {"type": decoder},
        "model": {
            "type": "WordLevel",
            "vocab": {token: number for number, token in enumerate(tokens)},
            "unk_token": UNKNOWN,
        },
    }


def _matches(pattern: str) -> dict[str, Any]:
    """The matches of a pattern; what is between them is left out."""
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Removed", "invert": True}


def _replace(pattern: str, content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": {"Regex": pattern}, "content": content}


def _words(tokens: Sequence[str]) -> dict[str, Any]:
    letter, other = f"[{_ranges(rf'[{chr(92)}w{MARKS}]')}]", f"[{_ranges(chr(92) + 'S')}]"
    pattern = f"<unk>|{letter}+(?:['’]{letter}+)*|{other}"
    return _split(tokens, {"type": "Lowercase"}, [_matches(pattern)], "WordPiece") | {
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True}
    }


def _characters(vocabulary: Characters) -> dict[str, Any]:
    return _split([UNKNOWN, *vocabulary.known], _single_spaces(), [_matches(ANY)], "Fuse")


def _single_spaces(*after: dict[str, Any]) -> dict[str, Any]:
    """White space becomes a single space and is removed at both ends."""
    white = f"[{_ranges(chr(92) + 's')}]+"
    strip = {"type": "Strip", "strip_left": True, "strip_right": True}
    return {"type": "Sequence", "normalizers": [_replace(white, " "), strip, *after]}


def _bytes() -> dict[str, Any]:
    of_byte = {byte: character for character, byte in BYTE_OF.items()}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    return _split(
        [UNKNOWN, END, *(of_byte[i] for i in range(256))], None, [level, _matches(ANY)], "ByteLevel"
    ) | {"decoder": level}


def _symbols(vocabulary: Symbols) -> dict[str, Any]:
    white = _ranges(chr(92) + "s")
    alone = all(len(symbol) == 1 for symbol in vocabulary.symbols)
    pattern = f"[^{white}]" if alone else f"[^{white}]+"
    return _split(vocabulary.symbols, None, [_matches(pattern)], "WordPiece") | {"decoder": None}


def _subwords(vocabulary: Subwords) -> dict[str, Any]:
    content = base64.b64encode(character_map(vocabulary.model)).decode()
    normal = [{"type": "Precompiled", "precompiled_charsmap": content}] if content else []
    strip = {"type": "Strip", "strip_left": True, "strip_right": True}
    space = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}
    after = [*normal, _replace(" {2,}", " "), strip, {"type": "Prepend", "prepend": SPACE}, space]
    return _split([], None, [], "Fuse") | {
        "normalizer": _single_spaces(*after),
        "pre_tokenizer": None,
        "decoder": decoder(prefixed=True),
        "model": bpe_model(vocabulary.model, byte_fallback=False),
    }


def _text_subwords(vocabulary: TextSubwords) -> dict[str, Any]:
    split = {"type": "Split", "pattern": {"String": "\n"}, "behavior": "Isolated", "invert": False}
    return _split([], None, [split], "Fuse") | {
        "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": SPACE},
        "decoder": decoder(prefixed=False),
        "model": bpe_model(vocabulary.model, byte_fallback=True),
    }


def _pairs(name: str, separator: int) -> dict[str, Any]:
    """Two texts with a separator between them, which belongs to the first."""

    def text(name: str, kind: int) -> dict[str, Any]:
        return {"Sequence": {"id": name, "type_id": kind}}

    between = {"SpecialToken": {"id": name, "type_id": 0}}
    return {
        "type": "TemplateProcessing",
        "single": [text("A", 0)],
        "pair": [text("A", 0), between, text("B", 1)],
        "special_tokens": {name: {"id": name, "ids": [separator], "tokens": [name]}},
    }


@cache
def _ranges(pattern: str) -> str:
    r"""All characters that a pattern of Python matches, as ranges for a regular expression of `tokenizers`.

    What `\w` and `\s` match differs between the two.
    """
    matches, found, start = re.compile(pattern).match, list[str](), -1
    for code in range(0x110001):
        is_in = code < 0x110000 and not 0xD800 <= code < 0xE000 and bool(matches(chr(code)))
        if is_in and start < 0:
            start = code
        elif not is_in and start >= 0:
            found.append(rf"\x{{{start:x}}}" + (rf"-\x{{{code - 1:x}}}" if code - 1 > start else ""))
            start = -1
    return "".join(found)
