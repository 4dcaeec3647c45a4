"""Running text for language models: the manual of Python, or a user's files of any size."""

import hashlib
import math
import pydoc_data.topics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from limelight.data.batching import Batch
from limelight.data.dataset import SPLITS, DataConfig, Dataset
from limelight.data.download import cache_folder
from limelight.data.text.text_documents import TextDocuments, find_documents
from limelight.data.text.text_readers import TextReader
from limelight.data.text.text_sources import BLOCK, Scan, Source, blocks, find_sources, scan, text_source
from limelight.data.text.text_vocabulary import (
    TextBytes,
    TextCharacters,
    TextSubwords,
    TextWords,
)
from limelight.data.text.token_file import (
    Part,
    Tokens,
    one_writer,
    read_tokens,
    tokens_in_memory,
    write_tokens,
)
from limelight.errors import WrongInput
from limelight.randomness import generator

VERSION = 2  # to be increased when the same text is encoded to other tokens
IN_MEMORY = 2**25  # bytes of text: smaller corpora are encoded at each start, larger ones are cached
VOCABULARY_SAMPLE = 8  # blocks of text from which subwords are learned
SEPARATOR = "<|endoftext|>"


@dataclass(frozen=True)
class TextWindows:
    """A split, as windows of `context` tokens; the target of a token is the next one.

    Window i begins at token i · context. For windows that begin `offset` tokens later, i + offset · N stands
    for window i of N.
    """

    tokens: Tokens
    first: int
    count: int
    context: int
    limit: int = 0

    def __len__(self) -> int:
        windows = -(-(self.count - 1) // self.context)
        return min(windows, self.limit) if self.limit else windows

    def batch(self, index: Tensor) -> Batch:
        """The windows with these indices (B). A target that the window before has already is -1."""
        window_B, offset_B = index % len(self), index // len(self)
        # With an offset, a window beyond the end begins near the start of the split; without, the last window
        # overlaps the one before it.
        wanted_B = window_B * self.context + offset_B
        wanted_B = torch.where(offset_B > 0, wanted_B % (self.count - self.context), wanted_B)
        start_B = wanted_B.clamp(max=self.count - 1 - self.context)
        position_BT = start_B.unsqueeze(1) + torch.arange(self.context + 1)
        tokens_BT = torch.from_numpy(self.tokens.at((position_BT + self.first).numpy()).astype(np.int64))
        again_BT = position_BT[:, 1:] <= wanted_B.unsqueeze(1)
        return Batch(tokens_BT[:, :-1], tokens_BT[:, 1:].masked_fill(again_BT, -1), index)


@dataclass(frozen=True)
class ShuffledWindows(Sequence[Tensor]):
    """The indices of all windows in random order, in batches: a corpus may have millions of them."""

    order: Tensor
    batch: int

    def __len__(self) -> int:
        return -(-len(self.order) // self.batch)

    def __getitem__(self, number: Any) -> Any:
        if number >= len(self):
            raise IndexError(number)
        return self.order[number * self.batch : (number + 1) * self.batch]


@dataclass(frozen=True)
class TextData(Dataset[TextWindows | TextDocuments]):
    """Running text by split, as windows or documents."""

    splits: dict[str, TextWindows | TextDocuments]
    tokens: Tokens
    notes: tuple[str, ...] = ()

    @property
    def reader(self) -> TextReader:
        """The vocabulary."""
        return self.tokens.entry.reader

    @property
    def context(self) -> int:
        """Tokens per window, or the maximum number of tokens of a document."""
        return next(iter(self.splits.values())).context

    def lengths(self, split: str) -> Tensor:
        """-> (N), the length of each window or document"""
        examples = self.examples(split)
        if isinstance(examples, TextDocuments):
            return examples.lengths
        return torch.tensor([self.context]).expand(len(examples))

    def epoch(self, batch: int, seed: int, number: int) -> Sequence[Tensor]:
        """Documents, or all windows in random order; each epoch begins the windows at another token."""
        if isinstance(self.splits["train"], TextDocuments):
            return super().epoch(batch, seed, number)
        rng = generator(seed, "order", number)
        size = len(self.splits["train"])
        offset = int(torch.randint(self.context, (), generator=rng))
        return ShuffledWindows(torch.randperm(size, generator=rng).add_(offset * size), batch)

    def characters_per_token(self, split: str) -> float:
        """The mean number of characters that a token stands for."""
        counts = self.tokens.entry.splits[split]
        return counts.characters / counts.tokens

    def text(self, split: str, example: int) -> str:
        """The text of a window or document."""
        return self.reader.decode(self.batch(split, torch.tensor([example])).inputs[0])

    @cached_property
    def digest(self) -> str:
        """A checksum of all tokens, of the vocabulary and of the splits."""
        return hashlib.sha256(self.tokens.entry.model_dump_json(exclude={"blocks"}).encode()).hexdigest()


class RunningText(DataConfig):
    """A text file, a folder of text files, or the manual of Python, which every Python contains.

    The last share of each file is held out, or files named train, valid and test are the splits. Without
    limits on the size: a large corpus is encoded once, into a file in the cache folder.
    """

    kind: Literal["running-text"] = Field("running-text", description="running text from files")
    path: str = Field("", description="a text file, or a folder of them; empty: the manual of Python")
    pattern: str = Field(
        "", description="which files of a folder are used, such as **/*.py; empty: .txt, .md, .rst, .gz"
    )
    limit: int = Field(
        0,
        ge=0,
        le=1_000_000_000,
        description="at most this many examples per split, from its beginning, for a quick try; 0: all",
    )
    separator: str = Field(
        SEPARATOR, description='text between two documents of a file; "\\n": each line is a document'
    )
    examples: Literal["windows", "documents"] = Field(
        "windows",
        description="training examples: windows of `context` tokens, or documents; longer ones are cut "
        "into pieces",
    )
    vocabulary: Literal["characters", "bytes", "subwords", "words"] = Field(
        "characters", description="kind of tokens; bytes can express any text; words are in lower case"
    )
    vocabulary_size: int = Field(
        4_000, ge=4, le=1_000_000, description="maximum number of characters, subwords or words"
    )
    context: int = Field(128, ge=1, le=1_000_000, description="tokens per training example, at most")
    validation: float = Field(0.1, gt=0, lt=1, description="share of each file held out for validation")

    def load(self, seed: int, reader: TextReader | None = None) -> TextData:
        """Find the files, build the vocabulary unless one is given, and encode the text."""
        found = find_sources(Path(self.path), self.pattern) if self.path else {"all": [_manual()]}
        return self._load(found, reader)

    def load_other(self, path: Path, reader: TextReader) -> TextData:
        """Another text than that of training, encoded with its vocabulary: nothing is held out.

        For a text that is shorter than a window, the windows are shorter, too.
        """
        found = find_sources(path, self.pattern)
        data = self._load({"new": found["all"]} if "all" in found else found, reader, least=2)
        shortest = min(counts.tokens for counts in data.tokens.entry.splits.values()) - 1
        if shortest >= self.context or self.examples == "documents":
            return data
        shorter = self.model_copy(update={"context": shortest})
        return replace(data, splits=shorter._examples(data.tokens))

    def _load(
        self, found: dict[str, list[Source]], reader: TextReader | None, least: int | None = None
    ) -> TextData:
        sources = [source for split in found.values() for source in split]
        if sum(source.size for source in sources) <= IN_MEMORY:
            parts, scans = self._parts(found)
            reader = reader or self._build(parts, scans)
            return self._data(tokens_in_memory(parts, reader, self.separator), sources, least)
        path = cache_folder() / "tokens" / self._key(sources, reader)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with one_writer(path):
                tokens = read_tokens(path)
                if tokens is None:
                    parts, scans = self._parts(found)
                    write_tokens(path, parts, reader or self._build(parts, scans), self.separator)
                    tokens = read_tokens(path)
        except OSError as error:
            raise WrongInput(
                f"{path.parent}: {error.strerror}; choose another folder with LIMELIGHT_CACHE"
            ) from None
        assert tokens is not None
        return self._data(tokens, sources, least)

    def _parts(self, found: dict[str, list[Source]]) -> tuple[list[Part], list[Scan]]:
        """The parts of all sources in the order of the splits, and the scan of each training source."""
        scans = {split: list(map(scan, sources)) for split, sources in found.items()}
        for split, sources in found.items():
            if not any(scanned.characters for scanned in scans[split]):
                raise WrongInput(f"{sources[0].name if len(sources) == 1 else self.path}: the text is empty")
        parts = list[Part]()
        for split, sources in found.items():
            for source, scanned in zip(sources, scans[split], strict=True):
                if split == "all" or (split == "train" and "validation" not in found):
                    cut = int(scanned.characters * (1 - self.validation))
                    parts.append(Part("train", source, 0, cut))
                    parts.append(Part("validation", source, cut, scanned.characters))
                else:
                    parts.append(Part(split, source, 0, scanned.characters))
        order = (*SPLITS, "new")
        known = scans.get("all", scans.get("train", []))
        return sorted(parts, key=lambda part: order.index(part.split)), known

    def _build(self, parts: list[Part], scans: list[Scan]) -> TextReader:
        """The vocabulary: all characters of the text, or subwords of the training text."""
        if self.vocabulary == "bytes":
            return TextBytes()
        train = [part for part in parts if part.split == "train"]
        if self.vocabulary == "characters":
            return TextCharacters.build(
                np.sum([scanned.counts for scanned in scans], 0), self.vocabulary_size
            )
        kind = TextWords if self.vocabulary == "words" else TextSubwords
        try:
            return kind.build(_sample(train, self.separator), self.vocabulary_size)
        except WrongInput as error:
            raise WrongInput(f"{self.path or train[0].source.name}: {error}") from None

    def _data(self, tokens: Tokens, sources: list[Source], least: int | None) -> TextData:
        """The data set; a split with fewer than `least` tokens, by default one window, is refused."""
        documents = self.examples == "documents"
        for name, counts in tokens.entry.splits.items():
            if counts.tokens < (1 + counts.ends if documents else least or self.context + 1):
                where = sources[0].name if len(sources) == 1 else self.path
                short = f"the {name} split has {counts.tokens - counts.ends:,} {tokens.entry.reader.unit}"
                wanted = f"more than task.data.context = {self.context:,}" if least is None else "at least 2"
                raise WrongInput(f"{where}: {short}; needed: {'at least 1' if documents else wanted}")
        splits = self._examples(tokens)
        return TextData(splits, tokens, tuple(self._notes(splits, tokens, len(sources))))

    def _examples(self, tokens: Tokens) -> dict[str, TextWindows | TextDocuments]:
        splits, first = dict[str, TextWindows | TextDocuments](), 0
        for name, counts in tokens.entry.splits.items():
            kind = find_documents if self.examples == "documents" else TextWindows
            splits[name] = kind(tokens, first, counts.tokens, self.context, self.limit)
            first += counts.tokens
        return splits

    def _notes(
        self, splits: dict[str, TextWindows | TextDocuments], tokens: Tokens, files: int
    ) -> Iterator[str]:
        reader = tokens.entry.reader
        yield f"vocabulary: {reader.size:,} {reader.unit}"
        for name, counts in tokens.entry.splits.items():
            of = f" of {files:,} files" if files > 1 else ""
            shown = f"{counts.characters:,} characters{of}"
            tokens_too = "" if reader.unit == "characters" else f", {counts.tokens:,} tokens"
            documents = f", {len(splits[name]):,} documents" if self.examples == "documents" else ""
            unknown = f", {counts.unknown / counts.tokens:.2%} of them unknown" if counts.unknown else ""
            yield f"{name}: {shown}{tokens_too}{unknown}{documents}"

    def _key(self, sources: list[Source], reader: TextReader | None) -> str:
        """A checksum of the names, sizes and times of all files and of what determines their tokens."""
        settings = self.model_dump(include={"separator", "vocabulary", "vocabulary_size", "validation"})
        key = hashlib.sha256(repr((VERSION, settings, reader)).encode())
        for source in sources:
            status = Path(source.name).stat()
            # Unpacking an archive may set an old modification time; the change time cannot be set.
            about = status.st_size, status.st_mtime_ns, status.st_ctime_ns
            key.update(repr((str(Path(source.name).absolute()), about)).encode())
        return key.hexdigest()


def _manual() -> Source:
    """The topics of Python's manual, in alphabetical order."""
    topics = pydoc_data.topics.topics
    return text_source("the manual of Python", SEPARATOR.join(topics[name] for name in sorted(topics)))


def _sample(parts: list[Part], separator: str) -> Iterator[str]:
    """Blocks of text at even distances, with line ends in place of separators."""
    total = sum(part.end - part.start for part in parts)
    every = max(1, math.ceil(total / (VOCABULARY_SAMPLE * BLOCK)))
    found = (block for part in parts for block in blocks(part.source, part.start, part.end))
    chosen = islice(found, 0, None, every)
    return (block.replace(separator, "\n") for block in chosen) if separator else chosen
