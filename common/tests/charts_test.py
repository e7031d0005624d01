"""Tests of the drawn charts, ./run plot and the report page's text. Skipped where matplotlib or Jinja is missing."""

import argparse
import itertools
import json
import os
import re
import struct
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import synthetic_sweep
from command import MissingTool
from fake_stages import TOOLS, Repository, quietly
from measure import results
from pages import charts, draw, plot
from pages.charts import Chart

try:
    matplotlib = draw.load()
except MissingTool as error:
    pytest.skip(str(error), allow_module_level=True)

SVG = "{http://www.w3.org/2000/svg}"


def many_stages(count: int, flat: bool, folder: Path) -> dict[str, Chart]:
    """The charts of `count` stages, which all reach the same speed or each a different one; one more does nothing."""
    names = [f"{number:02}_a_rather_long_name" for number in range(1, count + 1)]
    made = [("stage", name, "fastertransformer_block_per_row", 0.9 if flat else 0.9 / (1 + look), 1 << 17 - look % 3,
             2 + look % 7) for look, name in enumerate(names)]  # fmt: skip
    made += [("stage", "99_nothing", "does_not_apply", 1.0, 1, 2), ("copy", "", "copy", 1.0, 1 << 30, 2)]
    shapes = [f"f32:49152x{1 << power}" for power in range(5, 18)]
    table = {"name": "all", "title": "All", "source": "", "shapes": shapes}
    found = [synthetic_sweep.measured(contender, shape) for shape in shapes for contender in made]
    path = folder / "many-sweep.json"
    path.write_text(json.dumps({**synthetic_sweep.sweep(), "tables": [table], "results": found}))
    recorded = results.Recorded(path)
    wide = [*map(results.parse_shape, shapes)]
    stages = charts.heat_map([recorded], wide[3:8], wide[8:11], wide[11:], charts.stages_of(recorded))
    return {**charts.of_recording(recorded), **charts.of_sweep(recorded), "stages": stages}


@pytest.fixture
def sweep(recorded: Repository) -> Path:
    """A sweep's file next to the recording."""
    return recorded.page(json.dumps(synthetic_sweep.sweep()), "common/results/nvidia-fake-1-sweep.json")


@pytest.fixture
def all_charts(recorded: Repository, sweep: Path) -> dict[str, Chart]:
    return plot.Sources(results.Recorded(recorded.file), results.Recorded(sweep)).charts()


def test_shapes_that_are_recorded_of_a_loss_alone_are_in_no_chart(recorded: Repository) -> None:
    data = recorded.data()
    of_losses = [{**data["results"][0], "op": "cross_entropy", "rows": 16384, "cols": cols} for cols in (4096, 8192, 16384)]
    before = charts.of_recording(results.Recorded(recorded.file)).keys()
    recorded.file.write_text(json.dumps({**data, "results": [*data["results"], *of_losses]}))
    assert charts.of_recording(results.Recorded(recorded.file)).keys() == before


# --- The drawings ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, parts",
    {
        "ladder-f32": "98.5 %|02_tiled|narrow|1024 µs, 4000 GB/s|f32 49152 × 1024|percent of the copy",
        "bandwidth-f16-49152": "03_fast, to 4096|32768|a plain copy|f16, 49152 rows|GB/s|columns",
        "roofline-f32": "elements per byte|10⁹ elements per second|the copy, 4000 GB/s|narrow|2 passes",
        "predicted": "predicted time (µs)|measured time (µs)|20 times the prediction|f32, f16",
        "sweep-oneflow": "OneFlow's table|pytorch|liger|best of all stages|Hollow: noisy|06_online",
    }.items(),
)
def test_what_the_charts_say(all_charts: dict[str, Chart], tmp_path: Path, name: str, parts: str) -> None:
    chart, path = all_charts[name], tmp_path / "a.svg"
    drawn = draw.svg(chart)
    texts = "\n".join("".join(text.itertext()) for text in ElementTree.fromstring(drawn).iter(SVG + "text"))
    assert [part for part in [*parts.split("|"), "NVIDIA Fake 1", "cold L2"] if part not in texts] == []
    assert draw.svg(chart) == drawn  # byte by byte
    path.write_text(drawn, encoding="utf-8")
    assert charts.shows(path, chart)
    assert not charts.shows(path, chart._replace(note="another"))


def test_the_background_is_drawn_and_png_has_twice_the_pixels(tmp_path: Path) -> None:
    for chart in many_stages(3, True, tmp_path).values():
        svg = ElementTree.fromstring(draw.svg(chart))
        # A chart can be read on a page that has another colour than its reader's other pages.
        assert "#ffffff)" in next(svg.iter(SVG + "path")).get("style", "")
        width, height = struct.unpack(">II", draw.png(chart)[16:24])
        points = float(svg.get("height", "").rstrip("pt"))
        assert (width, height) == (2 * draw.WIDTH, pytest.approx(2 * points * 96 / 72, abs=1))


def assert_labels_apart(chart: Chart) -> None:
    with matplotlib.rc_context(draw.STYLE):
        figure = draw.figure_of(chart)
        figure.draw_without_rendering()
        hidden: set[Any] = set()
        for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
            low, high = sorted(axis.get_view_interval())
            ticks = axis.get_major_ticks() + axis.get_minor_ticks()
            hidden.update(tick.label1 for tick in ticks if not low <= tick.get_loc() <= high)
        shown = []
        for text in figure.findobj(matplotlib.text.Text):
            if not text.get_visible() or not text.get_text().strip() or text in hidden:
                continue
            arrow = isinstance(text, matplotlib.text.Annotation)
            box, around = matplotlib.text.Text.get_window_extent(text), (text.axes if arrow else figure).bbox
            inside = box.x0 >= around.x0 and box.y0 >= around.y0 and box.x1 <= around.x1 and box.y1 <= around.y1
            assert inside, f"'{text}' leaves the picture, or beside an arrow the axes"
            shown.append((text, box))
    assert len(shown) > 5
    for (text, box), (other, second) in itertools.combinations(shown, 2):
        width = min(box.x1, second.x1) - max(box.x0, second.x0)
        height = min(box.y1, second.y1) - max(box.y0, second.y0)
        assert width <= 1 or height <= 1, f"'{text}' lies on '{other}'"
    for (text, box), line in itertools.product(shown, figure.findobj(matplotlib.lines.Line2D)):
        # Only the scattered points of the chart with texts next to its points: texts of curves are elsewhere.
        if isinstance(text, matplotlib.text.Annotation) and line.axes and line.get_linestyle() == "None" and len(line.get_xdata()) > 1:
            points = line.axes.transData.transform(line.get_xydata())
            assert not box.count_contains(points), f"'{text}' lies on a point of {line.get_label()}"


@pytest.mark.parametrize("count, flat", [(1, True), (12, True), (12, False)])
def test_no_label_lies_on_another(count: int, flat: bool, tmp_path: Path) -> None:
    for chart in many_stages(count, flat, tmp_path).values():
        assert_labels_apart(chart)


def judged(numbers: dict[str, int], worst: float) -> Chart:
    """The chart of this number of random matrices of each operation, one of which reaches the worst percentage."""
    found = [{"op": op, "percent": 100.0 if n else worst} for op, number in numbers.items() for n in range(number)]
    return charts.judged({"machine": {"gpu": "NVIDIA H100 80GB HBM3"}, "recorded": {"date_utc": "2099-01-01T00"}, "results": found})


@pytest.mark.parametrize("number", [1, 7, 600, 5000])
@pytest.mark.parametrize("worst", [100, 95, 59, 12, 0.5])
def test_the_chart_of_the_library_s_choices(number: int, worst: float) -> None:
    chart = judged({"softmax": 5, "softmax_backward": number, "cross_entropy": number, "cross_entropy_gradient": number}, worst)
    assert_labels_apart(chart)
    with matplotlib.rc_context(draw.STYLE):
        (axes,) = draw.figure_of(chart).axes
    lines = {line.get_label(): line for line in axes.get_lines()}
    for op, share in (("softmax", 20), ("cross_entropy", 100 / number)):
        assert list(lines[op].get_xydata()[0]) == [share, worst]
        assert list(lines[op].get_xydata()[-1])[0] == 100
        assert lines[op].get_markevery()[0] == 0
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    assert left < min(100 / number, 20) and low <= worst and (right, high) == (100, 100)
    marked = [round(lines["cross_entropy"].get_xdata()[at], 3) for at in lines["cross_entropy"].get_markevery()]
    assert marked == {1: [100], 7: [14.286], 600: [0.167, 0.333, 0.5, 1, 2, 5, 10], 5000: [0.02, 0.1, 0.2, 0.5, 1, 2, 5, 10]}[number]


def test_no_label_lies_on_another_in_the_recorded_charts(all_charts: dict[str, Chart]) -> None:
    ours = plot.find_sources(argparse.Namespace(root=results.ROOT, results=None, sweep=None))
    for recorded in filter(None, ours):
        recorded.machine["gpu"] = "NVIDIA H100 80GB HBM3"  # a long name
    for chart in (*all_charts.values(), *ours.charts().values()):
        assert_labels_apart(chart)


def test_lines_differ_without_colour() -> None:
    looks = [draw.look(index) for index in range(-2, 12)]
    assert len({(str(look["linestyle"]), look.get("marker")) for look in looks}) == len(looks)


def test_the_pages_show_what_is_drawn_today(monkeypatch: pytest.MonkeyPatch) -> None:
    # A change of draw.py must redraw the pages' charts. Another matplotlib draws other bytes.
    pinned = re.search(r"^matplotlib==(\S+)", (TOOLS / "wheels.txt").read_text(), re.M)
    assert pinned
    if matplotlib.__version__ != pinned[1]:
        pytest.skip(f"matplotlib is {matplotlib.__version__}, not {pinned[1]}: ./test --all fetches that one into .tools/python")
    drawn = []

    def compare(path: Path, chart: Chart) -> bool:
        drawn.append(path.name)
        again = "run python3 common/tools generate --redraw"
        assert path.read_text(encoding="utf-8") == draw.svg(chart), f"{path.name}: {again}"
        return True

    monkeypatch.setattr(charts, "shows", compare)
    assert quietly("generate", "--check") == (0, "")
    assert len(drawn) >= 3


# --- ./run plot and ./run report -------------------------------------------------------------------


@pytest.fixture
def out(recorded: Repository) -> Path:
    return recorded.root / "out"


def test_plot(recorded: Repository, sweep: Path, out: Path) -> None:
    printed = recorded.tool(f"plot --out {out}")
    names = ["bandwidth-f16-49152", "bandwidth-f32-1024", "ladder-f32", "predicted", "roofline-f32"]
    names += ["sweep-fastertransformer", "sweep-oneflow", "sweep-triton-article"]
    files = sorted(f"{name}.{kind}" for name in names for kind in ("png", "svg"))
    assert sorted(path.name for path in out.iterdir()) == files
    assert printed.count("\n") == len(names)


def test_what_is_missing_is_said_in_one_line(recorded: Repository, out: Path) -> None:
    said = "no sweep file in common/results: without the published tables and the libraries (./run sweep)"
    assert recorded.tool(f"plot --out {out}").splitlines()[0] == said
    recorded.file.unlink()
    said = "./run plot: no results in common/results: run python3 common/tools record on a GPU first\n"
    assert recorded.tool("plot", 1) == said
    recorded.page(json.dumps(synthetic_sweep.sweep()), "common/results/nvidia-fake-1-sweep.json")
    recorded.tool("report", 0, "without the ladder")


def test_bad_files_are_named_and_nothing_is_written(recorded: Repository, out: Path) -> None:
    bad = recorded.page("{", "bad.json")
    for option, tool in itertools.product(("--results", "--sweep"), (f"plot --out {out}", "report")):
        assert "bad.json" in recorded.tool(f"{tool} {option} {bad}", 2).splitlines()[-1]
    broken = synthetic_sweep.sweep()
    broken["tables"][1]["shapes"][2] = "f16:7x7"
    bad.write_text(json.dumps(broken))
    recorded.tool(f"report --sweep {bad}", 1, "nothing recorded at f16:7x7 in bad.json")
    assert not out.exists() and not (recorded.build / "report.html").exists()


def test_an_output_that_cannot_be_written(recorded: Repository, out: Path) -> None:
    out.write_text("a file")
    assert recorded.tool(f"plot --out {out}", 2) == f"./run plot: --out: '{out}' is not a folder\n"
    device = recorded.root / "device"
    os.mkfifo(device)
    for name in ("/", "", ".", str(recorded.root), f"{out}/", str(device)):
        said = f"./run report: --out: '{name}' is not the name of a file\n"
        assert recorded.tool(f"report --out={name}", 2) == said
    printed = recorded.tool(f"report --out {out}/page.html", 1)
    assert printed.count("\n") == 2 and str(out) in printed.splitlines()[-1]


COLUMNS = {
    "time (µs)": "time_us",
    "% of copy": "percent_of_copy",
    "GB/s": "bandwidth_gb_s",
    "passes": "passes",
    "spread (%)": "spread_percent",
    "rounds differ (%)": "round_difference_percent",
    "error ÷ allowed": "max_error",
}


def table_of(page: str, name: str) -> tuple[list[str], list[list[tuple[str, str, str]]]]:
    """The titles of the page's table, and the class, the sort key and the text of each cell."""
    table = page[page.index(f'id="table-{name}"') :].partition("</table>")[0].replace("<wbr>", "")
    cells = (re.findall(r'<td(?: class="(.*?) *")? data-key="(.*?)">(.*?)</td>', line) for line in table.splitlines())
    return re.findall(r"<th.*?><button type=\"button\">(.*?)</button>", table), list(filter(None, cells))


def test_every_column_of_the_page_s_table_shows_its_own_number(repository: Repository) -> None:
    data = synthetic_sweep.sweep()
    repository.page(json.dumps(data), "common/results/nvidia-fake-1-sweep.json")
    repository.tool("report")
    titles, lines = table_of((repository.build / "report.html").read_text(encoding="utf-8"), "all")
    rows = {tuple(key for _, key, _ in cells[1:5]): dict(zip(titles, cells)) for cells in lines}
    for result in data["results"]:
        row = rows[result["dtype"], str(result["rows"]), str(result["cols"]), result["contender"]]
        numbers = [result[name] for name in COLUMNS.values()]
        assert [row[title][1] for title in COLUMNS] == ["" if number is None else str(number) for number in numbers]
        if result["time_us"] is not None:
            assert float(row["GB/s"][2]) == pytest.approx(result["bandwidth_gb_s"], abs=0.6)
            assert float(row["% of copy"][2]) == pytest.approx(result["percent_of_copy"], abs=0.06)


def test_report(recorded: Repository, sweep: Path) -> None:
    data = synthetic_sweep.sweep()  # with a shape at which the libraries lead
    data["results"] = [r for r in data["results"] if r["cols"] < 262144 or r["stage"][:2] not in ("05", "06")]
    here = {r["contender"]: r for r in data["results"] if (r["dtype"], r["rows"], r["cols"]) == ("f16", 49152, 32)}
    numbers = ("time_us", "copy_us", "percent_of_copy", "bandwidth_gb_s")
    here["quack softmax"].update((name, here["03_warp_reduce packs"][name]) for name in numbers)
    data["machine"]["gpu"] = "NVIDIA Fake & 1"
    sweep.write_text(json.dumps(data))
    file = recorded.build / "report.html"
    assert recorded.tool("report") == f"wrote {file}\n"
    page = file.read_text(encoding="utf-8")
    parts = ["NVIDIA Fake &amp; 1", "&lt;RuntimeError&gt; &amp; no more", "not applicable: at most 1024 columns"]
    parts += ["not applicable: cols &gt; 2048 &amp; too wide", "verified, noisy", "./run sweep", "0123456789abcdef"]
    parts += [f"{len(data['results']) + len(results.Recorded(recorded.file).results)} results", "Source: made up. Per"]
    assert [part for part in parts if part not in page] == []
    assert not re.search(r"<(script|img|link|iframe)[^>]*(src|href)=\"(?!data:)", page)
    assert not re.search(r"(url\(|@import)(?!#)[^)]*//", page)
    ids = re.findall(r'<[^>]*\sid="([^"]*)"', page)
    assert len(ids) == len(set(ids)) > 20
    assert len(re.findall('<svg role="img" aria-label="[^"]+', page)) == page.count("<svg") == 8
    # The last row of a published table, and all comparisons of the best stage with the best library.
    titles, lines = table_of(page, "oneflow")
    assert list(zip(titles, lines[-1]))[:4] == [
        ("shape", ("", "10", "f16 49152 × 32768")),
        ("copy (µs)", ("number", "1500.244", "1500")),
        ("best stage and best library", ("ahead", "1.034217185608978", "1.03 × faster than quack softmax")),
        ("01_naive", ("number", "23.97", "24.0")),
    ]
    row = dict(zip(titles, lines[-1]))
    assert (row["03_warp_reduce"], row["04_smem_bank_conflict"][0]) == (("number", "", "–"), "number best")
    (tied,) = (cells for cells in lines if cells[0][2] == "f16 49152 × 32")
    assert tied[2][2] == "as fast as quack softmax" and [kind for kind, *_ in tied].count("number best") == 2
    compared = re.findall(r'<td class="(ahead|behind)" data-key="(.*?)">(.*?) × (faster|slower) than', page)
    for kind, ratio, times, word in compared:
        leads = float(ratio) >= 1
        assert (kind, word) == (("ahead", "faster") if leads else ("behind", "slower"))
        assert times == f"{float(ratio) if leads else 1 / float(ratio):.2f}"
    assert {kind for kind, *_ in compared} == {"ahead", "behind"}
