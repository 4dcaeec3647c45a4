"""Small random models of Hugging Face with trained tokenizers, in folders as from_pretrained reads them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from support import roughen
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from torch import nn

TEXT = [
    "The sky is blue, and the sea is blue too.",
    "A small model reads every sentence twice.",
    "She does not wear her red shirt; he does.",
    "Attention is a weighted mean of values.",
    "Why does the naïve reader ask twice? 42!",
] * 3
LINES = ["The sky is blue.", "She reads a small red sentence twice, and the naïve model too!", "42?"]


def wordpiece(size: int = 131) -> Tokenizer:
    """The tokenizer of BERT."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    found = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    found.normalizer = normalizers.BertNormalizer(lowercase=True)
    found.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    found.train_from_iterator(TEXT, trainers.WordPieceTrainer(vocab_size=size, special_tokens=special))
    ends = [("[CLS]", found.token_to_id("[CLS]")), ("[SEP]", found.token_to_id("[SEP]"))]
    found.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=ends
    )
    found.decoder = decoders.WordPiece()
    return found


def byte_level(special: Sequence[str], size: int = 307) -> Tokenizer:
    """Byte-level BPE: the tokenizer of GPT-2, RoBERTa, Llama 3 and Qwen 2."""
    found = Tokenizer(models.BPE())
    found.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=list(special), initial_alphabet=alphabet)
    found.train_from_iterator(TEXT, trainer)
    found.decoder = decoders.ByteLevel()
    return found


def roberta_tokenizer() -> Tokenizer:
    """Byte-level BPE with <s> and </s>."""
    found = byte_level(["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    found.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    return found


def sentencepiece_like(size: int = 331) -> Tokenizer:
    """BPE with spaces as ▁ and unknown characters as bytes: the tokenizer of Llama 2 and Mistral."""
    special = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    found = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    found.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    found.train_from_iterator(TEXT, trainers.BpeTrainer(vocab_size=size, special_tokens=special))
    content = json.loads(found.to_str())
    content["added_tokens"] = content["added_tokens"][:3]  # bytes are ordinary tokens
    found = Tokenizer.from_str(json.dumps(content))
    found.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    found.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)]
    )
    return found


def roughened(model: Any, deviation: float = 0.2) -> Any:
    """The model with random norms and biases, and attention that is far from uniform."""
    torch.manual_seed(3)
    roughen(model)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=deviation)
    return model


def save(model: Any, tokenizer: Tokenizer, folder: Path, **files: Any) -> Path:
    """Write a model with random weights, its tokenizer and other JSON files."""
    roughened(model).save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    roles = {"unk_token": "[UNK]", "mask_token": "[MASK]", "sep_token": "[SEP]", "cls_token": "[CLS]"}
    others = {"unk_token": "<unk>", "mask_token": "<mask>", "sep_token": "</s>", "eos_token": "</s>"}
    roles = roles if tokenizer.token_to_id("[CLS]") is not None else others
    known = {role: token for role, token in roles.items() if tokenizer.token_to_id(token) is not None}
    for name, content in {"special_tokens_map": known, **files}.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    return folder
