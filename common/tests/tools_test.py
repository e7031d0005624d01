#!/usr/bin/env python3
"""Tests of common/tools on a machine without a GPU: every stage, ncu and compute-sanitizer is a fake.

    python3 common/tests/tools_test.py
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path
from typing import Any, Dict, List, Tuple
from unittest import mock

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from fake_stages import COMMIT, MACHINE, TOOLS, VARIANTS, RepositoryTest as Repository, fake_ncu, quietly, script  # noqa: E402

import files  # noqa: E402
from command import ToolError  # noqa: E402
from measure import count, explanations, hardware_table, record, results  # noqa: E402

class RecordTest(Repository):
    def test_merges_all_stages_and_shapes_into_one_file(self) -> None:
        code, printed = self.record()
        self.assertEqual(code, 0, printed)
        self.assertEqual(self.files(), ["nvidia-fake-1.json"])
        data = json.loads(self.file.read_text(encoding="utf-8"))
        self.assertEqual((data["recorded"]["commit"], data["recorded"]["dirty"]), (COMMIT, False))
        self.assertRegex(data["recorded"]["date_utc"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        self.assertLessEqual({"driver_version", "nvcc", *MACHINE}, set(data["machine"]))
        shapes = sum(len(lesson.cols) for lesson in record.LESSONS)
        timed = [r for r in data["results"] if r["stage"]]
        self.assertEqual(len(timed), shapes * 5)
        self.assertEqual(len(data["results"]) - len(timed), shapes)  # one copy ceiling per shape
        self.assertNotIn(str(self.root), self.file.read_text(encoding="utf-8"))

    def test_lessons_name_no_shape_twice(self) -> None:
        shapes = [(lesson.dtype, lesson.rows, cols) for lesson in record.LESSONS for cols in lesson.cols]
        self.assertEqual(len(shapes), len(set(shapes)))

    def test_the_median_copy_ceiling_stands_for_the_shape(self) -> None:
        self.mode("01_naive", "slow copy 2.0")
        self.mode("02_tiled", "slow copy 3.0")
        self.assertEqual(self.record()[0], 0)
        shape = results.Shape("f32", 49152, 1024)
        recorded = results.Recorded(self.file)
        self.assertEqual(recorded.copy(shape)["time_us"], 2048)
        for stage, copy_us in (("01_naive", 2048), ("02_tiled", 3072), ("03_fast", 1024)):  # each by the one beside it
            found = recorded.best(stage, shape)
            assert found
            self.assertEqual((found["copy_us"], round(found["percent_of_copy"])), (copy_us, {"01_naive": 20, "02_tiled": 60, "03_fast": 98}[stage]))

    def test_quick_stays_out_of_the_results(self) -> None:
        self.assertEqual(self.record("--quick")[0], 0)
        self.assertEqual(self.files(), [])
        data = json.loads((self.build / "nvidia-fake-1-quick.json").read_text(encoding="utf-8"))
        self.assertEqual({(r["dtype"], r["rows"], r["cols"]) for r in data["results"]}, {("f32", 49152, 1024)})

    def test_whatever_goes_wrong_nothing_is_written(self) -> None:
        self.file.write_text("the old recording")
        for mode, named in {
            "wrong": "only f32:49152x1024: wrong. row 3 differs",
            "failed": "only f32:49152x1024: failed. row 3 differs",
            "failed silently": "exit code 1",
            "exit 4": "1024: exit code 4. the stage's last words",
            "garbage": "not the expected JSON",
            "other machine": "different machines",
        }.items():
            with self.subTest(mode):
                self.mode("03_fast", mode)
                code, printed = self.record("--quick", "--out", str(self.file))
                self.assertEqual(code, 1, printed)
                self.assertIn(named, printed)
                self.assertEqual("JSON" in printed, mode == "garbage")
                self.assertEqual(self.file.read_text(), "the old recording")
                self.assertEqual(self.files(), [self.file.name])

    def test_no_gpu_and_not_built(self) -> None:
        self.mode("02_tiled", "exit 3")
        code, printed = self.record()
        self.assertEqual((code, self.files()), (3, []))
        self.assertIn("the stage's last words", printed)
        (self.build / "02_tiled").unlink()
        code, printed = self.record()
        self.assertEqual(code, 1)
        self.assertIn("not built", printed)

    def test_a_stage_that_hangs_is_ended(self) -> None:
        script(self.build / "03_fast", "#!/bin/sh\nsleep 60\n")
        with mock.patch.object(record, "RUN_TIMEOUT_S", 0.2):
            code, printed = self.record("--quick")
        self.assertEqual(code, 1)
        self.assertIn("took longer", printed)

    def test_a_failed_write_leaves_the_old_file_and_no_rest(self) -> None:
        self.file.write_text("the old recording")
        with mock.patch.object(os, "replace", side_effect=OSError("disk full")), self.assertRaises(OSError):
            files.write_whole(self.file, "new")
        self.assertEqual((self.files(), self.file.read_text()), ([self.file.name], "the old recording"))

    def test_the_commit(self) -> None:
        code, printed = quietly("record", "--root", str(self.root))
        self.assertEqual(code, 1)
        self.assertIn("pass --commit", printed)
        self.assertEqual(results.commit_of(self.root, "0123456-dirty"), ("0123456", True))
        with self.assertRaises(ToolError):
            results.commit_of(self.root, "main")
        if not shutil.which("git"):
            self.skipTest("git is not here")

        def git(*words: str) -> None:
            name = ["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false"]
            subprocess.run(["git", "-C", str(self.root), *name, *words], check=True, capture_output=True)

        git("init")
        git("add", "01_naive/main.cu")
        git("commit", "-m", "first")
        commit, dirty = results.commit_of(self.root, None)
        self.assertRegex(commit, r"^[0-9a-f]{40}$")
        self.assertTrue(dirty)  # the other stages are not committed
        git("add", ".")
        git("commit", "-m", "second")
        (self.results / "new.json").write_text("{}")
        self.page("a lesson's text")
        self.assertFalse(results.commit_of(self.root, None)[1])


class CountTest(Repository):
    def setUp(self) -> None:
        super().setUp()
        self.out = self.results / "simulator.json"

    def count(self, *more: str) -> Tuple[int, str]:
        return quietly("count", "--root", str(self.root), *more)

    def test_counts_every_variant_and_checks_the_same(self) -> None:
        code, printed = self.count()
        self.assertEqual(code, 0, printed)
        entries = json.loads(self.out.read_text(encoding="utf-8"))["counted"]
        self.assertEqual(len(entries), 5 * len(count.DEFAULT_SHAPES))
        self.assertEqual(entries[0]["counted_shuffles"], 1024)
        self.assertNotIn("time_us", entries[0])
        self.assertEqual(self.count("--check"), (0, ""))

    def test_check_catches_a_changed_number_and_changes_nothing(self) -> None:
        self.assertEqual(self.count()[0], 0)
        text = self.out.read_text(encoding="utf-8")
        self.mode("02_tiled", "counts more")
        code, printed = self.count("--check")
        self.assertEqual(code, 1)
        self.assertIn("differs: 02_tiled wide f32:64x1024: counted_shuffles was 1024, is 2048", printed)
        self.assertNotIn("narrow", printed)
        self.assertEqual(self.out.read_text(encoding="utf-8"), text)

    def test_check_catches_a_variant_that_is_new_or_gone(self) -> None:
        self.assertEqual(self.count()[0], 0)
        data = json.loads(self.out.read_text(encoding="utf-8"))
        data["counted"][0]["variant"] = "old_name"
        self.out.write_text(json.dumps(data))
        code, printed = self.count("--check")
        self.assertEqual(code, 1)
        self.assertIn("01_naive thread_per_row f32:64x1024: not recorded", printed)
        self.assertIn("01_naive old_name f32:64x1024: recorded, and no longer counted", printed)

    def test_another_nvcc_may_count_otherwise(self) -> None:
        self.assertEqual(self.count()[0], 0)
        data = json.loads(self.out.read_text(encoding="utf-8"))
        data["nvcc"] = "1.2.3"
        self.out.write_text(json.dumps(data))
        self.assertEqual(self.count("--check")[0], 0)  # it counts the same
        self.mode("02_tiled", "counts more")
        code, printed = self.count("--check")
        self.assertEqual(code, 3)
        self.assertRegex(printed, r"^skipped: recorded with nvcc 1\.2\.3, compiled here with \S+, and \d+ numbers differ\n")

    def test_failures_write_nothing(self) -> None:
        for mode in ("wrong", "failed", "exit 4", "garbage"):
            with self.subTest(mode):
                self.mode("03_fast", mode)
                self.assertEqual((self.count()[0], self.out.exists()), (1, False))
        self.assertEqual(self.count("--check")[0], 1)  # nothing recorded either

    def test_lessons_show_the_counts(self) -> None:
        self.assertEqual(self.count()[0], 0)
        shape = "dtype=f16 rows=64 cols=1024"
        page = self.page(
            f"<!-- generated: counted 02_tiled {shape} columns=declared,passes,shuffles -->\n<!-- end generated -->\n"
            f"x <!-- value: counted column=barriers stage=03_fast variant=only {shape} --><!-- end value -->\n"
        )
        code, printed = self.generate()
        self.assertEqual(code, 0, printed)
        lines = page.read_text(encoding="utf-8").splitlines()
        self.assertEqual(lines[1], "| variant | passes, declared | passes, counted | shuffles per row |")
        self.assertEqual(lines[3], "| narrow | 2 | 1024 | 16 |")
        self.assertIn("counted by the simulator", lines[6])
        self.assertIn("-->16<!--", lines[-1])
        for marker, said in {
            "counted 02_tiled dtype=f16 rows=64 cols=999": "nothing counted for 02_tiled at f16:64x999",
            f"counted 02_tiled {shape} columns=speed": "unknown counted column 'speed'",
        }.items():
            self.page(f"<!-- generated: {marker} -->\n<!-- end generated -->\n")
            self.assertIn(said, self.generate()[1])


class HardwareTableTest(Repository):
    recording = ""
    WIDTHS = {"02_tiled": (96, 1000, 8192), "03_fast": (96, 1000)}

    def setUp(self) -> None:
        super().setUp()
        self.out = self.results / "nvidia-fake-1-simulator.json"
        self.explanations()
        widths = mock.patch.object(hardware_table, "COLS_OF_STAGE", self.WIDTHS)
        widths.start()
        self.addCleanup(widths.stop)
        fake_ncu(self.build / "ncu")

    def explanations(self, *counters_of_all: str, where: Tuple[str, ...] = ()) -> None:
        """All differences of these counters have a reason, in every stage."""
        reasons = []
        for name in counters_of_all:
            cells = tuple(explanations.Cells(stage, where, (name,)) for stage in VARIANTS)
            reasons.append(explanations.Explanation(name, "A reason.", "(hardware)" in name, cells))
        patch = mock.patch.object(explanations, "EXPLANATIONS", tuple(reasons))
        patch.start()
        self.addCleanup(patch.stop)

    def table(self, *more: str) -> Tuple[int, str]:
        where = ("--root", str(self.root), "--commit", COMMIT)
        return quietly("hardware_table", *where, "--ncu", str(self.build / "ncu"), *more)

    def recorded(self) -> None:
        """Puts a recording there; made once, since it runs many processes."""
        if not HardwareTableTest.recording:
            code, printed = self.table()
            self.assertEqual(code, 0, printed)
            HardwareTableTest.recording = self.out.read_text(encoding="utf-8")
        self.out.write_text(HardwareTableTest.recording, encoding="utf-8")

    def entries(self) -> List[Dict[str, Any]]:
        return json.loads(self.out.read_text(encoding="utf-8"))["entries"]

    def test_records_what_both_said(self) -> None:
        code, printed = self.table()
        self.assertEqual(code, 0, printed)
        entry = self.entries()[0]
        self.assertEqual((entry["variant"], entry["dtype"], entry["cols"]), ("thread_per_row", "f32", 1000))
        for counter in ("global load sectors", "shuffles", "block barriers", "exponential lanes", "atomics"):
            self.assertEqual((entry["ncu"][counter], entry["simulator"][counter]), (1000, 1000), counter)
        self.assertEqual(entry["ncu"]["shared load wavefronts (hardware)"], 2000)
        self.assertEqual(entry["ncu"]["shared load conflicts"], 0)  # 1000 - (2000 - 1000)
        data = json.loads(self.out.read_text(encoding="utf-8"))
        self.assertEqual(data["recorded"]["ncu"], "2099.1.0.0")
        self.assertEqual(len(data["entries"]), 2 * (2 * 2 + 2 + 3 + 2))

    HARDWARE = (
        "shared load wavefronts (hardware)",
        "shared store wavefronts (hardware)",
        "shared load conflicts",
        "shared store conflicts",
    )

    def test_every_difference_needs_its_reason(self) -> None:
        self.recorded()
        code, printed = self.table("--check")
        self.assertEqual(code, 1)
        said = "not explained: 01_naive thread_per_row f32:64x1000: shared load conflicts: ncu 0, simulator 1000"
        self.assertIn(said, printed)
        self.explanations(*self.HARDWARE)
        self.assertEqual(self.table("--check"), (0, ""))
        self.explanations(*self.HARDWARE, where=("thread_per_row",))
        self.assertIn("not explained: 01_naive block_per_row f32:64x1000: shared load c", self.table("--check")[1])
        self.explanations(*self.HARDWARE, "shuffles")
        nothing = "".join(f"explains nothing: shuffles in {stage}\n" for stage in VARIANTS)
        code, printed = self.table("--check")
        self.assertEqual((code, printed.startswith(nothing), printed.count("\n")), (1, True, len(VARIANTS) + 1), printed)

    def test_a_reason_why_ncu_counts_more_does_not_explain_fewer(self) -> None:
        by_opcode = {"sass__thread_inst_executed_true_per_opcode_with_modifier_all": "9 (MUFU.EX2: 7; MUFU.RCP: 5)"}
        fake_ncu(self.build / "ncu", changed=by_opcode)
        self.assertEqual(self.table()[0], 0)
        self.explanations(*self.HARDWARE, "other special-function lanes")
        code, printed = self.table("--check")
        self.assertEqual(code, 1)
        self.assertIn("other special-function lanes: ncu 5, simulator 0", printed)

    def test_a_counter_that_ncu_does_not_know_needs_a_reason_too(self) -> None:
        self.recorded()
        self.explanations(*self.HARDWARE)
        data = json.loads(self.out.read_text(encoding="utf-8"))
        data["entries"][3]["ncu"]["shuffles"] = None
        self.out.write_text(json.dumps(data))
        self.assertIn("shuffles: ncu None", self.table("--check")[1])

    def test_the_simulator_is_asked_again(self) -> None:
        self.recorded()
        self.explanations(*self.HARDWARE)
        self.mode("02_tiled", "counts more")
        code, printed = self.table("--check")
        self.assertEqual(code, 1)
        self.assertIn("differs: 02_tiled wide f32:64x96: shuffles was 96, is 192", printed)

    def test_an_explanation_excuses_no_change_of_the_simulator_s_number(self) -> None:
        self.recorded()
        self.explanations(*self.HARDWARE, "shuffles")
        data = json.loads(self.out.read_text(encoding="utf-8"))
        for entry in data["entries"]:
            entry["ncu"]["shuffles"] -= 1  # explained: fewer
        self.out.write_text(json.dumps(data))
        self.assertEqual(self.table("--check"), (0, ""))
        self.mode("02_tiled", "counts more")
        code, printed = self.table("--check")
        self.assertEqual(code, 1)
        self.assertIn("differs: 02_tiled wide f32:64x96: shuffles was 96, is 192", printed)
        self.assertIn("not explained: 02_tiled wide f32:64x96: global load sectors: ncu 96, simulator 192", printed)
        data["machine"]["nvcc"] = "1.2.3"
        self.out.write_text(json.dumps(data))
        code, printed = self.table("--check")
        self.assertEqual((code, printed.startswith("skipped: recorded with nvcc 1.2.3, compiled here with ")), (3, True), printed)

    def test_a_variant_needs_two_shapes(self) -> None:
        with mock.patch.object(hardware_table, "COLS_OF_STAGE", {}):
            code, printed = self.table()
        self.assertEqual((code, self.out.exists()), (1, False))
        self.assertIn("fewer than two shapes: 02_tiled narrow f32", printed)

    def test_the_page(self) -> None:
        self.recorded()
        self.explanations(*self.HARDWARE)
        end = "\n<!-- end generated -->\n"
        text = f"<!-- generated: hardware_table agreement -->{end}<!-- generated: hardware_table differences -->{end}"
        page = self.page(text, "common/results/simulator.md")
        code, printed = self.generate()
        self.assertEqual(code, 0, printed)
        written = page.read_text(encoding="utf-8")
        counted = len(hardware_table.COUNTERS)
        self.assertIn(f"{22 * (counted - 4)} of {22 * counted} numbers are the same, {22 * 4} differ.", written)
        row = f"| 01_naive | thread_per_row | f32 1000, 8192; f16 1000, 8192 | {4 * counted} | {4 * (counted - 4)} | 16 |"
        self.assertIn(row, written)
        self.assertIn("**shared load conflicts.** A reason.", written)
        self.assertIn("| 03_fast | only | shared load conflicts | f32 96: 0 / 96; f32 1000: 0 / 1000; f16 96", written)
        self.explanations()
        self.page(text, "common/results/simulator.md")
        self.assertIn("agreement: 88 times, first: not explained", self.generate()[1].replace("hardware_table: ", "agreement: "))


# compute-sanitizer runs the program, then writes its findings. `mode` may hit one tool only.
SANITIZER = r"""#!/bin/bash
while (($#)); do
  case $1 in
    --tool) tool=$2; shift 2 ;;
    --error-exitcode) code=$2; shift 2 ;;
    --log-file) log=$2; shift 2 ;;
    *) break ;;
  esac
done
[[ "{tool}" == "$tool" ]] && mode="{mode}"
if [[ $mode == "never ran" ]]; then echo '{"results": []}'; else "$@" || exit; fi
errors=0
[[ $mode == "finding"* ]] && errors=10
{
  echo "========= COMPUTE-SANITIZER"
  if [[ $mode == "no summary" ]]; then :
  elif [[ $tool == racecheck ]]; then echo "========= RACECHECK SUMMARY: $errors hazards displayed (0 warnings)"
  else echo "========= ERROR SUMMARY: $errors errors"
  fi
} >"$log"
[[ $mode == "finding" ]] && exit "$code"
[[ $mode == "not supported" ]] && { echo "Device not supported" >"$log"; exit 1; }
exit 0
"""


class SanitizeTest(Repository):
    def sanitize(self, tool: str = "", mode: str = "", *more: str) -> Tuple[int, str]:
        fake = self.build / "compute-sanitizer"
        script(fake, SANITIZER.replace("{tool}", tool).replace("{mode}", mode))
        stages = more or ("01_naive", "02_tiled", "03_fast")
        # Without the stages it would look for those of the repository that the script lies in.
        command = ["bash", str(TOOLS / "sanitize.sh"), "--logs", str(self.root / "logs"), str(self.build), *stages]
        environment = {**os.environ, "COMPUTE_SANITIZER": str(fake)}
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        return done.returncode, done.stdout + done.stderr

    def setUp(self) -> None:
        super().setUp()
        for stage in VARIANTS:  # the sanitizer's shapes say `all` where the fake wants a name
            path = self.build / stage
            path.write_text(path.read_text().replace('value("--dtype")', '"f32"'))

    def test_clean(self) -> None:
        code, printed = self.sanitize()
        self.assertEqual(code, 0, printed)
        self.assertEqual(len(re.findall(r"^ok    ", printed, re.M)), 12)
        self.assertRegex(printed, r"12 runs clean, \d+ s\n$")
        self.assertTrue((self.root / "logs/03_fast-racecheck.log").is_file())

    def test_every_tool_s_findings_count(self) -> None:
        for tool in ("memcheck", "initcheck", "synccheck", "racecheck"):
            # "finding, exit 0": the summary alone must be enough.
            for mode, said in {
                "finding": "exit code 97",
                "finding, exit 0": "SUMMARY: 10 ",
                "no summary": "the tool printed no summary",
                "never ran": "these shapes never ran: ",
            }.items():
                with self.subTest(tool=tool, mode=mode):
                    code, printed = self.sanitize(tool, mode, "02_tiled")
                    self.assertEqual(code, 1, printed)
                    self.assertRegex(printed, rf"(?m)^FAIL  {tool} +02_tiled .*{re.escape(said)}")
                    self.assertEqual(len(re.findall(r"^ok    ", printed, re.M)), 3)
                    self.assertIn("1 of 4 runs not clean", printed)

    def test_shapes_that_skip_a_variant_are_a_failure(self) -> None:
        path = self.build / "02_tiled"
        path.write_text(path.read_text().replace("2048", "31"))  # narrower than all that racecheck runs
        code, printed = self.sanitize()
        self.assertEqual(code, 1, printed)
        self.assertRegex(printed, r"(?m)^FAIL  racecheck +02_tiled .*these shapes never ran: narrow$")
        self.assertIn("1 of 12 runs not clean", printed)

    def test_without_gpu_or_sanitizer(self) -> None:
        self.assertEqual(self.sanitize("memcheck", "not supported")[0], 3)
        self.mode("02_tiled", "exit 3")
        self.assertEqual(self.sanitize()[0], 3)
        environment = {**os.environ, "COMPUTE_SANITIZER": "no-such-tool"}
        command = ["bash", str(TOOLS / "sanitize.sh"), str(self.build), "01_naive"]
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        self.assertEqual((done.returncode, done.stderr.count("\n")), (3, 1))

    def test_a_stage_that_fails_by_itself(self) -> None:
        for mode in ("wrong", "failed silently", "exit 4", "garbage", "nothing applies"):
            with self.subTest(mode):
                self.mode("01_naive", mode)
                code, printed = self.sanitize()
                self.assertEqual(code, 1, printed)
                self.assertIn("FAIL  01_naive without a tool", printed)

    def test_usage(self) -> None:
        self.assertEqual(self.sanitize("", "", "08_none")[0], 2)
        done = subprocess.run(["bash", str(TOOLS / "sanitize.sh")], capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("sanitize.sh [-j JOBS]", done.stderr)


if __name__ == "__main__":
    # The one test that needs git is left out without it, and the whole then counts as skipped (3), not as passed.
    missing = "" if shutil.which("git") else "git is not here: which commit a recording belongs to was not tested"
    if missing:
        print(missing, flush=True)
    tested = unittest.main(exit=False).result
    sys.exit(1 if not tested.wasSuccessful() else 3 if missing else 0)
