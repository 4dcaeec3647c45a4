"""The live page of a language model and its saved page, in a real browser."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
import torch
from browser import needs_browser, opened, serving
from playwright.sync_api import Page, expect
from support import must_fail

import limelight
from limelight.experiment import Run
from limelight.tasks.language.next_token import CANDIDATES
from limelight.view.page import explorer_page

pytestmark = needs_browser

CONTEXT = 29
SMALL: dict[str, Any] = {
    "task.data.context": CONTEXT,
    "task.data.vocabulary": "characters",
    "model.width": 16,
    "model.heads": 2,
    "model.hidden": 13,
    "model.depth": 1,
    "train.epochs": 1,
}
TEXT = "the cat sat on a mat.\nThe dog is big, and so it was.\n"
PROMPT = "the cat"


@pytest.fixture(scope="module")
def language(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Run, str]]:
    folder = tmp_path_factory.mktemp("runs")
    (folder / "text.txt").write_text(TEXT * 50)
    yield from serving(limelight.train("language", SMALL, out=folder / "language", data=folder / "text.txt"))


def type_text(page: Page, text: str) -> None:
    page.get_by_label("Input text").fill(text)


def expect_text(page: Page, text: str) -> None:
    expect(page.get_by_label("Input text")).to_have_value(text)


def button(page: Page, name: str) -> Any:
    return page.get_by_role("button", name=name, exact=True)


def set_temperature(page: Page, temperature: float) -> None:
    page.get_by_label("Temperature").fill(str(round(10 * temperature)))


def distribution(run: Run, text: str, temperature: float) -> list[tuple[str, float]]:
    """The most likely tokens and their probabilities in percent, computed from the logits."""
    task: Any = run.task
    with torch.inference_mode():
        logits_V = run.model(task.reader.encode(text).unsqueeze(0))[0, -1].double()
    best = (logits_V / temperature).softmax(-1).topk(CANDIDATES)
    found = zip(best.indices.tolist(), best.values.tolist(), strict=True)
    return [(task.reader.name(token), 100 * probability) for token, probability in found]


def check_distribution(
    page: Page, expected: list[tuple[str, float]], place: str = ".next-token .bars"
) -> None:
    names = page.locator(f"{place} .bar-text").all_inner_texts()
    percents = page.locator(f"{place} .number").all_inner_texts()
    shown = [float(one.removeprefix("< ").removesuffix(" %")) for one in percents]
    assert names == [name for name, _ in expected]
    assert shown == pytest.approx([percent for _, percent in expected], abs=0.11)


def wait_for_tokens(page: Page, count: int) -> None:
    """The maps have so many rows."""
    page.get_by_role("tab", name="Token by token").click()
    expect(page.locator(".stepper .number")).to_have_text(f"{count} of {count}")


def test_the_distribution_of_the_next_token_follows_the_text_and_the_temperature(
    language: tuple[Run, str],
) -> None:
    run, address = language
    sent: list[str] = []
    with opened(allowed=address) as page:
        page.goto(address)
        type_text(page, "t")  # the example that the page begins with may have as many tokens as the prompt
        wait_for_tokens(page, 1)
        for text in (PROMPT, f"{PROMPT} "):
            type_text(page, text)
            wait_for_tokens(page, len(text))
            check_distribution(page, distribution(run, text, 1.0))
        page.on("request", lambda request: sent.append(request.url))
        for temperature in (0.5, 2.0):
            set_temperature(page, temperature)
            check_distribution(page, distribution(run, text, temperature))
            must_fail(check_distribution, page, distribution(run, text, 0.5 * temperature))
        must_fail(check_distribution, page, distribution(run, PROMPT, 2.0))
        assert sent == []  # the page computes it
        page.locator(".tokens").last.get_by_text("c", exact=True).hover()
        expect(page.locator(".stepper .number")).to_have_text(f"5 of {len(text)}")
        check_distribution(page, distribution(run, PROMPT[:5], 2.0), ".block .bars")
        page.reload()
        expect(page.locator("output")).to_have_text("2.0")
        page.evaluate("location.hash = location.hash.replace('temperature=2', 'temperature=0.5')")
        expect(page.locator("output")).to_have_text("0.5")


def test_tokens_are_added_chosen_and_removed_and_the_maps_grow(language: tuple[Run, str]) -> None:
    run, address = language
    with opened(allowed=address) as page:
        page.goto(address)
        type_text(page, PROMPT)
        wait_for_tokens(page, len(PROMPT))
        expect(button(page, "Undo")).to_be_disabled()
        set_temperature(page, 0)
        likely = run.predict([PROMPT], length=2)[0].text
        for count in (1, 2):
            button(page, "Next token").click()
            expect_text(page, PROMPT + likely[:count])
            wait_for_tokens(page, len(PROMPT) + count)
        page.locator(".candidate").nth(1).click()
        (record,) = run.see(PROMPT + likely).records
        chosen = record.steps[-1][1].text.replace("␣", " ").replace("↵", "\n")
        expect_text(page, PROMPT + likely + chosen)
        for end in (2, 1, 0):
            button(page, "Undo").click()
            expect_text(page, PROMPT + likely[:end])
        wait_for_tokens(page, len(PROMPT))
        expect(button(page, "Undo")).to_be_disabled()
        page.locator(".candidate").first.focus()  # without a mouse
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        wait_for_tokens(page, len(PROMPT) + 1)
        assert page.evaluate("document.activeElement.className") in ("candidate", "")
        type_text(page, "")  # a text may begin without a prompt
        expect(page.locator(".distribution h3")).to_have_text("Next token after “↵”")
        type_text(page, " ")
        expect(page.locator(".distribution h3")).to_have_text("Next token after “␣”")


def test_text_is_generated_until_it_is_stopped_or_the_context_is_full(language: tuple[Run, str]) -> None:
    run, address = language
    with opened(allowed=address) as page:
        page.goto(address)
        type_text(page, PROMPT)
        wait_for_tokens(page, len(PROMPT))
        set_temperature(page, 0)
        likely = run.predict([PROMPT], length=CONTEXT - len(PROMPT))[0].text
        button(page, "Generate").click()
        expect(page.get_by_label("Input text")).to_have_value(re.compile(f"{PROMPT}.+"))
        button(page, "Stop").click()
        expect(button(page, "Generate")).to_be_focused()
        text = page.get_by_label("Input text").input_value()
        page.wait_for_timeout(500)
        expect_text(page, text)
        assert len(text) < CONTEXT
        assert (PROMPT + likely).startswith(text)
        button(page, "Generate").click()
        expect_text(page, PROMPT + likely)
        expect(page.locator(".next-token .note").first).to_have_text("The text has its maximum length.")
        for name in ("Next token", "Generate"):
            expect(button(page, name)).to_be_disabled()
        expect(page.locator(".candidate:enabled")).to_have_count(0)
        wait_for_tokens(page, CONTEXT)
        button(page, "Undo").click()
        expect(button(page, "Next token")).to_be_enabled()
        button(page, "Generate").click()
        type_text(page, "The")  # typing stops it
        wait_for_tokens(page, 3)
        expect(button(page, "Generate")).to_be_visible()
        page.set_viewport_size({"width": 400, "height": 700})
        assert page.evaluate("document.documentElement.scrollWidth") <= 400


WRONG = {
    "token id is 99; allowed: 0 to": {"tokens": [99]},
    "temperature is 0.0001; allowed: 0, or at least 0.001": {"temperature": 0.0001},
    "30 tokens; this model reads 29": {"given": "a" * CONTEXT, "temperature": 1},
}


@pytest.mark.parametrize(("reason", "fields"), WRONG.items(), ids=range(len(WRONG)))
def test_the_server_refuses_invalid_tokens_and_temperatures(
    language: tuple[Run, str], reason: str, fields: dict[str, Any]
) -> None:
    body = json.dumps({"given": PROMPT} | fields).encode()
    with pytest.raises(HTTPError) as error:
        urlopen(Request(f"{language[1]}api/record", body, {"Content-Type": "application/json"}))
    assert error.value.code == 400
    assert reason in json.load(error.value)["error"]
    error.value.close()


def test_a_saved_page_has_the_distribution_and_no_buttons_that_need_a_server(
    language: tuple[Run, str], tmp_path: Path
) -> None:
    run, _ = language
    path = tmp_path / "page.html"
    path.write_text(explorer_page("language", run.see(PROMPT, "a mat").records))
    with opened() as page:
        page.goto(path.as_uri())
        page.get_by_role("tab", name="Token by token").click()
        check_distribution(page, distribution(run, PROMPT, 1.0))
        set_temperature(page, 0.7)
        check_distribution(page, distribution(run, PROMPT, 0.7))
        check_distribution(page, distribution(run, PROMPT[:1], 0.7), ".block .bars")
        page.get_by_label("Example").select_option(index=1)
        expect(page.locator(".next-token .given")).to_have_text("a mat")
        check_distribution(page, distribution(run, "a mat", 0.7))
        expect(page.locator(".next-token button")).to_have_count(0)
