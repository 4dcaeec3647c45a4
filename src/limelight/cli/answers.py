"""The inputs and the output of `predict`."""

import csv
import io
import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from limelight.data.images.decode import SUFFIXES
from limelight.data.paths import check_regular
from limelight.errors import WrongInput, wrong
from limelight.experiment import Run
from limelight.experiment.config import FILE
from limelight.tasks.task import Answer, Task
from limelight.terminal import print_json
from limelight.training.progress import watcher

TABLES = {".csv": ",", ".tsv": "\t"}
INSPECTED = 10_000  # inputs that are compared with those of training


@dataclass(frozen=True)
class Given:
    """One input: its text or the path of its image, and its columns in a table of answers."""

    text: str
    columns: tuple[str, ...] = ("input",)
    cells: tuple[str, ...] = ()
    is_listed: bool = False  # it was found in a folder: its answer is printed with its name


@dataclass(frozen=True)
class Answered:
    """An input with its answer, or with the reason why it has none."""

    given: Given
    result: Answer | WrongInput

    def describe(self) -> dict[str, Any]:
        """As a JSON object."""
        if isinstance(self.result, WrongInput):
            return {"input": self.given.text, "error": str(self.result)}
        others = [_describe(other) for other in self.result.others]
        return {"input": self.given.text} | _describe(self.result) | ({"others": others} if others else {})

    def lines(self) -> Iterator[str]:
        """As text: one line per answer."""
        name = f"{self.given.text}\t" if self.given.is_listed else ""
        if isinstance(self.result, WrongInput):
            yield f"{name}error: {self.result}"
            return
        for one in (self.result, *self.result.others):
            words = " ".join(f"{source}-{target}" for source, target in one.alignment)
            before = f"{_log(one.probability):.3f}\t" if self.result.others else ""
            text = one.text.replace("\n", "\\n")  # one line per answer
            yield f"{name}{before}{text}" + (f"\t{words}" if words else "")


def predict_all(
    run: Run,
    arguments: tuple[str, ...],
    options: dict[str, Any],
    *,
    out: Path | None,
    as_json: bool,
    as_jsonl: bool,
) -> None:
    """Answer all inputs, and print the answers or write them to a table."""
    if "probability" in run.task.options.model_fields and not (as_json or as_jsonl or out):
        options = {"probability": options.get("n_best", 1) > 1, **options}  # otherwise nobody reads it
    run.task.read_options(options)  # before any input is read
    if out is not None and out.suffix.lower() not in TABLES:
        raise wrong("--out", repr(str(out)), "a name that ends in .csv or .tsv")
    if out is not None and not out.parent.is_dir():  # before the work
        raise WrongInput(f"{out.parent}: there is no such folder")
    kept, keep = list[Answered](), out is not None or as_json
    show = kept.append if keep else partial(print_answer, as_jsonl=as_jsonl)
    typed = not arguments and sys.stdin and sys.stdin.isatty()  # answer each line at once, as each image
    together = 1 if typed or run.task.input_kind == "image" else 1_000
    given = list(inputs(arguments, run.task)) if arguments else inputs(arguments, run.task)
    try:
        with watcher().phase("predicting") if keep else nullcontext():
            answer_all(run, given, together, show, options)
    except WrongInput:
        if kept:  # some inputs have an answer
            finish(kept, out)
        raise
    if keep:
        finish(kept, out)


def inputs(arguments: tuple[str, ...], task: Task[Any]) -> Iterator[Given]:
    """Arguments, the inputs in files and folders, or the lines of stdin."""
    read = _images if task.input_kind == "image" else _texts
    for number, argument in enumerate(arguments, 1):
        yield from read(argument, number, task)
    if not arguments and sys.stdin:
        for number, line in enumerate(sys.stdin):
            text = line.removeprefix("" if number else "\ufeff").removesuffix("\n").removesuffix("\r")
            yield Given(text, cells=(text,))


def _images(argument: str, number: int, task: Task[Any]) -> Iterator[Given]:
    """A file, or all image files in a folder and its subfolders."""
    if not os.path.isdir(argument):
        yield Given(argument, cells=(argument,))
        return
    found = (path for path in Path(argument).rglob("*") if path.suffix.lower() in SUFFIXES)
    paths = sorted(path for path in found if not _is_in_run(path, Path(argument)))
    if not paths:
        raise WrongInput(f"{argument}: the folder contains no image")
    yield from (Given(str(path), cells=(str(path),), is_listed=True) for path in paths)


def _is_in_run(path: Path, folder: Path) -> bool:
    """Whether a file below the folder is one of a run folder, such as a figure."""
    between = [parent for parent in path.parents if folder in parent.parents]
    return any((parent / FILE).is_file() for parent in between)


def _texts(argument: str, number: int, task: Task[Any]) -> Iterator[Given]:
    """A line of text, or the inputs in a file."""
    check_regular(Path(argument))
    if os.path.isfile(argument):
        columns, rows = task.columns_in(Path(argument))
        for text, row in zip(task.inputs_in(Path(argument)), rows, strict=True):
            yield Given(text, tuple(columns), tuple(row))
    elif looks_like_a_file(argument):
        raise WrongInput(f"{argument}: No such file or directory")
    elif argument.isascii() or argument == argument.encode(errors="replace").decode():
        yield Given(argument, cells=(argument,))
    else:
        raise WrongInput(f"argument {number} is not UTF-8 text")


def looks_like_a_file(argument: str) -> bool:
    """Whether a text is probably the mistyped name of a file: one word with an extension of texts."""
    return len(argument.split()) == 1 and Path(argument).suffix.lower() in {".txt", ".gz", *TABLES}


def answer_all(
    run: Run, given: Iterable[Given], together: int, show: Callable[[Answered], None], options: dict[str, Any]
) -> None:
    """Answer the inputs in groups of `together`; an invalid one does not affect the others.

    Errors are shown like answers, and an error about all of them is raised at the end. If there is only one
    input, its error is raised.
    """
    known, failed, count = list[str](), 0, 0
    for group in _groups(given, together):
        results = _results(run, [one.text for one in group], count + 1, options)
        count += len(group)
        if isinstance(results[0], WrongInput) and isinstance(given, list) and len(given) == 1:
            raise results[0]
        for one, result in zip(group, results, strict=True):
            show(Answered(one, result))
            if isinstance(result, WrongInput):
                failed += 1
            elif len(known) < INSPECTED:
                known.append(one.text)
    for warning in run.task.unlike_training(known):
        print(f"limelight: warning: {warning}", file=sys.stderr)
    if failed:
        raise WrongInput(f"{failed:,} of {count:,} inputs have no answer, but an error")


def _results(run: Run, lines: list[str], first: int, options: dict[str, Any]) -> list[Answer | WrongInput]:
    try:
        return list(run.predict(lines, first=first, **options))
    except WrongInput as error:
        if len(lines) == 1:
            return [error]
        half = len(lines) // 2
        before, after = lines[:half], lines[half:]
        return _results(run, before, first, options) + _results(run, after, first + half, options)


def _groups(given: Iterable[Given], size: int) -> Iterator[list[Given]]:
    """The inputs in lists of `size`: answers are printed before the input ends, and memory stays small."""
    group: list[Given] = []
    for one in given:
        group.append(one)
        if len(group) == size:
            yield group
            group = []
    if group:
        yield group


def write_table(path: Path, answered: Sequence[Answered]) -> None:
    """Write the inputs with all of their columns, and the columns answer, probability and (if any) error."""
    several = {one.given.columns for one in answered}
    columns = several.pop() if len(several) == 1 else ("input",)  # files with different columns
    added = ["answer", "probability"]
    added += ["error"] * any(isinstance(one.result, WrongInput) for one in answered)
    content = io.StringIO()
    writer = csv.writer(content, delimiter=TABLES[path.suffix.lower()], lineterminator="\n")
    writer.writerow([*columns, *(name if name not in columns else f"predicted {name}" for name in added)])
    for one in answered:
        cells = one.given.cells if columns == one.given.columns else (one.given.text,)
        writer.writerow([*cells, *_cells(one.result)[: len(added)]])
    path.write_text(content.getvalue(), encoding="utf-8")


def _cells(result: Answer | WrongInput) -> tuple[str, str, str]:
    if isinstance(result, WrongInput):
        return "", "", str(result)
    return result.text, "" if result.probability is None else f"{result.probability:.6g}", ""


def finish(answered: Sequence[Answered], path: Path | None) -> None:
    """Write all answers as a table, or print them as one JSON document."""
    if path is None:
        print(json.dumps([one.describe() for one in answered], ensure_ascii=False, indent=1))
    else:
        write_table(path, answered)
        print(path)


def print_answer(answered: Answered, *, as_jsonl: bool) -> None:
    """Print one line per answer, or one JSON object."""
    if as_jsonl:
        print_json(answered.describe())
    else:
        print("\n".join(answered.lines()))


def _describe(answer: Answer) -> dict[str, Any]:
    content: dict[str, Any] = {
        "answer": list(answer.vector) or (answer.text if answer.number is None else answer.number),
        "probability": answer.probability,
    }
    if answer.probabilities:
        content["probabilities"] = answer.probabilities
    if answer.labels:
        content["labels"] = answer.labels
    return content | ({"alignment": answer.alignment} if answer.alignment else {})


def _log(probability: float | None) -> float:
    return math.log(probability) if probability else -math.inf  # that of a long answer may underflow to 0
