"""The pictures of the README: real runs, looked at in a real browser. `make pictures`

Runs that are not there yet are trained first, in runs/, which takes about four minutes on two cores.
"""

import shutil
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

import limelight
from limelight.experiment import Run
from limelight.view.page import explorer

FOLDER = Path(__file__).parent / "pictures"
SENTENCE = "She does not wear her red shirt."
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")


def trained(recipe: str) -> Run:
    path = Path("runs") / recipe
    if (path / "report.json").exists():
        return limelight.open_run(path)
    run = limelight.train(recipe)
    assert run is not None
    return run


def take(page: Page, name: str) -> None:
    """A few colours say as much, in a quarter of the bytes."""
    path = FOLDER / f"{name}.png"
    page.wait_for_timeout(300)
    page.screenshot(path=path)
    with Image.open(path) as picture:
        picture.convert("RGB").quantize(128).save(path, optimize=True)
    print(path)


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    translate, digits = trained("translate"), trained("digits")
    digit = digits.task.examples("test").pixels[3]
    pages = {"translate": translate.see(SENTENCE), "digits": digits.see(digit)}
    with sync_playwright() as program:
        browser = program.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1360, "height": 860})
        for name, sight in pages.items():
            file = FOLDER / f"{name}.html"
            file.write_text(explorer(name, sight.records))
            page.goto(file.absolute().as_uri())
            page.wait_for_selector("canvas")
            if name == "translate":
                take(page, "overview")
                page.get_by_role("tab", name="Flow").click()
                take(page, "flow")
                page.get_by_role("tab", name="Translation").click()
                for _ in range(4):
                    page.get_by_role("button", name="next").click()
                take(page, "translation")
            else:
                page.get_by_role("tab", name="Image").click()
                take(page, "image")
            file.unlink()
        browser.close()


if __name__ == "__main__":
    main()
