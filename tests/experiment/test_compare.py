"""`limelight compare`: settings, results, curves and attention of several runs, as text, page and figure."""

import json
import math
import statistics
from pathlib import Path
from typing import Any

import pytest
from browser import needs_browser, opened
from command import command
from PIL import Image
from playwright.sync_api import Page, expect
from support import must_fail
from tiny import GENERATED, SETTINGS, StopAt

import limelight
from limelight.errors import WrongInput
from limelight.experiment.comparison import Comparison
from limelight.experiment.comparison_tables import as_text, run_table
from limelight.training.interrupt import Interrupted
from limelight.view.plots.curves import draw_runs

NAMES = ["heads=1,seed=1", "heads=1,seed=2", "heads=2,seed=1", "heads=2,seed=2"]
TINY = SETTINGS | GENERATED | {"task.data.longest": 11, "train.epochs": 1}


@pytest.fixture(scope="module")
def unfinished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was interrupted after an evaluation."""
    folder = tmp_path_factory.mktemp("runs") / "unfinished"
    with pytest.raises(Interrupted):
        limelight.train("majority", TINY | {"model.heads": 1}, folder, watcher=StopAt(11))
    return folder


@pytest.fixture(scope="module")
def tagger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of another task, with other metrics."""
    settings: dict[str, Any] = {"model.depth": 1, "model.heads": 2, "train.epoch_steps": 1}
    folder = tmp_path_factory.mktemp("runs") / "tagger"
    limelight.train("tag", SETTINGS | GENERATED | settings, folder)
    return folder


def check_numbers(comparison: Comparison) -> None:
    """Every number is that of the report of its run."""
    for number, run in enumerate(comparison.runs):
        report = json.loads((run.path / "report.json").read_text())
        for split, metrics in report["metrics"].items():
            for name, value in metrics.items():
                assert comparison.metrics[f"{split} {name}"][number] == value
        described = comparison.describe()["runs"][number]
        for key in ("metrics", "parameters", "steps", "best_step", "seconds"):
            assert described[key] == report[key]


def test_the_numbers_are_those_of_the_reports(swept: Path) -> None:
    comparison = limelight.compare(swept)
    check_numbers(comparison)
    assert [run.name for run in comparison.runs] == NAMES
    comparison.metrics["test loss"][2] = 0.5
    must_fail(check_numbers, comparison)


def test_only_settings_that_differ_are_shown(swept: Path) -> None:
    comparison = limelight.compare(swept)
    assert comparison.settings == {"model.heads": [1, 1, 2, 2], "seed": [1, 2, 1, 2]}
    assert comparison.labels == ["heads=1, seed=1", "heads=1, seed=2", "heads=2, seed=1", "heads=2, seed=2"]
    same_seed = limelight.compare(swept / NAMES[0], swept / NAMES[2])
    assert same_seed.settings == {"model.heads": [1, 2]}
    assert not same_seed.has_seeds


def test_mean_and_spread_are_over_the_runs_that_differ_only_in_their_seed(swept: Path) -> None:
    comparison = limelight.compare(swept)
    assert [(group.label, group.runs) for group in comparison.groups] == [
        ("heads=1", (0, 1)),
        ("heads=2", (2, 3)),
    ]
    for group in comparison.groups:
        for name, spread in group.metrics.items():
            values = [
                value for number in group.runs if (value := comparison.metrics[name][number]) is not None
            ]
            assert math.isclose(spread.mean, statistics.mean(values))
            assert spread.deviation is not None
            assert math.isclose(spread.deviation, abs(values[0] - values[1]) / math.sqrt(2))
            assert (spread.smallest, spread.largest) == (min(values), max(values))


def test_the_best_loss_is_the_smallest_and_the_best_accuracy_the_largest(swept: Path) -> None:
    comparison = limelight.compare(swept)
    losses = [value for value in comparison.metrics["validation loss"] if value is not None]
    assert comparison.best["validation loss"] == min(losses)
    accuracies = {value for value in comparison.metrics["test accuracy"] if value is not None}
    assert comparison.best.get("test accuracy", max(accuracies)) == max(accuracies)
    assert ("test accuracy" in comparison.best) == (len(accuracies) > 1)
    cells = run_table(comparison)
    shown = next(row for row in cells if row[0] == "validation loss")
    assert [cell.endswith("*") for cell in shown[1:]] == [loss == min(losses) for loss in losses]


@pytest.mark.parametrize("width", [60, 80, 100, 300])
def test_the_tables_fit_the_terminal_and_contain_every_run(width: int, swept: Path) -> None:
    text = as_text(limelight.compare(swept), width)
    assert max(map(len, text.splitlines())) <= max(width, 80)
    for name in NAMES:
        assert name in text
    assert "std. dev." in text


def test_up_to_four_runs_are_columns_and_more_are_rows(
    swept: Path, unfinished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_table(limelight.compare(swept))[0] == ["", *NAMES]
    table = run_table(limelight.compare(swept, unfinished))
    assert [row[0] for row in table] == ["run", *NAMES, "unfinished"]


def test_an_unfinished_run_is_shown_as_far_as_it_is(swept: Path, unfinished: Path) -> None:
    comparison = limelight.compare(swept / NAMES[0], unfinished)
    assert comparison.unfinished[0].path == unfinished
    assert comparison.metrics["test accuracy"][1] is None
    assert comparison.describe()["runs"][1]["steps"] == 7  # evaluated every 7 steps, stopped after 11
    text = as_text(comparison)
    assert "not finished, 7" in text
    assert "note: not finished: unfinished; resume with limelight train RUN --resume" in text
    assert len(comparison.runs[1].journal) == 1


def test_a_run_without_a_checkpoint_is_shown_too(swept: Path, tmp_path: Path) -> None:
    (tmp_path / "begun").mkdir()
    (tmp_path / "begun" / "experiment.toml").write_bytes((swept / NAMES[2] / "experiment.toml").read_bytes())
    comparison = limelight.compare(tmp_path / "begun", swept / NAMES[0], out=tmp_path / "comparison.html")
    assert comparison.settings == {"model.heads": [2, 1]}
    assert comparison.describe()["runs"][0]["steps"] == 0


def test_of_different_tasks_only_common_metrics_are_compared(swept: Path, tagger: Path) -> None:
    comparison = limelight.compare(swept / NAMES[0], tagger)
    reports = [json.loads((run.path / "report.json").read_text())["metrics"] for run in comparison.runs]
    common = {
        f"{split} {name}"
        for split in reports[0]
        for name in reports[0][split].keys() & reports[1][split].keys()
    }
    assert set(comparison.metrics) == common
    assert any(note.startswith("different tasks (classify, tag): only") for note in comparison.notes)
    assert not comparison.best


def test_runs_with_the_same_folder_name_are_distinguished(swept: Path, tmp_path: Path) -> None:
    for name, place in zip(NAMES, ("a", "b"), strict=False):
        (tmp_path / place).mkdir()
        (tmp_path / place / "run").symlink_to(swept / name)
    comparison = limelight.compare(tmp_path / "a" / "run", tmp_path / "b" / "run")
    assert [run.name for run in comparison.runs] == ["a/run", "b/run"]


@pytest.mark.parametrize(
    ("runs", "message"),
    [
        ([NAMES[0]], "a comparison needs two or more runs"),
        ([NAMES[0], NAMES[0]], "is given more than once"),
        ([NAMES[0], "missing"], "missing is not a run folder: it has no experiment.toml"),
        ([NAMES[0], NAMES[1], "--out", "table.csv"], "allowed: a name that ends in .html, .png, .svg, .pdf"),
        ([NAMES[0], NAMES[1], "--out", "nowhere/x.html"], "nowhere: there is no such folder"),
        ([NAMES[0], NAMES[1], "--input", "a x"], "input 1: symbol is 'x'"),
    ],
)
def test_invalid_input_is_refused_in_one_line(
    runs: list[str], message: str, swept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(swept)
    done = command("compare", *runs)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_command_prints_tables_and_writes_a_page(
    swept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = command("compare", *(str(swept / name) for name in NAMES[:2]))
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("\ncomparison.html\n")
    assert "runs that differ only in their seed:" in done.stdout
    assert (tmp_path / "comparison.html").is_file()


def test_json_is_one_document_and_writes_no_file(
    swept: Path, unfinished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = command("compare", str(swept), str(unfinished), "--json")
    assert done.returncode == 0, done.stderr
    content = json.loads(done.stdout, parse_constant=pytest.fail)
    assert [run["name"] for run in content["runs"]] == [*NAMES, "unfinished"]
    assert content["groups"][0]["runs"] == [NAMES[0], NAMES[1], "unfinished"]
    assert content["groups"][0]["finished"] == 2
    assert list(tmp_path.iterdir()) == []


def test_a_figure_has_the_table_and_the_curves(swept: Path, tmp_path: Path) -> None:
    limelight.compare(swept, out=tmp_path / "comparison.png")
    with Image.open(tmp_path / "comparison.png") as image:
        assert image.width >= 1500
        assert image.height >= 900


def test_curves_of_a_group_have_one_colour_and_different_line_styles() -> None:
    journal = [
        {"epoch": epoch, "train": {"loss": 1 / epoch}, "validation": {"loss": 2 / epoch}}
        for epoch in (1.0, 2.0, 3.0)
    ]
    diverged = [journal[0], {**journal[1], "validation": {"loss": math.inf}}]
    figure = draw_runs({"a": journal, "b": journal, "c": diverged}, "loss", [0, 0, 1])
    lines = figure.axes[1].get_lines()
    assert [list(map(float, line.get_ydata())) for line in lines[:2]] == [[2.0, 1.0, 2 / 3]] * 2  # type: ignore[arg-type]
    colours, styles = [line.get_color() for line in lines], [line.get_linestyle() for line in lines]
    assert colours[0] == colours[1] != colours[2]
    assert styles[0] != styles[1]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a", "b", "c"]


def test_the_page_shows_runs_that_can_read_the_input_and_names_the_others(
    swept: Path, tagger: Path, tmp_path: Path
) -> None:
    settings: dict[str, Any] = {"task.data.length": 5, "model.heads": 1}
    limelight.train("reverse", SETTINGS | GENERATED | settings, tmp_path / "digits")
    page = tmp_path / "page.html"
    limelight.compare(swept / NAMES[0], tagger, tmp_path / "digits", out=page, given="a b b")
    text = page.read_text()
    shown = json.loads(text.partition('id="records">')[2].partition("</script>")[0])
    assert [side["name"] for side in shown] == [NAMES[0], "tagger"]
    assert all(side["records"][0]["given"] == "a b b" for side in shown)
    assert "digits cannot read this input: input 1: symbol is" in text
    assert "different tasks (classify, tag, label)" in text
    with pytest.raises(WrongInput, match="symbol is 'x'"):
        limelight.compare(swept / NAMES[0], tagger, out=page, given="a x")


def test_held_out_examples_have_correct_answers_only_for_runs_of_the_same_task(
    swept: Path, tagger: Path, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    limelight.compare(swept / NAMES[0], swept / NAMES[2], tagger, out=page)
    text = page.read_text()
    first, second, third = json.loads(text.partition('id="records">')[2].partition("</script>")[0])
    for one, two, three in zip(first["records"], second["records"], third["records"], strict=True):
        assert one["given"] == two["given"] == three["given"]
        assert one["truth"] == two["truth"] != three["truth"]
        assert two["right"] == (two["answer"] == two["truth"])


@pytest.fixture(scope="module")
def page_of_all(swept: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("pages") / "all.html"
    limelight.compare(swept, out=path)
    return path.as_uri()


@pytest.fixture(scope="module")
def page_of_two(swept: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("pages") / "two.html"
    limelight.compare(swept / NAMES[0], swept / NAMES[2], out=path)
    return path.as_uri()


def tabs(page: Page) -> list[str]:
    """The selected tab of each side."""
    return page.locator('[role="tab"][aria-selected="true"]').all_inner_texts()


@needs_browser
def test_the_page_has_the_tables_the_curves_and_two_explorers(page_of_all: str) -> None:
    with opened() as page:
        page.goto(page_of_all)
        rows = page.locator("table.compared").first.locator("tr")
        assert "heads=2,seed=2" in rows.first.inner_text()
        assert any("model.heads" in text for text in rows.all_inner_texts())
        expect(page.get_by_role("heading", name="Runs that differ only in their seed")).to_be_visible()
        for metric in ("loss", "accuracy"):
            expect(page.get_by_role("img", name=metric, exact=True)).to_be_visible()
        expect(page.locator(".side")).to_have_count(2)
        expect(page.locator(".side .large-map canvas")).to_have_count(2)
        left, right = (page.locator(".side").nth(i).bounding_box() for i in (0, 1))
        assert left is not None
        assert right is not None
        assert left["y"] == right["y"]
        assert left["x"] + left["width"] < right["x"]


@needs_browser
def test_both_sides_show_the_same_view_and_example_until_this_is_switched_off(page_of_two: str) -> None:
    with opened() as page:
        page.goto(page_of_two)
        left, right = page.locator(".side").nth(0), page.locator(".side").nth(1)
        left.get_by_role("tab", name="Flow").click()
        expect(right.get_by_role("tab", name="Flow")).to_have_attribute("aria-selected", "true")
        given = left.locator(".given").inner_text()
        right.get_by_label("Example").select_option(index=1)
        expect(left.locator(".given")).not_to_have_text(given)
        expect(right.locator(".given")).to_have_text(left.locator(".given").inner_text())
        page.get_by_label("Same example").uncheck()
        left.get_by_role("tab", name="Overview").click()
        assert tabs(page) == ["Overview", "Flow"]
        page.get_by_label("Same example").check()
        expect(right.get_by_role("tab", name="Overview")).to_have_attribute("aria-selected", "true")


@needs_browser
def test_everything_can_be_reached_with_the_keyboard(page_of_all: str) -> None:
    with opened() as page:
        page.goto(page_of_all)
        expect(page.locator(".side .large-map canvas")).to_have_count(2)
        box = page.get_by_label("Same example")
        page.keyboard.press("Tab")
        while not box.evaluate("box => box === document.activeElement"):
            page.keyboard.press("Tab")
        page.keyboard.press("Space")
        expect(box).not_to_be_checked()
        page.keyboard.press("Tab")  # the run of the left side
        page.keyboard.press("ArrowDown")
        expect(page.get_by_label("Run").first).to_have_value("heads=2, seed=1")
        expect(page.locator(".side").first.locator(".small-map")).to_have_count(3)
        page.keyboard.press("Tab")  # its example
        page.keyboard.press("Tab")  # its tabs
        page.keyboard.press("ArrowRight")
        assert tabs(page) == ["Flow", "Overview"]
        assert "a.view=flow" in page.url


@needs_browser
def test_another_run_of_a_side_shows_other_attention_of_the_same_input(page_of_all: str) -> None:
    with opened() as page:
        page.goto(page_of_all)
        left = page.locator(".side").first
        given = left.locator(".given").inner_text()
        maps = left.locator(".small-map")
        expect(maps).to_have_count(1)
        left.get_by_label("Run").select_option(label="heads=2, seed=1")
        expect(maps).to_have_count(3)  # the mean and two heads
        assert left.locator(".given").inner_text() == given


@needs_browser
def test_the_url_keeps_the_selections_of_both_sides_apart(page_of_all: str) -> None:
    with opened() as page:
        page.goto(page_of_all)
        page.get_by_label("Same example").uncheck()
        left, right = page.locator(".side").nth(0), page.locator(".side").nth(1)
        left.get_by_role("tab", name="Flow").click()
        right.get_by_label("Run").select_option(index=3)
        first = left.locator(".given").inner_text()
        right.get_by_label("Example").select_option(index=1)
        expect(right.locator(".given")).not_to_have_text(first)
        given = right.locator(".given").inner_text()
        assert page.url == f"{page_of_all}#a.view=flow&page.b=3&page.same=no&b.record=1"
        page.goto("about:blank")
        page.goto(f"{page_of_all}#page.b=3&page.same=no&a.view=flow&b.record=1")
        expect(right.locator(".given")).to_have_text(given)
        expect(left.get_by_role("tab", name="Flow")).to_have_attribute("aria-selected", "true")
        expect(right.get_by_role("tab", name="Overview")).to_have_attribute("aria-selected", "true")
        expect(page.get_by_label("Same example")).not_to_be_checked()
        expect(right.get_by_label("Run")).to_have_value("heads=2, seed=2")


@needs_browser
def test_a_narrow_page_has_one_side_below_the_other_and_does_not_scroll_sideways(page_of_all: str) -> None:
    with opened(width=400) as page:
        page.goto(page_of_all)
        expect(page.locator(".side .large-map canvas")).to_have_count(2)
        first, second = (page.locator(".side").nth(i).bounding_box() for i in (0, 1))
        assert first is not None
        assert second is not None
        assert first["y"] + first["height"] < second["y"]
        assert page.evaluate("document.documentElement.scrollWidth") == 400
