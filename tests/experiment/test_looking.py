"""Records of what a model looks at: every task and model, untrained, since that changes nothing of it."""

import io
import json
import math
from functools import cache
from typing import Any

import pytest
import torch
from PIL import Image
from support import goes_red
from torch import Tensor, nn

from limelight.errors import WrongInput
from limelight.experiment.config import experiment
from limelight.experiment.looking import LONGEST, Given, look
from limelight.view import watch
from limelight.view.record import Record

FEW = {"task.data.train": 40, "task.data.validation": 20, "task.data.test": 20}
WORDS = {"task.vocabulary.kind": "words"}
TASKS: dict[str, tuple[dict[str, Any], Given]] = {
    "reverse": (FEW | {"model.heads": 2, "model.depth": 2}, "3 1 4 1 5"),
    "brackets": (FEW, "( [ ] )"),
    "majority": (FEW, "a b a a c"),
    "count": (FEW, "a b a a c"),
    "odd-one-out": (FEW, torch.rand(7, 64)),
    "translate": (WORDS, "She does not wear her red shirt."),
    "translate-rnn": (WORDS, "She does not wear her red shirt."),
    "digits": ({}, torch.randint(256, (1, 8, 8), dtype=torch.uint8)),
}
SEQUENCES = ("reverse", "brackets", "majority", "count", "odd-one-out")


@cache
def loaded(name: str) -> tuple[Any, Any]:
    wanted = experiment(name, TASKS[name][0])
    return wanted.model, wanted.task.load(1)


class Subject:
    def __init__(self, name: str) -> None:
        config, self.task = loaded(name)
        self.name, self.given = name, TASKS[name][1]
        torch.manual_seed(1)
        self.model: nn.Module = config.build(self.task.sizes).eval()

    def look(self, *inputs: Given) -> list[Record | WrongInput]:
        return look(self.model, self.task, inputs or [self.given], self.name)

    @property
    def record(self) -> Record:
        (found,) = self.look()
        assert isinstance(found, Record)
        return found


@pytest.fixture(scope="module", params=TASKS)
def subject(request: pytest.FixtureRequest) -> Subject:
    return Subject(request.param)


def arguments(subject: Subject, record: Record) -> list[Tensor]:
    """What the model was given, put together by other means."""
    task, given = subject.task, subject.given
    if subject.name == "digits":
        return [task.normalise(given.unsqueeze(0).float() / 255)]
    if subject.name in SEQUENCES:
        return [task.encode(given).unsqueeze(0)]
    target = task.target.encode_whole(record.answer)[:-1]
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


def test_maps_are_what_watch_sees(subject: Subject) -> None:
    record = subject.record
    with watch(subject.model) as seen, torch.no_grad():
        subject.model(*arguments(subject, record))
    check_maps(record, seen)
    goes_red(check_maps, record, {name: [one.flip(-1) for one in passes] for name, passes in seen.items()})


def test_the_answer_is_what_predict_says(subject: Subject) -> None:
    record, task = subject.record, subject.task
    (answer,) = task.predict(subject.model, [subject.given])
    if not subject.name.startswith("translate"):  # which is looked for with beams
        assert record.answer == answer.text
        assert record.probability == pytest.approx(answer.probability)
    if record.candidates:
        assert record.candidates[0].text == record.answer
        chances = [one.probability for one in record.candidates]
        assert chances == sorted(chances, reverse=True)
    if subject.name == "reverse":
        assert record.answer == " ".join(step[0].text for step in record.steps)
        assert record.probability == pytest.approx(math.prod(step[0].probability for step in record.steps))


@pytest.mark.parametrize("name", ["translate", "translate-rnn"])
def test_the_steps_of_a_translation_are_as_likely_as_the_whole(name: str) -> None:
    subject = Subject(name)
    # Few tokens, so that what was written is among the candidates of its place.
    subject.model.output.bias.data[4:-1] -= 30
    record = subject.record
    assert record.stepped == "target"
    assert len(record.steps) == len(record.sides["target"]) == len(record.sides["written"])
    assert record.sides["written"][1:] == record.sides["target"][:-1]
    chances = [
        {one.text: one.probability for one in step}[token]
        for step, token in zip(record.steps, record.sides["target"], strict=True)
    ]
    assert math.prod(chances) == pytest.approx(record.probability, rel=1e-3)


def test_what_cannot_be_read_does_not_harm_its_neighbours() -> None:
    subject = Subject("reverse")
    good, bad, long, binary = subject.look("3 1 4", "3 x 4", "1 " * (LONGEST + 1), b"GIF89a")
    assert isinstance(good, Record)
    assert good.given == "3 1 4"
    assert str(bad).startswith("input 2: symbol is 'x'")
    assert str(long) == "513 tokens are too many to look at; allowed: 512"
    assert str(binary) == "this run reads text, not images"


def test_of_an_image_in_too_many_patches_no_page_is_made() -> None:
    (refusal,) = Subject("digits").look(torch.zeros(1, 2 * 23, 2 * 23, dtype=torch.uint8))
    assert str(refusal) == "23 × 23 patches are too many to look at; allowed: 512"


def test_what_is_no_utf8_is_shown_escaped() -> None:
    (record,) = Subject("translate").look("caf\udce9")
    assert record.given == "caf\\udce9"
    assert json.loads(record.model_dump_json())["given"] == record.given


def test_an_empty_line_is_not_translated() -> None:
    first, second = Subject("translate").look(" ", "He sees it.")
    assert str(first) == "input 1: the line is empty"
    assert isinstance(second, Record)


def test_an_image_may_be_bytes_and_is_shown_as_the_model_saw_it() -> None:
    subject = Subject("digits")
    stream = io.BytesIO()
    Image.fromarray(subject.given[0].numpy()).save(stream, "bmp")
    (record,) = subject.look(stream.getvalue())
    assert record == subject.record
    assert (record.image.rows, record.image.columns, record.image.first) == (4, 4, 1)
    assert record.sides["source"][:3] == ("[class]", "0, 0", "0, 1")
    (refused,) = subject.look(b"no image")
    assert isinstance(refused, WrongInput)
