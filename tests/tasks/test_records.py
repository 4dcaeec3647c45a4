"""Attention records of every task and model; training is not needed for these tests."""

import io
import json
import math
from functools import cache
from typing import Any

import pytest
import torch
from PIL import Image
from support import must_fail, not_none
from torch import Tensor

from limelight.errors import WrongInput
from limelight.experiment.config import experiment
from limelight.tasks.task import LONGEST_RECORD, Input
from limelight.view import watch
from limelight.view.record import Record

FEW = {"task.data.train": 40, "task.data.validation": 20, "task.data.test": 20}
WORDS = {"task.vocabulary.kind": "words", "task.data.train": 3000}
TASKS: dict[str, tuple[dict[str, Any], Input]] = {
    "reverse": (FEW | {"model.heads": 2, "model.depth": 2}, "3 1 4 1 5"),
    "brackets": (FEW, "( [ ] )"),
    "majority": (FEW, "a b a a c"),
    "count": (FEW, "a b a a c"),
    "odd-one-out": (FEW, torch.rand(7, 64)),
    "tag": (FEW, "They water the flowers ."),
    "pairs": (FEW, "A cat sleeps. ||| It does not sleep."),
    "translate": (WORDS, "She does not wear her red shirt."),
    "translate-rnn": (WORDS, "She does not wear her red shirt."),
    "digits": ({}, torch.randint(256, (1, 8, 8), dtype=torch.uint8)),
}
SEQUENCES = ("reverse", "brackets", "majority", "count", "odd-one-out", "tag", "pairs")


@cache
def loaded(name: str) -> tuple[Any, Any]:
    wanted = experiment(name, TASKS[name][0])
    return wanted.model, wanted.task.load(1)[0]


class Subject:
    def __init__(self, name: str) -> None:
        config, self.task = loaded(name)
        self.name, self.given = name, TASKS[name][1]
        torch.manual_seed(1)
        self.model: Any = config.build(self.task.sizes).eval()

    def records(self, *inputs: Input) -> list[Record | WrongInput]:
        return self.task.record(self.model, inputs or [self.given])

    @property
    def record(self) -> Record:
        (found,) = self.records()
        assert isinstance(found, Record)
        return found


@pytest.fixture(scope="module", params=TASKS)
def subject(request: pytest.FixtureRequest) -> Subject:
    return Subject(request.param)


def arguments(subject: Subject, record: Record) -> list[Tensor]:
    """The arguments of the model, computed independently of `record`."""
    task, given = subject.task, subject.given
    if subject.name == "digits":
        assert isinstance(given, Tensor)
        return [task.normalise(given.unsqueeze(0).float() / 255)]
    if subject.name in SEQUENCES:
        return [task.encode(given).unsqueeze(0)]
    target = task.target.encode_target(record.answer)[:-1]
    return [task.source.encode(given).unsqueeze(0), target.unsqueeze(0)]


def check_maps(record: Record, seen: dict[str, list[Tensor]]) -> None:
    assert [one.name for one in record.maps] == [name.removesuffix(".weights") for name in seen]
    for one, shown, passes in zip(record.maps, record.layers(), seen.values(), strict=True):
        weights = torch.cat(passes, 2)[0]
        assert (
            shown.shape
            == weights.shape
            == (one.heads, *map(len, (record.sides[one.queries], record.sides[one.keys])))
        )
        assert float((shown - weights).abs().max()) <= float(weights.max()) / 255 * 1.001
        assert float((shown.sum(-1) - 1).abs().max()) < 0.002


def test_the_maps_of_a_record_equal_the_weights_from_watch(subject: Subject) -> None:
    record = subject.record
    with watch(subject.model) as seen, torch.no_grad():
        subject.model(*arguments(subject, record))
    check_maps(record, seen)
    must_fail(check_maps, record, {name: [one.flip(-1) for one in passes] for name, passes in seen.items()})


def test_the_answer_of_a_record_is_that_of_predict(subject: Subject) -> None:
    record, task = subject.record, subject.task
    (answer,) = task.predict(subject.model, [subject.given])
    if not subject.name.startswith("translate"):  # records of translations use beam search
        assert record.answer == answer.text
        if answer.probability is None:
            assert record.probability is None
        else:
            assert record.probability == pytest.approx(answer.probability, rel=1e-5)
    if record.candidates:
        assert record.candidates[0].text == record.answer
        probabilities = [one.probability for one in record.candidates]
        assert probabilities == sorted(probabilities, reverse=True)
    if subject.name == "reverse":
        assert record.answer == " ".join(step[0].text for step in record.steps)
        assert record.probability == pytest.approx(math.prod(step[0].probability for step in record.steps))


@pytest.mark.parametrize("name", ["translate", "translate-rnn"])
def test_the_product_of_the_step_probabilities_is_that_of_the_translation(name: str) -> None:
    subject = Subject(name)
    # Few likely tokens, so that each generated token is among the candidates of its step.
    subject.model.output.bias.data[4:-1] -= 30
    record = subject.record
    assert record.stepped == "target"
    assert len(record.steps) == len(record.sides["target"]) == len(record.sides["written"])
    assert record.sides["written"][1:] == record.sides["target"][:-1]
    probabilities = [
        {one.text: one.probability for one in step}[token]
        for step, token in zip(record.steps, record.sides["target"], strict=True)
    ]
    assert math.prod(probabilities) == pytest.approx(record.probability, rel=1e-3)


def test_an_invalid_input_does_not_affect_the_others() -> None:
    subject = Subject("reverse")
    good, bad, long, binary = subject.records("3 1 4", "3 x 4", "1 " * (LONGEST_RECORD + 1), b"GIF89a")
    assert isinstance(good, Record)
    assert good.given == "3 1 4"
    assert str(bad).startswith("input 2: symbol is 'x'")
    assert str(long) == "513 tokens are too many for a record; allowed: 512"
    assert str(binary) == "this model reads text, not images"


def test_an_image_of_too_many_patches_is_refused() -> None:
    (refusal,) = Subject("digits").records(torch.zeros(1, 2 * 23, 2 * 23, dtype=torch.uint8))
    assert str(refusal) == "23 × 23 patches are too many for a record; allowed: 512"


def test_input_that_is_not_utf8_is_shown_escaped() -> None:
    (record,) = Subject("translate").records("caf\udce9")
    assert isinstance(record, Record)
    assert record.given == "caf\\udce9"
    assert json.loads(record.model_dump_json())["given"] == record.given


def test_an_empty_line_has_no_record() -> None:
    first, second = Subject("translate").records(" ", "He sees it.")
    assert str(first) == "input 1: the line is empty"
    assert isinstance(second, Record)


def test_an_image_can_be_given_as_bytes() -> None:
    subject = Subject("digits")
    stream = io.BytesIO()
    assert isinstance(subject.given, Tensor)
    Image.fromarray(subject.given[0].numpy()).save(stream, "bmp")
    (record,) = subject.records(stream.getvalue())
    assert record == subject.record
    assert isinstance(record, Record)
    image = not_none(record.image)
    assert (image.rows, image.columns, image.first) == (4, 4, 1)
    assert record.sides["source"][:3] == ("[class]", "0, 0", "0, 1")
    (refused,) = subject.records(b"no image")
    assert isinstance(refused, WrongInput)
