"""Held-out examples that a run is right about, and some that it is not."""

from collections.abc import Iterator
from itertools import islice
from typing import Literal, cast

import torch
from torch import Tensor

from limelight.errors import WrongInput
from limelight.experiment.run import Run
from limelight.tasks.images.task import ClassifyImages
from limelight.tasks.sequence.shared import SequenceTask
from limelight.tasks.translate.metrics import single_spaced
from limelight.tasks.translate.task import Translate
from limelight.view.record import Record

Kind = Literal["words", "whole numbers", "numbers"]  # of what is to be said
TRIED = 64  # examples, to find some of either kind
SHOWN = 4  # of either kind
SHORT = 64  # tokens: what is longer is hard to look at, and takes room


def examples(run: Run) -> list[Record]:
    """What is right first; each record says what would have been."""
    pairs = list(islice(_held_out(run), TRIED))
    answers = run.predict([given for given, _ in pairs])
    known = dict[bool | None, list[tuple[str | Tensor, tuple[str, ...]]]]({True: [], False: [], None: []})
    kind = _kind(run)
    for (given, truths), answer in zip(pairs, answers, strict=True):
        known[_is_right(answer.text, truths, kind)].append((given, truths))
    chosen = known[True][:SHOWN] + known[False][:SHOWN] + known[None][: 2 * SHOWN]
    looked = run.look([given for given, _ in chosen])
    found = []
    for (_, truths), record in zip(chosen, looked, strict=True):
        if not isinstance(record, WrongInput):
            right = _is_right(record.answer, truths, kind)
            truth = record.answer if _says(record.answer, truths) else truths[0]
            found.append(record.model_copy(update={"truth": truth, "right": right}))
    if looked and not found:
        raise next(one for one in looked if isinstance(one, WrongInput))
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
                yield task.text(split, number) or batch.inputs[0], (task.name(batch.targets[0]),)


def _kind(run: Run) -> Kind:
    if not isinstance(run.task, SequenceTask) or run.task.answers.kind != "number":
        return "words"
    numbers = cast(Tensor, run.task.examples(run.held_out).targets)
    return "whole numbers" if bool((numbers == numbers.round()).all()) else "numbers"


def _is_right(answer: str, truths: tuple[str, ...], kind: Kind) -> bool | None:
    """A whole number is nearer to the true one than to the next; of others nobody can say how near it is."""
    if kind == "numbers":
        return None
    if kind == "whole numbers":
        return abs(float(answer) - float(truths[0])) < 0.5
    return _says(answer, truths)


def _says(answer: str, truths: tuple[str, ...]) -> bool:
    """Subwords cannot tell one kind of space from another."""
    return single_spaced(answer) in map(single_spaced, truths)
