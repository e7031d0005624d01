#!/usr/bin/env python3
"""Tests the page of ./run report in a headless Chromium, and leaves pictures of it in FOLDER for people to look at.

    python3 common/tests/report_page_test.py [FOLDER]      (default: build)

Needs a Chromium, and Playwright, which drives it: .tools/browser_driver, or python3's own.
Exit codes: those of unittest; 3 where something is missing, and the one line that says what.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any, List

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "common/tools"), str(ROOT / ".tools/browser_driver")]

import synthetic_sweep  # noqa: E402
from command import MissingTool  # noqa: E402
from measure.results import Recorded, newest  # noqa: E402
from pages import draw, plot, report  # noqa: E402

pictures = ROOT / "build"
chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

WIDTHS = (1280, 390)  # a desktop's and a phone's, in px


class PageTest(unittest.TestCase):
    """The page of a made-up sweep and of what is recorded in this repository."""

    recording: Recorded
    sweep: Recorded
    url: str
    browser: Any

    @classmethod
    def setUpClass(cls) -> None:
        from playwright.sync_api import sync_playwright

        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        path = Path(folder.name) / "fake-sweep.json"
        path.write_text(json.dumps(synthetic_sweep.sweep()))
        recording = newest(ROOT / "common/results", sweep=False)
        assert recording
        cls.recording, cls.sweep = recording, Recorded(path)
        page = Path(folder.name) / "report.html"
        page.write_text(report.page(plot.Sources(cls.recording, cls.sweep)), encoding="utf-8")
        cls.url = page.as_uri()
        playwright = sync_playwright().start()
        cls.addClassCleanup(playwright.stop)
        # The page is our own file; Chromium's sandbox does not start for root.
        cls.browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        cls.addClassCleanup(cls.browser.close)

    def setUp(self) -> None:
        self.complaints: List[str] = []
        self.requests: List[str] = []
        self.page = self.open(WIDTHS[0])

    def open(self, width: int, scheme: str = "light") -> Any:
        context = self.browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.addCleanup(context.close)
        page = context.new_page()
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))
        page.goto(self.url)
        return page

    def tearDown(self) -> None:
        self.assertEqual(self.complaints, [])
        self.assertEqual(set(self.requests), {self.url})  # the page loads nothing else

    def column(self, title: str, table: str = "all") -> List[str]:
        """The texts of a column of a table, from top to bottom."""
        script = """([table, title]) => {
          const headers = [...table.tHead.rows[0].cells].map(header => header.innerText.trim());
          const column = headers.indexOf(title);
          return [...table.tBodies[0].rows].filter(row => !row.hidden).map(row => row.cells[column].textContent);
        }"""
        handle = self.page.query_selector(f"#table-{table}")
        return self.page.evaluate(script, [handle, title])

    def header(self, title: str, table: str = "all") -> Any:
        return self.page.locator(f"#table-{table} thead th").filter(has_text=title)

    def sorted_by(self, table: str = "all") -> List[str]:
        script = "headers => headers.map(header => header.getAttribute('aria-sort'))"
        return [order for order in self.page.eval_on_selector_all(f"#table-{table} thead th", script) if order]

    def test_it_renders(self) -> None:
        self.assertIn("Softmax on ", self.page.title())
        drawn = list(plot.Sources(self.recording, self.sweep).charts())
        self.assertGreaterEqual(len(drawn), 8)
        for name in drawn:
            chart = self.page.locator(f"#chart-{name} svg")
            self.assertTrue(chart.is_visible(), name)
            box = chart.bounding_box()
            self.assertGreater(box["width"], 600, name)
            self.assertGreater(box["height"], 300, name)
            self.assertGreater(chart.locator("text").count(), 10, name)
        for name in ("fastertransformer", "oneflow", "triton_article", "awkward"):
            self.assertTrue(self.page.locator(f"#table-{name}").is_visible(), name)
        recorded = [*self.recording.results, *self.sweep.results]
        self.assertEqual(self.page.locator("#table-all tbody tr").count(), len(recorded))
        shown = self.page.locator("#machine ~ .scroll").first.inner_text()
        for part in (self.recording.machine["gpu"], self.recording.recorded["commit"], "580.1"):
            self.assertIn(part, shown)

    def test_sorting_by_numbers(self) -> None:
        def numbers() -> List[float]:
            return [float(text) for text in self.column("time (µs)") if text != "–"]

        before = numbers()
        self.assertNotEqual(before, sorted(before))
        self.assertEqual(self.sorted_by(), [])
        self.header("time (µs)").locator("button").click()
        self.assertEqual(numbers(), sorted(before))
        self.assertEqual(self.header("time (µs)").get_attribute("aria-sort"), "ascending")
        self.assertEqual(self.column("time (µs)")[-1], "–")
        self.header("time (µs)").locator("button").click()
        self.assertEqual(numbers(), sorted(before, reverse=True))
        self.assertEqual(self.sorted_by(), ["descending"])
        self.assertEqual(self.column("time (µs)")[-1], "–")  # no time: last in either order
        # Another column: the rows go with their cells, and only one heading is marked.
        self.header("cols").locator("button").click()
        self.assertEqual(self.sorted_by(), ["ascending"])
        cols = [int(text) for text in self.column("cols")]
        self.assertEqual(cols, sorted(cols))
        self.assertEqual(sorted(numbers()), sorted(before))

    def test_sorting_by_words_and_by_keyboard(self) -> None:
        self.header("contender").locator("button").focus()
        self.page.keyboard.press("Enter")
        names = self.column("contender")
        self.assertEqual(self.sorted_by(), ["ascending"])
        self.assertEqual(names[0], "01_naive block_per_row")
        firsts = [name.split()[0] for name in names]
        self.assertEqual(len(list(dict.fromkeys(firsts))), len([1 for a, b in zip(firsts, firsts[1:]) if a != b]) + 1)
        self.page.keyboard.press("Space")
        self.assertEqual(self.sorted_by(), ["descending"])
        self.assertTrue(self.column("contender")[0].startswith("triton"))

    def test_each_table_sorts_by_itself(self) -> None:
        before = self.column("shape", "oneflow")
        self.header("shape", "oneflow").locator("button").click()
        self.assertEqual(self.column("shape", "oneflow"), before)  # by width, not by letters
        self.header("shape", "oneflow").locator("button").click()
        self.assertEqual(self.column("shape", "oneflow"), before[::-1])
        self.assertEqual((self.sorted_by("oneflow"), self.sorted_by("triton_article")), (["descending"], []))

    def test_filter(self) -> None:
        everything = len(self.column("contender"))
        self.page.fill("#filter", "F16  03_warp packs")
        shown = self.column("contender")
        self.assertTrue(0 < len(shown) < everything)
        self.assertTrue(all("03_warp_reduce" in name and "packs" in name for name in shown))
        self.assertEqual(set(self.column("dtype")), {"f16"})
        self.assertEqual(self.page.inner_text("#count"), f"{len(shown)} of {everything} results")
        # Sorting keeps the choice.
        self.header("cols").locator("button").click()
        self.assertEqual(len(self.column("contender")), len(shown))
        self.page.fill("#filter", "no such thing")
        self.assertEqual(self.column("contender"), [])
        self.page.fill("#filter", "")
        self.assertEqual(len(self.column("contender")), everything)

    def test_noisy_and_not_applicable(self) -> None:
        self.page.fill("#filter", "noisy")
        self.assertEqual(set(self.column("contender")), {"06_online online"})
        self.assertEqual(set(self.column("status")), {"verified, noisy"})
        self.page.fill("#filter", "not applicable: at most 1024 columns")
        self.assertEqual(set(self.column("time (µs)")), {"–"})
        self.page.fill("#filter", "failed")
        self.assertEqual(self.column("status"), ["failed: <RuntimeError> & no more"])

    def test_every_width(self) -> None:
        for width in WIDTHS:
            for scheme in ("light", "dark"):
                page = self.open(width, scheme)
                for state in ("as opened", "filtered", "sorted"):
                    if state == "filtered":
                        page.fill("#filter", "fastertransformer_block_per_head")
                    if state == "sorted":
                        page.locator("#table-all thead button").last.click()
                    # Tables and charts scroll inside, the page does not.
                    script = "[document.documentElement.scrollWidth, window.innerWidth]"
                    self.assertEqual(page.evaluate(script), [width, width], f"{scheme}, {state}")
                page.fill("#filter", "")
                page.screenshot(path=str(pictures / f"report-{width}-{scheme}.png"), full_page=True)
        self.page.emulate_media(media="print")
        self.assertFalse(self.page.locator("#filter").is_visible())


def what_is_missing() -> str:
    try:
        draw.load()
        import playwright.sync_api  # noqa: F401
    except MissingTool as error:
        return str(error)
    except ImportError as error:
        return f"{error.name or error} is missing: python3 -m pip install -r common/tests/requirements.txt"
    return "" if chromium else "there is no Chromium on this machine"


if __name__ == "__main__":
    missing = what_is_missing()
    if missing:
        print(missing)
        sys.exit(3)
    if len(sys.argv) > 1:
        pictures = Path(sys.argv.pop(1))
    unittest.main()
