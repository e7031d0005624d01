"""A headless Chromium for the tests of pages. PICTURES in the environment is where pictures of them are left for people
to look at: build. Needs Playwright, which drives it: .tools/browser_driver, or python3's own. The tests are
skipped if either is missing.
"""

import os
import shutil
import sys
from pathlib import Path
from typing import Any, Iterator

import pytest
from measure.results import ROOT

# axe finds the parts of a page that some people cannot use; ./test --all fetches it.
AXE = next(ROOT.glob(".tools/axe/*/axe.min.js"), None)
CONTRAST = Path(__file__).with_name("too_little_contrast.js")
PICTURES = Path(os.environ.get("PICTURES", os.environ.get("BUILD", ROOT / "build")))


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    sys.path.insert(0, str(ROOT / ".tools/browser_driver"))
    advice = "playwright is missing: ./test --all fetches it into .tools/browser_driver (if it did: delete that folder, it is another Python's)"
    sync_api = pytest.importorskip("playwright.sync_api", reason=advice)
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if not chromium:
        pytest.skip("Chromium is missing: install the package chromium with your distribution's package manager")
    with sync_api.sync_playwright() as playwright:
        # The page is our own file; Chromium's sandbox does not start for root.
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        browser.close()


class Opened:
    """A page in the browser, which complains of nothing and loads nothing else."""

    def __init__(self, browser: Any, html: str, path: Path, width: int = 1400, scheme: str = "light") -> None:
        path.write_text(html, encoding="utf-8")
        self.complaints: list[str] = []
        self.url = path.as_uri()
        self.page = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme).new_page()
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda asked: self.complaints.extend([asked.url] if asked.url != self.url else []))

    def __enter__(self) -> Any:
        self.page.goto(self.url)
        return self.page

    def __exit__(self, kind: object, *_: object) -> None:
        self.page.context.close()
        assert kind or self.complaints == []


def barriers_of(page: Any) -> list[Any]:
    """Texts that are hard to read, and the findings of axe, if it is here: the rule, and where it is broken first."""
    found: list[Any] = page.evaluate(CONTRAST.read_text(encoding="utf-8"))
    if AXE:
        page.evaluate(AXE.read_text(encoding="utf-8"))
        violations = page.evaluate("axe.run({resultTypes: ['violations']})")["violations"]
        found += [(one["id"], one["nodes"][0]["html"]) for one in violations]
    return found
