"""Held-out examples that a run is right about, and some that it is not."""

import math
from collections.abc import Iterator
from itertools import islice
from typing import cast

import torch
from torch import Tensor

from limelight.errors import WrongInput
from limelight.experiment.looking import SEARCH
from limelight.experiment.run import Run
from limelight.tasks.images import ClassifyImages
from limelight.tasks.metrics import single_spaced
from limelight.tasks.sequences import SequenceTask
from limelight.tasks.translate import Translate
from limelight.view.record import Record

TRIED = 64  # examples, to find some of either kind
SHOWN = 4  # of either kind
SHORT = 64  # tokens: what is longer is hard to look at, and takes room


def examples(run: Run) -> list[Record]:
    """What is right first; each record says what would have been."""
    pairs = list(islice(_held_out(run), TRIED))
    search = SEARCH if isinstance(run.task, Translate) else None  # as they are looked at
    answers = run.predict([given for given, _ in pairs], search=search)
    known = dict[bool | None, list[tuple[str | Tensor, tuple[str, ...]]]]({True: [], False: [], None: []})
    near = _near(run)
    for (given, truths), answer in zip(pairs, answers, strict=True):
        known[_is_right(answer.text, truths, near)].append((given, truths))
    chosen = known[True][:SHOWN] + known[False][:SHOWN] + known[None][: 2 * SHOWN]
    found, looked = [], run.look([given for given, _ in chosen])
    for (_, truths), record in zip(chosen, looked, strict=True):
        if isinstance(record, WrongInput):
            if all(isinstance(one, WrongInput) for one in looked):
                raise record
        else:
            right = _is_right(record.answer, truths, near)
            truth = record.answer if _says(record.answer, truths) else truths[0]
            found.append(record.model_copy(update={"truth": truth, "right": right}))
    return found


def _held_out(run: Run) -> Iterator[tuple[str | Tensor, tuple[str, ...]]]:
    """Inputs that are short enough, each with all that is right about it."""
    task, split = run.task, run.held_out
    if isinstance(task, Translate):
        for source, targets in task.data.references(split).items():
            if len(task.source.encode(source)) <= SHORT:
                yield source, tuple(targets)
        return
    for number, length in enumerate(task.lengths(split).tolist()):
        if length <= SHORT:
            batch = task.batch(split, torch.tensor([number]))
            if isinstance(task, ClassifyImages):
                yield batch.inputs[0], (task.names[int(batch.targets[0])],)
            else:
                yield batch.inputs[0], (task.name(batch.targets[0]),)


def _near(run: Run) -> float:
    """How near a number must be to be right: whole ones nearer than to the next. 0: it is no number; NaN: no
    distance says it."""
    if not isinstance(run.task, SequenceTask) or run.task.answers.kind != "number":
        return 0.0
    numbers = cast(Tensor, run.task.examples(run.held_out).targets)
    return 0.5 if bool((numbers == numbers.round()).all()) else math.nan


def _is_right(answer: str, truths: tuple[str, ...], near: float) -> bool | None:
    if math.isnan(near):
        return None
    return abs(float(answer) - float(truths[0])) < near if near else _says(answer, truths)


def _says(answer: str, truths: tuple[str, ...]) -> bool:
    """Subwords cannot tell one kind of space from another."""
    return single_spaced(answer) in map(single_spaced, truths)
