#!/usr/bin/env python3
"""Tests of common/harness/c/c_interface.h through ctypes, as ./run sweep uses it, under the CPU simulator: nothing is timed.

LD_PRELOAD=build/simulator/libcudart.so.13 python3 common/tests/c_interface_test.py BUILD
"""

from __future__ import annotations

import ctypes
import math
import subprocess
import sys
import unittest
from pathlib import Path
from typing import Callable, Dict, List

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

from command import ToolError  # noqa: E402
from command import Usage
from measure.harness import Contender, Harness, Tensor  # noqa: E402
from measure.results import ROOT, Shape, stage_names  # noqa: E402

BUILD = Path()  # set from the command line
SMALL = Shape("f32", 4, 96)
TO_HOST, TO_DEVICE = 2, 1  # cudaMemcpyKind


def copy(to: ctypes.Array, device_pointer: int, kind: int, stream: int) -> None:
    """Between a list of floats on the host and the device's memory, with the CUDA runtime of this process."""
    runtime = ctypes.CDLL(None)
    ends = (ctypes.addressof(to), device_pointer) if kind == TO_HOST else (device_pointer, ctypes.addressof(to))
    code = runtime.cudaMemcpyAsync(*map(ctypes.c_void_p, ends), ctypes.sizeof(to), kind, ctypes.c_void_p(stream))
    assert code == 0, code
    assert runtime.cudaStreamSynchronize(ctypes.c_void_p(stream)) == 0


def softmax(x: List[float], cols: int) -> List[float]:
    y: List[float] = []
    for first in range(0, len(x), cols):
        row = x[first : first + cols]
        exponentials = [math.exp(value - max(row)) for value in row]
        y += [value / sum(exponentials) for value in exponentials]
    return y


def host_launch(change: Callable[[List[float]], List[float]]) -> Callable[[int, int, int], None]:
    """A contender in Python for SMALL: softmax, and what `change` makes of it."""

    def launch(x: int, y: int, stream: int) -> None:
        buffer = (ctypes.c_float * (SMALL.rows * SMALL.cols))()
        copy(buffer, x, TO_HOST, stream)
        buffer[:] = change(softmax(list(buffer), SMALL.cols))
        copy(buffer, y, TO_DEVICE, stream)

    return launch


class CInterfaceTest(unittest.TestCase):
    def setUp(self) -> None:
        self.harness = Harness(BUILD, "cold")
        self.harness.__enter__()
        self.addCleanup(self.harness.__exit__)

    def open(self, shape: Shape = SMALL, op: str = "softmax", kind: str = "normal", offset: int = 0) -> None:
        self.harness.open_problem(shape, op, kind, 1, offset)

    def refused(self, call: Callable, *arguments: object) -> str:
        """What a call says that is refused as bad usage."""
        with self.assertRaises(Usage) as caught:
            call(*arguments)
        self.assertEqual(caught.exception.code, 2)
        return str(caught.exception)

    def test_the_device(self) -> None:
        device = self.harness.device()
        self.assertEqual((device["simulated"], device["multiprocessors"]), (1, 132))
        self.assertIn("simulator", device["gpu"])

    def test_contenders_are_the_copy_and_every_variant_that_the_stages_list(self) -> None:
        self.assertEqual(self.harness.contenders(), [Contender("", "copy")])
        stages = stage_names(ROOT)
        self.assertGreaterEqual(len(stages), 6)
        self.harness.add_stages(stages)
        listed = [Contender("", "copy")]
        for stage in stages:
            said = subprocess.run([str(BUILD / stage), "--list"], check=True, capture_output=True, text=True).stdout
            listed += [Contender(stage, line.split()[0]) for line in said.splitlines()]
        self.assertEqual(self.harness.contenders(), listed)

    def test_every_variant_is_verified_or_says_why_not(self) -> None:
        self.harness.add_stages(stage_names(ROOT))
        done: Dict[Contender, int] = {}
        for dtype, op, cols, offset in (
            ("f32", "softmax", 96, 0),
            ("f16", "log_softmax", 1024, 1),
            ("bf16", "softmax", 1000, 0),
            ("f32", "softmax", 128, 0),
        ):
            self.open(Shape(dtype, 3, cols), op, offset=offset)
            for number, contender in enumerate(self.harness.contenders()):
                reason, passes = self.harness.applies(number)
                if reason:
                    self.assertIn(contender.stage, ("01_naive", "02_fused_block", "03_warp_reduce"))
                    continue
                self.assertGreaterEqual(passes, 2)
                verdict = self.harness.verify(number)
                self.assertTrue(verdict.correct, (contender, verdict))
                self.assertEqual((verdict.explanation, verdict.max_error <= 1), ("", True))
                done[contender] = done.get(contender, 0) + 1
        self.assertEqual(set(done), set(self.harness.contenders()))

    def test_the_seed_chooses_the_input(self) -> None:
        seen: List[List[float]] = []

        def launch(x: int, y: int, stream: int) -> None:
            buffer = (ctypes.c_float * (SMALL.rows * SMALL.cols))()
            copy(buffer, x, TO_HOST, stream)
            seen.append(list(buffer))
            copy(buffer, y, TO_DEVICE, stream)

        number = self.harness.add_contender("python", "looks", launch)
        first: List[List[float]] = []
        for seed in (1, 1, 2, 1 << 40):
            self.harness.open_problem(SMALL, "softmax", "normal", seed, 0)
            seen.clear()
            self.harness.verify(number)
            first.append(seen[0])
        self.assertEqual(first[0], first[1])
        self.assertEqual(len({tuple(values) for values in first}), 3)

    def test_liars_are_caught(self) -> None:
        self.harness.add_stages(["liars"])
        self.open(Shape("f32", 7, 100))
        number = {contender.name: number for number, contender in enumerate(self.harness.contenders())}
        for liar, said in {
            "never_runs": "700 of 700 elements never written",
            "writes_nan": "1 of 700 elements wrong",
            "one_percent_off": "700 of 700 elements wrong",
            "changes_its_input": "changed its input",
            "writes_past_the_end": "wrote 1 bytes past the output's end",
        }.items():
            verdict = self.harness.verify(number[liar], 4)
            self.assertFalse(verdict.correct, liar)
            self.assertIn(said, verdict.explanation)
            for right in ("copy", "honest"):  # also after a liar
                self.assertEqual(self.harness.verify(number[right])[:2], (True, ""))

    def test_a_contender_in_python(self) -> None:
        def off(by: float) -> Callable[[List[float]], List[float]]:
            return lambda y: [value * (1 + by * 2e-5) for value in y]  # 2e-5: what f32 is allowed, relatively

        right = self.harness.add_contender("peer", "right", host_launch(lambda y: y))
        twice = self.harness.add_contender("peer", "twice", host_launch(off(2)))
        nothing = self.harness.add_contender("peer", "nothing", lambda x, y, stream: None)
        self.assertEqual(
            self.harness.contenders()[right:], [Contender("peer", name) for name in ("right", "twice", "nothing")]
        )
        self.open()
        self.assertEqual(self.harness.applies(right), ("", None))
        self.assertEqual(self.harness.verify(right)[:2], (True, ""))
        self.assertIn("never written", self.harness.verify(nothing).explanation)
        for factor, correct in ((1, False), (1.9, False), (2.1, True), (4, True)):
            verdict = self.harness.verify(twice, factor)
            self.assertEqual(verdict.correct, correct, (factor, verdict))
            self.assertAlmostEqual(verdict.max_error, 2, delta=0.01)  # in units of the tolerance, whatever the factor
        for factor in (0, -1, math.nan):
            self.assertIn("tolerance_factor", self.refused(self.harness.verify, right, factor))

    def test_an_operation_with_other_tensors(self) -> None:
        self.harness.add_stages(["softmax_backward"])
        self.open(SMALL, "softmax_backward")
        shape = (SMALL.dtype, SMALL.rows, SMALL.cols)
        self.assertEqual(
            self.harness.tensors(), [Tensor("y", *shape, False), Tensor("dy", *shape, False), Tensor("dx", *shape, True)]
        )

        def backward(y: int, dy: int, dx: int, stream: int) -> None:
            values = [(ctypes.c_float * (SMALL.rows * SMALL.cols))() for _ in range(3)]
            for buffer, device in zip(values, (y, dy)):
                copy(buffer, device, TO_HOST, stream)
            for first in range(0, SMALL.rows * SMALL.cols, SMALL.cols):
                row = range(first, first + SMALL.cols)
                total = sum(values[0][i] * values[1][i] for i in row)
                for i in row:
                    values[2][i] = values[0][i] * (values[1][i] - total)
            copy(values[2], dx, TO_DEVICE, stream)

        right = self.harness.add_contender("peer", "right", backward)
        nothing = self.harness.add_contender("peer", "nothing", lambda y, dy, dx, stream: None)
        number = {contender.name: number for number, contender in enumerate(self.harness.contenders())}
        self.assertEqual(self.harness.applies(number["copy"]), ("", 3))
        self.assertEqual(self.harness.applies(number["naive"]), ("", 5))
        self.assertEqual(self.harness.verify(right)[:2], (True, ""))
        self.assertIn("384 of 384 elements never written", self.harness.verify(nothing).explanation)
        self.assertIn("changed its input", self.harness.verify(number["changes_dy"]).explanation)
        self.assertEqual(self.harness.verify(number["naive"])[:2], (True, ""))

    def test_an_operation_with_two_outputs(self) -> None:
        self.harness.add_stages(["cross_entropy"])
        self.open(Shape("bf16", 4, 96), "cross_entropy")
        self.assertEqual(
            self.harness.tensors(),
            [
                Tensor("x", "bf16", 4, 96, False),
                Tensor("label", "i64", 4, 1, False),
                Tensor("loss", "f32", 4, 1, True),
                Tensor("dx", "bf16", 4, 96, True),
            ],
        )
        number = {contender.name: number for number, contender in enumerate(self.harness.contenders())}
        self.assertEqual(self.harness.verify(number["naive"])[:2], (True, ""))
        self.assertIn("loss: 4 of 4 elements never", self.harness.verify(number["never_writes_the_loss"]).explanation)
        self.assertIn("dx: 4 of 384", self.harness.verify(number["no_gradient_at_the_label"]).explanation)

    def test_what_a_contender_raises_comes_out(self) -> None:
        def launch(_x: int, _y: int, _stream: int) -> None:
            raise KeyboardInterrupt("now")

        number = self.harness.add_contender("peer", "raises", launch)
        right = self.harness.add_contender("peer", "right", host_launch(lambda y: y))
        self.open()
        with self.assertRaisesRegex(KeyboardInterrupt, "now"):
            self.harness.verify(number)
        self.assertTrue(self.harness.is_alive())
        self.assertTrue(self.harness.verify(right).correct)

    def test_bad_usage(self) -> None:
        self.assertIn("no problem is open", self.refused(self.harness.verify, 0))
        self.assertIn("no problem is open", self.refused(self.harness.applies, 0))
        self.assertIn("'f64' is not accepted; accepted: f32, f16, bf16", self.refused(self.open, Shape("f64", 1, 1)))
        self.assertIn("accepted: softmax, log_softmax", self.refused(self.open, SMALL, "max"))
        self.assertIn("accepted: normal", self.refused(self.open, SMALL, "softmax", "ones"))
        self.assertIn("rows, cols: at least 1", self.refused(self.open, Shape("f32", 0, 1)))
        for offset in (-1, 1025, 1 << 62):
            self.assertIn("offset: 0 to 1024", self.refused(self.open, SMALL, "softmax", "normal", offset))
        self.assertIn("of device memory", self.refused(self.open, Shape("f32", 1 << 31, 1 << 20)))
        self.assertIn("accepted: cold, warm", self.refused(Harness, BUILD, "hot"))
        self.open()
        for number in (-1, 1):
            self.assertIn(f"no contender {number}", self.refused(self.harness.verify, number))
        self.assertIn("the simulator takes no times", self.refused(self.harness.time, 0, 3, 0, 0))
        self.harness.add_stages(["02_fused_block", "softmax_backward"])
        self.assertIn("no problem is open", self.refused(self.harness.verify, 0))
        number = {contender.name: number for number, contender in enumerate(self.harness.contenders())}
        self.open(Shape("f32", 2, 5000))
        wide = number["fastertransformer_block_per_row"]
        self.assertIn("at most 1024 columns", self.refused(self.harness.verify, wide))
        self.assertEqual(self.harness.applies(number["naive"])[0], "softmax_backward does not do softmax")
        self.open(SMALL, "softmax_backward")
        self.assertEqual(self.harness.applies(wide)[0], "02_fused_block does not do softmax_backward")
        self.assertIn("does not do", self.refused(self.harness.verify, wide))
        self.harness.close_problem()
        self.assertIn("no problem is open", self.refused(self.harness.verify, 0))

    def test_libraries_that_are_no_stage(self) -> None:
        library = self.harness._library.softmax_add_stage
        no_stage = str(BUILD / "libsoftmax_harness.so").encode()
        self.assertEqual(library(self.harness._session, no_stage), 2)
        self.assertIn(b"is not the library of a stage", self.harness._library.softmax_error())
        self.assertEqual(library(self.harness._session, b"/no/such.so"), 2)
        self.assertIn(b"/no/such.so", self.harness._library.softmax_error())
        for build, stages in ((BUILD, ["99_none"]), (BUILD / "none", [])):
            with self.assertRaisesRegex(ToolError, "not built"):
                Harness(build, "cold").add_stages(stages)


if __name__ == "__main__":
    BUILD = Path(sys.argv.pop(1)).resolve()
    unittest.main()
