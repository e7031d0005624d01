#!/usr/bin/env python3
"""Tests of the pages and the charts' numbers: every stage is a fake.

    python3 common/tests/tools_test.py
"""

from __future__ import annotations

import json
import re
import sys
import unittest
from pathlib import Path
from unittest import mock

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from fake_stages import COMMIT, TOOLS, RepositoryTest as Repository, quietly  # noqa: E402

import synthetic_sweep  # noqa: E402
from measure import record, results  # noqa: E402
from pages import charts, draw  # noqa: E402


class GenerateTest(Repository):
    def setUp(self) -> None:
        super().setUp()
        self.recorded()
        # What generate does with charts needs no matplotlib; charts_test.py tests the drawing.
        drawn = mock.patch.object(draw, "svg", lambda chart: charts.signed(f"<svg>{chart.title}</svg>\n", chart))
        drawn.start()
        self.addCleanup(drawn.stop)

    def fill(self, marker: str, name: str = "README.md") -> str:
        """The text that generate puts into one block or, for a value, into a line."""
        block = marker.startswith("generated")
        text = "<!-- {} -->\n<!-- end generated -->\n" if block else "x <!-- {} --><!-- end value -->\n"
        page = self.page(text.format(marker), name)
        code, printed = self.generate()
        self.assertEqual(code, 0, printed)
        found = re.search(r"-->\n?(.*?)\n?<!-- end", page.read_text(encoding="utf-8"), re.S)
        assert found
        return found[1]

    def refused(self, text: str) -> str:
        """generate refuses the page and leaves it alone; returns what it says."""
        page = self.page(text)
        code, printed = self.generate()
        self.assertEqual((code, page.read_text(encoding="utf-8")), (1, text), printed)
        return printed

    def test_ladder(self) -> None:
        rows = self.fill("generated: ladder dtype=f16 rows=49152 cols=4096").splitlines()
        self.assertEqual(rows[2], "| [01_naive](01_naive/) | thread_per_row | 2 | 81920 | 200 | 5.0 |")
        self.assertEqual(rows[3], "|  | **block_per_row** | **2** | **20480** | **800** | **20.0** |")
        self.assertEqual(rows[4], "| [02_tiled](02_tiled/) | narrow | – | – | – | –<sup>a</sup> |")
        self.assertEqual(rows[7], "| copy | the ceiling: one read, one write | 2 | 4096 | 4000 | 100.0 |")
        self.assertEqual(rows[9], "<sup>a</sup> <sub>not applicable: cols &gt; 2048 &amp; too wide</sub><br>")
        for part in ("NVIDIA Fake 1", "f16 49152 × 4096", "cold L2", "medians of 25 samples", COMMIT[:10]):
            self.assertIn(part, rows[10])

    def test_links_are_relative_to_the_page(self) -> None:
        text = self.fill("generated: ladder dtype=f32 rows=49152 cols=1024", "02_tiled/README.md")
        self.assertIn("[01_naive](../01_naive/)", text)
        text = self.fill("generated: chart a.svg ladder dtype=f32 rows=49152 cols=1024", "02_tiled/README.md")
        self.assertIn("](../common/results/a.svg)", text)

    def test_stage(self) -> None:
        rows = self.fill("generated: stage 02_tiled dtype=f32 rows=49152 cols=1024").splitlines()
        self.assertEqual(rows[2], "| **narrow** | **2** | **1707** | **2400** | **60.0** |")
        rows = self.fill("generated: stage 02_tiled shapes=f32:65536x32,f16:49152x4096").splitlines()
        self.assertEqual(rows[2], "| narrow | 2.12 | **60.0** | –<sup>a</sup> |")
        self.assertEqual(rows[3], "| wide | 2 to 2.12 | 50.0 | **50.0** |")

    def test_values(self) -> None:
        shape = "dtype=f32 rows=49152 cols=1024"
        for marker, text in {
            f"percent stage=03_fast variant=only {shape}": "98 %",
            f"percent stage=02_tiled variant=best {shape}": "60 %",
            f"percent stage=01_naive variant=thread_per_row {shape}": "5.0 %",
            f"time stage=02_tiled variant=best {shape}": "1707 µs",
            f"bandwidth stage=02_tiled variant=wide {shape}": "2002 GB/s",
            f"name stage=02_tiled variant=best {shape}": "`narrow`",
            f"passes stage=02_tiled variant=best {shape}": "2",
            f"ratio a=01_naive/thread_per_row b=02_tiled/best {shape}": "12",
            f"ratio a=01_naive/best b=02_tiled/wide {shape}": "2.5",
            f"copy_time {shape}": "1024 µs",
            f"copy_bandwidth {shape}": "4000 GB/s",
            "machine field=gpu": "NVIDIA Fake 1",
        }.items():
            with self.subTest(marker):
                self.assertEqual(self.fill(f"value: {marker}"), text)

    def test_text_around_the_markers_stays(self) -> None:
        value = "<!-- value: machine field=gpu -->{}<!-- end value -->"
        block = "<!-- generated: ladder dtype=f32 rows=49152 cols=1024 -->\n{}<!-- end generated -->"
        text = f"# Ä title\n\nOn {value} and {value}.  \n\n{block}\nEnd without a line break"
        page = self.page(text.format("", "old", ""))
        self.assertEqual(self.generate()[0], 0)
        written = page.read_text(encoding="utf-8")
        table = written[written.index("1024 -->\n") + 9 : written.index("<!-- end generated")]
        self.assertEqual(written, text.format("NVIDIA Fake 1", "NVIDIA Fake 1", table))
        self.assertEqual(self.generate("--check"), (0, ""))

    def test_check_catches_a_changed_digit_and_changes_nothing(self) -> None:
        marker = "value: percent stage=02_tiled variant=best dtype=f32 rows=49152 cols=1024"
        self.fill(marker)
        chart = "<!-- generated: chart a.svg ladder dtype=f32 rows=49152 cols=1024 -->\n<!-- end generated -->\n"
        page = self.page(chart + f"\nx <!-- {marker} -->60 %<!-- end value -->\n")
        self.assertEqual(self.generate()[0], 0)
        self.assertEqual(self.generate("--check"), (0, ""))
        good = page.read_text(encoding="utf-8")
        page.write_text(good.replace("60 %<", "61 %<"), encoding="utf-8")
        code, printed = self.generate("--check")
        self.assertEqual(code, 1)
        self.assertIn("differs: README.md:5: percent stage=02_tiled", printed)
        self.assertIn("61 %", page.read_text(encoding="utf-8"))
        page.write_text(good, encoding="utf-8")
        svg = self.results / "a.svg"
        drawn = svg.read_text(encoding="utf-8")
        for changed in (drawn.replace("Softmax", "softmax"), drawn.replace("numbers ", "numbers 0"), drawn + "\n", ""):
            svg.write_text(changed, encoding="utf-8")
            code, printed = self.generate("--check")
            self.assertEqual((code, "differs: common/results/a.svg" in printed), (1, True))
        svg.unlink()
        self.assertEqual(self.generate("--check")[0], 1)
        self.assertFalse(svg.exists())

    def test_bad_markers_are_named_with_their_line(self) -> None:
        ladder = "<!-- generated: ladder dtype=f32 rows=49152 cols=1024 -->"
        end = "<!-- end generated -->"
        for text, said in {
            f"\n\n{ladder}\n": "README.md:3: this marker is never closed",
            f"\n{end}\n": "README.md:2: '<!-- end generated -->' closes nothing",
            f"{ladder}\n<!-- end value -->\n": "README.md:2: '<!-- end value -->' closes nothing",
            f"{ladder}\n{ladder}\n{end}\n": "README.md:2: a marker inside the one opened at README.md:1",
            f"{ladder} {end}\n": "README.md:1: the markers of a block stand on lines of their own",
            f"text {ladder}\n{end}\n": "README.md:1: the markers of a block stand on lines of their own",
            f"{ladder}\ntext {end}\n": "README.md:1: the markers of a block stand on lines of their own",
            "<!-- generate: ladder -->\n": "README.md:1: this is no marker",
            "<!--generated: ladder-->\n": "README.md:1: this is no marker",
            "x <!-- value percent -->": "README.md:1: this is no marker",
            f"<!-- generated: lader -->\n{end}\n": "README.md:1: lader: unknown block 'lader'; there are: ladder",
            "x <!-- value: speed --><!-- end value -->": "unknown value 'speed'; there are: percent",
            "a\n  <!-- value: machine field=gpu --><!-- end value -->": "README.md:2: a value cannot begin a line",
            "- <!-- value: machine field=gpu --><!-- end value -->": "README.md:1: a value cannot begin a line",
        }.items():
            with self.subTest(text):
                self.assertIn(said, self.refused(text))

    def test_bad_arguments_and_missing_data(self) -> None:
        ladder = "dtype=f32 rows=49152 cols=1024"
        for marker, said in {
            "ladder dtype=f32 rows=49152": "argument 'cols=' is missing",
            "ladder dtype=f32 rows=49152 cols=x": "'cols=x' is not a number",
            "ladder dtype=f64 rows=49152 cols=8": "shape 'f64:49152x8'",
            f"ladder {ladder} cols=8": "given twice",
            f"ladder {ladder} colour=blue": "unknown argument: colour=",
            "ladder dtype=f32 rows=49152 cols=999": "nothing recorded at f32:49152x999",
            f"stage 07_none {ladder}": "no such stage: '07_none'; there are: 01_naive",
            f"chart A.svg ladder {ladder}": "not a file name",
            f"chart a.svg pie {ladder}": "unknown chart 'pie'",
            "chart a.svg bandwidth dtype=bf16 rows=49152": "nothing recorded for bf16",
            "counters 01_naive": "nvidia-fake-1-profile.json",
        }.items():
            with self.subTest(marker):
                printed = self.refused(f"<!-- generated: {marker} -->\n<!-- end generated -->\n")
                self.assertIn(f"README.md:1: {marker.split()[0]}: ", printed)
                self.assertIn(said, printed)
        wide = "dtype=f16 rows=49152 cols=4096"
        for marker, said in {
            f"percent stage=01_naive variant=none {ladder}": "no variant 'none'",
            f"percent stage=02_tiled variant=narrow {wide}": "has no time at f16:49152x4096: cols > 2048",
            f"percent stage=03_fast variant=best {wide.replace('4096', '8192')}": "no variant of 03_fast is applicable",
            f"ratio a=01_naive b=02_tiled/best {ladder}": "argument 'a=' is STAGE/VARIANT",
            "machine field=colour": "no machine field 'colour'",
        }.items():
            with self.subTest(marker):
                self.assertIn(said, self.refused(f"x <!-- value: {marker} --><!-- end value -->\n"))

    def test_an_error_on_one_page_leaves_every_page_alone(self) -> None:
        text = "<!-- generated: ladder dtype=f32 rows=49152 cols=1024 -->\n<!-- end generated -->\n"
        page = self.page(text)
        self.page("<!-- end generated -->\n", "03_fast/README.md")
        self.assertIn("03_fast/README.md:1", self.generate()[1])
        self.assertEqual(page.read_text(encoding="utf-8"), text)

    def test_a_stage_without_results_is_an_error(self) -> None:
        (self.root / "04_new").mkdir()
        (self.root / "04_new/main.cu").touch()
        text = "<!-- generated: ladder dtype=f32 rows=49152 cols=1024 -->\n<!-- end generated -->\n"
        self.assertIn("differ in 04_new: record again", self.refused(text))

    def test_pages_without_numbers_need_no_results(self) -> None:
        self.file.unlink()
        self.page("# Only words, and <!-- a comment -->\n")
        self.assertEqual(self.generate("--check"), (0, ""))
        self.page("x <!-- value: machine field=gpu --><!-- end value -->\n")
        self.assertIn("no results file", self.generate()[1])

    def test_the_newest_recording_is_taken(self) -> None:
        data = json.loads(self.file.read_text(encoding="utf-8"))
        data["recorded"]["date_utc"] = "2001-01-01T00:00:00Z"
        data["machine"]["gpu"] = "An old one"
        old = self.results / "zz-old.json"
        old.write_text(json.dumps(data))
        (self.results / "zz-profile.json").write_text("{}")
        self.assertEqual(self.fill("value: machine field=gpu"), "NVIDIA Fake 1")
        self.assertEqual(self.generate("--results", str(old))[0], 0)
        self.assertIn("An old one", (self.root / "README.md").read_text(encoding="utf-8"))


    def test_charts_follow_the_numbers(self) -> None:
        end = "\n<!-- end generated -->\n"
        shape = "dtype=f32 rows=49152 cols=1024"
        kinds = ("ladder " + shape, "bandwidth dtype=f16 rows=49152", "roofline " + shape, "predicted")
        self.page("".join(f"<!-- generated: chart {kind.split()[0]}.svg {kind} -->{end}" for kind in kinds))
        self.assertEqual(self.generate()[0], 0)
        self.assertEqual(self.generate("--check"), (0, ""))
        data = json.loads(self.file.read_text(encoding="utf-8"))
        for result in data["results"]:
            if result["variant"] == "wide" and result["cols"] == 8192:
                result.update(time_us=1.0, copy_us=0.5, percent_of_copy=50.0, bandwidth_gb_s=9999)
        self.file.write_text(json.dumps(data))
        code, printed = self.generate("--check")
        self.assertEqual(code, 1)
        differing = [name for name in ("ladder", "bandwidth", "roofline", "predicted") if f"/{name}.svg" in printed]
        self.assertEqual(differing, ["bandwidth", "predicted"])  # the other two are of another width

    def test_one_name_for_two_charts(self) -> None:
        end = "\n<!-- end generated -->\n"
        one, other = "a.svg ladder dtype=f32 rows=49152 cols=1024", "a.svg bandwidth dtype=f16 rows=49152"
        self.page(f"<!-- generated: chart {one} -->{end}<!-- generated: chart {other} -->{end}")
        self.assertIn("two different charts are named a.svg", self.generate()[1])

    def test_a_sweep_s_table(self) -> None:
        table = "<!-- generated: chart a.svg table {} -->\n<!-- end generated -->\n"
        self.assertIn("no sweep's file in common/results", self.refused(table.format("oneflow")))
        (self.results / "nvidia-fake-1-sweep.json").write_text(json.dumps(synthetic_sweep.sweep()))
        self.assertEqual(self.fill("value: machine field=gpu"), "NVIDIA Fake 1")  # of the recording, which is older
        said = self.refused(table.format("twoflow"))
        self.assertIn("no table 'twoflow' in nvidia-fake-1-sweep.json; it has: fastertransformer, oneflow", said)
        self.assertIn("'awkward' is no row of widths", self.refused(table.format("awkward")))
        self.assertIn("f16, 49152 rows", self.fill("generated: chart a.svg table oneflow"))

class ChartTest(Repository):
    """The numbers of the charts; charts_test.py looks at the drawings."""

    def setUp(self) -> None:
        super().setUp()
        self.recorded()
        self.made = results.Recorded(self.file)

    def test_a_file_s_charts(self) -> None:
        names = ["ladder-f32", "bandwidth-f16-49152", "bandwidth-f32-1024", "roofline-f32", "predicted"]
        self.assertEqual(list(charts.of_recording(self.made)), names)
        quick = [r for r in self.made.results if (r["rows"], r["cols"]) == (49152, 1024) and r["dtype"] == "f32"]
        data = json.loads(self.file.read_text(encoding="utf-8"))
        self.file.write_text(json.dumps({**data, "results": quick}))
        names = list(charts.of_recording(results.Recorded(self.file)))
        self.assertEqual(names, ["ladder-f32", "roofline-f32", "predicted"])

    def test_bandwidth(self) -> None:
        data = charts.of_recording(self.made)["bandwidth-f16-49152"].data
        self.assertNotIn(1001, data["cols"])  # an odd width is no point of a log2 axis
        (panel,) = data["panels"]
        self.assertEqual([line["label"] for line in panel["lines"]], ["01_naive", "02_tiled", "03_fast, to 4096"])
        # 02_tiled's best is `narrow` as far as it goes.
        self.assertEqual(dict(panel["lines"][1]["points"])[2048], 2400)
        self.assertEqual(dict(panel["lines"][1]["points"])[4096], 2001.6)

    def test_libraries_have_a_panel_of_their_own(self) -> None:
        path = self.results / "a-sweep.json"
        path.write_text(json.dumps(synthetic_sweep.sweep()))
        found = charts.of_sweep(results.Recorded(path))
        self.assertEqual(list(found), ["sweep-fastertransformer", "sweep-oneflow", "sweep-triton-article"])
        stages, libraries = found["sweep-oneflow"].data["panels"]
        best, *peers = libraries["lines"]
        self.assertEqual([peer["label"] for peer in peers], ["pytorch", "triton", "cudnn", "quack", "liger"])
        for place, (cols, speed) in enumerate(best["points"]):
            self.assertEqual(speed, max(dict(line["points"]).get(cols, 0) for line in stages["lines"]), cols)
            self.assertEqual(cols, 32 << place)
        # Triton's fused kernel ends at 16384 columns, its online one goes on.
        self.assertEqual(len(peers[1]["points"]), 11)
        self.assertEqual([line["label"] for line in stages["lines"] if line["noisy"]], ["06_online"])

    def test_roofline_and_prediction(self) -> None:
        found = charts.of_recording(self.made)
        point = next(p for p in found["roofline-f32"].data["points"] if p["variant"] == "narrow")
        # 60 % of a copy that takes 1024 µs; 2 + 4/1024 passes of 4 bytes.
        self.assertAlmostEqual(point["g_elements_per_s"], 49152 * 1024 / (1024 / 0.6) / 1000)
        self.assertAlmostEqual(point["elements_per_byte"], 1 / (4 * (2 + 4 / 1024)))
        self.assertTrue(point["best"])
        point = next(p for p in found["predicted"].data["points"] if p["variant"] == "narrow")
        self.assertAlmostEqual(point["predicted_us"], 1024 * (2 + 4 / 1024) / 2)
        self.assertAlmostEqual(point["measured_us"], 1024 / 0.6)
        shapes = sum(len(lesson.cols) for lesson in record.LESSONS)
        wide = sum(cols > 2048 for lesson in record.LESSONS for cols in lesson.cols)
        widest = sum(cols > 4096 for lesson in record.LESSONS for cols in lesson.cols)
        self.assertEqual(len(found["predicted"].data["points"]), 5 * shapes - wide - widest)

    def test_special_function_peak(self) -> None:
        peak = charts.special_function_peak({"gpu": "NVIDIA H200", "multiprocessors": 132})
        assert peak
        self.assertAlmostEqual(peak["g_per_s"], 16 * 132 * 1.98)
        self.assertIn("1980 MHz (assumed clock)", peak["how"])
        peak = charts.special_function_peak({"gpu": "B", "multiprocessors": 100, "max_sm_clock_mhz": 1500})
        assert peak
        self.assertAlmostEqual(peak["g_per_s"], 2400)
        self.assertIn("1500 MHz (highest clock)", peak["how"])
        self.assertIsNone(charts.special_function_peak({"gpu": "of unknown clock", "multiprocessors": 100}))

    def test_without_matplotlib(self) -> None:
        with mock.patch.dict(sys.modules, {"matplotlib": None, "jinja2": None}):
            for tool, arguments in (("plot", ["--out", str(self.root / "out")]), ("report", []), ("generate", [])):
                self.page("<!-- generated: chart a.svg predicted -->\n<!-- end generated -->\n")
                code, printed = quietly(tool, "--root", str(self.root), *arguments)
                self.assertEqual((code, printed.count("\n")), (2, 1), printed)
                self.assertRegex(printed, r"is missing .*: ./run plot fetches it into .tools/python")
        self.assertEqual(self.files(), [self.file.name])

    def test_bad_usage(self) -> None:
        for tool in ("plot", "report"):
            for arguments, said in {
                ("--colour",): "unrecognized arguments: --colour",
                ("--results", "no.json"): "there is no file 'no.json'",
                ("--sweep", "no.json"): "there is no file 'no.json'",
                ("more",): "unrecognized arguments: more",
                ("--out",): "expected one argument",
            }.items():
                code, printed = quietly(tool, *arguments)
                self.assertEqual(code, 2, printed)
                self.assertIn(said, printed)

    def test_packages_are_pinned(self) -> None:
        for path in (TOOLS / "requirements.txt", TOOLS.parent / "tests/requirements.txt"):
            text = path.read_text(encoding="utf-8")
            lines = [line for line in text.replace("\\\n", "").splitlines() if line and line[0] != "#"]
            self.assertTrue(lines)
            for line in lines:
                self.assertRegex(line, r"^[a-z0-9-]+==[0-9.]+ ( ?; \S+ \S+ \S+ )?( *--hash=sha256:[0-9a-f]{64} ?)+$")


if __name__ == "__main__":
    unittest.main()
