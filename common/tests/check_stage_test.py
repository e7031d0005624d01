#!/usr/bin/env python3
"""Tests what tests the stages: check_stage.py, physics.py and expect.sh, with stages and times that are fakes. Where
nothing is verified, or less than was asked for, or no GPU could be so fast, they must fail.

    check_stage_test.py [-v]
"""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import physics

TESTS = Path(__file__).resolve().parent

# Does what a stage does: verifies all that it is asked for. FAULT names what it does not do.
FAKE_STAGE = """\
import os, sys

fault = os.environ.get("FAULT", "")
options = {"--dtype": "f32", "--op": "softmax", "--input": "normal", "--cols": "1024", "--rows": "64", "--variant": "all"}
arguments = iter(sys.argv[1:])
for name in arguments:
    options[name] = next(arguments) if name in ("--device", "--section", "--format", *options) else ""
limits = {"shared_memory_tree": 10**9, "fastertransformer_block_per_head": 1024, "fastertransformer_block_per_row": 1024}
if "--list" in options:
    print(*(f"{name:32}  idea" for name in limits), sep="\\n")
    sys.exit(0)
if fault == "no GPU":
    print("02_fused_block: no usable NVIDIA GPU", file=sys.stderr)
    sys.exit(3)
if fault == "too large":
    print("02_fused_block: --rows: needs 99 GiB of device memory, and 1 GiB are free", file=sys.stderr)
    sys.exit(2)
if fault == "unknown option":
    print("02_fused_block: unknown option", file=sys.stderr)
    sys.exit(2)

everything = {
    "--dtype": "f32,f16,bf16",
    "--op": "softmax,log_softmax",
    "--input": "normal,uniform,large_magnitude,all_equal,very_negative,ascending,one_outlier,neg_inf_prefix,"
               "all_neg_inf,one_pos_inf,one_nan,lowest",
    "--variant": ",".join(limits),
}
def items(name):
    value = everything[name] if options[name] == "all" else options[name]
    if fault == "no infinities" and name == "--input" and options[name] == "all":
        value = "normal,uniform"
    found = value.split(",")
    return found[:1] if fault == "first of " + name else found

print("stage,variant,dtype,op,rows,cols,input,status,reason")
if fault == "nothing":
    sys.exit(0)
code = 0
for rows in items("--rows"):
    for cols in items("--cols"):
        for dtype in items("--dtype"):
            for op in items("--op"):
                for values in items("--input"):
                    for variant in items("--variant"):
                        if fault == "variant left out" and variant == "fastertransformer_block_per_row":
                            continue
                        status, reason = "verified", ""
                        if int(cols) > limits[variant]:
                            status, reason = "not applicable", "at most 1024 columns"
                        if fault == "refuses odd widths" and int(cols) % 2:
                            status, reason = "not applicable", "odd"
                        if fault == "refuses all":
                            status, reason = "not applicable", "no"
                        if fault == "does what it cannot":
                            status = "verified"
                        code = 0
                        if fault in ("wrong", "wrong before the last", "wrong in silence") and cols == "31":
                            status, reason, code = "wrong", "1 of 31 elements wrong", 1
                        row = f"02_fused_block,{variant},{dtype},{op},{rows},{cols},{values},{status},{reason}"
                        print(row)
                        if fault == "twice" and cols == "31":
                            print(row)
                        if fault == "says WRONG":
                            print("WRONG  shared_memory_tree, f32 softmax, 1 x 31", file=sys.stderr)
                        if fault == "wrong":
                            if code:
                                sys.exit(code)
if fault == "crash":
    code = 4
if fault == "wrong in silence":
    code = 0
sys.exit(code)
"""

OPTIONS = ["--rows", "1,7", "--cols", "31,1000,1025", "--dtype", "all", "--op", "all", "--input", "all"]


class WithFakes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.stage = Path(folder.name) / "02_fused_block"
        cls.stage.write_text(f"#!{sys.executable}\n{FAKE_STAGE}", encoding="utf-8")
        cls.stage.chmod(0o755)

    def exit_code(self, command, fault=""):
        """And keeps what it printed."""
        done = subprocess.run([str(word) for word in command], env={**os.environ, "FAULT": fault}, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)  # fmt: skip
        self.printed = done.stdout
        return done.returncode


class CheckStage(WithFakes):
    def check(self, fault="", options=OPTIONS):
        return self.exit_code([sys.executable, TESTS / "check_stage.py", self.stage, *options], fault)

    def test_accepts_a_stage_that_verifies_all(self):
        self.assertEqual(self.check(), 0, self.printed)
        verified = 2 * 3 * 2 * 12 * (1 * 3 + 2 * 2)
        self.assertEqual(self.printed, f"{verified} verified\n")
        self.assertEqual(self.check(options=["--rows=3", "--cols", "8,8000"]), 1)  # the fake knows no --rows=3
        self.assertEqual(self.check(options=["--rows", "3", "--cols", "8,8000"]), 0, self.printed)

    def test_refuses_a_stage_that_verifies_less(self):
        for fault, said in {
            "first of --rows": "missing: ",
            "first of --cols": "missing: ",
            "first of --dtype": "missing: ",
            "first of --op": "missing: ",
            "first of --input": "missing: ",
            "first of --variant": "missing: ",
            "no infinities": "missing: ",
            "variant left out": "missing: fastertransformer_block_per_row",
            "nothing": "missing: ",
            "refuses odd widths": "31 normal: not applicable, and not verified: odd",
            "refuses all": "not applicable, and not verified",
            "does what it cannot": "verified, and not not applicable",
            "wrong": "exit code 1",
            "wrong before the last": "31 normal: wrong, and not verified: 1 of 31 elements wrong",
            "wrong in silence": "31 normal: wrong, and not verified: 1 of 31 elements wrong",
            "says WRONG": "exit code 0, and a WRONG result",
            "twice": "not asked for, or twice",
            "crash": "exit code 4",
            "unknown option": "exit code 2",
        }.items():
            with self.subTest(fault):
                self.assertEqual(self.check(fault), 1, self.printed)
                self.assertIn(said, self.printed)

    def test_is_skipped_without_a_gpu_or_where_the_shape_does_not_fit(self):
        self.assertEqual(self.check("no GPU"), 3)
        self.assertIn("no usable NVIDIA GPU", self.printed)
        self.assertEqual(self.check("too large"), 3)

    def test_refuses_a_run_in_which_nothing_applies(self):
        options = ["--rows", "1", "--cols", "1025", "--variant", "fastertransformer_block_per_row"]
        self.assertEqual(self.check(options=options), 1)
        self.assertIn("nothing was verified", self.printed)


class Physics(unittest.TestCase):
    """The timer's test, with times that a GPU could give and with those of timers that are wrong."""

    GB_S = 4000.0

    def record(self, time_us, copy_us, rows):
        return {"time_us": time_us, "copy_us": copy_us, "percent_of_copy": 100 * copy_us / time_us,
                "bandwidth_gb_s": 2 * rows * 4096 / time_us / 1e3}  # fmt: skip

    def times_of(self, stage, variant, rows, l2="cold"):
        copy = 2 * rows * 4096 / self.GB_S / 1e3 * (0.5 if l2 == "warm" else 1) + 1.5
        slower = 8 if variant == "thread_per_row" else 1.2
        return {variant: self.record(slower * copy, copy, rows), "copy": self.record(copy, copy, rows)}

    def found(self, change=lambda times, rows, l2: times):
        def times_of(stage, variant, rows, l2="cold"):
            return change(self.times_of(stage, variant, rows, l2), rows, l2)

        return " ".join(physics.implausible_times(times_of, 4915))

    def test_accepts_what_a_gpu_could_give(self):
        self.assertEqual(self.found(), "")

    def test_refuses_what_none_could(self):
        def scaled(factor):
            return lambda times, rows, l2: {
                name: self.record(t["time_us"] * factor, t["copy_us"] * factor, rows) for name, t in times.items()}  # fmt: skip

        def changed(**fields):
            return lambda times, rows, l2: {name: {**t, **fields} for name, t in times.items()}

        def variant_is_the_copy(times, rows, l2):
            return dict.fromkeys(times, times["copy"])

        def l2_is_ignored(times, rows, l2):
            return self.times_of("", "warp_then_shared", rows) if l2 == "warm" else times

        for change, said in (
            (changed(time_us=1e-3), "the copy: "),
            (scaled(1 / 5), "the copy: "),
            (scaled(1000), "the copy: "),
            (changed(time_us=100.0), "twice the rows take 1.00 times the time"),
            (lambda times, rows, l2: scaled(rows / 49152)(times, rows, l2), "twice the rows take 3.97"),
            (changed(percent_of_copy=97.0), "the times say"),
            (changed(bandwidth_gb_s=3000.0), "the time says"),
            (lambda times, rows, l2: {**times, "copy": {**times["copy"], "percent_of_copy": 80.0}}, "of its own time"),
            (variant_is_the_copy, "thread_per_row: 100.0 % of the copy"),
            (l2_is_ignored, "µs from the L2"),
        ):
            with self.subTest(said):
                self.assertIn(said, self.found(change))

    def test_every_variant_has_a_time(self):
        right = {"variant": "a", "time_us": "4.5", "copy_us": "3.1", "percent_of_copy": "69"}
        self.assertEqual(physics.implausible_rows([right]), [])
        for field, value in (("time_us", ""), ("time_us", "0.0"), ("copy_us", ""), ("percent_of_copy", "9999")):
            self.assertEqual(len(physics.implausible_rows([right, {**right, field: value}])), 1)


class Expect(WithFakes):
    def expect(self, code, regex, script="echo 'line one'; echo 'line two' >&2; exit 4"):
        return self.exit_code(["bash", TESTS / "expect.sh", str(code), regex, "bash", "-c", script])

    def test_looks_at_the_exit_code(self):
        self.assertEqual(self.expect(4, "one"), 0, self.printed)
        for code in (0, 1, 3, 5):
            self.assertEqual(self.expect(code, "one"), 1, self.printed)
            self.assertIn(f"exit code 4, expected {code}", self.printed)

    def test_looks_at_both_streams_and_wants_every_line(self):
        self.assertEqual(self.expect(4, "^line two$\n^line one$"), 0, self.printed)
        for regex in ("three", "^line one$\nthree", "three\n^line one$", "one.*two"):
            self.assertEqual(self.expect(4, regex), 1, self.printed)
        self.assertIn("nothing printed matches 'one.*two'", self.printed)

    def test_is_skipped_where_there_is_no_gpu_unless_that_is_expected(self):
        no_gpu = "echo no usable GPU; exit 3"
        self.assertEqual(self.expect(0, "one", no_gpu), 3)
        self.assertEqual(self.expect(3, "no usable", no_gpu), 0)
        self.assertEqual(self.expect(0, "one", "echo 9 GiB of device memory; exit 2"), 3)
        self.assertEqual(self.expect(2, "9 GiB of device memory", "echo 9 GiB of device memory; exit 2"), 0)
        self.assertEqual(self.expect(0, "one", "echo some other reason; exit 3"), 1)


if __name__ == "__main__":
    unittest.main()
