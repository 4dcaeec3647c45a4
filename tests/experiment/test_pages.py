"""The page of a run in one file, opened in a real browser."""

import io
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from browser import needs_browser, opened
from command import command
from PIL import Image
from playwright.sync_api import Page, expect
from support import must_fail, not_none

import limelight
from limelight.errors import WrongInput
from limelight.experiment import Run
from limelight.experiment.examples import examples
from limelight.experiment.pages import about, draw_page, write_records
from limelight.training import checkpoint
from limelight.view import intervene, off, watch
from limelight.view.page import explorer_page, report_page
from limelight.view.prompt import Prompt
from limelight.view.record import AttentionMap, Record, pack

SMALL: dict[str, Any] = {
    "task.data.length": 7,
    "task.data.train": 2000,
    "task.data.validation": 97,
    "task.data.test": 101,
    "train.epochs": 3,
    "train.batch": 32,
    "train.rate": 1e-2,
    "train.warmup": 5,
    "model.heads": 2,
    "model.depth": 2,
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return limelight.train("reverse", SMALL, out=tmp_path_factory.mktemp("runs") / "<b>reverse</b>")


def test_examples_have_their_correct_answers_and_correct_predictions_come_first(run: Run) -> None:
    found = examples(run)
    assert 4 <= len(found) <= 8
    for record in found:
        assert record.truth == " ".join(reversed(record.given.split()))
    correct = [record.answer == record.truth for record in found]
    assert correct == sorted(correct, reverse=True)  # correct predictions come first
    assert correct == [record.right for record in found]
    assert correct[0]


# Reads all maps with the decoder of the page, in the browser.
READ = """async () => {
  const { decodeMaps } = await import("#decode.js");
  const records = JSON.parse(document.getElementById("records").textContent);
  const found = [];
  for (const record of records) {
    const maps = await decodeMaps(record);
    found.push(maps.map((map) => Array.from({ length: map.heads }, (_, head) =>
      Array.from({ length: map.rows }, (_, row) => Array.from(map.row(head, row))))));
  }
  return found;
}"""


def check_read_back(page: Page, run: Run, records: list[Record]) -> None:
    """The maps in the browser equal those of `watch`, up to rounding to bytes; rows sum to one."""
    task: Any = run.task
    for shown, record in zip(page.evaluate(READ), records, strict=True):
        with torch.no_grad(), watch(run.model) as seen:
            run.model(task.encode(record.given).unsqueeze(0))
        for got, (weights,) in zip(shown, seen.values(), strict=True):
            step = weights[0].amax(-1, keepdim=True) / 255 * 1.001
            assert ((torch.tensor(got) - weights[0]).abs() <= step).all()
            assert (torch.tensor(got).sum(-1) - 1).abs().max() < 0.002


@needs_browser
def test_the_page_shows_the_maps_of_the_model(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(draw_page(run, "3 1 4 1 5 9 2"))
    with opened() as page:
        page.goto(path.as_uri())
        page.wait_for_selector("canvas")
        records = [run.see("3 1 4 1 5 9 2").records[0], *examples(run)]
        check_read_back(page, run, records)
        other = records[0].model_copy(update={"given": "3 1 4 1 5 9 3"})
        must_fail(check_read_back, page, run, [other, *records[1:]])
        assert page.title() == "reverse"


@needs_browser
def test_a_head_can_be_switched_off_in_a_saved_page(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(draw_page(run, "3 1 4 1 5 9 2"))
    name = run.see("3 1 4 1 5 9 2").records[0].maps[0].name
    with intervene(run.model, {name: off(0)}):
        expected = run.see("3 1 4 1 5 9 2").records[0]
    before, after = (
        f"{one.probability:.1%}".replace("%", " %") for one in (run.see("3 1 4 1 5 9 2").records[0], expected)
    )
    assert before != after
    with opened() as page:
        page.goto(path.as_uri())
        page.get_by_role("button", name="layer 0, head 0").or_(page.get_by_role("application")).first.focus()
        page.keyboard.press("Enter")
        page.get_by_role("application").press("x")
        changes = page.get_by_role("group", name="changes of the attention")
        expect(changes).to_contain_text("head 0 off")
        answer = page.locator("#explorer .answer")
        expect(answer).to_contain_text(f"{expected.answer} {after}")
        expect(page.get_by_text("Click a cell to block it")).to_have_count(0)
        page.get_by_role("button", name="Undo").click()
        expect(changes).to_have_text("")
        expect(answer).to_contain_text(before)


@needs_browser
def test_markup_in_an_input_is_shown_as_text(run: Run, tmp_path: Path) -> None:
    markup = "<img src=x onerror=document.title='owned'></script><script>document.title='owned'</script>"
    (record,) = run.see("3 1 4 1 5 9 2").records
    tokens = (markup, *record.sides["source"][1:])
    record = record.model_copy(
        update={"given": markup, "answer": markup, "name": markup, "sides": {"source": tokens}}
    )
    path = tmp_path / "page.html"
    path.write_text(explorer_page(markup, [record]))
    with opened() as page:
        page.goto(path.as_uri())
        page.wait_for_selector("canvas")
        assert page.title() == markup
        assert markup in page.inner_text("body")
        assert page.query_selector("img[src=x]") is None


@needs_browser
def test_a_notebook_shows_the_explorer_in_an_iframe(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "cell.html"
    path.write_text(f"<!doctype html><title>cell</title><body>{run.see('1 2 3')._repr_html_()}")
    with opened() as page:
        page.goto(path.as_uri())
        frame = page.frame_locator("iframe")
        frame.locator("canvas").first.wait_for()
        assert "1 2 3" in frame.locator("body").inner_text()


@needs_browser
def test_figures_are_light_on_a_light_page_and_dark_on_a_dark_page(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(draw_page(run))
    shown = dict[str, Any]()
    with opened() as page:
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=cast(Any, scheme))
            page.goto(path.as_uri())
            page.wait_for_selector("canvas")
            stream = io.BytesIO(page.locator(".figures img").first.screenshot())
            shown[scheme] = np.asarray(Image.open(stream).convert("L"))
    assert np.median(shown["light"]) > 200
    assert np.median(shown["dark"]) < 60
    assert shown["light"].min() < 60  # dark text
    assert shown["dark"].max() > 200  # light text


@needs_browser
def test_a_row_of_heads_that_continues_outside_a_narrow_screen_fades_out(tmp_path: Path) -> None:
    weights = torch.rand(5, 3, 3).softmax(-1)
    one = AttentionMap(name="a", part="encoder", layer=0, heads=5, queries="source", keys="source")
    record = Record(
        given="", answer="", sides={"source": ("a", "b", "c")}, maps=(one,), weights=pack([weights])
    )
    path = tmp_path / "page.html"
    path.write_text(explorer_page("heads", [record]))
    with opened(width=400) as page:
        page.goto(path.as_uri())
        row = page.locator(".heads")
        expect(row).to_have_class("heads more-after")
        assert row.evaluate("row => getComputedStyle(row).maskImage").startswith("linear-gradient")
        row.evaluate("row => { row.scrollLeft = 50; }")
        expect(row).to_have_class("heads more-after more-before")
        row.evaluate("row => { row.scrollLeft = row.scrollWidth; }")
        expect(row).to_have_class("heads more-before")
        page.set_viewport_size({"width": 1800, "height": 900})
        expect(row).to_have_class("heads")
        assert row.evaluate("row => getComputedStyle(row).maskImage") == "none"


def test_the_command_see_writes_a_page_by_default(run: Run) -> None:
    done = command("see", str(run.path))
    assert (done.returncode, done.stdout) == (0, f"{run.path}/report.html\n")
    page = (run.path / "report.html").read_text()
    assert "<h1>reverse</h1>" in page
    assert "http://" not in page.replace("http://www.w3.org/", "")
    assert "https://" not in page
    assert len(page) < 1_000_000


def test_records_can_be_written_as_json_and_as_light_or_dark_figures(run: Run, tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("1 2 3\n\n4 5 6\n")
    write_records(run, str(tmp_path / "lines.txt"), tmp_path / "records.json")
    given = [one["given"] for one in json.loads((tmp_path / "records.json").read_text())]
    assert given == ["1 2 3", "4 5 6"]
    write_records(run, "1 2 3", tmp_path / "records.json")
    (record,) = json.loads((tmp_path / "records.json").read_text())
    assert Record.model_validate_json(json.dumps(record)) == run.see("1 2 3").records[0]
    for name, dark in (("light", False), ("dark", True)):
        write_records(run, "1 2 3", tmp_path / f"{name}.png", dark=dark)
    corners: list[Any] = [
        Image.open(tmp_path / f"{name}.png").convert("L").getpixel((0, 0)) for name in ("light", "dark")
    ]
    assert corners[0] > 200 > 60 > corners[1]
    with pytest.raises(WrongInput, match=r"'records.gif'; allowed: a name that ends in .html"):
        write_records(run, "1 2 3", Path("records.gif"))
    with pytest.raises(WrongInput, match="symbol is 'x'"):
        run.see("x")
    with pytest.raises(WrongInput, match="only a language model reads a Prompt; give a text"):
        run.record([Prompt(given="1 2 3")])


def test_a_given_input_is_shown_without_the_data_of_the_run(run: Run, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    shutil.copytree(run.path, moved)
    found = not_none(checkpoint.best(moved / "checkpoints"))
    other = found.facts | {"environment": found.facts["environment"] | {"data": "another digest"}}
    shutil.rmtree(moved / "checkpoints")
    checkpoint.save(moved / "checkpoints", replace(found, facts=other))
    opened_again = limelight.open_run(moved)
    assert "1 2 3" in draw_page(opened_again, "1 2 3")
    assert (about(opened_again).kind, about(opened_again).examples) == ("text", ())
    assert len(about(run).examples) >= 4
    with pytest.raises(WrongInput, match="has changed since the run was trained"):
        draw_page(opened_again)


def test_a_page_of_eight_large_records_is_smaller_than_5_megabytes() -> None:
    layers = [(2 * torch.randn(8, 64, 64)).softmax(-1) for _ in range(6)]
    tokens = tuple(f"token{i}" for i in range(64))
    maps = tuple(
        AttentionMap(name=f"{i}", part="encoder", layer=i, heads=8, queries="source", keys="source")
        for i in range(6)
    )
    record = Record(
        name="n", given="g", answer="a", sides={"source": tokens}, maps=maps, weights=pack(layers)
    )
    assert 1_000_000 < len(report_page("title", [], [], [record] * 8, "words", [])) < 5_000_000
