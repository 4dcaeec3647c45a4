"""Sentence pairs from a user's files."""

import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, Self

from pydantic import Field, model_validator

from limelight.data.dataset import SPLITS, DataConfig
from limelight.data.splits import (
    FILE_NAMES,
    check_shares,
    choose,
    hold_out,
    missing_shares,
    normalise,
    shuffle_groups,
)
from limelight.data.text.delimited import MOST_NAMED, short
from limelight.data.text.text_files import read_lines
from limelight.data.text.translation_data import Pair, SentencePairs
from limelight.errors import WrongInput, unknown
from limelight.randomness import generator

COLUMNS = ("column 1", "column 2")  # names of the sides of a file with tabs
SPLIT_OF = {name: split for split, names in FILE_NAMES.items() for name in names}
# train.en, val.pt-BR, test_2016_flickr.de; extensions such as .txt are not languages.
PARALLEL = re.compile(
    rf"((?P<name>{'|'.join(SPLIT_OF)})([._-].+)?)\.(?!(txt|tsv|csv|zip)$)(?P<language>[a-z]{{2,3}}([-_]\w+)*)",
    re.ASCII | re.IGNORECASE,
)
DROP = "fix it, or drop such lines: --set task.data.broken=drop"

FileSets = dict[str, dict[str, dict[str, Path]]]  # split -> name such as test_2016 -> language -> file


class PairFiles(DataConfig):
    """A file with tabs between sentences and translations, or a folder of parallel files.

    The file is a .txt or .tsv, possibly compressed as .gz, or a .zip that contains one. Its sides are named
    "column 1" and "column 2"; a third column (attribution) is ignored. Quotes are ordinary characters.

    The folder contains train.en and train.fr, or their .gz: line i of one is the translation of line i of
    the other. Files of dev (valid, val, validation) and test are used if they exist. The sides are named
    after the extensions.

    If there are only two sides, the default source is column 1, English, or the first in alphabetical order.
    Shares of the source sentences are held out if there is no dev file; pairs with the same source stay in
    the same split. With a dev file but without a test file there is no test split.
    """

    kind: Literal["pairs"] = Field("pairs", description="sentence pairs from text files")
    path: str = Field(
        "", description="a file with tabs, or a folder of parallel files such as train.en, train.fr"
    )
    source: str = Field(
        "", description='source side: "column 1", or an extension such as "en"; empty: default'
    )
    target: str = Field(
        "", description='target side: "column 2", or an extension such as "fr"; empty: default'
    )
    validation: float = Field(0.02, gt=0, lt=1, description="share of the sources held out for validation")
    test: float = Field(
        0.02, ge=0, lt=1, description="share of the sources held out for testing; 0: no test split"
    )
    longest: int = Field(
        1_000,
        ge=1,
        le=1_000_000,
        description="maximum length of a sentence in characters; longer lines count as broken",
    )
    broken: Literal["refuse", "drop"] = Field(
        "refuse",
        description="broken lines: refuse reports an error, drop skips them; blank lines are always dropped",
    )

    @model_validator(mode="after")
    def _leaves_training_examples(self) -> Self:
        check_shares(self.validation, self.test)
        return self

    def load(self, seed: int) -> SentencePairs:
        """Read all pairs and hold out the splits that have no files."""
        if not self.path:
            raise WrongInput("task.data.path is empty; pass a file or a folder with --data")
        path = Path(self.path)
        # Not Path.is_dir, which raises an error if a name is too long.
        found, sides = self._read_folder(path) if os.path.isdir(path) else self._read_file(path)
        splits, notes = dict[str, list[Pair]](), list[str]()
        for name, lines in found.items():
            pairs, note = self._filter(lines)
            splits[name] = [pairs[i] for i in choose([""] * len(pairs), self.limit, seed)]
            notes.append(note)
            notes += [f"limit: {len(splits[name]):,} of them are used"] * (len(splits[name]) < len(pairs))
        shares = missing_shares(found, self.validation, self.test)
        if shares:
            groups = shuffle_groups(splits["train"], lambda pair: pair[0], generator(seed, "pairs"))
            splits |= hold_out(groups, shares)
        for name, pairs in splits.items():
            if not pairs:
                raise WrongInput(f"{path}: too few pairs: no pair is left for the {name} split")
        notes += [f"source is {short(sides[0])}, target is {short(sides[1])}", *_count_overlap(splits)]
        return SentencePairs({name: splits[name] for name in SPLITS if name in splits}, tuple(notes))

    def load_other(self) -> SentencePairs:
        """All pairs of other files than those of training; those of a single file are the split "new"."""
        path = Path(self.path)
        if os.path.isdir(path):
            found, sides = self._read_folder(path, ("train", "validation", "test"))
        else:
            read, sides = self._read_file(path)
            found = {"new": read["train"]}
        filtered = {name: self._filter(lines) for name, lines in found.items()}
        for name, (pairs, _) in filtered.items():
            if not pairs:
                raise WrongInput(f"{path}: there is no pair in the {name} split")
        notes = [f"source is {short(sides[0])}, target is {short(sides[1])}"]
        notes += [note for _, note in filtered.values()]
        return SentencePairs({name: pairs for name, (pairs, _) in filtered.items()}, tuple(notes))

    def _read_file(self, path: Path) -> tuple[dict[str, "Lines"], tuple[str, str]]:
        if not os.path.exists(path):
            raise WrongInput(f"{path}: No such file or directory")
        if not path.name.lower().removesuffix(".gz").endswith((".txt", ".tsv", ".zip")):
            hint = "for parallel files such as train.en and train.fr, pass the folder"
            raise WrongInput(
                f"{path}: the file type is not supported; allowed: .txt, .tsv, their .gz, .zip; {hint}"
            )
        sides = self._choose_sides(path, COLUMNS)
        return {"train": Lines.with_tabs(path, reverse=sides != COLUMNS)}, sides

    def _read_folder(
        self, path: Path, named: Sequence[str] = ("train",)
    ) -> tuple[dict[str, "Lines"], tuple[str, str]]:
        """The lines of each split and the sides; `named` are the splits whose files name the languages."""
        sets = _find_sets(path)
        files_of = [files for split in named for files in sets[split].values()]
        languages = sorted({language for files in files_of for language in files})
        if len(languages) < 2:
            none = "there is none; for a file with tabs, pass the file"
            found = f"there is only {languages[0]}" if languages else none
            raise WrongInput(f"{path}: two files such as train.en and train.fr are needed; {found}")
        sides = self._choose_sides(path, sorted(languages, key=lambda language: language != "en"))
        files = {split: _choose_set(path, split, sets[split], sides) for split in SPLITS}
        return {split: Lines.parallel(*both) for split, both in files.items() if both}, sides

    def _choose_sides(self, path: Path, sides: Sequence[str]) -> tuple[str, str]:
        """The source and the target; by default the first of two sides is the source."""
        for key, name in (("source", self.source), ("target", self.target)):
            if name and name not in sides:
                raise WrongInput(f"{path}: {unknown(f'task.data.{key}', name, sides[:MOST_NAMED])}")
        if self.source and self.source == self.target:
            raise WrongInput(f"{path}: source and target are both {short(self.source)}; they must differ")
        if self.source and self.target:
            return self.source, self.target
        if len(sides) > 2:
            hint = "choose with --set task.data.source=NAME --set task.data.target=NAME"
            names = ", ".join(sides[:MOST_NAMED])
            raise WrongInput(f"{path}: source and target are not clear; there are: {names}; {hint}")
        first, second = sides
        return (second, first) if self.source == second or self.target == first else (first, second)

    def _filter(self, found: "Lines") -> tuple[list[Pair], str]:
        """The valid pairs, and a note with the numbers of kept and dropped lines."""
        kept, dropped = list[Pair](), Counter[str]()
        for number, line in enumerate(found.lines, 1):
            defect = _find_defect(line, self.longest)
            if defect is None:
                kept.append((line[0], line[1]))
            elif defect.kind == "blank" or self.broken == "drop":
                dropped[defect.kind] += 1
            else:
                raise WrongInput(f"{found.places[defect.side]}:{number}: {defect.reason}; {DROP}")
        names = " and ".join(dict.fromkeys(Path(place).name for place in found.places))
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in sorted(dropped.items()))
        note = f"{names}: {len(kept):,} pairs kept, {dropped.total():,} lines dropped"
        return kept, f"{note} ({reasons})" if reasons else note


@dataclass(frozen=True)
class Lines:
    """Source and target of each line; lines without exactly two sentences are kept unchanged."""

    places: tuple[str, str]  # source file and target file, for error messages
    lines: Sequence[Sequence[str]]

    @staticmethod
    def with_tabs(path: Path, reverse: bool) -> "Lines":
        """Read a file with a tab between source and target; `reverse` swaps the columns."""
        place, lines = read_lines(path)
        split = [[column.strip() for column in line.split("\t")] for line in lines]
        widths = Counter(map(len, split))
        # If most lines have two columns, a line with three contains an extra tab.
        widest = 3 if widths[3] > widths[2] else 2
        most, count = widths.most_common(1)[0]
        if most > widest and count > len(lines) / 2:
            raise WrongInput(
                f"{place}: most lines have {most} columns; allowed: 2, a sentence and its translation"
            )
        order = slice(1, None, -1) if reverse else slice(2)
        return Lines((place, place), [line[order] if 2 <= len(line) <= widest else line for line in split])

    @staticmethod
    def parallel(source: Path, target: Path) -> "Lines":
        """Read two files with one sentence per line."""
        (source_place, sources), (target_place, targets) = read_lines(source), read_lines(target)
        if len(sources) != len(targets):
            counts = f"{target.name} has {len(targets):,} lines, {source.name} has {len(sources):,}"
            raise WrongInput(f"{source.parent}: {counts}; the numbers must be equal")
        lines = [(first.strip(), second.strip()) for first, second in zip(sources, targets, strict=True)]
        return Lines((source_place, target_place), lines)


class Defect(NamedTuple):
    """Why a line is not a valid pair."""

    kind: str  # for the note that counts dropped lines
    reason: str  # for the error message
    side: int = 0  # 0: source, 1: target


def _find_defect(line: Sequence[str], longest: int) -> Defect | None:
    if not any(line):
        return Defect("blank", "the line is blank")
    if len(line) == 1:
        return Defect("without a tab", "there is no tab between sentence and translation")
    if len(line) > 2:
        return Defect("with too many tabs", f"the line has {len(line) - 1} tabs, more than most lines")
    for side, (name, sentence) in enumerate(zip(("source", "target"), line, strict=True)):
        if not sentence:
            return Defect("with an empty side", f"the {name} is empty", side)
        if len(sentence) > longest:
            reason = f"the {name} has {len(sentence):,} characters, more than {longest:,}"
            return Defect("too long", reason, side)
    return None


def _find_sets(folder: Path) -> FileSets:
    try:
        paths = sorted(folder.iterdir())
    except OSError as error:
        raise WrongInput(f"{folder}: {error.strerror}") from None
    sets: FileSets = {split: {} for split in SPLITS}
    for path in paths:
        match = PARALLEL.fullmatch(path.name.removesuffix(".gz"))
        if match is None:
            continue
        files = sets[SPLIT_OF[match["name"].lower()]].setdefault(match[1], {})
        other = files.setdefault(match["language"], path)
        if other != path:
            raise WrongInput(f"{folder}: both {other.name} and {path.name} exist; keep one of them")
    return sets


def _choose_set(
    folder: Path, split: str, sets: dict[str, dict[str, Path]], sides: tuple[str, str]
) -> tuple[Path, Path] | None:
    """The source file and the target file of a split, or None if it has no files."""
    source, target = sides
    complete = {name: (files[source], files[target]) for name, files in sets.items() if {*sides} <= {*files}}
    if split in complete or len(complete) == 1:
        return complete.get(split) or next(iter(complete.values()))
    if complete:
        names, hint = " or ".join(complete), f"keep one, or name it {split}.{source} and {split}.{target}"
        raise WrongInput(f"{folder}: {split} could be {names}; {hint}")
    for files in sets.values():
        for side, other in (sides, sides[::-1]):
            if side in files:
                raise WrongInput(
                    f"{folder}: {files[side].name} exists, but its translation to {other} does not"
                )
    return None


def _count_overlap(splits: dict[str, list[Pair]]) -> list[str]:
    """A note for each split whose source sentences also occur in training; possible with separate files."""
    known = {normalise(source) for source, _ in splits["train"]}
    counts = {
        name: sum(normalise(source) in known for source, _ in pairs)
        for name, pairs in splits.items()
        if name != "train"
    }
    return [
        f"{count:,} of {len(splits[name]):,} pairs of {name} have a source that also occurs in training"
        for name, count in counts.items()
        if count
    ]
