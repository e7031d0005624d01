#!/usr/bin/env python3
"""Tests of ./run sweep on a machine without a GPU: the harness and the peers are fakes.

    python3 common/tests/sweep_test.py
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Tuple
from unittest import mock

sys.dont_write_bytecode = True
TOOLS = Path(__file__).resolve().parents[1] / "tools"
sys.path.insert(0, str(TOOLS))

import peers  # noqa: E402
import sweep  # noqa: E402
import sweep_journal  # noqa: E402
import sweep_plan  # noqa: E402
import sweep_tables  # noqa: E402
from harness import Contender, HarnessError, Timing, Verdict  # noqa: E402
from peers import Candidate, Missing, NotApplicable, PeerContender, Problem  # noqa: E402
from results import Json, NoDevice, Shape  # noqa: E402

COMMIT = "0123456789abcdef"
STAGES = {"01_naive": ["slow"], "02_fast": ["packs", "wide"]}
SMALL, LARGE = "f32:8x1024", "f32:49152x1024"  # below and above 32 MiB
RIGHT = Verdict(True, "", 0.25)


class World:
    """What the fake GPU does; a test changes it."""

    def __init__(self) -> None:
        self.simulated = False
        self.no_device = ""
        self.alive = True
        self.largest_cols = 1 << 20
        self.reasons: Dict[Tuple[str, int], str] = {}  # (contender, cols): why it cannot
        self.verdicts: Dict[str, Verdict] = {}  # by contender
        self.times: Callable[[str, int], float] = lambda name, round_: {"copy": 100.0, "02_fast packs": 101.0}.get(name, 200.0)
        self.spread = 1.0
        self.before_time: Callable[[str], None] = lambda name: None
        self.log: List[Tuple[str, str]] = []  # ("verify" or "time", contender) in order

    def names(self, what: str) -> List[str]:
        return [name for kind, name in self.log if kind == what]


class FakeHarness:
    world = World()

    def __init__(self, _build: Path, _l2: str) -> None:
        if self.world.no_device:
            raise NoDevice(self.world.no_device)
        self._contenders = [Contender("", "copy")]
        self._launches: Dict[int, Callable[[int, int, int], None]] = {}
        self._shape: Optional[Shape] = None
        self._timed: Dict[Tuple[int, Shape], int] = {}

    def __enter__(self) -> FakeHarness:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def device(self) -> Json:
        return {"gpu": "NVIDIA Fake 1", "compute_capability": "9.0", "simulated": int(self.world.simulated)}

    def is_alive(self) -> bool:
        return self.world.alive

    def add_stages(self, stages: List[str]) -> None:
        self._contenders += [Contender(stage, variant) for stage in stages for variant in STAGES[stage]]

    def add_contender(self, stage: str, name: str, launch: Callable[[int, int, int], None]) -> int:
        self._contenders.append(Contender(stage, name))
        self._launches[len(self._contenders) - 1] = launch
        return len(self._contenders) - 1

    def contenders(self) -> List[Contender]:
        return list(self._contenders)

    def open_problem(self, shape: Shape, *_: object) -> None:
        if shape.cols > self.world.largest_cols:
            raise HarnessError(2, "needs 9.0 GiB of device memory, and 1.0 GiB are free")
        self._shape = shape

    def close_problem(self) -> None:
        self._shape = None

    def _name(self, number: int) -> str:
        return " ".join(self._contenders[number]).strip()

    def applies(self, number: int) -> tuple:
        assert self._shape
        return self.world.reasons.get((self._name(number), self._shape.cols), ""), 2.0

    def verify(self, number: int, tolerance_factor: float = 1) -> Verdict:
        assert self._shape
        self.world.log.append(("verify", self._name(number)))
        if number in self._launches:
            self._launches[number](0, 0, 0)
        found = self.world.verdicts.get(self._name(number), RIGHT)
        return found._replace(correct=found.correct and found.max_error <= tolerance_factor)

    def time(self, number: int, repeats: int, _warm_up_ms: int) -> Timing:
        assert self._shape
        name = self._name(number)
        self.world.before_time(name)
        self.world.log.append(("time" if repeats != sweep.TRIAL_REPEATS else "trial", name))
        if number in self._launches:
            self._launches[number](0, 0, 0)
        key = number, self._shape
        self._timed[key] = self._timed.get(key, -1) + 1
        return Timing(self.world.times(name, self._timed[key]), self.world.spread, 100.0, 0.5)


class SweepTest(unittest.TestCase):
    """A folder with two fake stages, built; peers are those that a test names."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name).resolve()
        self.build = self.root / "build"
        self.results = self.root / "common/results"
        self.journal = self.build / "sweep-journal.jsonl"
        self.build.mkdir()
        self.results.mkdir(parents=True)
        (self.build / "libsoftmax_harness.so").touch()
        for stage in STAGES:
            (self.root / stage).mkdir()
            (self.root / stage / "main.cu").touch()
        self.world = FakeHarness.world = World()
        self.peers: Tuple[List[PeerContender], Dict[str, str], Dict[str, str]] = ([], {}, {})
        for patch in (
            mock.patch.object(sweep, "Harness", FakeHarness),
            mock.patch.object(peers, "find", lambda wanted: self.peers),
        ):
            patch.start()
            self.addCleanup(patch.stop)

    def sweep(self, *arguments: str) -> Tuple[int, str, str]:
        """The exit code, stdout and stderr."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = sweep.main(["--root", str(self.root), "--commit", COMMIT, *arguments])
            except SystemExit as stop:  # --help
                code = int(stop.code or 0)
        return code, out.getvalue(), err.getvalue()

    def swept(self, *arguments: str) -> Tuple[Json, str]:
        """The results file of a sweep that must go well, and its stdout."""
        file = self.root / "out.json"
        code, out, err = self.sweep("--out", str(file), *arguments)
        self.assertEqual(code, 0, err)
        return json.loads(file.read_text(encoding="utf-8")), out


# What sweep_compile.py asks the Triton peer for; `mode` says how it behaves.
FAKE_PEERS = """
import os, time, types
from typing import NamedTuple
class Problem(NamedTuple):
    dtype: str
    rows: int
    cols: int
    op: str
def jobs(problems):
    return [(problem.cols, i) for problem in problems for i in range(4)]
def compile_ahead(capability, job):
    open(f"done-{job[0]}-{job[1]}", "w").write(f"{capability} {os.getpid()}")
    if "{mode}" == "sleep": time.sleep(60)
    if "{mode}" == "fail": raise ValueError("two\\nlines")
    if "{mode}" == "exit": os._exit(7)
def module_of(peer):
    assert peer == "triton"
    return types.SimpleNamespace(jobs=jobs, compile_ahead=compile_ahead)
"""


class CompileAheadTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def start(self, mode: str) -> subprocess.Popen:
        """A process that compiles 16 jobs ahead, in up to 4 processes."""
        shutil.copy(TOOLS / "sweep_compile.py", self.folder)
        (self.folder / "peers.py").write_text(FAKE_PEERS.replace("{mode}", mode))
        text = (
            "import os, sweep_compile; from peers import Problem; os.sched_getaffinity = lambda _: range(4); "
            "sweep_compile.triton_ahead([Problem('f32', 8, cols, 'softmax') for cols in (1, 2, 3, 4)], '9.0')"
        )
        return subprocess.Popen(
            [sys.executable, "-c", text], cwd=self.folder, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def done(self) -> List[Path]:
        return list(self.folder.glob("done-*"))

    def test_every_job_is_done_once(self) -> None:
        process = self.start("work")
        _, err = process.communicate(timeout=30)
        self.assertEqual((process.returncode, err), (0, "compiling 16 Triton kernels in 4 processes ...\n"))
        said = [path.read_text().split() for path in self.done()]
        self.assertEqual([capability for capability, _ in said], ["90"] * 16)
        self.assertEqual(len({pid for _, pid in said}), 4)

    def test_failures_are_told_and_do_not_stop_it(self) -> None:
        for mode, told in (("fail", "16 of them failed here: ValueError: two lines"), ("exit", "4 of them failed here: a process ended with exit code 7")):
            with self.subTest(mode):
                process = self.start(mode)
                _, err = process.communicate(timeout=30)
                self.assertEqual(process.returncode, 0)
                self.assertIn(told, err)

    def test_an_interrupt_ends_it_and_its_processes_at_once(self) -> None:
        process = self.start("sleep")
        deadline = time.monotonic() + 20
        while len([path for path in self.done() if path.read_text()]) < 4 and time.monotonic() < deadline:
            time.sleep(0.05)
        pids = [int(path.read_text().split()[1]) for path in self.done()]
        self.assertEqual(len(pids), 4)
        begin = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
        self.assertLess(time.monotonic() - begin, 2)
        self.assertIn("KeyboardInterrupt", err)
        for pid in pids:
            with self.assertRaises(ProcessLookupError):
                os.kill(pid, 0)


if __name__ == "__main__":
    unittest.main()
