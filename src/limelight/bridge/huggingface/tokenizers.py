"""The tokenizer in a folder of Hugging Face, as a reader."""

import json
from typing import Any

from limelight.bridge.huggingface.folder import Asked, ModelFolder
from limelight.data.text.pretrained_tokenizer import (
    NONE,
    PretrainedTokenizer,
    load_tokenizer,
    special_tokens,
)
from limelight.errors import WrongInput


def read_tokenizer(
    folder: ModelFolder, entries: int, longest: int, *, end: str = "sep_token"
) -> PretrainedTokenizer:
    """The tokenizer of a model with `entries` embeddings and `longest` positions.

    `end` is the role of the token that ends a document.
    """
    content = _content(folder)
    rust = load_tokenizer(content)
    size = rust.get_vocab_size(with_added_tokens=True)
    highest = max(rust.get_vocab(with_added_tokens=True).values(), default=-1)
    if highest >= entries:
        raise WrongInput(f"{folder.path}: the tokenizer has {size:,} tokens, the model {entries:,}")
    roles = _roles(folder)
    ids = {role: rust.token_to_id(token) for role, token in roles.items()}
    begin, between, finish = special_tokens(rust)
    unknown = ids.get("unk_token")
    if unknown is None and (named := json.loads(content)["model"].get("unk_token")):
        unknown = rust.token_to_id(named)
    return PretrainedTokenizer(
        tokenizer=content,
        entries=entries,
        longest=longest,
        begin=tuple(begin),
        between=tuple(between),
        finish=tuple(finish),
        unknown_token=_or_none(unknown),
        end_token=_or_none(ids.get(end)),
        mask_token=_or_none(ids.get("mask_token")),
    )


def _or_none(number: int | None) -> int:
    return NONE if number is None else number


def _roles(folder: ModelFolder) -> dict[str, str]:
    """The special tokens by role, such as "mask_token"."""
    found = dict[str, str]()
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        for role, token in (folder.json(name) or {}).items():
            text = token.get("content") if isinstance(token, dict) else token
            if role.endswith("_token") and isinstance(text, str):
                found[role] = text
    return found


def _content(folder: ModelFolder) -> str:
    """The content of tokenizer.json; older folders have the files from which it is made."""
    content = folder.text("tokenizer.json")
    if content is not None:
        parsed = folder.json("tokenizer.json") or {}
        if not isinstance(parsed.get("model"), dict):
            raise WrongInput(f"{folder.path / 'tokenizer.json'} has no model")
        return json.dumps(parsed | {"truncation": None, "padding": None}, ensure_ascii=False)
    words = folder.text("vocab.txt")
    if words is not None:
        return json.dumps(_wordpiece(folder, words), ensure_ascii=False)
    vocabulary, merges = folder.json("vocab.json"), folder.text("merges.txt")
    if vocabulary is not None and merges is not None:
        return json.dumps(_byte_level(folder, vocabulary, merges), ensure_ascii=False)
    raise WrongInput(f"{folder.path} has no tokenizer.json, vocab.txt, or vocab.json with merges.txt")


def _added(tokens: list[tuple[int, str]]) -> list[dict[str, Any]]:
    plain = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return [{"id": number, "content": token, "special": True, **plain} for number, token in sorted(tokens)]


def _wordpiece(folder: ModelFolder, words: str) -> dict[str, Any]:
    """A tokenizer of BERT (Devlin et al. 2019) from the lines of vocab.txt."""
    tokens = words.removesuffix("\n").split("\n")
    ids = {token.removesuffix("\r"): number for number, token in enumerate(tokens)}
    asked = Asked(folder.json("tokenizer_config.json") or {}, folder.path / "tokenizer_config.json")
    asked.must_be("do_basic_tokenize", True)
    special = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    for token in special:
        if token not in ids:
            raise WrongInput(f"{folder.path / 'vocab.txt'} has no {token}")
    strip = asked.get("strip_accents")
    return {
        "version": "1.0",
        "added_tokens": _added([(ids[token], token) for token in special]),
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": asked.flag("tokenize_chinese_chars", True),
            "strip_accents": strip if isinstance(strip, bool) else None,
            "lowercase": asked.flag("do_lower_case", True),
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "BertProcessing",
            "sep": ["[SEP]", ids["[SEP]"]],
            "cls": ["[CLS]", ids["[CLS]"]],
        },
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": ids,
        },
    }


def _byte_level(folder: ModelFolder, vocabulary: dict[str, Any], merges: str) -> dict[str, Any]:
    """Byte-level BPE of GPT-2 and RoBERTa (Radford et al. 2019) from vocab.json and merges.txt."""
    rules = [line for line in merges.split("\n") if line.strip() and not line.startswith("#version")]
    roles = _roles(folder)
    special = {token for token in roles.values() if isinstance(vocabulary.get(token), int)}
    start, end = roles.get("cls_token", "<s>"), roles.get("sep_token", "</s>")
    space = Asked(folder.json("tokenizer_config.json") or {}, folder.path / "tokenizer_config.json")
    post: dict[str, Any] = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False}
    if start in vocabulary and end in vocabulary and folder.config.get("model_type") == "roberta":
        special |= {start, end}
        post = {
            "type": "RobertaProcessing",
            "sep": [end, vocabulary[end]],
            "cls": [start, vocabulary[start]],
            "trim_offsets": True,
            "add_prefix_space": space.flag("add_prefix_space", False),
        }
    return {
        "version": "1.0",
        "added_tokens": _added([(vocabulary[token], token) for token in special]),
        "normalizer": None,
        "pre_tokenizer": {
            "type": "ByteLevel",
            "add_prefix_space": space.flag("add_prefix_space", False),
            "trim_offsets": True,
            "use_regex": True,
        },
        "post_processor": post,
        "decoder": {"type": "ByteLevel"},
        "model": {
            "type": "BPE",
            "continuing_subword_prefix": "",
            "end_of_word_suffix": "",
            "fuse_unk": False,
            "vocab": vocabulary,
            "merges": rules,
        },
    }
