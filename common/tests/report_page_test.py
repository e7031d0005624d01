"""Tests the page of ./run report in a headless Chromium, and leaves pictures of it for people to look at.

They are in the folder that the environment names in PICTURES (default: build). Needs a Chromium, and Playwright, which
drives it: .tools/browser_driver, or python3's own. Skipped where one of them, matplotlib or Jinja is missing.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any, Iterator, List

import pytest
import synthetic_sweep
from command import MissingTool
from measure.results import ROOT, Recorded, newest
from pages import draw, plot, report

sys.path.insert(0, str(ROOT / ".tools/browser_driver"))
try:
    draw.load()
    from playwright.sync_api import sync_playwright
except (MissingTool, ImportError) as error:
    advice = "" if isinstance(error, MissingTool) else ": python3 -m pip install -r common/tests/requirements.txt"
    pytest.skip(f"{error}{advice}", allow_module_level=True)
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
if not CHROMIUM:
    pytest.skip("there is no Chromium on this machine", allow_module_level=True)

PICTURES = Path(os.environ.get("PICTURES", ROOT / "build"))
WIDTHS = (1280, 390)  # a desktop's and a phone's, in px


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("report")


@pytest.fixture(scope="module")
def sources(folder: Path) -> plot.Sources:
    """A made-up sweep and what is recorded in this repository."""
    path = folder / "fake-sweep.json"
    path.write_text(json.dumps(synthetic_sweep.sweep()))
    return plot.Sources(newest(ROOT / "common/results", sweep=False), Recorded(path))


@pytest.fixture(scope="module")
def url(folder: Path, sources: plot.Sources) -> str:
    path = folder / "report.html"
    path.write_text(report.page(sources), encoding="utf-8")
    return path.as_uri()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_playwright() as playwright:
        # The page is our own file; Chromium's sandbox does not start for root.
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


class Opened:
    """The page in the browser, and what it complained of and asked for."""

    def __init__(self, browser: Any, url: str, width: int, scheme: str) -> None:
        self.width, self.picture = width, PICTURES / f"report-{width}-{scheme}.png"
        self.complaints: List[str] = []
        self.requests: List[str] = []
        viewport = {"width": width, "height": 900}
        self.page = browser.new_context(viewport=viewport, color_scheme=scheme).new_page()
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(url)

    def column(self, title: str, table: str = "all") -> List[str]:
        """The texts of a column of a table, from top to bottom."""
        script = """([table, title]) => {
          const headers = [...table.tHead.rows[0].cells].map(header => header.innerText.trim());
          const column = headers.indexOf(title);
          return [...table.tBodies[0].rows].filter(row => !row.hidden).map(row => row.cells[column].textContent);
        }"""
        return self.page.evaluate(script, [self.page.query_selector(f"#table-{table}"), title])

    def header(self, title: str, table: str = "all") -> Any:
        return self.page.locator(f"#table-{table} thead th").filter(has_text=title)

    def click(self, title: str, table: str = "all") -> None:
        self.header(title, table).locator("button").click()

    def sorted_by(self, table: str = "all") -> List[str]:
        script = "headers => headers.map(header => header.getAttribute('aria-sort'))"
        return [order for order in self.page.eval_on_selector_all(f"#table-{table} thead th", script) if order]


@pytest.fixture
def opened(browser: Any, url: str, request: pytest.FixtureRequest) -> Iterator[Opened]:
    opened = Opened(browser, url, *getattr(request, "param", (WIDTHS[0], "light")))
    yield opened
    opened.page.context.close()
    assert opened.complaints == []
    assert set(opened.requests) == {url}  # the page loads nothing else


def test_it_renders(opened: Opened, sources: plot.Sources) -> None:
    page = opened.page
    assert "Softmax on " in page.title()
    drawn = list(sources.charts())
    assert len(drawn) >= 8
    for name in drawn:
        chart = page.locator(f"#chart-{name} svg")
        assert chart.is_visible(), name
        box = chart.bounding_box()
        assert box["width"] > 600 and box["height"] > 300 and chart.locator("text").count() > 10, name
    for name in ("fastertransformer", "oneflow", "triton_article", "awkward"):
        assert page.locator(f"#table-{name}").is_visible(), name
    recording, sweep = sources
    assert recording and sweep
    assert page.locator("#table-all tbody tr").count() == len(recording.results) + len(sweep.results)
    shown = page.locator("#machine ~ .scroll").first.inner_text()
    for part in (recording.machine["gpu"], recording.recorded["commit"], "580.1"):
        assert part in shown


def test_sorting_by_numbers(opened: Opened) -> None:
    def numbers() -> List[float]:
        return [float(text) for text in opened.column("time (µs)") if text != "–"]

    before = numbers()
    assert before != sorted(before)
    assert opened.sorted_by() == []
    for order in ("ascending", "descending"):
        opened.click("time (µs)")
        assert numbers() == sorted(before, reverse=order == "descending")
        assert opened.header("time (µs)").get_attribute("aria-sort") == order
        assert opened.sorted_by() == [order]
        assert opened.column("time (µs)")[-1] == "–"  # no time: last in either order
    # Another column: the rows go with their cells, and only one heading is marked.
    opened.click("cols")
    assert opened.sorted_by() == ["ascending"]
    cols = [int(text) for text in opened.column("cols")]
    assert cols == sorted(cols)
    assert sorted(numbers()) == sorted(before)


def test_sorting_by_words_and_by_keyboard(opened: Opened) -> None:
    opened.header("contender").locator("button").focus()
    opened.page.keyboard.press("Enter")
    names = opened.column("contender")
    assert opened.sorted_by() == ["ascending"]
    assert names[0] == "01_naive block_per_row"
    firsts = [name.split()[0] for name in names]
    assert len(set(firsts)) == len([1 for a, b in zip(firsts, firsts[1:]) if a != b]) + 1
    opened.page.keyboard.press("Space")
    assert opened.sorted_by() == ["descending"]
    assert opened.column("contender")[0].startswith("triton")


def test_each_table_sorts_by_itself(opened: Opened) -> None:
    before = opened.column("shape", "oneflow")
    opened.click("shape", "oneflow")
    assert opened.column("shape", "oneflow") == before  # by width, not by letters
    opened.click("shape", "oneflow")
    assert opened.column("shape", "oneflow") == before[::-1]
    assert (opened.sorted_by("oneflow"), opened.sorted_by("triton_article")) == (["descending"], [])


def test_filter(opened: Opened) -> None:
    everything = len(opened.column("contender"))
    opened.page.fill("#filter", "F16  03_warp packs")
    shown = opened.column("contender")
    assert 0 < len(shown) < everything
    assert all("03_warp_reduce" in name and "packs" in name for name in shown)
    assert set(opened.column("dtype")) == {"f16"}
    assert opened.page.inner_text("#count") == f"{len(shown)} of {everything} results"
    # Sorting keeps the choice.
    opened.click("cols")
    assert len(opened.column("contender")) == len(shown)
    opened.page.fill("#filter", "no such thing")
    assert opened.column("contender") == []
    opened.page.fill("#filter", "")
    assert len(opened.column("contender")) == everything


def test_noisy_and_not_applicable(opened: Opened) -> None:
    opened.page.fill("#filter", "noisy")
    assert set(opened.column("contender")) == {"06_online online"}
    assert set(opened.column("status")) == {"verified, noisy"}
    opened.page.fill("#filter", "not applicable: at most 1024 columns")
    assert set(opened.column("time (µs)")) == {"–"}
    opened.page.fill("#filter", "failed")
    assert opened.column("status") == ["failed: <RuntimeError> & no more"]


EVERY_WIDTH = [(width, scheme) for width in WIDTHS for scheme in ("light", "dark")]


@pytest.mark.parametrize("opened", EVERY_WIDTH, indirect=True)
def test_every_width(opened: Opened) -> None:
    page, script = opened.page, "[document.documentElement.scrollWidth, window.innerWidth]"
    # Tables and charts scroll inside, the page does not.
    assert page.evaluate(script) == [opened.width, opened.width]
    page.fill("#filter", "fastertransformer_block_per_head")
    assert page.evaluate(script) == [opened.width, opened.width]
    page.locator("#table-all thead button").last.click()
    assert page.evaluate(script) == [opened.width, opened.width]
    page.fill("#filter", "")
    page.screenshot(path=str(opened.picture), full_page=True)


def test_print(opened: Opened) -> None:
    opened.page.emulate_media(media="print")
    assert not opened.page.locator("#filter").is_visible()
