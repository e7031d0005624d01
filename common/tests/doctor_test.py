#!/usr/bin/env python3
"""Tests of ./run doctor with a PATH of fakes: each part that can be missing is taken away once.

    python3 common/tests/doctor_test.py
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Dict
from unittest import mock

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

from learn import doctor  # noqa: E402

NVIDIA_SMI = """case $1 in
  *gpu=name*) echo "NVIDIA Fake 1" ;;
  *compute_cap*) echo 9.0 ;;
  *driver_version*) echo 580.1 ;;
  *) echo "| NVIDIA-SMI 580.1   CUDA Version: 13.0 |" ;;
esac"""


class DoctorTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.bin = self.root / "bin"
        self.bin.mkdir()
        self.fake("g++", "echo 'g++ 12.2'")
        self.fake("cmake", "echo 'cmake version 3.25.1'")
        self.fake("ninja", "")
        self.fake("nvcc", "echo 'Cuda compilation tools, release 13.0, V13.0.88'")
        self.fake("nvidia-smi", NVIDIA_SMI)
        self.fake("ncu", "")
        (self.root / "build/simulator").mkdir(parents=True)
        (self.root / "build/simulator/libcudart.so.13").touch()
        (self.root / "build/exercise").mkdir()
        self.fake("../build/exercise/bank_conflicts", "echo Solved: it counts")
        self.params("RmProfilingAdminOnly: 0")
        self.environment: Dict[str, str] = {"PATH": str(self.bin)}
        user = mock.patch.object(os, "geteuid", return_value=1000)
        user.start()
        self.addCleanup(user.stop)

    def fake(self, name: str, body: str) -> None:
        path = self.bin / name
        path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
        path.chmod(0o755)

    def remove(self, name: str) -> None:
        (self.bin / name).unlink()

    def params(self, text: str) -> None:
        (self.root / "driver/nvidia").mkdir(parents=True, exist_ok=True)
        (self.root / "driver/nvidia/params").write_text(text + "\n", encoding="utf-8")

    def findings(self) -> Dict[str, doctor.Finding]:
        machine = doctor.Machine(self.root, self.root, str(self.root / "no/nvcc"))
        with mock.patch.dict(os.environ, self.environment, clear=True):
            return {finding.part: finding for finding in (check(machine) for check in doctor.CHECKS)}

    def expect(self, part: str, state: str, mend: str) -> None:
        finding = self.findings()[part]
        self.assertEqual(finding.state, state, finding)
        self.assertIn(mend, finding.mend)

    def report(self) -> "tuple[int, str]":
        printed = io.StringIO()
        findings = list(self.findings().values())
        with contextlib.redirect_stdout(printed):
            code = doctor.report(findings)
        return code, printed.getvalue()

    def test_everything_is_here(self) -> None:
        for finding in self.findings().values():
            self.assertEqual(finding.state, "ok", finding)
        code, text = self.report()
        self.assertEqual(code, 0)
        self.assertIn("on the GPU and on the simulator", text)
        self.assertEqual(len(text.splitlines()), len(doctor.CHECKS) + 2)  # one line each, and the verdict
        self.assertNotIn("\033", text)

    def test_every_line_that_is_not_ok_says_how_to_mend_it(self) -> None:
        for name in ("g++", "cmake", "ninja", "nvcc", "nvidia-smi", "ncu"):
            self.remove(name)
        (self.root / "build/simulator/libcudart.so.13").unlink()
        for finding in self.findings().values():
            self.assertTrue(finding.mend or finding.state == "ok", finding)
        code, text = self.report()
        self.assertEqual(code, 1)
        self.assertIn("Missing: C++ compiler, CMake, Ninja or make, CUDA toolkit.", text)

    def test_no_gpu_is_fine(self) -> None:
        self.remove("nvidia-smi")
        self.expect("GPU", "note", "they run on the simulator")
        self.expect("driver", "note", "needed only with a GPU")
        self.expect("counters of ncu", "note", "the simulator counts")
        code, text = self.report()
        self.assertEqual(code, 0)
        self.assertIn("There is no GPU, so no times", text)

    def test_nvidia_smi_that_fails(self) -> None:
        self.fake("nvidia-smi", "echo 'NVIDIA-SMI has failed'; exit 9")
        self.expect("GPU", "note", "they run on the simulator")

    def test_old_things(self) -> None:
        self.fake("nvcc", "echo 'release 11.8, V11.8.1'")
        self.expect("CUDA toolkit", "missing", "install CUDA 12.4 or newer")
        self.fake("cmake", "echo 'cmake version 3.18.4'")
        self.expect("CMake", "note", "fetches a newer one")
        self.fake("nvidia-smi", NVIDIA_SMI.replace("9.0", "6.1"))
        self.expect("GPU", "note", "7.5 or newer")

    def test_driver_older_than_the_toolkit(self) -> None:
        self.fake("nvidia-smi", NVIDIA_SMI.replace("13.0", "12.8"))
        self.expect("driver", "missing", "update the driver")
        self.assertEqual(self.report()[0], 1)
        self.fake("nvcc", "echo 'release 12.9, V12.9.1'")  # the same major version is enough
        self.expect("driver", "ok", "")

    def test_counters(self) -> None:
        self.params("RmProfilingAdminOnly: 1")
        self.expect("counters of ncu", "note", "NVreg_RestrictProfilingToAdminUsers=0")
        with mock.patch.object(os, "geteuid", return_value=0):
            self.expect("counters of ncu", "ok", "")
        (self.root / "driver/nvidia/params").unlink()
        self.expect("counters of ncu", "note", "ERR_NVGPUCTRPERM")
        self.remove("ncu")
        self.expect("counters of ncu", "note", "install Nsight Compute")

    def test_make_instead_of_ninja(self) -> None:
        self.remove("ninja")
        self.fake("make", "")
        self.expect("Ninja or make", "ok", "")

    def test_another_compiler(self) -> None:
        self.environment["CXX"] = "nosuch++"
        self.expect("C++ compiler", "missing", "or set CXX")

    def test_simulator(self) -> None:
        self.fake("../build/exercise/bank_conflicts", "echo cannot; exit 1")
        self.expect("simulator", "missing", "./run doctor --build")
        (self.root / "build/exercise/bank_conflicts").unlink()
        self.expect("simulator", "note", "./run doctor --build")

    def test_disk(self) -> None:
        with mock.patch.object(doctor.shutil, "disk_usage", return_value=mock.Mock(free=1e9)):
            self.expect("disk", "note", "make room")


if __name__ == "__main__":
    unittest.main()
