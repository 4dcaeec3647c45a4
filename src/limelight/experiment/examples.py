"""Held-out examples that a run is right about, and some that it is not."""

from collections.abc import Iterator
from itertools import islice

import torch
from torch import Tensor

from limelight.errors import WrongInput
from limelight.experiment.looking import SEARCH
from limelight.experiment.run import Run
from limelight.tasks.images import ClassifyImages
from limelight.tasks.metrics import single_spaced
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
    known = dict[bool, list[tuple[str | Tensor, tuple[str, ...]]]]({True: [], False: []})
    for (given, truths), answer in zip(pairs, answers, strict=True):
        known[_same(answer.text, truths)].append((given, truths))
    chosen = known[True][:SHOWN] + known[False][:SHOWN]
    found = []
    for (_, truths), record in zip(chosen, run.look([given for given, _ in chosen]), strict=True):
        if not isinstance(record, WrongInput):
            truth = record.answer if _says(record.answer, truths) else truths[0]
            found.append(record.model_copy(update={"truth": truth}))
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


def _same(answer: str, truths: tuple[str, ...]) -> bool:
    """A number is right when it is nearer to the true one than to the next whole one."""
    try:
        return abs(float(answer) - float(truths[0])) < 0.5
    except ValueError:
        return _says(answer, truths)


def _says(answer: str, truths: tuple[str, ...]) -> bool:
    """Subwords cannot tell one kind of space from another."""
    return single_spaced(answer) in map(single_spaced, truths)
