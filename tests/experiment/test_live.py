"""The live page of `limelight serve`, in a real browser."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from browser import needs_browser, opened, serving
from PIL import Image
from playwright.sync_api import Page, expect
from support import must_fail

import limelight
from limelight.experiment import Run
from limelight.experiment.pages import about
from limelight.view import blocked, intervene, off
from limelight.view.record import Record

pytestmark = needs_browser

LABELS: dict[str, Any] = {
    "task.data.length": 7,
    "task.data.train": 1000,
    "task.data.validation": 50,
    "task.data.test": 50,
    "train.epochs": 1,
    "model.heads": 2,
}
WORDS: dict[str, Any] = {
    "task.vocabulary.kind": "words",
    "task.vocabulary.rarest": 1,
    "task.data.validation": 0.2,
    "task.data.test": 0.2,
    "train.epochs": 40,
    "train.evaluate_every": "40 epochs",
    "train.rate": 1e-2,
    "train.warmup": 5,
    "model.width": 32,
    "model.hidden": 32,
    "model.heads": 2,
}
PAIRS = "".join(
    f"{a} {b}\t{b.upper()} {a.upper()}\n"
    for a in ("one", "two", "three", "four")
    for b in ("cat", "dog", "cow")
)


@pytest.fixture(scope="module")
def reverse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Run, str]]:
    yield from serving(limelight.train("reverse", LABELS, out=tmp_path_factory.mktemp("runs") / "reverse"))


@pytest.fixture(scope="module")
def translate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Run, str]]:
    folder = tmp_path_factory.mktemp("runs")
    (folder / "pairs.tsv").write_text(PAIRS)
    run = limelight.train("translate", WORDS, out=folder / "run", data=folder / "pairs.tsv")
    yield from serving(run)


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Run, str]]:
    small = {"train.epochs": 1, "model.depth": 2, "model.width": 16, "model.hidden": 16}
    yield from serving(limelight.train("digits", small, out=tmp_path_factory.mktemp("runs") / "digits"))


def type_input(page: Page, given: str) -> None:
    page.get_by_label("Input text").fill(given)


def check_saved(path: Path, run: Run, given: str) -> None:
    """The button "Save data" saves the weights of the model."""
    saved = json.loads(path.read_text())
    assert saved["given"] == given
    (record,) = run.see(given).records
    for weights, expected in zip(saved["weights"], record.layers(), strict=True):
        torch.testing.assert_close(torch.tensor(weights), expected, rtol=0, atol=1e-5)


def test_typed_input_is_answered_with_the_maps_of_the_model(reverse: tuple[Run, str], tmp_path: Path) -> None:
    run, address = reverse
    with opened(allowed=address) as page:
        page.goto(address)
        expect(page.locator("body")).to_contain_text(run.see(about(run).sample).records[0].answer)
        for given in ("1 2 3", "9 9 1 7"):
            type_input(page, given)
            expect(page.locator("#explorer")).to_contain_text(run.see(given).records[0].answer)
        with page.expect_download() as download:
            page.get_by_role("button", name="Save data").click()
        download.value.save_as(tmp_path / "data.json")
        check_saved(tmp_path / "data.json", run, "9 9 1 7")
        must_fail(check_saved, tmp_path / "data.json", run, "9 9 1 8")
        with page.expect_download() as download:
            page.get_by_role("button", name="Save image").click()
        download.value.save_as(tmp_path / "picture.png")
        with Image.open(tmp_path / "picture.png") as picture:
            assert min(picture.size) > 100


def test_the_address_keeps_the_input_and_the_view(reverse: tuple[Run, str]) -> None:
    _, address = reverse
    with opened(allowed=address) as page:
        page.goto(address)
        type_input(page, "3 1 4")
        page.get_by_role("tab", name="Flow").click()
        page.get_by_role("button", name="head 1").or_(page.get_by_label("head 1")).first.click()
        page.locator(".flow canvas, canvas").first.hover(position={"x": 30, "y": 30})
        assert "view=flow" in page.url
        shown = page.url
        page.reload()
        expect(page.get_by_role("tab", name="Flow")).to_have_attribute("aria-selected", "true")
        expect(page.get_by_label("Input text")).to_have_value("3 1 4")
        assert page.url == shown
        page.evaluate("location.hash = 'given=9 2&view=flow'")  # a link pasted into the open page
        expect(page.get_by_label("Input text")).to_have_value("9 2")
        expect(page.locator("#explorer .given")).to_have_text("9 2")
        page.set_viewport_size({"width": 360, "height": 640})
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        page.get_by_role("tab", name="Flow").press("ArrowLeft")  # without a mouse
        expect(page.get_by_role("tab", name="Overview")).to_have_attribute("aria-selected", "true")


def test_a_translation_can_be_shown_step_by_step(translate: tuple[Run, str]) -> None:
    run, address = translate
    with opened(allowed=address) as page:
        page.goto(address)
        type_input(page, "two cat")
        (record,) = run.see("two cat").records
        page.get_by_role("tab", name="Translation").click()
        count = len(record.sides["target"])
        assert count == len(record.steps) > 1
        expect(page.locator("#explorer")).to_contain_text(f"1 of {count}")
        for candidate in record.steps[0]:
            expect(page.locator("#explorer")).to_contain_text(candidate.text)
        page.get_by_role("button", name="next").click()
        expect(page.locator("#explorer")).to_contain_text(f"2 of {count}")


def test_invalid_input_shows_an_error_and_the_page_still_works(reverse: tuple[Run, str]) -> None:
    run, address = reverse
    with opened(allowed=address, refused=1) as page:
        page.goto(address)
        type_input(page, "3 x 4")
        expect(page.get_by_role("alert")).to_contain_text("symbol is 'x'")
        assert page.get_by_label("Input text").input_value() == "3 x 4"  # the typed text is kept
        type_input(page, "3 4")
        expect(page.get_by_role("alert")).to_have_text("")
        expect(page.locator("#explorer")).to_contain_text(run.see("3 4").records[0].answer)


def test_an_image_file_is_answered(digits: tuple[Run, str], tmp_path: Path) -> None:
    run, address = digits
    pixels = run.dataset.examples("test").pixels[5]
    Image.fromarray(pixels[0].numpy()).save(tmp_path / "digit.png")
    with opened(allowed=address) as page:
        page.goto(address)
        expect(page.get_by_role("tab", name="Image")).to_be_visible()  # a held-out example is shown first
        page.set_input_files("input[type=file]", tmp_path / "digit.png")
        likely = run.see(pixels).records[0].candidates[0]
        expect(page.locator("#explorer")).to_contain_text(f"{likely.probability:.1%}".replace("%", " %"))
        page.get_by_role("tab", name="Image").click()
        expect(page.locator("#explorer canvas").first).to_be_visible()
        assert page.locator("#explorer canvas").count() > 2 * run.experiment.model.model_dump()["heads"]


def test_heads_are_switched_off_and_cells_are_blocked(reverse: tuple[Run, str]) -> None:
    run, address = reverse
    name = run.see("3 1 4").records[0].maps[0].name
    with intervene(run.model, {name: off(1)}):
        without_head = run.see("3 1 4").records[0]
    with intervene(run.model, {name: [off(1), blocked(2, 0, 0)]}):
        without_both = run.see("3 1 4").records[0]
    with opened(allowed=address) as page:
        page.goto(address)
        type_input(page, "3 1 4")
        page.get_by_role("button", name="encoder, layer 0, head 1:").click()
        page.get_by_role("button", name="Switch this head off").click()
        changes = page.get_by_role("group", name="changes of the attention")
        expect(changes).to_contain_text("encoder, layer 0, head 1 off")
        expect(changes).to_contain_text(without_head.answer)
        expect(page.get_by_role("button", name="Switch this head on")).to_be_focused()
        assert "changes=0.1" in page.url
        check_shown(page, without_head)
        must_fail(check_shown, page, without_both)
        # With the keyboard: the cell in the third row and the first column of head 0
        page.get_by_role("button", name="encoder, layer 0, head 0:").press("Enter")
        stage = page.get_by_role("application")
        for key in ("ArrowDown", "ArrowDown", "ArrowDown", "b"):
            stage.press(key)
        expect(changes).to_contain_text("head 0: “4” ↛ “3”")
        expect(changes.get_by_role("status")).not_to_have_text("computing …")
        assert "changes=0.1%2C0.0.2.0" in page.url
        check_shown(page, without_both)
        shown = page.url
        page.reload()  # the address is enough
        expect(changes).to_contain_text("head 0: “4” ↛ “3”")
        expect(changes.get_by_role("status")).not_to_have_text("computing …")
        check_shown(page, without_both)
        assert page.url == shown
        page.get_by_role("button", name="Undo").click()
        expect(changes).not_to_contain_text("↛")
        expect(changes.get_by_role("status")).not_to_have_text("computing …")
        check_shown(page, without_head)
        changes.get_by_role("button", name="head 1 off: take back").click()
        expect(changes).to_have_text("")
        check_shown(page, run.see("3 1 4").records[0])


def test_a_click_on_a_head_switches_it_off_and_on(reverse: tuple[Run, str]) -> None:
    run, address = reverse
    with intervene(run.model, {run.see("3 1 4").records[0].maps[0].name: off(0)}):
        expected = run.see("3 1 4").records[0]
    with opened(allowed=address) as page:
        page.goto(address)
        type_input(page, "3 1 4")
        expect(page.locator("#explorer .given")).to_have_text("3 1 4")
        page.get_by_role("button", name="encoder, layer 0, head 0:").hover()
        page.get_by_role("button", name="Switch off: encoder, layer 0, head 0").click()
        status = page.get_by_role("group", name="changes of the attention").get_by_role("status")
        expect(status).not_to_have_text("computing …")
        check_shown(page, expected)
        page.get_by_role("button", name="Switch on: encoder, layer 0, head 0").click()
        expect(page.get_by_role("group", name="changes of the attention")).to_have_text("")
        check_shown(page, run.see("3 1 4").records[0])


def test_a_click_on_a_cell_blocks_it(reverse: tuple[Run, str]) -> None:
    _, address = reverse
    with opened(allowed=address) as page:
        page.goto(address)
        type_input(page, "3 1 4")
        expect(page.locator("#explorer .given")).to_have_text("3 1 4")
        box = page.locator(".stage canvas").bounding_box()
        assert box is not None
        page.locator(".stage canvas").click(position={"x": box["width"] - 20, "y": box["height"] - 20})
        changes = page.get_by_role("group", name="changes of the attention")
        expect(changes).to_contain_text("“4” ↛ “4”")
        expect(page.locator(".readout").first).to_contain_text("with weight 0.000")


def check_shown(page: Page, expected: Record) -> None:
    """The page shows the answer and the weights of a record."""
    expect(page.locator("#explorer .answer strong")).to_have_text(expected.answer)
    with page.expect_download() as download:
        page.get_by_role("button", name="Save data").click()
    saved = json.loads(Path(download.value.path()).read_text())
    assert saved["answer"] == expected.answer
    for weights, layer in zip(saved["weights"], expected.layers(), strict=True):
        assert torch.allclose(torch.tensor(weights).float(), layer, atol=1e-5)


def test_a_translation_of_the_changed_model_is_shown_if_the_address_has_changes(
    translate: tuple[Run, str],
) -> None:
    run, address = translate
    with intervene(run.model, {"decoder.blocks.0.cross_attention": off()}):
        (expected,) = run.see("two cat").records
    with opened(allowed=address) as page:
        page.goto(f"{address}#given=two cat")
        number = [one.name for one in expected.maps].index("decoder.blocks.0.cross_attention")
        page.evaluate(f"location.hash = 'given=two cat&changes={number}.-1'")
        expect(page.get_by_role("group", name="changes of the attention")).to_contain_text("all heads off")
        status = page.get_by_role("group", name="changes of the attention").get_by_role("status")
        expect(status).not_to_have_text("computing …")
        check_shown(page, expected)
        must_fail(check_shown, page, run.see("two cat").records[0])
