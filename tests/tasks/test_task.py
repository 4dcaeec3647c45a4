"""The comparison of answers with the truth, and the options of tasks."""

from typing import Any

import pytest

from limelight.errors import WrongInput
from limelight.experiment import experiment
from limelight.tasks.task import Example
from limelight.tasks.translate.task import TranslateOptions

FEW = {"task.data.train": 40, "task.data.validation": 20, "task.data.test": 20}


def test_answers_that_differ_only_in_white_space_are_equal() -> None:
    example = Example("", ("Il est où ?", "Où est-il\u202f?"))
    assert example.is_right("Où est-il ?")
    assert example.matches("Où est-il ?") == "Où est-il ?"
    assert not example.is_right("Où est-il !")
    assert example.matches("Où est-il !") is None


def test_a_number_is_correct_if_it_rounds_to_the_whole_number() -> None:
    whole = Example("", ("4",), "whole numbers")
    assert whole.is_right("3.9")
    assert not whole.is_right("3.4")
    assert not Example("", ("0.9",)).is_right("0.5")  # names of classes can be numbers
    assert Example("", ("0.1",), "numbers").is_right("0.58") is None


def test_options_of_a_task_are_validated_and_have_defaults() -> None:
    task, _ = experiment("translate", FEW | {"task.vocabulary.kind": "words"}).task.load(1)

    def beam(options: dict[str, Any], *, evaluating: bool = False) -> int:
        read = task.read_options(options, evaluating=evaluating)
        assert isinstance(read, TranslateOptions)
        return read.beam

    assert beam({}) == 4
    assert beam({"n_best": 7}) == 7
    assert beam({"temperature": 0.5}) == 1
    assert beam({}, evaluating=True) == 1
    with pytest.raises(WrongInput, match=r"^option 'beams' .*beam"):
        task.read_options({"beams": 2})
    with pytest.raises(WrongInput, match=r"^beam is 0; allowed: "):
        task.read_options({"beam": 0})
    with pytest.raises(WrongInput, match=r"^n_best is 'many'; allowed: "):
        task.read_options({"n_best": "many"})


def test_a_task_without_options_refuses_every_option() -> None:
    task, _ = experiment("majority", FEW).task.load(1)
    task.read_options({})
    with pytest.raises(WrongInput, match=r"^option 'beam' does not apply: this task has no options$"):
        task.read_options({"beam": 2})
