"""Held-out examples: some that a run predicts correctly, and some that it does not."""

from itertools import islice

from limelight.errors import WrongInput
from limelight.experiment.run import Run
from limelight.tasks.task import Example
from limelight.view.record import Record

TRIED = 64  # examples that are predicted to find correct and wrong ones
SHOWN = 4  # correct ones, and as many wrong ones


def examples(run: Run) -> list[Record]:
    """Records of held-out examples with their correct answers; correct predictions come first."""
    tried = list(islice(run.task.examples(run.dataset, run.dataset.held_out), TRIED))
    answers = run.predict([example.given for example in tried])
    known = dict[bool | None, list[Example]]({True: [], False: [], None: []})
    for example, answer in zip(tried, answers, strict=True):
        known[example.is_right(answer.text)].append(example)
    chosen = known[True][:SHOWN] + known[False][:SHOWN] + known[None][: 2 * SHOWN]
    records = run.record([example.given for example in chosen])
    found = []
    for example, record in zip(chosen, records, strict=True):
        if not isinstance(record, WrongInput):
            found.append(with_truth(record, example))
    if records and not found:
        raise next(one for one in records if isinstance(one, WrongInput))
    return found


def with_truth(record: Record, example: Example) -> Record:
    """The record of an example with its correct answer, if that is known."""
    if not example.truths:
        return record
    truth = example.matches(record.answer) or example.truths[0]
    return record.model_copy(update={"truth": truth, "right": example.is_right(record.answer)})
