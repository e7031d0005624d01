#!/usr/bin/env python3
"""Tests of `./run profile` on a machine without a GPU: the stages and ncu are fakes.

    python3 common/tests/profile_test.py
"""

from __future__ import annotations

import csv
import json
import os
import sys
import time
import unittest
from collections import defaultdict
from pathlib import Path
from typing import Any, Dict, List, Tuple
from unittest import mock

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from fake_stages import COMMIT, RepositoryTest as Repository, fake_ncu, quietly, script  # noqa: E402

from command import NoDevice, ToolError  # noqa: E402
from measure import explanations, ncu, profiling, quantities, results  # noqa: E402
from measure.ncu import Launch  # noqa: E402
from measure.results import Shape  # noqa: E402

# As ncu 2025.3 prints it on an H200, with fewer columns and shorter lists of opcodes.
RAW_PAGE = '''==PROF== Connected to process 1012 (/build/01_naive)
"ID","Process ID","Kernel Name","dram__bytes_read.sum","gpu__time_duration.sum","launch__block_size","sass__inst_executed_per_opcode"
"","","","Mbyte","ns","",""
"0","1012","reduce_thread_per_row","100.67","203,104","64 (0: 64)","5,965,824 (FMNMX: 1,579,008; LDG.E: 1,572,864)"
"1","1012","void divide<float,  4>","n/a","80,992","128 (0: 128)","7 (BAR: 7)"
"2","1060","reduce_block_per_row","0","1","128 (0: 128)","7 (BAR: 7)"
'''


class NcuTest(Repository):
    def launch(self, variant: str, cols: int = 1024) -> Launch:
        return Launch(self.build / "01_naive", variant, Shape("f16", 64, cols))

    def profile(self, *launches: Launch, metrics: Tuple[str, ...] = ("a", "b"), **more: Any) -> List[ncu.Outcome]:
        return ncu.profile(str(self.build / "ncu"), launches, metrics, **more)

    def test_reads_the_raw_page(self) -> None:
        metrics = ("dram__bytes_read.sum", "launch__block_size", "sass__inst_executed_per_opcode", "of_another_ncu")
        processes = ncu.parse(RAW_PAGE, metrics)
        self.assertEqual(list(processes), [1012, 1060])
        first, second = processes[1012]
        self.assertEqual((first["kernel"], second["kernel"]), ("reduce_thread_per_row", "void divide<float, 4>"))
        opcodes = {"FMNMX": 1579008, "LDG.E": 1572864}
        self.assertEqual(list(first["metrics"].values()), [100670000, 64, opcodes, None])
        self.assertIsNone(second["metrics"]["dram__bytes_read.sum"])
        self.assertEqual(ncu.parse("==ERROR== nothing\n", metrics), {})

    def test_units(self) -> None:
        """Nanoseconds and bytes, whatever ncu scales them to."""
        for text, unit, number in (("203,104", "ns", 203104), ("203.104", "us", 203104), ("203.104", "usecond", 203104), ("1.5", "ms", 1.5e6),
                                   ("1.5", "msecond", 1.5e6), ("2", "s", 2e9), ("2", "second", 2e9), ("7", "byte", 7),
                                   ("1.5", "Kbyte", 1500), ("1.5", "Mbyte", 1.5e6), ("1.5", "Gbyte", 1.5e9), ("45.03", "%", 45.03), ("n/a", "us", None)):  # fmt: skip
            self.assertEqual(ncu.number(text, unit), number if number is None else round(number, 6), (text, unit))
        duration = "gpu__time_duration.sum"
        page = f'"Process ID","Kernel Name","{duration}"\n"","","us"\n"7","k","203.104"\n'
        (kernel,) = ncu.parse(page, (duration,))[7]
        entry = {"kernels": [kernel]}
        shown = next(q for q in quantities.QUANTITIES if q.name == "duration")
        self.assertEqual((shown.unit, shown.measured(entry)), ("µs", 203.104))

    def test_launches_keep_their_order_and_their_kernels(self) -> None:
        fake_ncu(self.build / "ncu", kernels={"thread_per_row": 2}, changed={"b": ("1.5", "Kbyte")})
        report, began = self.build / "all.ncu-rep", []
        launches = [self.launch("block_per_row", 7), self.launch("thread_per_row", 8), self.launch("block_per_row", 9)]
        found = self.profile(*launches, report=report, progress=lambda n, launch: began.append((n, launch)))
        self.assertEqual([len(outcome.kernels) for outcome in found], [1, 2, 1])
        self.assertEqual(found[2].kernels, [{"kernel": "k0<float, 4>", "metrics": {"a": 9, "b": 1500}}])
        self.assertEqual([outcome.problem for outcome in found], ["", "", ""])
        self.assertTrue(report.is_file())
        self.assertEqual(sorted(path.name for path in self.build.iterdir()), ["01_naive", "02_tiled", "03_fast", "all.ncu-rep", "ncu"])
        self.assertTrue(began and all(launches[n] is launch for n, launch in began))

    def test_a_checkout_may_have_blanks_in_its_name(self) -> None:
        fake_ncu(self.build / "ncu")
        folder = self.build / "my 'own' checkout; $HOME"
        folder.mkdir()
        found = self.profile(self.launch("block_per_row"), report=folder / "a report.ncu-rep")
        self.assertEqual(([outcome.problem for outcome in found], len(found[0].kernels)), ([""], 1))
        self.assertEqual([path.name for path in folder.iterdir()], ["a report.ncu-rep"])

    def test_what_goes_wrong_with_one_launch_stays_there(self) -> None:
        fake_ncu(self.build / "ncu")
        (self.build / "01_naive").with_suffix(".mode").write_text("exit 4")
        other = Launch(self.build / "02_tiled", "wide", Shape("f16", 64, 8))
        bad, good = self.profile(self.launch("block_per_row"), other)
        self.assertEqual((bad.problem, bad.kernels), ("exit code 4. the stage's last words", []))
        self.assertEqual((good.problem, len(good.kernels)), ("", 1))
        fake_ncu(self.build / "ncu", mode="nothing")
        self.assertEqual(self.profile(other)[0].problem, "ncu counted no kernel")

    def test_refused(self) -> None:
        report = self.build / "all.ncu-rep"
        for mode, error, said in (
            ("permission", NoDevice, "ERR_NVGPUCTRPERM"),
            ("uninitialised", NoDevice, "failed to initialise the profiler"),
            ("error", ToolError, r"ncu failed \(exit code 1\). ==ERROR== Failed to find metric"),
        ):
            with self.subTest(mode):
                fake_ncu(self.build / "ncu", mode=mode)
                with self.assertRaisesRegex(error, said):
                    self.profile(self.launch("block_per_row"), report=report)
                self.assertFalse(report.exists())

    def test_a_launch_that_hangs_is_ended(self) -> None:
        fake_ncu(self.build / "ncu")
        script(self.build / "01_naive", f"#!/bin/sh\necho $$ >{self.build}/hangs\nexec sleep 60\n")
        with mock.patch.object(ncu, "LAUNCH_TIMEOUT_S", 1):
            with self.assertRaisesRegex(ToolError, "01_naive block_per_row f16:64x1024 took longer than 1 s under ncu"):
                self.profile(self.launch("block_per_row"))
        process = int((self.build / "hangs").read_text())
        for _ in range(100):  # until the kernel has taken it away
            if not Path(f"/proc/{process}").exists():
                break
            time.sleep(0.05)
        else:
            self.fail("it still runs")

    def test_where_it_is(self) -> None:
        fake_ncu(self.build / "ncu")
        with mock.patch.dict(os.environ, PATH=str(self.build)), mock.patch.object(ncu, "USUAL_PLACES", ()):
            self.assertEqual(ncu.find(), str(self.build / "ncu"))
            with self.assertRaisesRegex(NoDevice, "'other' is not here"):
                ncu.find("other")
        folders = [self.build / "nsight/2024.3", self.build / "nsight/2025.1"]
        for folder in folders:
            folder.mkdir(parents=True)
            fake_ncu(folder / "ncu")
        with mock.patch.dict(os.environ, PATH="/nowhere"):
            with mock.patch.object(ncu, "USUAL_PLACES", (f"{self.build}/nsight/*/ncu",)):
                self.assertEqual(ncu.find(), str(folders[1] / "ncu"))
            with mock.patch.object(ncu, "USUAL_PLACES", ()):
                with self.assertRaisesRegex(NoDevice, "'ncu' is not here: install Nsight Compute"):
                    ncu.find()


class ProfileTest(Repository):
    def setUp(self) -> None:
        super().setUp()
        self.recording_of_profiles = self.results / "nvidia-fake-1-profile.json"
        self.ncu()
        for name in ("EXPLANATIONS",):
            patch = mock.patch.object(explanations, name, ())
            patch.start()
            self.addCleanup(patch.stop)

    def ncu(self, mode: str = "", **changed: Any) -> None:
        """The duration and the registers of a kernel, and as many bytes as 2 passes of f32 64 x 1000."""
        numbers = {
            quantities.DURATION: "2,000",
            quantities.REGISTERS: "32 (0: 32)",
            quantities.DRAM_BUSY: "50.5",
            quantities.REQUESTED[0]: ("256", "Kbyte"),
            quantities.REQUESTED[1]: ("256", "Kbyte"),
            quantities.OCCUPANCY_LIMITS[1]: "n/a",
            **changed,
        }
        fake_ncu(self.build / "ncu", mode, {"thread_per_row": 2}, numbers)

    def run_profile(self, *more: str, where: Tuple[str, ...] = ("--rows", "64", "--cols", "1000")) -> Tuple[int, str]:
        given = ("--root", str(self.root), "--ncu", str(self.build / "ncu"), *where, *more)
        with mock.patch.dict(os.environ, COLUMNS="200"):
            return quietly("profile", *given)

    def csv_rows(self, name: str) -> List[Dict[str, str]]:
        with (self.build / "profile" / name).open(encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def test_three_numbers_side_by_side(self) -> None:
        code, printed = self.run_profile()
        self.assertEqual(code, 0, printed)
        self.assertIn("f32 softmax, 64 x 1000: declared · counted (64 rows, CPU simulator) · measured (ncu, NVIDIA Fake 1)", printed)
        lines = printed.splitlines()
        first = next(n for n, line in enumerate(lines) if line.startswith("01_naive"))
        self.assertEqual(lines[first].split(), ["01_naive", "thread_per_row", "block_per_row"])
        self.assertRegex(lines[first + 1], r"^bytes requested, passes +2 · 1000 · 4 a +2 · 1000 · 2 a$")
        self.assertTrue(any(line.startswith("barriers, a row") and " 4 · 15.62 · 15.62" in line for line in lines))
        self.assertRegex(printed, r"\nduration, µs +- · - · 4 +- · - · 2\n")
        self.assertIn("\na differs by more than 2 %, and no reason is known\n", printed)
        self.assertRegex(printed, r"\ncounted and measured: \d+ of 45 numbers agree within 2 %; the letters say why the others do not\n")
        self.assertTrue((self.build / "profile/stages-f32-64x1000.ncu-rep").is_file())
        table = self.csv_rows("stages-f32-64x1000.csv")
        self.assertEqual(len(table), 5 * len(quantities.QUANTITIES))
        duration = next(r for r in table if r["quantity"] == "duration" and r["variant"] == "thread_per_row")
        self.assertEqual((duration["measured"], duration["declared"], duration["ncu_metrics"]), ("4", "", quantities.DURATION))

    def test_narrow_terminals_get_fewer_columns(self) -> None:
        with mock.patch.object(profiling, "COLUMN", 30):  # two of them need more than 80
            for columns, tables in ((60, [["thread_per_row"], ["block_per_row"]]), (120, [["thread_per_row", "block_per_row"]])):
                size = os.terminal_size((columns, 24))
                with mock.patch.object(profiling.shutil, "get_terminal_size", return_value=size):
                    code, printed = self.run_profile("1")
                self.assertEqual(code, 0, printed)
                self.assertEqual([line.split()[1:] for line in printed.splitlines() if line.startswith("01_naive ")], tables)

    def test_long_names_are_broken_to_fit(self) -> None:
        self.assertEqual(profiling.split_name("transposed_layout"), ["transposed_layout"])
        self.assertEqual(profiling.split_name("reversed_second_pass"), ["reversed_second_pass"])
        lines = profiling.split_name("fastertransformer_block_per_head")
        self.assertEqual(lines, ["fastertransformer_", "block_per_head"])

    def test_a_known_difference_has_its_reason(self) -> None:
        names = ("shared load conflicts", "shared store conflicts")
        cells = tuple(explanations.Cells("01_naive", (), (name,)) for name in names)
        known = explanations.Explanation("Merging", "Of words.", False, (), cells)
        with mock.patch.object(explanations, "EXPLANATIONS", (known,)):
            code, printed = self.run_profile("1", "2")
        self.assertEqual(code, 0, printed)
        lines = [line for line in printed.splitlines() if line.startswith("bank conflicts")]
        self.assertIn(" 4 · 31.25 · 0 b", lines[0])
        self.assertNotIn(" b", lines[1].replace("bank", ""))
        self.assertIn("\nb Merging. Of words.\n", printed)
        whys = {(r["stage"], r["why_different"]) for r in self.csv_rows("01_naive_02_tiled-f32-64x1000.csv") if r["quantity"] == "bank conflicts"}
        self.assertEqual(whys, {("01_naive", "Merging"), ("02_tiled", "not known")})

    def test_what_cannot_be_measured_is_counted(self) -> None:
        for mode, said, lines in (
            ("permission", "not measured: no permission to read the GPU's counters (ERR_NVGPUCTRPERM)", 3),
            ("uninitialised", "not measured: ncu cannot profile on this machine", 1),
        ):
            with self.subTest(mode):
                self.ncu(mode)
                code, printed = self.run_profile()
                self.assertEqual(code, 0, printed)
                self.assertIn(said, printed)
                before = printed[printed.index(said) : printed.index("f32 softmax")]
                self.assertEqual(len(before.splitlines()), lines)
                self.assertEqual(["docker" in before, "modprobe.d" in before], 2 * [mode == "permission"])
                self.assertRegex(printed, r"\nbytes requested, passes +2 · 1000 +2 · 1000\n")
                self.assertNotIn("measured (ncu", printed)
                self.assertNotIn("duration", printed)
                self.assertFalse(list((self.build / "profile").glob("*.ncu-rep")))
                self.assertEqual(self.csv_rows("stages-f32-64x1000.csv")[0]["measured"], "")
        code, printed = self.run_profile("--ncu", "no-such-ncu")
        self.assertEqual((code, "not measured: 'no-such-ncu' is not here" in printed), (0, True), printed)

    def test_no_gpu(self) -> None:
        stage = self.build / "01_naive"
        text = stage.read_text(encoding="utf-8")
        refusal = 'if value("--device") == "gpu":\n    print("01_naive: no usable NVIDIA GPU", file=sys.stderr)\n    sys.exit(3)\n'
        script(stage, text.replace('wanted = value("--variant"', refusal + 'wanted = value("--variant"', 1))
        code, printed = self.run_profile()
        self.assertEqual(code, 0, printed)
        self.assertIn("not measured: no usable NVIDIA GPU\n", printed)
        self.assertIn("f32 softmax, 64 x 1000: declared · counted (64 rows, CPU simulator)\n", printed)
        self.assertEqual(self.run_profile("--device", "gpu"), (3, "./run profile: no usable NVIDIA GPU\n"))
        code, printed = self.run_profile("--device", "sim")
        self.assertEqual((code, "not measured" in printed), (0, False))
        code, printed = quietly("profile", "--root", str(self.root), "--record", "--commit", COMMIT)
        self.assertEqual((code, self.recording_of_profiles.exists()), (3, False), printed)

    def test_counted_on_a_part_of_the_rows(self) -> None:
        for rows, cols, counted in ((49152, 1024, 64), (7, 1024, 7), (49152, 1 << 20, 4), (49152, 1 << 23, 1)):
            self.assertEqual(profiling.counted_shape(Shape("f32", rows, cols)).rows, counted)

    def test_wrong_results_are_told(self) -> None:
        self.mode("02_tiled", "wrong")
        code, printed = self.run_profile("2")
        self.assertEqual(code, 1)
        self.assertIn("row 3 differs", printed)
        self.mode("02_tiled", "failed silently")  # on the GPU alone
        with mock.patch.object(profiling, "count_all", return_value=([self.entry("02_tiled", "wide")], [])):
            code, printed = self.run_profile("2")
        self.assertEqual(code, 1)
        self.assertIn("failed: 02_tiled wide f32:64x1000: exit code 1", printed)

    def entry(self, stage: str, variant: str) -> results.Json:
        (entry, *_), _ = profiling.count_all(
            {"01_naive": self.build / "01_naive"}, [profiling.Work("01_naive", Shape("f32", 64, 1000))], "softmax", "all"
        )
        return {**entry, "stage": stage, "variant": variant}

    def test_bad_usage(self) -> None:
        for arguments, said in {
            ("9",): "there is no stage '9'; the stages are 01_naive, 02_tiled, 03_fast",
            ("--variant", "wide"): "--variant needs one STAGE",
            ("2", "--variant", "tall"): "--variant: 'tall' is not accepted; accepted: narrow, wide",
            ("--cols", "0"): "'0' is not accepted; accepted: whole numbers from 1",
            ("--dtype", "f8"): "invalid choice: 'f8'",
            ("--colums", "7"): "unrecognized arguments",
            ("2", "--record"): "--record measures every stage",
        }.items():
            with self.subTest(arguments):
                code, printed = self.run_profile(*arguments, where=())
                self.assertEqual((code, printed.count("\n")), (2, 1), printed)
                self.assertIn(said, printed)
        self.assertFalse((self.build / "profile").exists())
        self.assertEqual(self.run_profile("--list", "2", "03_fast/", where=()), (0, "02_tiled\n03_fast\n"))
        (self.build / "02_tiled").unlink()
        code, printed = self.run_profile("2")
        self.assertEqual((code, "not built" in printed), (1, True))
        self.assertEqual(self.run_profile("1")[0], 0)

    def test_chosen_variants(self) -> None:
        code, printed = self.run_profile("02", "--variant", "wide", "--dtype", "f16")
        self.assertEqual(code, 0, printed)
        self.assertNotIn("narrow", printed)
        self.assertEqual({r["variant"] for r in self.csv_rows("02_tiled-f16-64x1000.csv")}, {"wide"})
        code, printed = self.run_profile("2", where=("--rows", "64", "--cols", "5000"))
        self.assertIn("not applicable: 02_tiled narrow at f32:64x5000: cols > 2048", printed)

    # --- What the lessons show.

    def record_profiles(self) -> Tuple[int, str]:
        return quietly("profile", "--root", str(self.root), "--ncu", str(self.build / "ncu"), "--record", "--commit", COMMIT)

    def test_recorded_and_shown_in_the_lessons(self) -> None:
        self.recorded()
        code, printed = self.record_profiles()
        self.assertEqual(code, 0, printed)
        data = json.loads(self.recording_of_profiles.read_text(encoding="utf-8"))
        self.assertEqual((data["recorded"]["commit"], data["recorded"]["ncu"]), (COMMIT, "2099.1.0.0"))
        found = [(e["stage"], e["variant"], e["dtype"], e["cols"]) for e in data["entries"]]
        self.assertEqual(len(found), 2 * 3 + 2 + 1 + 1)  # 01_naive has a third shape; 32768 columns are too many for two
        self.assertIn(("01_naive", "thread_per_row", "f32", 1024), found)
        two = data["entries"][0]
        self.assertEqual([kernel["kernel"] for kernel in two["kernels"]], ["k0<float, 4>", "k1<float, 4>"])
        self.assertEqual(two["metrics"][quantities.DURATION], 4000)
        self.assertEqual(two["metrics"][quantities.REGISTERS], 32)
        self.assertEqual(two["metrics"][quantities.DRAM_BUSY], 50.5)
        self.assertIsNone(data["entries"][1]["metrics"][quantities.OCCUPANCY_LIMITS[1]])  # n/a

        shape = "dtype=f16 rows=49152 cols=1024"
        where = f"stage=01_naive variant=block_per_row {shape}"
        page = self.page(
            f"<!-- generated: counters 01_naive {shape} columns=dram_read,load_sectors,registers -->\n<!-- end generated -->\n"
            f"<!-- generated: profile 01_naive {shape} variants=block_per_row -->\n<!-- end generated -->\n"
            f"x <!-- value: counter column=store_conflicts {where} --><!-- end value -->\n"
        )
        code, printed = self.generate()
        self.assertEqual(code, 0, printed)
        text = page.read_text(encoding="utf-8")
        self.assertIn("| block_per_row | f16 49152 × 1024 | 0 | 1 | 32 |", text)
        self.assertIn("| declared · counted · measured | block_per_row |", text)
        self.assertIn("| barriers, a row | 4 · 16 · 0.02<sup>a</sup> |", text)
        self.assertIn("<sup>a</sup> <sub>differs by more than 2 %, and no reason is known</sub>", text)
        self.assertIn("-->1024<!--", text)
        self.assertEqual(self.generate("--check")[0], 0)
        for marker, said in {
            "counters 01_naive columns=speed": "unknown counter column 'speed'",
            "counters 01_naive dtype=f16 rows=1 cols=1": "no profile of 01_naive at f16:1x1",
            f"profile 01_naive {shape} variants=tall": "no 'tall' in the profile; it has: thread_per_row, block_per_row",
            f"profile 01_naive {shape} quantities=speed": "no 'speed' in the profile; it has: bytes_requested, read_from_DRAM",
        }.items():
            self.page(f"<!-- generated: {marker} -->\n<!-- end generated -->\n")
            self.assertIn(said, self.generate()[1])

    def test_failures_leave_the_recording_alone(self) -> None:
        self.recording_of_profiles.write_text("old")
        for mode, code, said in (("permission", 3, "ERR_NVGPUCTRPERM"), ("error", 1, "Failed"), ("nothing", 1, "no kernel")):
            with self.subTest(mode):
                self.ncu(mode)
                got, printed = self.record_profiles()
                self.assertEqual((got, self.recording_of_profiles.read_text()), (code, "old"), printed)
                self.assertIn(said, printed)
        self.assertEqual(self.files(), [self.recording_of_profiles.name])


class QuantitiesTest(unittest.TestCase):
    def entry(self, *kernels: results.Json) -> results.Json:
        place = {"stage": "01_naive", "variant": "a", "dtype": "f16", "rows": 10, "cols": 100, "op": "softmax"}
        return {**place, "passes": 2, "counted": defaultdict(int, rows=10), "kernels": [{"kernel": "k", "metrics": {**dict.fromkeys(quantities.METRICS), **k}} for k in kernels]}

    def value(self, name: str, entry: results.Json) -> Any:
        return next(row.numbers[2] for row in quantities.rows(entry) if row.quantity.name == name)

    def test_several_kernels(self) -> None:
        slow = {quantities.DURATION: 3000, quantities.DRAM_BUSY: 80, quantities.REGISTERS: 30, quantities.DRAM_READ: 1000}
        fast = {quantities.DURATION: 1000, quantities.DRAM_BUSY: 40, quantities.REGISTERS: 90, quantities.DRAM_READ: 3000}
        entry = self.entry(slow, fast)
        self.assertEqual(self.value("duration", entry), 4)
        self.assertEqual(self.value("DRAM throughput", entry), 70)
        self.assertEqual(self.value("registers", entry), 90)
        self.assertEqual(self.value("read from DRAM", entry), 2)  # 4000 bytes of 2000
        self.assertIsNone(self.value("written to DRAM", entry))
        self.assertIsNone(self.value("duration", self.entry()))

    def test_same_is_within_two_percent(self) -> None:
        quantity = next(q for q in quantities.QUANTITIES if q.name == "barriers")
        entry = self.entry()
        for counted, measured, differs in ((100, 98.1, False), (100, 97.9, True), (0, 0, False), (0, 0.1, True), (None, 1, False)):
            self.assertEqual(quantities.compared(entry, quantity, None, counted, measured).differs, differs)

    def test_fewer_sectors_a_request_may_be_more_requests(self) -> None:
        cells = (explanations.Cells("01_naive", (), ("global load requests",)),)
        more = explanations.Explanation("Unrolled", "r", True, cells)
        quantity = next(q for q in quantities.QUANTITIES if q.name == "sectors load")
        with mock.patch.object(explanations, "EXPLANATIONS", (more,)):
            self.assertEqual(quantities.compared(self.entry(), quantity, None, 4, 3).why, more)
            self.assertIsNone(quantities.compared(self.entry(), quantity, None, 3, 4).why)

    def test_every_real_variant_of_the_recordings_is_explained(self) -> None:
        """The lessons show these: a difference without a reason would stand there."""
        recordings = list((results.ROOT / "common/results").glob("*-profile.json"))
        self.assertTrue(recordings)
        for path in recordings:
            for entry in results.load_json(path)["entries"]:
                for quantity in quantities.QUANTITIES:
                    row = profiling.row_of(quantity, entry)
                    place = f"{entry['stage']} {entry['variant']} {entry['dtype']}:{entry['rows']}x{entry['cols']} {quantity.name}"
                    self.assertFalse(row.differs and not row.why, f"{place}: {row.numbers}")


if __name__ == "__main__":
    unittest.main()
