"""Sentences and their translations, from a user's own files."""

import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, Self

from pydantic import Field, model_validator

from limelight.config import Config
from limelight.data.dataset import SPLITS
from limelight.data.splits import FILE_NAMES, check_shares, draw_groups, hold_out, likeness, missing_shares
from limelight.data.text.delimited import MOST_NAMED, short
from limelight.data.text.text_files import read_lines
from limelight.data.text.translation_data import Pair, Sentences
from limelight.errors import WrongInput, unknown
from limelight.randomness import generator

COLUMNS = ("column 1", "column 2")  # the sides of a file with tabs, which names no languages
SPLIT_OF = {name: split for split, names in FILE_NAMES.items() for name in names}
# train.en, val.pt-BR, test_2016_flickr.de; .txt and its like are no languages.
PARALLEL = re.compile(
    rf"((?P<name>{'|'.join(SPLIT_OF)})([._-].+)?)\.(?!(txt|tsv|csv|zip)$)(?P<language>[a-z]{{2,3}}([-_]\w+)*)",
    re.ASCII | re.IGNORECASE,
)
DROP = "mend it, or drop such lines: --set task.data.broken=drop"

Sets = dict[str, dict[str, dict[str, Path]]]  # split -> name of a set, such as test_2016 -> language -> file


class PairFiles(Config):
    """A file with a tab between sentence and translation, or a folder of parallel files.

    The file is a .txt or .tsv, its .gz, or a .zip with one of them inside. Its sides are called "column 1"
    and "column 2"; a third column, which says who wrote them, is not read. Quotes are text.

    The folder has train.en and train.fr, or their .gz: line by line a sentence and its translation. Files of
    dev (valid, val, validation) and test are used where they are there. The sides are called by extension.

    Which side is the source need not be said where there are two: it is column 1, or English, or the first
    in the alphabet. Shares of the source sentences are held out where there is no dev file; pairs with one
    and the same source stay together. Without a test file beside a dev file there is no test split.
    """

    kind: Literal["pairs"] = "pairs"
    path: str = ""
    source: str = ""
    target: str = ""
    validation: float = Field(0.02, gt=0, lt=1)
    test: float = Field(0.02, ge=0, lt=1)
    longest: int = Field(1_000, ge=1, le=1_000_000)  # characters of a sentence; a longer one breaks its line
    broken: Literal["refuse", "drop"] = "refuse"  # what becomes of broken lines; blank ones are dropped

    @model_validator(mode="after")
    def _something_is_left(self) -> Self:
        check_shares(self.validation, self.test)
        return self

    def load(self, seed: int) -> Sentences:
        if not self.path:
            raise WrongInput("task.data.path is empty: give a file or a folder with --data")
        path = Path(self.path)
        # Not Path.is_dir, which raises where a name is too long.
        found, sides = self._read_folder(path) if os.path.isdir(path) else self._read_file(path)
        splits, notes = dict[str, list[Pair]](), list[str]()
        for name, lines in found.items():
            splits[name], note = self._keep(lines)
            notes.append(note)
        shares = missing_shares(found, self.validation, self.test)
        if shares:
            groups = draw_groups(splits["train"], lambda pair: pair[0], generator(seed, "pairs"))
            splits |= hold_out(groups, shares)
        for name, pairs in splits.items():
            if not pairs:
                raise WrongInput(f"{path}: too few pairs: none is left for {name}")
        notes += [f"source is {short(sides[0])}, target is {short(sides[1])}", *_count_known(splits)]
        return Sentences({name: splits[name] for name in SPLITS if name in splits}, tuple(notes))

    def _read_file(self, path: Path) -> tuple[dict[str, "Lines"], tuple[str, str]]:
        if not os.path.exists(path):
            raise WrongInput(f"{path}: No such file or directory")
        if not path.name.lower().removesuffix(".gz").endswith((".txt", ".tsv", ".zip")):
            hint = "of parallel files such as train.en and train.fr, give the folder"
            raise WrongInput(
                f"{path}: pairs with a tab between are read from .txt, .tsv, their .gz, .zip; {hint}"
            )
        sides = self._choose_sides(path, COLUMNS)
        return {"train": Lines.with_tabs(path, reverse=sides != COLUMNS)}, sides

    def _read_folder(self, path: Path) -> tuple[dict[str, "Lines"], tuple[str, str]]:
        sets = _find_sets(path)
        languages = sorted({language for files in sets["train"].values() for language in files})
        if len(languages) < 2:
            none = "none is there; of a file with tabs, give its name"
            there = f"only {languages[0]} is there" if languages else none
            raise WrongInput(f"{path}: two files such as train.en and train.fr are needed; {there}")
        sides = self._choose_sides(path, sorted(languages, key=lambda language: language != "en"))
        files = {split: _choose_set(path, split, sets[split], sides) for split in SPLITS}
        return {split: Lines.parallel(*both) for split, both in files.items() if both}, sides

    def _choose_sides(self, path: Path, there: Sequence[str]) -> tuple[str, str]:
        """Source and target; of two that are there, the first is the source unless something else is said."""
        for key, name in (("source", self.source), ("target", self.target)):
            if name and name not in there:
                raise WrongInput(f"{path}: {unknown(f'task.data.{key}', name, there[:MOST_NAMED])}")
        if self.source and self.source == self.target:
            raise WrongInput(f"{path}: source and target are both {short(self.source)}; they must differ")
        if self.source and self.target:
            return self.source, self.target
        if len(there) > 2:
            say = "say it with --set task.data.source=NAME --set task.data.target=NAME"
            names = ", ".join(there[:MOST_NAMED])
            raise WrongInput(f"{path}: which is the source, which the target? there are: {names}; {say}")
        first, second = there
        return (second, first) if self.source == second or self.target == first else (first, second)

    def _keep(self, found: "Lines") -> tuple[list[Pair], str]:
        """The pairs, and a note that says of each line whether it is one of them."""
        kept, dropped = list[Pair](), Counter[str]()
        for number, line in enumerate(found.lines, 1):
            fault = _find_fault(line, self.longest)
            if fault is None:
                kept.append((line[0], line[1]))
            elif fault.kind == "blank" or self.broken == "drop":
                dropped[fault.kind] += 1
            else:
                raise WrongInput(f"{found.places[fault.side]}:{number}: {fault.reason}; {DROP}")
        names = " and ".join(dict.fromkeys(Path(place).name for place in found.places))
        why = ", ".join(f"{times:,} {reason}" for reason, times in sorted(dropped.items()))
        note = f"{names}: {len(kept):,} pairs kept, {dropped.total():,} lines dropped"
        return kept, f"{note} ({why})" if why else note


@dataclass(frozen=True)
class Lines:
    """Source and target line by line; a line that has not just two sentences stands there as it is."""

    places: tuple[str, str]  # of the sources, of the targets
    lines: Sequence[Sequence[str]]

    @staticmethod
    def with_tabs(path: Path, reverse: bool) -> "Lines":
        place, lines = read_lines(path)
        split = [[column.strip() for column in line.split("\t")] for line in lines]
        widths = Counter(map(len, split))
        # Where most lines have no third column, one that has is broken by a stray tab.
        widest = 3 if widths[3] > widths[2] else 2
        most, times = widths.most_common(1)[0]
        if most > widest and times > len(lines) / 2:
            raise WrongInput(f"{place}: lines have {most} columns; keep two, a sentence and its translation")
        order = slice(1, None, -1) if reverse else slice(2)
        return Lines((place, place), [line[order] if 2 <= len(line) <= widest else line for line in split])

    @staticmethod
    def parallel(source: Path, target: Path) -> "Lines":
        (source_place, sources), (target_place, targets) = read_lines(source), read_lines(target)
        if len(sources) != len(targets):
            counts = f"{target.name} has {len(targets):,} lines, {source.name} has {len(sources):,}"
            raise WrongInput(f"{source.parent}: {counts}; line by line they must be translations")
        lines = [(first.strip(), second.strip()) for first, second in zip(sources, targets, strict=True)]
        return Lines((source_place, target_place), lines)


class Fault(NamedTuple):
    kind: str  # as a note counts it
    reason: str  # as a refusal says it
    side: int = 0


def _find_fault(line: Sequence[str], longest: int) -> Fault | None:
    if not any(line):
        return Fault("blank", "the line is blank")
    if len(line) == 1:
        return Fault("without a tab", "no tab stands between sentence and translation")
    if len(line) > 2:
        return Fault("with too many tabs", f"the line has {len(line) - 1} tabs, more than most lines")
    for side, (name, sentence) in enumerate(zip(("source", "target"), line, strict=True)):
        if not sentence:
            return Fault("with an empty side", f"the {name} is empty", side)
        if len(sentence) > longest:
            reason = f"the {name} has {len(sentence):,} characters, more than {longest:,}"
            return Fault("too long", reason, side)
    return None


def _find_sets(folder: Path) -> Sets:
    try:
        there = sorted(folder.iterdir())
    except OSError as error:
        raise WrongInput(f"{folder}: {error.strerror}") from None
    sets: Sets = {split: {} for split in SPLITS}
    for path in there:
        match = PARALLEL.fullmatch(path.name.removesuffix(".gz"))
        if match is None:
            continue
        files = sets[SPLIT_OF[match["name"].lower()]].setdefault(match[1], {})
        other = files.setdefault(match["language"], path)
        if other != path:
            raise WrongInput(f"{folder}: both {other.name} and {path.name} are there; one is enough")
    return sets


def _choose_set(
    folder: Path, split: str, sets: dict[str, dict[str, Path]], sides: tuple[str, str]
) -> tuple[Path, Path] | None:
    """The source and the target file of a split, if it has any."""
    source, target = sides
    whole = {name: (files[source], files[target]) for name, files in sets.items() if {*sides} <= {*files}}
    if split in whole or len(whole) == 1:
        return whole.get(split) or next(iter(whole.values()))
    if whole:
        names, say = " or ".join(whole), f"keep one, or call it {split}.{source} and {split}.{target}"
        raise WrongInput(f"{folder}: {split} could be {names}; {say}")
    for files in sets.values():
        for side, other in (sides, sides[::-1]):
            if side in files:
                raise WrongInput(f"{folder}: {files[side].name} is there, its translation to {other} is not")
    return None


def _count_known(splits: dict[str, list[Pair]]) -> list[str]:
    """A note on each split with sources that training has too: files may have such, shares have none."""
    known = {likeness(source) for source, _ in splits["train"]}
    counts = {
        name: sum(likeness(source) in known for source, _ in pairs)
        for name, pairs in splits.items()
        if name != "train"
    }
    return [
        f"{count:,} of {len(splits[name]):,} pairs of {name} have a source that training has too"
        for name, count in counts.items()
        if count
    ]
