"""The page of a report, in a real browser."""

import json
from pathlib import Path

from browser import needs_browser, opened
from command import command

from limelight.check.page import check_page
from limelight.check.report import FileReport, Finding, Report

CODE = """import torch

def masked_softmax(scores, mask=None):
\tif mask is not None:  # <script>document.title = "hacked"</script>
\t\tscores = scores.masked_fill(~mask, -1e30)
\treturn scores.softmax(1)
"""
FINDING = Finding(
    promise="softmax-axis",
    statement="the softmax runs over the keys",
    verdict="FAIL",
    got="<img src=x onerror=alert(1)> & \x1b[2J",
    line=6,
    code="\treturn scores.softmax(1)",
)


def page_of(file: Path, *findings: Finding, cell: int = 0) -> str:
    report = Report(name="masked_softmax", kind="masked-softmax", line=3, cell=cell, findings=findings)
    return check_page([FileReport(file=str(file), reports=(report,))])


@needs_browser
def test_findings_and_lines_link_to_each_other(tmp_path: Path) -> None:
    (tmp_path / "soft <b>.py").write_text(CODE)
    page = page_of(
        tmp_path / "soft <b>.py", FINDING, FINDING.model_copy(update={"line": 0, "verdict": "warn"})
    )
    (tmp_path / "page.html").write_text(page)
    with opened() as browser:
        browser.goto((tmp_path / "page.html").as_uri())
        assert browser.title().startswith("limelight check: soft <b>.py")
        assert browser.locator(".line").count() == 6
        marked = browser.locator("a.line")
        assert [one.get_attribute("data-line") for one in marked.all()] == ["3", "6"]
        assert marked.nth(1).inner_text() == "    return scores.softmax(1)"
        marked.nth(1).click()
        assert browser.locator(".finding:target").inner_text().startswith("FAIL")
        browser.locator(".finding a").first.click()
        assert browser.locator(".line:target").get_attribute("data-line") == "6"
        assert "<img src=x onerror=alert(1)> & \\x1b[2J" in browser.locator(".finding").first.inner_text()
        assert browser.locator("img, script").count() == 0


@needs_browser
def test_the_page_fits_a_phone_in_light_and_dark(tmp_path: Path) -> None:
    (tmp_path / "soft.py").write_text(CODE + "x = '" + "long " * 100 + "'\n")
    (tmp_path / "page.html").write_text(page_of(tmp_path / "soft.py", FINDING))
    with opened(width=360, height=740) as browser:
        browser.goto((tmp_path / "page.html").as_uri())
        colours = []
        for scheme in ("light", "dark"):
            browser.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
            assert browser.evaluate("document.documentElement.scrollWidth") <= 360
            colours.append(browser.evaluate("getComputedStyle(document.body).backgroundColor"))
        assert colours[0] != colours[1]


def test_the_lines_of_a_notebook_are_counted_in_each_cell(tmp_path: Path) -> None:
    cells = [{"cell_type": "code", "source": code} for code in ("x = 1\ny = 2", CODE)]
    (tmp_path / "soft.ipynb").write_text(json.dumps({"cells": cells}))
    page = page_of(tmp_path / "soft.ipynb", FINDING.model_copy(update={"cell": 2}), cell=2)
    assert '<a class="line fail" href="#F0-0-0" id="L0-2-6" data-line="6">' in page
    assert '<span class="line" id="L0-1-2" data-line="2">y = 2</span>' in page


def test_the_command_writes_the_page(tmp_path: Path) -> None:
    (tmp_path / "soft.py").write_text(CODE)
    done = command("check", str(tmp_path / "soft.py"), "--html", str(tmp_path / "page.html"))
    assert done.returncode == 1
    assert "softmax-axis" in done.stdout
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "softmax-axis" in page
    assert "scores.softmax(1)" in page
