"""Generated tasks: their answers are right by another way of finding them, and no split shares a sequence."""

import re
from collections import Counter

import pytest
import torch
from support import goes_red

from limelight.data.batching import Examples
from limelight.data.dataset import SequenceData
from limelight.data.ragged import Ragged
from limelight.data.synthetic.sequences import Brackets, Count, Generated, Majority, Reverse
from limelight.errors import WrongInput

SMALL = {"train": 499, "validation": 101, "test": 103}
TASKS: list[Generated] = [Reverse(**SMALL), Majority(**SMALL), Count(**SMALL), Brackets(**SMALL)]
each_task = pytest.mark.parametrize("task", TASKS, ids=lambda task: task.kind)


def lines(data: SequenceData, split: str) -> list[str]:
    inputs = data.splits[split].inputs
    return [data.reader.write(inputs[i]).replace(" ", "") for i in range(len(inputs))]


def expected(kind: str, line: str) -> object:
    """The answer, found on the text."""
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
                said: object = "".join(data.reader.show(target))
            else:
                said = data.answers.names[int(target)] if kind == "majority" else float(target)
            assert said == expected(kind, line), line


@each_task
def test_every_answer_is_right(task: Generated) -> None:
    data = task.load(seed=1)
    check_answers(task.kind, data)
    broken = data.splits["test"].targets
    shifted = Ragged(broken.values.roll(1), broken.offsets) if isinstance(broken, Ragged) else broken.roll(1)
    spoiled = {**data.splits, "test": Examples(data.splits["test"].inputs, shifted)}
    goes_red(check_answers, task.kind, SequenceData(spoiled, data.reader, data.answers))


@each_task
def test_no_sequence_stands_twice(task: Generated) -> None:
    data = task.load(seed=1)
    every = [line for split in data.splits for line in lines(data, split)]
    assert len(every) == sum(SMALL.values())
    assert len(set(every)) == len(every)


@each_task
def test_the_seed_decides_the_data(task: Generated) -> None:
    torch.manual_seed(1)
    one = task.load(seed=1)
    torch.manual_seed(2)
    assert task.load(seed=1).digest == one.digest
    assert task.load(seed=2).digest != one.digest


def test_the_digest_sees_a_changed_answer() -> None:
    data = TASKS[1].load(seed=1)
    before = data.digest
    data.splits["test"].targets[5] += 1
    changed = SequenceData(data.splits, data.reader, data.answers)
    assert changed.digest != before


def test_lengths_are_those_asked_for() -> None:
    for task in TASKS[1:]:
        found = torch.cat([part.inputs.lengths for part in task.load(1).splits.values()])
        assert found.min() >= task.shortest
        assert found.max() == task.longest


def test_half_of_the_brackets_of_each_length_are_balanced() -> None:
    data = Brackets(train=4999, validation=1, test=1).load(seed=1).splits["train"]
    for length in data.inputs.lengths.unique():
        of_this = data.targets[data.inputs.lengths == length]
        assert length % 2 == 0
        assert abs(float(of_this.mean()) - 0.5) <= 2 / len(of_this) + 0.05


def test_more_sequences_than_there_are_cannot_be_had() -> None:
    with pytest.raises(WrongInput, match="different sequences, and 60 are asked for"):
        Reverse(length=4, symbols=2, train=50, validation=5, test=5).load(1)


def test_a_line_is_read_with_or_without_spaces_and_what_is_no_symbol_is_refused() -> None:
    reader = Brackets(**SMALL).reader()
    assert reader.encode("( [ ]").equal(reader.encode("([]"))
    for line, said in (("(a)", "'a'"), ("  ", "empty")):
        with pytest.raises(WrongInput, match=said):
            reader.encode(line)
