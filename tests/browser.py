"""A real browser: the system's chromium, driven by playwright."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Page, sync_playwright

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
QUIET = (
    "--no-sandbox",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)

needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no chromium here: apt-get install chromium")


@contextmanager
def opened(width: int = 1200, height: int = 900, allowed: str = "file:", refused: int = 0) -> Iterator[Page]:
    """A page that must log nothing, raise nothing and ask nobody but addresses that begin as `allowed`.

    So many requests may be refused: of these the browser itself writes a line.
    """
    complaints: list[str] = []
    with sync_playwright() as program:
        browser = program.chromium.launch(executable_path=CHROMIUM, args=list(QUIET))
        context = browser.new_context(viewport={"width": width, "height": height}, accept_downloads=True)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
        page.on("request", lambda request: complaints.extend(outside(request.url, allowed)))
        yield page
        browser.close()
    told = [text for text in complaints if text.startswith("console: Failed to load resource")]
    assert [text for text in complaints if text not in told] == []
    assert len(told) == refused


def outside(address: str, allowed: str) -> list[str]:
    return [] if address.startswith(("data:", "blob:", "about:", allowed)) else [address]
