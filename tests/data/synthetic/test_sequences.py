"""Generated sequences: answers are verified by independent code, and all sequences are distinct."""

import re
from collections import Counter
from typing import Any

import pytest
import torch
from support import must_fail

from limelight.data.batching import Examples
from limelight.data.dataset import SequenceData
from limelight.data.ragged import Ragged
from limelight.data.synthetic.sequences import Brackets, Count, GeneratedSequences, Majority, Reverse
from limelight.errors import WrongInput

SMALL: dict[str, Any] = {"train": 499, "validation": 101, "test": 103}
Task = Reverse | Majority | Count | Brackets
TASKS: list[Task] = [
    Reverse(**SMALL),
    Majority(**SMALL),
    Count(**SMALL),
    Brackets(**SMALL),
]
each_task = pytest.mark.parametrize("task", TASKS, ids=lambda task: task.kind)


def lines(data: SequenceData, split: str) -> list[str]:
    inputs = data.splits[split].inputs
    return [data.reader.decode(inputs[i]).replace(" ", "") for i in range(len(inputs))]


def expected(kind: str, line: str) -> object:
    """The answer, computed from the text."""
    if kind == "reverse":
        return line[::-1]
    if kind == "majority":
        (best, often), (_, second) = [*Counter(line).most_common(2), ("", 0)][:2]
        assert often > second
        return best
    if kind == "count":
        return float(line.count(line[0]))
    while (shorter := re.sub(r"\(\)|\[\]", "", line)) != line:
        line = shorter
    return float(not line)


def check_answers(kind: str, data: SequenceData) -> None:
    for split, examples in data.splits.items():
        for i, line in enumerate(lines(data, split)):
            target = examples.targets[i]
            if kind == "reverse":
                found: object = "".join(data.reader.item_names(target))
            else:
                found = data.answers.names[int(target)] if kind == "majority" else float(target)
            assert found == expected(kind, line), line


@each_task
def test_every_answer_is_correct(task: Task) -> None:
    data = task.load(seed=1)
    check_answers(task.kind, data)
    broken = data.splits["test"].targets
    shifted = Ragged(broken.values.roll(1), broken.offsets) if isinstance(broken, Ragged) else broken.roll(1)
    spoiled = {**data.splits, "test": Examples(data.splits["test"].inputs, shifted)}
    must_fail(check_answers, task.kind, SequenceData(spoiled, data.reader, data.answers))


@each_task
def test_all_sequences_are_distinct(task: GeneratedSequences) -> None:
    data = task.load(seed=1)
    every = [line for split in data.splits for line in lines(data, split)]
    assert len(every) == sum(SMALL.values())
    assert len(set(every)) == len(every)


@each_task
def test_the_seed_determines_the_data(task: GeneratedSequences) -> None:
    torch.manual_seed(1)
    one = task.load(seed=1)
    torch.manual_seed(2)
    assert task.load(seed=1).digest == one.digest
    assert task.load(seed=2).digest != one.digest


def test_a_changed_answer_changes_the_digest() -> None:
    data = TASKS[1].load(seed=1)
    before = data.digest
    data.splits["test"].targets[5] += 1
    changed = SequenceData(data.splits, data.reader, data.answers)
    assert changed.digest != before


def test_lengths_are_within_the_configured_range() -> None:
    for task in TASKS:
        if isinstance(task, Reverse):  # all have one length
            continue
        found = torch.cat([part.inputs.lengths for part in task.load(1).splits.values()])
        assert found.min() >= task.shortest
        assert found.max() == task.longest


def test_half_of_the_brackets_of_each_length_are_balanced() -> None:
    data = Brackets(train=4999, validation=1, test=1).load(seed=1).splits["train"]
    for length in data.inputs.lengths.unique():
        of_this = data.targets[data.inputs.lengths == length]
        assert length % 2 == 0
        assert abs(float(of_this.mean()) - 0.5) <= 2 / len(of_this) + 0.05


def test_more_sequences_than_exist_are_an_error() -> None:
    with pytest.raises(WrongInput, match="distinct sequences, but 60 are needed"):
        Reverse(length=4, symbols=2, train=50, validation=5, test=5).load(1)


def test_spaces_between_symbols_are_optional_and_unknown_symbols_are_an_error() -> None:
    reader = Brackets(**SMALL).reader()
    assert reader.encode("( [ ]").equal(reader.encode("([]"))
    for line, message in (("(a)", "'a'"), ("  ", "empty")):
        with pytest.raises(WrongInput, match=message):
            reader.encode(line)
