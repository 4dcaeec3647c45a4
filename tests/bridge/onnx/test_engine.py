"""Answers of `--engine onnx` equal those of torch; records and changed attention are those of torch."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

import pytest
import torch
from support import must_fail, not_none

import limelight
from limelight.bridge.onnx.engine import Session
from limelight.experiment import Run
from limelight.nn.tap import Tap
from limelight.tasks.task import Answer
from limelight.view import intervene, off
from limelight.view.record import Record

RECIPES = ("reverse", "text", "digits", "language", "translate", "tag", "pairs", "masked", "count")
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "language": [{"length": 60}, {"length": 23, "temperature": 0.9}, {"score": True}],
    "translate": [{"beam": 3, "n_best": 3}, {"beam": 1}, {"temperature": 0.8, "n_best": 2}],
    "masked": [{"n_best": 3}],
}


def with_onnx(run: Run) -> Run:
    return limelight.open_run(run.path, device="cpu", engine="onnx")


def inputs_of(run: Run) -> list[Any]:
    """Different inputs of different lengths."""
    return [one.given for one in islice(run.task.examples(run.dataset, "train"), 23)]


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The names of the inputs of each call of a graph."""
    calls, call = list[str](), Session.__call__

    def noted(self: Session, inputs: Any) -> Any:
        calls.append(" ".join(inputs))
        return call(self, inputs)

    with monkeypatch.context() as patch:
        patch.setattr(Session, "__call__", noted)
        yield calls


def compare(one: Answer, other: Answer) -> None:
    assert (one.text, one.labels, len(one.others)) == (other.text, other.labels, len(other.others))
    for ours, theirs in ((one.probability, other.probability), (one.number, other.number)):
        assert ours == (theirs if theirs is None else pytest.approx(theirs, rel=1e-4, abs=1e-4))
    assert one.probabilities == pytest.approx(other.probabilities, abs=1e-4)
    for first, second in zip(one.others, other.others, strict=True):
        compare(first, second)


@pytest.mark.parametrize("recipe", RECIPES)
def test_answers_equal_those_of_torch(
    recipe: str, exported: Callable[[str], Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = exported(recipe)
    other, inputs = with_onnx(run), inputs_of(run)

    def check(inputs: list[Any], others: list[Any]) -> None:
        for options in OPTIONS.get(recipe, [{}]):
            both = run.predict(inputs, **options), other.predict(others, **options)
            for one, two in zip(*both, strict=True):
                compare(one, two)

    with counted(monkeypatch) as calls:
        check(inputs, inputs)
    assert calls
    must_fail(check, inputs, inputs[::-1])


@pytest.mark.parametrize("recipe", RECIPES)
def test_metrics_equal_those_of_torch(recipe: str, exported: Callable[[str], Run]) -> None:
    run = exported(recipe)
    ours, theirs = with_onnx(run).evaluate(), run.evaluate()
    assert ours == pytest.approx(theirs, rel=1e-4, abs=1e-5)


def test_generated_text_equals_that_of_torch_beyond_the_context(exported: Callable[[str], Run]) -> None:
    run = exported("language")
    options: dict[str, Any] = {"length": 97, "repetition": 1.3}  # more than twice the context
    assert "".join(with_onnx(run).generate("The", **options)) == "".join(run.generate("The", **options))


@pytest.mark.parametrize("recipe", ["reverse", "language", "translate", "digits"])
def test_records_are_those_of_torch(recipe: str, exported: Callable[[str], Run]) -> None:
    """Attention maps, and the answers after each layer, for which only the first blocks are called."""
    run = exported(recipe)
    inputs = inputs_of(run)[:2]
    for ours, theirs in zip(with_onnx(run).record(inputs), run.record(inputs), strict=True):
        assert isinstance(ours, Record)
        assert isinstance(theirs, Record)
        assert ours.answer == theirs.answer
        assert (ours.maps, ours.weights, ours.sides) == (theirs.maps, theirs.weights, theirs.sides)
        assert ours.lens == theirs.lens
        if recipe != "translate" and recipe != "digits":
            assert len(ours.lens) == 2


@pytest.mark.parametrize("recipe", ["reverse", "language", "translate", "digits"])
def test_changed_attention_changes_the_answers(recipe: str, exported: Callable[[str], Run]) -> None:
    run = exported(recipe)
    name = next(
        name for name, part in run.model.named_modules() if isinstance(part, Tap) and part.role == "self"
    )
    ours, theirs = with_onnx(run).answering, run.model
    inputs = inputs_of(run)[:5]
    with intervene(ours, {name.removesuffix(".weights"): off()}):
        found = run.task.predict(ours, inputs)
    with intervene(theirs, {name.removesuffix(".weights"): off()}):
        expected = run.task.predict(theirs, inputs)
    for one, other in zip(found, expected, strict=True):
        compare(one, other)

    def check_unchanged() -> None:
        for one, other in zip(found, run.task.predict(ours, inputs), strict=True):
            compare(one, other)

    must_fail(check_unchanged)


def test_torch_computes_what_the_graph_cannot(
    exported: Callable[[str], Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Training, and images of another size than those of training."""
    run = exported("digits")
    model = with_onnx(run).answering
    with counted(monkeypatch) as calls, torch.no_grad():
        for images in (torch.rand(2, 1, 8, 8), torch.rand(2, 1, 12, 8)):
            torch.testing.assert_close(model.eval()(images), run.model(images), rtol=0, atol=1e-4)
        assert calls == ["pixels"]
        model.train()(torch.rand(2, 1, 8, 8))
        assert calls == ["pixels"]
    model.eval()


def test_the_fastest_exported_engine_is_chosen(exported: Callable[[str], Run]) -> None:
    run = exported("reverse")
    chosen = limelight.open_run(run.path, device="cpu", engine="auto").answering
    assert "forward" in vars(chosen)
    assert "forward" not in vars(not_none(run.answering))
