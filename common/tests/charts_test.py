#!/usr/bin/env python3
"""Tests of the drawn charts, ./run plot and the text of the report page.

    python3 common/tests/charts_test.py

Exit codes: those of unittest; 3 where matplotlib and Jinja are missing, and the one line that says so.
"""

from __future__ import annotations

import itertools
import json
import re
import struct
import sys
import unittest
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Dict, List, Set, Tuple
from unittest import mock
from xml.etree import ElementTree

from fake_stages import TOOLS, RepositoryTest as Repository, quietly

import synthetic_sweep
from command import MissingTool
from measure import results
from pages import charts, draw, plot, report
from pages.charts import Chart

SVG = "{http://www.w3.org/2000/svg}"


def texts_of(svg: str) -> str:
    return "\n".join("".join(text.itertext()) for text in ElementTree.fromstring(svg).iter(SVG + "text"))


def many_stages(count: int, flat: bool) -> List[Chart]:
    """A chart of each kind with so many stages, which reach the same speed or each another one."""
    names = [f"{number:02}_a_rather_long_name" for number in range(1, count + 1)]
    speeds = [4000.0 if flat else 4000.0 / (number + 1) for number in range(count)]
    bars: List[Dict[str, Any]] = [
        {
            "stage": name,
            "variant": "fastertransformer_block_per_row",
            "percent": speed / 40,
            "time": "104.3 µs",
            "others": [3.0],
        }
        for name, speed in zip(names, speeds)
    ]
    bars[-1]["percent"] = None
    cols = [1 << power for power in range(5, 18)]
    lines = [
        {
            "label": f"{name}, to 65536",
            "look": look,
            "noisy": [64],
            "points": [[c, speed] for c in cols[: 13 - look % 3]],
        }
        for look, (name, speed) in enumerate(zip(names, speeds))
    ]
    copy = {"label": "a plain copy", "look": -1, "noisy": [], "points": [[c, 4100.0] for c in cols]}
    points = [
        {
            "stage": name,
            "variant": "fastertransformer_block_per_row",
            "look": look,
            "best": True,
            "passes": 2 + look % 7,
            "elements_per_byte": 1 / (2 + look % 7) / 4,
            "g_elements_per_s": speed / 8,
        }
        for look, (name, speed) in enumerate(zip(names, speeds))
    ]
    times = [
        {
            "stage": name,
            "variant": "fastertransformer_block_per_row",
            "look": look,
            "shape": "bf16 1048576 × 131072",
            "predicted_us": 10.0 * look + 3,
            "measured_us": 4000 / speed * (10 * look + 3),
        }
        for look, (name, speed) in enumerate(zip(names, speeds))
    ]
    peak = {"g_per_s": 4181.76, "how": "16 per clock and SM · 132 SMs · 1980 MHz (assumed clock)"}
    data: Dict[str, Any] = {
        "ladder": {"copy": "a plain copy: 95.7 µs, 4209 GB/s", "bars": bars},
        "bandwidth": {"cols": cols, "panels": [{"title": "Stages", "copy": copy, "lines": lines}] * 2},
        "roofline": {"bandwidth_gb_s": 4200.0, "element_bytes": 4, "peak": peak, "points": points},
        "predicted": {"points": times, "stages": names, "extremes": {"above": times[-1], "below": times[0]}},
    }
    return [Chart(kind, "title", "subtitle", "note", "alt", some) for kind, some in data.items()]


class DrawingTest(Repository):
    def setUp(self) -> None:
        super().setUp()
        self.recorded()

    def all_charts(self) -> Dict[str, Chart]:
        path = self.results / "a-sweep.json"
        path.write_text(json.dumps(synthetic_sweep.sweep()))
        return plot.Sources(results.Recorded(self.file), results.Recorded(path)).charts()

    def test_the_same_chart_gives_the_same_bytes(self) -> None:
        for name, chart in self.all_charts().items():
            with self.subTest(name):
                if name in ("bandwidth-f32-1024", "sweep-fastertransformer", "sweep-triton-article"):
                    continue  # nothing new
                svg = draw.svg(chart)
                self.assertEqual(draw.svg(chart), svg)
                path = self.root / "a.svg"
                path.write_text(svg, encoding="utf-8")
                self.assertTrue(charts.shows(path, chart))
                self.assertFalse(charts.shows(path, chart._replace(note="another")))

    def test_what_the_charts_say(self) -> None:
        drawn = {name: texts_of(draw.svg(chart)) for name, chart in self.all_charts().items()}
        for name, parts in {
            "ladder-f32": [
                "98.5 %",
                "02_tiled",
                "narrow",
                "1024 µs, 4000 GB/s",
                "f32 49152 × 1024",
                "percent of the copy",
            ],
            "bandwidth-f16-49152": ["03_fast, to 4096", "32768", "a plain copy", "f16, 49152 rows", "GB/s", "columns"],
            "roofline-f32": [
                "elements per byte",
                "10⁹ elements per second",
                "the copy, 4000 GB/s",
                "narrow",
                "2 passes",
            ],
            "predicted": ["predicted time (µs)", "measured time (µs)", "20 times the prediction", "f32, f16"],
            "sweep-oneflow": [
                "OneFlow's table",
                "pytorch",
                "liger",
                "best of all stages",
                "Hollow: noisy",
                "06_online",
            ],
        }.items():
            for part in [*parts, "NVIDIA Fake 1", "cold L2"]:
                self.assertIn(part, drawn[name], name)

    def test_the_background_is_drawn(self) -> None:
        # A chart reads the same on a dark page.
        for chart in many_stages(3, flat=True):
            first = next(ElementTree.fromstring(draw.svg(chart)).iter(SVG + "path"))
            self.assertIn("fill: #ffffff", first.get("style", ""))

    def test_png_has_twice_the_pixels(self) -> None:
        chart = many_stages(3, flat=True)[0]
        width, height = struct.unpack(">II", draw.png(chart)[16:24])
        picture = ElementTree.fromstring(draw.svg(chart))
        self.assertEqual(width, 2 * draw.WIDTH)
        points = float(picture.get("height", "").rstrip("pt"))
        self.assertAlmostEqual(height, 2 * points * 96 / 72, delta=1)

    def assert_labels_apart(self, chart: Chart) -> None:
        import matplotlib

        with matplotlib.rc_context(draw.STYLE):
            figure = draw.figure_of(chart)
            figure.draw_without_rendering()
            hidden: Set[Any] = set()
            for axes in figure.axes:
                for axis in (axes.xaxis, axes.yaxis):
                    low, high = sorted(axis.get_view_interval())
                    ticks = axis.get_major_ticks() + axis.get_minor_ticks()
                    hidden.update(tick.label1 for tick in ticks if not low <= tick.get_loc() <= high)
            shown = [
                (text.get_text(), text.get_window_extent())
                for text in figure.findobj(matplotlib.text.Text)
                if text.get_visible() and text.get_text().strip() and text not in hidden
            ]
        self.assertGreater(len(shown), 5)
        for text, box in shown:
            inside = box.x0 >= 0 and box.y0 >= 0 and box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1
            self.assertTrue(inside, f"'{text}' leaves the picture")
        for (text, box), (other, second) in itertools.combinations(shown, 2):
            width = min(box.x1, second.x1) - max(box.x0, second.x0)
            height = min(box.y1, second.y1) - max(box.y0, second.y0)
            self.assertFalse(width > 1 and height > 1, f"'{text}' lies on '{other}'")

    def test_no_label_lies_on_another(self) -> None:
        for count, flat in ((1, True), (12, True), (12, False)):
            for chart in many_stages(count, flat):
                with self.subTest(count=count, flat=flat, kind=chart.kind):
                    self.assert_labels_apart(chart)

    def test_no_label_lies_on_another_in_the_recorded_charts(self) -> None:
        folder = results.ROOT / "common/results"
        recorded = {**self.all_charts()}
        for file, make in (
            (results.newest(folder, False), charts.of_recording),
            (results.newest(folder, True), charts.of_sweep),
        ):
            recorded.update({f"recorded {name}": chart for name, chart in make(file).items()} if file else {})
        for name, chart in recorded.items():
            with self.subTest(name):
                self.assert_labels_apart(chart)

    def test_lines_differ_without_colour(self) -> None:
        looks = [draw.look(index) for index in range(-2, 12)]
        grey = {(str(look["linestyle"]), look.get("marker")) for look in looks}
        self.assertEqual(len(grey), len(looks))

    def test_the_pages_show_what_is_drawn_today(self) -> None:
        # A change of draw.py must redraw the pages' charts. Another matplotlib draws other bytes.
        pinned = re.search(r"^matplotlib==(\S+)", (TOOLS / "requirements.txt").read_text(), re.M)
        assert pinned
        if draw.load().__version__ != pinned[1]:
            self.skipTest(f"matplotlib is {draw.load().__version__}, and {pinned[1]} is pinned")
        drawn = []

        def compare(path: Path, chart: Chart) -> bool:
            drawn.append(path.name)
            self.assertEqual(
                path.read_text(encoding="utf-8"), draw.svg(chart), f"{path.name}: run python3 common/tools generate --redraw"
            )
            return True

        with mock.patch.object(charts, "shows", compare):
            self.assertEqual(quietly("generate", "--check"), (0, ""))
        self.assertGreaterEqual(len(drawn), 3)


class ToolsTest(Repository):
    def setUp(self) -> None:
        super().setUp()
        self.recorded()
        self.out = self.root / "out"
        self.sweep = self.results / "nvidia-fake-1-sweep.json"

    def plot(self, *more: str) -> Tuple[int, str]:
        return quietly("plot", "--root", str(self.root), "--out", str(self.out), *more)

    def report(self, *more: str) -> Tuple[int, str]:
        return quietly("report", "--root", str(self.root), *more)

    def test_plot(self) -> None:
        self.sweep.write_text(json.dumps(synthetic_sweep.sweep()))
        code, printed = self.plot()
        self.assertEqual(code, 0, printed)
        names = ["bandwidth-f16-49152", "bandwidth-f32-1024", "ladder-f32", "predicted", "roofline-f32"]
        names += ["sweep-fastertransformer", "sweep-oneflow", "sweep-triton-article"]
        files = sorted(path.name for path in self.out.iterdir())
        self.assertEqual(files, sorted(f"{name}.{kind}" for name in names for kind in ("png", "svg")))
        self.assertEqual(printed.count("\n"), len(names))

    def test_what_is_missing_is_said_in_one_line(self) -> None:
        code, printed = self.plot()
        self.assertEqual(code, 0, printed)
        said = "no sweep file in common/results: without the published tables and the libraries (./run sweep)"
        self.assertEqual(printed.splitlines()[0], said)
        self.file.unlink()
        self.assertEqual(
            self.plot(), (1, "./run plot: no results in common/results: run python3 common/tools record on a GPU first\n")
        )
        self.sweep.write_text(json.dumps(synthetic_sweep.sweep()))
        code, printed = self.report()
        self.assertEqual(code, 0, printed)
        self.assertIn("without the ladder", printed)

    def test_bad_files_are_named_and_nothing_is_written(self) -> None:
        bad = self.root / "bad.json"
        for text in ("{", "{}", json.dumps({**synthetic_sweep.sweep(), "results": [{}]})):
            bad.write_text(text)
            for option in ("--results", "--sweep"):
                for run in (self.plot, self.report):
                    code, printed = run(option, str(bad))
                    self.assertEqual(code, 2, printed)
                    self.assertIn("bad.json", printed.splitlines()[-1])
        broken = synthetic_sweep.sweep()
        broken["tables"][1]["shapes"][2] = "f16:7"
        bad.write_text(json.dumps(broken))
        self.assertIn("shape 'f16:7' is not", self.report("--sweep", str(bad))[1])
        broken["tables"][1]["shapes"][2] = "f16:7x7"
        bad.write_text(json.dumps(broken))
        self.assertIn("nothing recorded at f16:7x7 in bad.json", self.report("--sweep", str(bad))[1])
        self.assertFalse(self.out.exists() or (self.build / "report.html").exists())

    def test_an_output_that_cannot_be_written(self) -> None:
        self.out.write_text("a file")
        self.assertEqual(self.plot(), (2, f"./run plot: --out: '{self.out}' is not a folder\n"))
        for out in ("/", "", ".", str(self.root), f"{self.out}/"):
            self.assertEqual(self.report("--out", out), (2, f"./run report: --out: '{out}' is not the name of a file\n"))
        code, printed = self.report("--out", f"{self.out}/page.html")
        self.assertEqual((code, printed.count("\n")), (1, 2), printed)
        self.assertIn(str(self.out), printed.splitlines()[-1])

    def test_report(self) -> None:
        data = synthetic_sweep.sweep()
        data["machine"]["gpu"] = "NVIDIA Fake & 1"
        self.sweep.write_text(json.dumps(data))
        code, printed = self.report()
        self.assertEqual((code, printed), (0, f"wrote {self.build / 'report.html'}\n"))
        page = (self.build / "report.html").read_text(encoding="utf-8")
        for part in (
            "NVIDIA Fake &amp; 1",
            "&lt;RuntimeError&gt; &amp; no more",
            "not applicable: at most 1024 columns",
            "not applicable: cols &gt; 2048 &amp; too wide",
            "verified, noisy",
            "./run sweep",
            "0123456789abcdef",
        ):
            self.assertIn(part, page)
        self.assertNotRegex(page, r"<(script|img|link|iframe)[^>]*(src|href)=\"(?!data:)")
        self.assertNotRegex(page, r"(url\(|@import)(?!#)[^)]*//")

        found: Dict[str, List[str]] = {"id": [], "svg": []}

        class Reader(HTMLParser):
            def handle_starttag(self, tag: str, attributes: List[Tuple[str, Any]]) -> None:
                found["id"] += [value for name, value in attributes if name == "id"]
                found["svg"] += [dict(attributes)["aria-label"] for _ in [0] if tag == "svg"]

        Reader().feed(page)
        self.assertEqual(len(found["id"]), len(set(found["id"])))
        self.assertEqual(len(found["svg"]), 8)
        total = len(data["results"]) + len(results.Recorded(self.file).results)
        self.assertIn(f"{total} results", page)

    def test_a_published_table(self) -> None:
        self.sweep.write_text(json.dumps(synthetic_sweep.sweep()))
        sweep = results.Recorded(self.sweep)
        table = report.published(sweep, sweep.tables[1])
        titles = [column.title for column in table.columns]
        self.assertEqual(titles[:4], ["shape", "copy (µs)", "best stage and best library", "01_naive"])
        row = dict(zip(titles, table.rows[-1].cells))  # f16 49152 x 32768
        self.assertEqual(row["shape"].text, "f16 49152 × 32768")
        self.assertEqual(row["03_warp_reduce"], report.Cell("–", None))
        shape = results.Shape("f16", 49152, 32768)
        best = results.fastest(r for r in sweep.at(shape) if r["kind"] == "stage")
        peer = results.fastest(r for r in sweep.at(shape) if r["kind"] == "peer")
        assert best and peer
        self.assertEqual(
            row[best["stage"]], report.Cell(f"{best['percent_of_copy']:.1f}", best["percent_of_copy"], "best")
        )
        ratio = best["percent_of_copy"] / peer["percent_of_copy"]
        self.assertEqual(
            row["best stage and best library"],
            report.Cell(f"{ratio:.2f} × faster than {peer['contender']}", ratio, "ahead"),
        )
        self.assertEqual(report.against(peer, best).kind, "behind")


if __name__ == "__main__":
    try:
        draw.load()
    except MissingTool as error:
        print(error)
        sys.exit(3)
    unittest.main()
