"""Browser tests: the chromium of the system, controlled by playwright."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Page, sync_playwright
from support import not_none

from limelight.experiment import Run

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--no-sandbox",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)

needs_browser = pytest.mark.skipif(
    CHROMIUM is None, reason="chromium is not installed: apt-get install chromium"
)


@contextmanager
def opened(width: int = 1200, height: int = 900, allowed: str = "file:", refused: int = 0) -> Iterator[Page]:
    """Open a browser page; fail if it logs anything, raises an error, or requests a URL that does not start
    with `allowed`.

    `refused` is the expected number of refused requests: the browser logs one line for each of them.
    """
    problems: list[str] = []
    with sync_playwright() as program:
        browser = program.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        context = browser.new_context(viewport={"width": width, "height": height}, accept_downloads=True)
        page = context.new_page()
        page.on("console", lambda message: problems.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: problems.append(f"error: {error}"))
        page.on("request", lambda request: problems.extend(forbidden(request.url, allowed)))
        yield page
        browser.close()
    failed = [text for text in problems if text.startswith("console: Failed to load resource")]
    assert [text for text in problems if text not in failed] == []
    assert len(failed) == refused


def forbidden(url: str, allowed: str) -> list[str]:
    """Return the URL in a list if it is not allowed, else an empty list."""
    return [] if url.startswith(("data:", "blob:", "about:", allowed)) else [f"request: {url}"]


def serving(run: Run) -> Iterator[tuple[Run, str]]:
    """A fixture: the run and the address of its live page, which is served by another process."""
    command = [sys.executable, "-m", "limelight", "serve", str(run.path), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            yield run, not_none(server.stdout).readline().strip()
        finally:
            server.terminate()
            assert server.wait(10) == 0
