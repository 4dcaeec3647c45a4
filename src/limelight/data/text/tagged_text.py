"""Sentences with one label per token."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor

from limelight.data.batching import Examples
from limelight.data.dataset import SPLITS, DataConfig, Reader, SequenceData
from limelight.data.ragged import Ragged
from limelight.data.splits import (
    FILE_NAMES,
    check_shares,
    choose,
    cover_labels,
    hold_out,
    missing_shares,
    shuffle_groups,
)
from limelight.data.text.affixes import Affixes
from limelight.data.text.conll import EXTENSIONS, ColumnFile, Sentence
from limelight.data.text.delimited import MOST_NAMED, short
from limelight.data.text.pretrained_tokenizer import PretrainedTokenizer
from limelight.data.text.symbols import Answers
from limelight.data.text.text_column import Column
from limelight.data.text.vocabulary import build_vocabulary
from limelight.errors import WrongInput, wrong
from limelight.randomness import generator

SPLIT_OF = {name: split for split, names in FILE_NAMES.items() for name in names}
NO_LABEL = 0  # the target of an item without a label; that of label i is i + 1


class TaggedText(DataConfig, ABC):
    """Sentences with one label per token: what every source of them has in common."""

    vocabulary: Literal["affixes", "words", "subwords"] = Field(
        "affixes",
        description="how tokens are read: affixes: each with its first and last letters and its shape; "
        "words, subwords: a token may become several items, of which the first has its label",
    )
    vocabulary_size: int = Field(20_000, ge=2, le=1_000_000, description="maximum number of known tokens")
    rarest: int = Field(
        1,
        ge=1,
        le=1_000_000,
        description="minimum number of occurrences of a known token; no effect on subwords",
    )

    @abstractmethod
    def read(self, seed: int) -> tuple[dict[str, list[Sentence]], list[str]]:
        """The sentences of each split, and notes on them."""

    def load(self, seed: int, reader: Reader | None = None) -> SequenceData:
        """Read the sentences, build the vocabulary from training unless one is given, and encode them."""
        splits, notes = self.read(seed)
        labels = {name: {label for one in split for label in one.labels} for name, split in splits.items()}
        if len(labels["train"]) < 2:
            (only,) = labels["train"]
            raise WrongInput(
                f"{splits['train'][0].location.rpartition(':')[0]}: all training labels are {short(only)}; "
                "at least two different labels are needed"
            )
        names = tuple(sorted(set().union(*labels.values())))
        notes.append(
            f"{len(names)} labels: {', '.join(names[:MOST_NAMED])}{', …' * (len(names) > MOST_NAMED)}"
        )
        new = [name for name in names if name not in labels["train"]]
        if new:
            notes.append(f"warning: labels that do not occur in training: {', '.join(new[:MOST_NAMED])}")
        reader = reader or self._build_reader([one.text for one in splits["train"]])
        return encode_sentences(splits, reader, Answers(kind="class", names=names), notes)

    def _build_reader(self, texts: Sequence[str]) -> Reader:
        if self.vocabulary == "affixes":
            return Affixes.build(texts, self.vocabulary_size, self.rarest)
        return build_vocabulary(self.vocabulary, texts, self.vocabulary_size, self.rarest)


class TaggedFiles(TaggedText):
    """A file in columns with one token per line and blank lines between sentences, or a folder of such files.

    Columns are separated by tabs or spaces, as in CoNLL files. A folder has files whose names contain
    "train", "dev" (valid, val, validation) and "test", such as train.conll or en_ewt-ud-dev.conllu. Sentences
    are held out from the train file only if there is no dev file; with a dev file but without a test file
    there is no test split. A single file is split at random; equal sentences stay in the same split.
    """

    kind: Literal["columns"] = Field("columns", description="labelled tokens from files in columns")
    path: str = Field("", description="a file with one token per line, or a folder of train, dev, test files")
    token: int = Field(
        0,
        ge=0,
        le=1_000,
        description="column of the tokens, from 1; 0: the first, in CoNLL-U files the second",
    )
    label: int = Field(
        0,
        ge=0,
        le=1_000,
        description="column of the labels, from 1; 0: the last, in CoNLL-U files the fourth, UPOS",
    )
    longest: int = Field(
        200, ge=1, le=100_000, description="maximum number of tokens per sentence; longer ones are divided"
    )
    validation: float = Field(0.1, gt=0, lt=1, description="share of the sentences held out for validation")
    test: float = Field(
        0.1, ge=0, lt=1, description="share of the sentences held out for testing; 0: no test split"
    )

    @model_validator(mode="after")
    def _leaves_training_examples(self) -> Self:
        check_shares(self.validation, self.test)
        return self

    def read(self, seed: int) -> tuple[dict[str, list[Sentence]], list[str]]:
        """The sentences of each split, and notes on them."""
        if not self.path:
            raise WrongInput("task.data.path is empty; pass a file or a folder with --data")
        files = _find_files(Path(self.path))
        splits, notes = dict[str, list[Sentence]](), list[str]()
        for name, path in files.items():
            sentences, found = self._read_file(path)
            splits[name] = [sentences[i] for i in choose([""] * len(sentences), self.limit, seed)]
            notes += found
            notes += [f"limit: {len(splits[name]):,} of them are used"] * (len(splits[name]) < len(sentences))
        shares = missing_shares(files, self.validation, self.test)
        if shares:
            groups = shuffle_groups(splits["train"], lambda one: one.text, generator(seed, "sentences"))
            splits |= hold_out(cover_labels(groups, lambda one: one.labels), shares)
        for name, sentences in splits.items():
            if not sentences:
                raise WrongInput(f"{self.path}: too few sentences: none is left for the {name} split")
        return {name: splits[name] for name in SPLITS if name in splits}, notes

    def load(self, seed: int, reader: Reader | None = None) -> SequenceData:
        """Read the files and encode them; the column of the tokens is kept for prediction."""
        data = super().load(seed, reader)
        return replace(data, column=Column(str(self.token), header=False)) if self.token else data

    def load_other(self, path: Path, reader: Reader, answers: Answers) -> SequenceData:
        """Other sentences than those of training; those of a single file are the split "new"."""
        files = _find_files(path) if path.is_dir() else {"new": path}
        splits, notes = dict[str, list[Sentence]](), list[str]()
        for name, file in files.items():
            splits[name], found = self._read_file(file)
            notes += found
        return encode_sentences(splits, reader, answers, notes)

    def _read_file(self, path: Path) -> tuple[list[Sentence], list[str]]:
        """The sentences of a file, none of them too long, and notes on them."""
        found = ColumnFile.read(path).labelled(self.token, self.label)
        notes = [f"{path.name}: {len(found):,} sentences, {sum(len(one.tokens) for one in found):,} tokens"]
        divided = sum(len(one.tokens) > self.longest for one in found)
        if divided:
            notes.append(f"{divided:,} sentences of more than {self.longest:,} tokens were divided")
        return [part for one in found for part in _divide(one, self.longest)], notes


def _divide(sentence: Sentence, longest: int) -> list[Sentence]:
    """The sentence in parts of at most `longest` tokens."""
    parts = [slice(start, start + longest) for start in range(0, len(sentence.tokens), longest)]
    return [Sentence(sentence.location, sentence.tokens[part], sentence.labels[part]) for part in parts]


def _find_files(path: Path) -> dict[str, Path]:
    """The file of each split; a single file is for training."""
    if not path.is_dir():
        return {"train": path}
    found: dict[str, Path] = {}
    for file in sorted(path.iterdir()):
        name = file.name.lower().removesuffix(".gz")
        words = name.replace("-", ".").replace("_", ".").split(".")
        splits = {SPLIT_OF[word] for word in words if word in SPLIT_OF}
        if len(splits) != 1 or not (name.endswith((*EXTENSIONS, ".txt")) or words[-1] in SPLIT_OF):
            continue
        (split,) = splits
        if split in found:
            raise WrongInput(f"{path}: both {found[split].name} and {file.name} exist; keep one of them")
        found[split] = file
    if "train" not in found:
        raise WrongInput(f"{path}: the folder contains no train.conll, train.tsv or train.txt")
    return found


def encode_tokens(
    reader: Reader, tokens: Sequence[str], encode: Callable[[str], Tensor] | None = None
) -> tuple[Tensor, Tensor]:
    """-> (T) | (T, ids), (N)

    The items of N tokens, and the position of the first item of each: a token can be several subwords. A
    pre-trained tokenizer adds its special tokens before the first and after the last. `encode` is a faster
    `token_encoder` of the reader.
    """
    rows = list(map(encode or token_encoder(reader), tokens))
    lengths_N = torch.tensor([len(row) for row in rows])
    starts_N = lengths_N.cumsum(0) - lengths_N
    if not isinstance(reader, PretrainedTokenizer):
        return torch.cat(rows), starts_N
    items = torch.cat([torch.tensor(reader.begin), *rows, torch.tensor(reader.finish)]).long()
    if len(items) > reader.longest:
        raise WrongInput(f"{len(items):,} subwords; this model reads {reader.longest:,}")
    return items, starts_N + len(reader.begin)


def token_encoder(reader: Reader) -> Callable[[str], Tensor]:
    """A function from a token to its items, (T) | (T, ids)."""
    if not isinstance(reader, PretrainedTokenizer):
        return reader.encode

    def encode(token: str) -> Tensor:
        found = reader.encode_text(f" {token}").tolist()
        return torch.tensor(found or [max(reader.unknown, 0)])

    return encode


def encode_sentences(
    splits: dict[str, list[Sentence]], reader: Reader, answers: Answers, notes: Sequence[str]
) -> SequenceData:
    """Sentences as items with their targets; only the first item of each token has one."""
    ids = {label: i for i, label in enumerate(answers.names, start=NO_LABEL + 1)}
    encode = cache(token_encoder(reader))
    examples = {}
    for name, sentences in splits.items():
        inputs, targets = list[Tensor](), list[Tensor]()
        for sentence in sentences:
            for label in sentence.labels:
                if label not in ids:
                    allowed = f"one that occurs in training: {', '.join(answers.names[:MOST_NAMED])}"
                    raise wrong(f"{sentence.location}: a label of the sentence", short(label), allowed)
            items, starts_N = encode_tokens(reader, sentence.tokens, encode)
            target_T = torch.full((len(items),), NO_LABEL)
            target_T[starts_N] = torch.tensor([ids[label] for label in sentence.labels])
            inputs.append(items)
            targets.append(target_T)
        examples[name] = Examples(Ragged.from_rows(inputs), Ragged.from_rows(targets))
    texts = {name: [one.text for one in sentences] for name, sentences in splits.items()}
    return SequenceData(examples, reader, answers, tuple(notes), texts=texts)
