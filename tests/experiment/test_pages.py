"""One page in one file, looked at in a real browser."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from browser import needs_browser, opened
from PIL import Image
from playwright.sync_api import Page
from support import goes_red

import limelight
from limelight.errors import WrongInput
from limelight.experiment import Run
from limelight.experiment.examples import _is_right, examples
from limelight.experiment.pages import about, draw_page, write_sight
from limelight.training import checkpoint
from limelight.view import watch
from limelight.view.page import explorer, report
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
    made = limelight.train("reverse", SMALL, out=tmp_path_factory.mktemp("runs") / "<b>reverse</b>")
    assert made is not None
    return made


def test_examples_are_held_out_and_say_what_would_have_been_right(run: Run) -> None:
    found = examples(run)
    assert 4 <= len(found) <= 8
    for record in found:
        assert record.truth == " ".join(reversed(record.given.split()))
    rightness = [record.answer == record.truth for record in found]
    assert rightness == sorted(rightness, reverse=True)  # what is right comes first
    assert rightness == [record.right for record in found]
    assert rightness[0]


def test_spaces_of_another_kind_are_no_mistake() -> None:
    assert _is_right("Où est-il ?", ("Il est où ?", "Où est-il\u202f?"), "words")
    assert not _is_right("Où est-il !", ("Où est-il\u202f?",), "words")


def test_numbers_are_right_where_they_are_whole_and_near() -> None:
    assert _is_right("3.9", ("4",), "whole numbers")
    assert not _is_right("3.4", ("4",), "whole numbers")
    assert not _is_right("0.5", ("0.9",), "words")  # classes
    assert _is_right("0.58", ("0.1",), "numbers") is None


# Reads every map back, from the page's own decoder, as the browser has it.
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
    """What the browser shows is what `watch` sees, to the step of a byte; rows sum to one."""
    for shown, record in zip(page.evaluate(READ), records, strict=True):
        with torch.no_grad(), watch(run.model) as seen:
            run.model(run.reading.encode(record.given).unsqueeze(0))
        for got, (weights,) in zip(shown, seen.values(), strict=True):
            step = weights[0].amax(-1, keepdim=True) / 255 * 1.001
            assert ((torch.tensor(got) - weights[0]).abs() <= step).all()
            assert (torch.tensor(got).sum(-1) - 1).abs().max() < 0.002


@needs_browser
def test_the_page_shows_the_models_own_maps(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(draw_page(run, "3 1 4 1 5 9 2"))
    with opened() as page:
        page.goto(path.as_uri())
        page.wait_for_selector("canvas")
        records = [run.see("3 1 4 1 5 9 2").records[0], *examples(run)]
        check_read_back(page, run, records)
        other = records[0].model_copy(update={"given": "3 1 4 1 5 9 3"})
        goes_red(check_read_back, page, run, [other, *records[1:]])
        assert page.title() == "reverse"


@needs_browser
def test_markup_in_what_was_given_is_text(run: Run, tmp_path: Path) -> None:
    evil = "<img src=x onerror=document.title='owned'></script><script>document.title='owned'</script>"
    (record,) = run.see("3 1 4 1 5 9 2").records
    tokens = (evil, *record.sides["source"][1:])
    record = record.model_copy(
        update={"given": evil, "answer": evil, "name": evil, "sides": {"source": tokens}}
    )
    path = tmp_path / "page.html"
    path.write_text(explorer(evil, [record]))
    with opened() as page:
        page.goto(path.as_uri())
        page.wait_for_selector("canvas")
        assert page.title() == evil
        assert evil in page.inner_text("body")
        assert page.query_selector("img[src=x]") is None


@needs_browser
def test_a_notebook_shows_the_explorer_in_a_frame_of_its_own(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "cell.html"
    path.write_text(f"<!doctype html><title>cell</title><body>{run.see('1 2 3')._repr_html_()}")
    with opened() as page:
        page.goto(path.as_uri())
        frame = page.frame_locator("iframe")
        frame.locator("canvas").first.wait_for()
        assert "1 2 3" in frame.locator("body").inner_text()


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "limelight", *arguments], capture_output=True, text=True, check=False
    )


def test_the_command_writes_a_page_unless_told_otherwise(run: Run) -> None:
    done = command("see", str(run.path))
    assert (done.returncode, done.stdout) == (0, f"{run.path}/report.html\n")
    page = (run.path / "report.html").read_text()
    assert "<h1>reverse</h1>" in page
    assert "http://" not in page.replace("http://www.w3.org/", "")
    assert "https://" not in page
    assert len(page) < 1_000_000


def test_what_was_seen_is_also_there_for_programs_and_as_a_dark_picture(run: Run, tmp_path: Path) -> None:
    write_sight(run, "1 2 3", tmp_path / "seen.json")
    (record,) = json.loads((tmp_path / "seen.json").read_text())
    assert Record.model_validate_json(json.dumps(record)) == run.see("1 2 3").records[0]
    for name, dark in (("light", False), ("dark", True)):
        write_sight(run, "1 2 3", tmp_path / f"{name}.png", dark=dark)
    corners = [
        Image.open(tmp_path / f"{name}.png").convert("L").getpixel((0, 0)) for name in ("light", "dark")
    ]
    assert corners[0] > 200 > 60 > corners[1]
    with pytest.raises(WrongInput, match=r"'seen.gif'; allowed: a name that ends in .html"):
        write_sight(run, "1 2 3", Path("seen.gif"))
    with pytest.raises(WrongInput, match="symbol is 'x'"):
        run.see("x")


def test_without_its_data_a_run_is_looked_at_all_the_same(run: Run, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    shutil.copytree(run.path, moved)
    found = checkpoint.best(moved / "checkpoints")
    other = found.facts | {"environment": found.facts["environment"] | {"data": "another digest"}}
    shutil.rmtree(moved / "checkpoints")
    checkpoint.save(moved / "checkpoints", replace(found, facts=other))
    opened_again = limelight.open_run(moved)
    assert "1 2 3" in draw_page(opened_again, "1 2 3")
    assert (about(opened_again).kind, about(opened_again).examples) == ("text", ())
    assert len(about(run).examples) >= 4
    with pytest.raises(WrongInput, match="no longer what the run was trained on"):
        draw_page(opened_again)


def test_eight_examples_of_six_layers_of_eight_heads_over_64_tokens_stay_below_5_megabytes() -> None:
    layers = [(2 * torch.randn(8, 64, 64)).softmax(-1) for _ in range(6)]
    tokens = tuple(f"token{i}" for i in range(64))
    maps = tuple(
        AttentionMap(name=f"{i}", part="encoder", layer=i, heads=8, queries="source", keys="source")
        for i in range(6)
    )
    record = Record(
        name="n", given="g", answer="a", sides={"source": tokens}, maps=maps, weights=pack(layers)
    )
    assert 1_000_000 < len(report("title", [], [], [record] * 8, "words", [])) < 5_000_000
