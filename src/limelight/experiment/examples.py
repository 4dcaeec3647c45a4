"""Held-out examples: some that a run predicts correctly, and some that it does not."""

from collections.abc import Iterator, Sequence
from itertools import islice

from limelight.errors import WrongInput
from limelight.experiment.run import Run
from limelight.tasks.task import Example
from limelight.view.changes import Change, Changed
from limelight.view.record import LARGEST_VARIANTS, MOST_VARIANTS, Record, Variant

TRIED = 64  # examples that are predicted to find correct and wrong ones
SHOWN = 4  # correct ones, and as many wrong ones


def choose_examples(run: Run, shown: int = SHOWN) -> list[Example]:
    """Held-out examples: correct predictions come first; of each kind, at most this number is chosen."""
    tried = list(islice(run.task.examples(run.dataset, run.dataset.held_out), TRIED))
    answers = run.predict([example.given for example in tried])
    known = dict[bool | None, list[Example]]({True: [], False: [], None: []})
    for example, answer in zip(tried, answers, strict=True):
        known[example.is_right(answer.text)].append(example)
    return known[True][:shown] + known[False][:shown] + known[None][: 2 * shown]


def examples(run: Run) -> list[Record]:
    """Records of held-out examples with their correct answers; correct predictions come first."""
    return [record for _, record in recorded_examples(run)]


def recorded_examples(run: Run) -> list[tuple[Example, Record]]:
    """The same, each with its example."""
    chosen = choose_examples(run)
    records = run.record([example.given for example in chosen])
    found = [
        (example, with_truth(record, example))
        for example, record in zip(chosen, records, strict=True)
        if not isinstance(record, WrongInput)
    ]
    if records and not found:
        raise next(one for one in records if isinstance(one, WrongInput))
    return found


def with_variants(run: Run, recorded: Sequence[tuple[Example, Record]]) -> list[Record]:
    """The records, the first of them with the results without each head, as far as they fit into a page."""
    found, heads, size = list[Record](), 0, 0
    for example, record in recorded:
        own = sum(one.heads for one in record.maps)
        if heads + own <= MOST_VARIANTS and size + own * len(record.weights) <= LARGEST_VARIANTS:
            record = record.model_copy(update={"variants": tuple(_variants(run, example, record))})
            heads, size = heads + own, size + own * len(record.weights)
        found.append(record)
    return found


def _variants(run: Run, example: Example, record: Record) -> Iterator[Variant]:
    for number, one in enumerate(record.maps):
        for head in range(one.heads):
            (found,) = run.record([Changed(example.given, (Change(name=one.name, head=head),))])
            if isinstance(found, Record):
                yield Variant.of(number, head, with_truth(found, example))


def with_truth(record: Record, example: Example) -> Record:
    """The record of an example with its correct answer, if that is known."""
    if not example.truths:
        return record
    truth = example.matches(record.answer) or example.truths[0]
    return record.model_copy(update={"truth": truth, "right": example.is_right(record.answer)})
