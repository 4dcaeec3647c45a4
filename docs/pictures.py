"""Take the screenshots of the documentation in a browser: `make pictures`.

Runs that do not exist yet in runs/ are trained first. This takes about four minutes on two cores.
"""

import shutil
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, ViewportSize, sync_playwright

import limelight
from limelight.experiment import Run
from limelight.experiment.examples import with_variants
from limelight.tasks.task import Example
from limelight.view.page import explorer_page

FOLDER = Path(__file__).parent / "pictures"
SENTENCE = "She does not wear her red shirt."
SIZE: ViewportSize = {"width": 1360, "height": 860}
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")


def trained_run(recipe: str) -> Run:
    """Open the run of a recipe, and train it first if it is not finished."""
    path = Path("runs") / recipe
    if (path / "report.json").exists():
        return limelight.open_run(path)
    return limelight.train(recipe)


def save_screenshot(page: Page, name: str) -> None:
    """Save a screenshot with 128 colours, which needs a quarter of the bytes."""
    path = FOLDER / f"{name}.png"
    page.wait_for_timeout(300)
    page.screenshot(path=path)
    with Image.open(path) as picture:
        picture.convert("RGB").quantize(128).save(path, optimize=True)
    print(path)


def main() -> None:
    """Take all screenshots."""
    FOLDER.mkdir(exist_ok=True)
    translate, digits = trained_run("translate"), trained_run("digits")
    digit = digits.dataset.examples("test").pixels[3]
    (sentence,) = translate.see(SENTENCE).records
    captured = {
        "translate": with_variants(translate, [(Example(SENTENCE, ()), sentence)]),
        "digits": digits.see(digit).records,
    }
    compared = Path("runs") / "heads"
    if not (compared / "comparison.html").exists():
        limelight.sweep("majority", {"model.heads": [1, 2]}, out=compared)
    with sync_playwright() as program:
        browser = program.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport=SIZE)
        for name, records in captured.items():
            file = FOLDER / f"{name}.html"
            file.write_text(explorer_page(name, records))
            page.goto(file.absolute().as_uri())
            page.wait_for_selector("canvas")
            if name == "translate":
                save_screenshot(page, "overview")
                page.get_by_role("button", name="cross-attention, layer 1, head 0:").click()
                page.get_by_role("application").press("x")
                save_screenshot(page, "changes")
                page.get_by_role("button", name="Undo").click()
                page.get_by_role("tab", name="Flow").click()
                save_screenshot(page, "flow")
                page.get_by_role("tab", name="Translation").click()
                for _ in range(4):
                    page.get_by_role("button", name="next").click()
                save_screenshot(page, "translation")
                page.get_by_role("tab", name="Layers").click()
                page.set_viewport_size({"width": 1360, "height": 360})
                save_screenshot(page, "layers")
                page.set_viewport_size(SIZE)
            else:
                page.get_by_role("tab", name="Image").click()
                save_screenshot(page, "image")
            file.unlink()
        page.goto((compared / "comparison.html").absolute().as_uri())
        page.wait_for_selector("canvas")
        page.get_by_role("heading", name="Attention").evaluate("heading => heading.scrollIntoView()")
        save_screenshot(page, "compare")
        browser.close()


if __name__ == "__main__":
    main()
