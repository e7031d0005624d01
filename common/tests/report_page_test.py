"""Tests the page of ./run report in a headless Chromium, and leaves pictures of it for people to look at.

They are in the folder that the environment names in PICTURES (default: build). Needs a Chromium, and Playwright, which
drives it: .tools/browser_driver, or python3's own. Skipped where one of them, matplotlib or Jinja is missing.
"""

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any, Iterator

import pytest
import synthetic_sweep
from command import MissingTool
from measure.results import ROOT, Recorded, file_of
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
def sources(tmp_path_factory: pytest.TempPathFactory) -> plot.Sources:
    """A made-up sweep and what is recorded in this repository."""
    path = tmp_path_factory.mktemp("sweep") / "fake-sweep.json"
    path.write_text(json.dumps(synthetic_sweep.sweep()))
    return plot.Sources(Recorded(file_of(ROOT / "common/results", "")), Recorded(path))


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory, sources: plot.Sources) -> str:
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(report.page(sources), encoding="utf-8")
    return path.as_uri()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_playwright() as playwright:
        # The page is our own file; Chromium's sandbox does not start for root.
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Any, url: str, request: pytest.FixtureRequest) -> Iterator[Any]:
    """The page in the browser, which complains of nothing and loads nothing else."""
    width, scheme = getattr(request, "param", (WIDTHS[0], "light"))
    complaints: list[str] = []
    requests: list[str] = []
    page = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme).new_page()
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(url)
    yield page
    page.context.close()
    assert (complaints, set(requests)) == ([], {url})


def column(page: Any, title: str, table: str = "all") -> list[str]:
    """The texts of a column of a table, from top to bottom."""
    script = """([table, title]) => {
      const headers = [...table.tHead.rows[0].cells].map(header => header.innerText.trim());
      const column = headers.indexOf(title);
      return [...table.tBodies[0].rows].filter(row => !row.hidden).map(row => row.cells[column].textContent);
    }"""
    return page.evaluate(script, [page.query_selector(f"#table-{table}"), title])


def button(page: Any, title: str, table: str = "all") -> Any:
    return page.locator(f"#table-{table} thead th").filter(has_text=title).locator("button")


def sorted_by(page: Any, table: str = "all") -> dict[str, str]:
    """The headings that are marked, and how."""
    headers = page.locator(f"#table-{table} thead th[aria-sort]").all()
    return {header.inner_text().split("\u00a0")[0]: header.get_attribute("aria-sort") for header in headers}


def test_it_renders(page: Any, sources: plot.Sources) -> None:
    assert "Softmax on " in page.title()
    drawn = list(sources.charts())
    assert len(drawn) >= 8
    for name in drawn:
        chart = page.locator(f"#chart-{name} svg")
        box = chart.bounding_box()
        assert box["width"] > 400 and box["height"] > 300 and chart.locator("text").count() > 10, name
    for name in ("fastertransformer", "oneflow", "triton_article", "awkward"):
        assert page.locator(f"#table-{name}").is_visible(), name
    recording, sweep = sources
    assert recording and sweep
    assert page.locator("#table-all tbody tr").count() == len(recording.results) + len(sweep.results)
    shown = page.locator("#machine ~ .scroll").first.inner_text()
    for part in (recording.machine["gpu"], recording.recorded["commit"], "580.1"):
        assert part in shown
    page.emulate_media(media="print")
    assert not page.locator("#filter").is_visible()


def test_sorting(page: Any) -> None:
    def numbers() -> list[float]:
        return [float(text) for text in column(page, "time (µs)") if text != "–"]

    before = numbers()
    assert before != sorted(before) and sorted_by(page) == {}
    for order in ("ascending", "descending"):
        button(page, "time (µs)").click()
        assert numbers() == sorted(before, reverse=order == "descending")
        assert sorted_by(page) == {"time (µs)": order}
        assert column(page, "time (µs)")[-1] == "–"  # no time: last in either order
    # Another column: the rows go with their cells, and only one heading is marked.
    button(page, "cols").click()
    cols = [int(text) for text in column(page, "cols")]
    assert (cols, sorted(numbers())) == (sorted(cols), sorted(before))
    assert sorted_by(page) == {"cols": "ascending"}
    # Words, by keyboard.
    button(page, "contender").focus()
    page.keyboard.press("Enter")
    names = [name.split()[0] for name in column(page, "contender")]
    assert names == sorted(names) and sorted_by(page) == {"contender": "ascending"}
    page.keyboard.press("Space")
    assert column(page, "contender")[0].startswith("triton") and sorted_by(page) == {"contender": "descending"}
    # Each table by itself, and shapes by width, not by letters.
    shapes = column(page, "shape", "oneflow")
    for order, expected in (("ascending", shapes), ("descending", shapes[::-1])):
        button(page, "shape", "oneflow").click()
        assert (column(page, "shape", "oneflow"), sorted_by(page, "oneflow")) == (expected, {"shape": order})
    assert sorted_by(page, "triton_article") == {}


def test_filter(page: Any) -> None:
    everything = len(column(page, "contender"))
    page.fill("#filter", "F16  03_warp packs")
    shown = column(page, "contender")
    assert 0 < len(shown) < everything
    assert all("03_warp_reduce" in name and "packs" in name for name in shown)
    assert set(column(page, "dtype")) == {"f16"}
    assert page.inner_text("#count") == f"{len(shown)} of {everything} results"
    button(page, "cols").click()  # sorting keeps the choice
    assert len(column(page, "contender")) == len(shown)
    for text, title, found in (
        ("no such thing", "contender", []),
        ("noisy", "contender", ["06_online online"]),
        ("noisy", "status", ["verified, noisy"]),
        ("not applicable: at most 1024 columns", "time (µs)", ["–"]),
        ("failed", "status", ["failed: <RuntimeError> & no more"]),
    ):
        page.fill("#filter", text)
        assert sorted(set(column(page, title))) == found, text
    page.fill("#filter", "")
    assert len(column(page, "contender")) == everything


@pytest.mark.parametrize("page", [(width, scheme) for width in WIDTHS for scheme in ("light", "dark")], indirect=True)
def test_every_width(page: Any, request: pytest.FixtureRequest) -> None:
    width, scheme = request.node.callspec.params["page"]
    # Tables and charts scroll inside, the page does not.
    for text in ("", "fastertransformer_block_per_head", ""):
        page.fill("#filter", text)
        assert page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]") == [width, width]
        page.locator("#table-all thead button").last.click()
    page.screenshot(path=str(PICTURES / f"report-{width}-{scheme}.png"), full_page=True)
