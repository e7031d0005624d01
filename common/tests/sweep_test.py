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
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import types
import unittest
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Tuple
from unittest import mock

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from fake_stages import COMMIT, TOOLS, RepositoryTest as Repository  # noqa: E402

import command  # noqa: E402
import synthetic_sweep  # noqa: E402
from command import NoDevice  # noqa: E402
from measure import peers, results, sweep, sweep_journal, sweep_plan, sweep_tables  # noqa: E402
from measure.harness import Contender, HarnessError, Timing, Verdict  # noqa: E402
from measure.peers import Candidate, Missing, NotApplicable, PeerContender, Problem  # noqa: E402
from measure.results import Json, Shape  # noqa: E402
from pages import report  # noqa: E402

STAGES = {"01_naive": [("slow", 50.0, 10**9)], "02_fast": [("packs", 99.0, 10**9), ("wide", 50.0, 10**9)]}
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
        self.times: Callable[[str, int], float] = lambda name, round_: {"copy": 100.0, "02_fast packs": 101.0}.get(
            name, 200.0
        )
        self.copies: Callable[[str, int], float] = lambda name, round_: 100.0  # timed beside the contender
        self.spread = 1.0
        self.problems: List[tuple] = []  # op, input, seed, offset
        self.before_time: Callable[[str], None] = lambda name: None
        self.log: List[Tuple[str, str]] = []  # ("verify" or "time", contender) in order
        self.trial_warm_ups: List[int] = []

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
        self._contenders += [Contender(stage, variant) for stage in stages for variant, *_ in STAGES[stage]]

    def add_contender(self, stage: str, name: str, launch: Callable[[int, int, int], None]) -> int:
        self._contenders.append(Contender(stage, name))
        self._launches[len(self._contenders) - 1] = launch
        return len(self._contenders) - 1

    def contenders(self) -> List[Contender]:
        return list(self._contenders)

    def open_problem(self, shape: Shape, *how: object) -> None:
        self.world.problems.append(how)
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

    def time(self, number: int, repeats: int, warm_up_ms: int, _limit_ms: int) -> Timing:
        assert self._shape
        name = self._name(number)
        self.world.before_time(name)
        self.world.log.append(("time" if repeats != sweep.TRIAL_REPEATS else "trial", name))
        if repeats == sweep.TRIAL_REPEATS:
            self.world.trial_warm_ups.append(warm_up_ms)
        if number in self._launches:
            self._launches[number](0, 0, 0)
        key = number, self._shape
        self._timed[key] = self._timed.get(key, -1) + 1
        time_us, copy_us = (of(name, self._timed[key]) for of in (self.world.times, self.world.copies))
        return Timing(time_us, self.world.spread, copy_us, 0.5, "")


class SweepTest(Repository):
    """A folder with two fake stages, built; peers are those that a test names."""

    stages = STAGES

    def setUp(self) -> None:
        super().setUp()
        (self.build / "libsoftmax_harness.so").touch()
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
                code = command.main(["sweep", "--root", str(self.root), "--commit", COMMIT, *arguments])
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
        (self.folder / "measure").mkdir(exist_ok=True)
        shutil.copy(TOOLS / "measure/sweep_compile.py", self.folder / "measure")
        (self.folder / "measure/peers.py").write_text(FAKE_PEERS.replace("{mode}", mode))
        text = (
            "import os; from measure import sweep_compile; from measure.peers import Problem; os.sched_getaffinity = lambda _: range(4); "
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
        for mode, told in (
            ("fail", "16 of them failed here: ValueError: two lines"),
            ("exit", "4 of them failed here: a process ended with exit code 7"),
        ):
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


def contender(peer: str, variant: str, prepare: Callable[[Problem], List[Candidate]]) -> PeerContender:
    return PeerContender(peer, variant, prepare)


def does_nothing(_x: int, _y: int, _stream: int) -> None:
    pass


class MeasuringTest(SweepTest):
    def test_every_contender_of_every_shape_is_in_the_file(self) -> None:
        data, _ = self.swept("--shapes", f"{SMALL},{LARGE},{SMALL}")
        self.assertEqual([t["shapes"] for t in data["tables"]], [[SMALL, LARGE]])  # once, though given twice
        names = ["copy", "01_naive slow", "02_fast packs", "02_fast wide"]
        self.assertEqual([r["contender"] for r in data["results"]], names + names)
        self.assertEqual([r["rows"] for r in data["results"]], [8] * 4 + [49152] * 4)
        self.assertEqual({r["status"] for r in data["results"]}, {"verified"})
        self.assertEqual((data["recorded"]["commit"], data["recorded"]["dirty"]), (COMMIT, False))
        self.assertEqual(data["recorded"]["command"], f"./run sweep --shapes {SMALL},{LARGE},{SMALL}")
        self.assertEqual(data["settings"]["rounds"], 2)
        for name in ("gpu", "driver_version", "nvcc", "python", "torch", "triton", "cudnn", "quack", "liger"):
            self.assertIn(name, data["machine"])
        self.assertNotIn(str(self.root), json.dumps(data))

    def test_verified_before_timed_and_the_rounds_run_in_opposite_order(self) -> None:
        self.swept("--shapes", SMALL)
        names = ["copy", "01_naive slow", "02_fast packs", "02_fast wide"]
        self.assertEqual(self.world.log, [*(("verify", n) for n in names), *(("time", n) for n in names + names[::-1])])

    def test_numbers(self) -> None:
        self.world.times = lambda name, round_: 200.0 + 10 * round_
        data, _ = self.swept("--shapes", LARGE)
        result = data["results"][2]
        self.assertEqual(
            [
                result[k]
                for k in ("time_us", "copy_us", "percent_of_copy", "round_difference_percent", "noisy", "passes")
            ],
            [205.0, 100.0, 48.78, 5.0, True, 2.0],
        )
        self.assertEqual(result["bandwidth_gb_s"], round(2 * 49152 * 1024 * 4 / 205e3, 1))

    def test_percentages_are_of_the_copies_that_were_timed_beside_it(self) -> None:
        """Of all rounds, and of this contender: others saw another copy."""
        self.world.times = lambda name, round_: 200.0 + 10 * round_
        self.world.copies = lambda name, round_: {"02_fast packs": 100.0}.get(name, 150.0) + 20 * round_
        data, out = self.swept("--shapes", LARGE)
        packs = next(r for r in data["results"] if r["contender"] == "02_fast packs")
        self.assertEqual((packs["copy_us"], packs["percent_of_copy"]), (110.0, 53.66))
        wide = next(r for r in data["results"] if r["contender"] == "02_fast wide")
        self.assertEqual((wide["copy_us"], wide["percent_of_copy"]), (160.0, 78.05))
        self.world.times = lambda name, round_: 200.0
        data, _ = self.swept("--shapes", LARGE, "--rounds", "3")
        self.assertEqual([r["copy_us"] for r in data["results"]], [170.0, 170.0, 120.0, 170.0])

    def test_the_problem_is_the_one_that_the_file_names(self) -> None:
        data, _ = self.swept("--shapes", SMALL, "--op", "log_softmax")
        settings = data["settings"]
        self.assertEqual(self.world.problems, [("log_softmax", "normal", settings["seed"], settings["offset"])])
        self.assertEqual((settings["seed"], settings["offset"]), (1, 0))
        self.assertEqual({(r["op"], r["input"]) for r in data["results"]}, {("log_softmax", "normal")})

    def test_noisy(self) -> None:
        large, small = 33 << 20, 32 << 20
        self.assertFalse(sweep_tables.is_noisy(large, 3.0, 5.0))
        self.assertTrue(sweep_tables.is_noisy(large, 3.1, 0.0))
        self.assertFalse(sweep_tables.is_noisy(small, 50.0, 5.0))
        self.assertTrue(sweep_tables.is_noisy(small, 0.0, 5.1))
        self.assertFalse(sweep_tables.is_noisy(large, None, 1.0))
        self.world.times = lambda name, round_: 100.0 + 4 * round_ * (name == "02_fast packs")
        data, out = self.swept("--shapes", f"{SMALL},{LARGE}")
        noisy = [(r["contender"], r["rows"]) for r in data["results"] if r["noisy"]]
        self.assertEqual(noisy, [("02_fast packs", 49152)])
        self.assertIn("noisy: 1 of 8:", out)
        self.assertIn(f"02_fast packs at {LARGE}: rounds differ by 4.0 %, spread 1.0 %", out)

    def test_a_wrong_stage_gets_no_time_and_fails_the_sweep(self) -> None:
        self.world.verdicts["02_fast packs"] = Verdict(False, "7 of 9 elements wrong", 3.0)
        file = self.root / "out.json"
        code, out, err = self.sweep("--shapes", SMALL, "--out", str(file))
        self.assertEqual(code, 1)
        wrong = json.loads(file.read_text())["results"][2]
        self.assertEqual((wrong["status"], wrong["reason"], wrong["time_us"]), ("wrong", "7 of 9 elements wrong", None))
        self.assertNotIn("02_fast packs", self.world.names("time"))
        self.assertIn(f"wrong: 02_fast packs at {SMALL}: 7 of 9 elements wrong", out)
        self.assertIn("7 of 9 elements wrong", err)

    def test_what_cannot_do_a_shape_is_shown_with_the_reason(self) -> None:
        for cols in (1024, 2048, 4096, 8192):
            self.world.reasons["02_fast packs", cols] = "at most 512 columns"
        data, out = self.swept("--shapes", ",".join(f"f32:8x{cols}" for cols in (512, 1024, 2048, 4096, 8192)))
        shown = [(r["status"], r["reason"], r["time_us"] is None) for r in data["results"] if r["variant"] == "packs"]
        self.assertEqual(shown, [("verified", "", False)] + [("not applicable", "at most 512 columns", True)] * 4)
        self.assertIn("not applicable: 02_fast packs at f32:8x1024 to f32:8x8192 (4 shapes): at most 512 columns", out)

    def test_a_shape_that_does_not_fit_is_not_applicable(self) -> None:
        self.world.largest_cols = 1024
        data, out = self.swept("--shapes", "f32:8x2048,f32:8x1024")
        self.assertEqual({r["status"] for r in data["results"] if r["cols"] == 2048}, {"not applicable"})
        self.assertEqual({r["status"] for r in data["results"] if r["cols"] == 1024}, {"verified"})
        self.assertIn("needs 9.0 GiB of device memory", out)


class PeersTest(SweepTest):
    def peer(self, *contenders: PeerContender, **missing: str) -> None:
        self.peers = (list(contenders), {c.peer: "1.2.3" for c in contenders}, missing)

    def test_the_fastest_right_candidate_stands_for_the_peer(self) -> None:
        running: List[str] = []

        def candidate(name: str) -> Candidate:
            return Candidate(name, lambda x, y, stream: running.append(name))

        self.peer(contender("cudnn", "accurate", lambda _: [candidate("slow"), candidate("fast"), candidate("wrong")]))
        verify = FakeHarness.verify
        times = {"slow": 300.0, "fast": 150.0, "wrong": 10.0}

        def verify_(harness: FakeHarness, number: int, factor: float = 1) -> Verdict:
            found = verify(harness, number, factor)
            return found._replace(correct=not running or running[-1] != "wrong" or number < 4)

        self.world.times = lambda name, round_: times[running[-1]] if name == "cudnn accurate" else 200.0
        with mock.patch.object(FakeHarness, "verify", verify_):
            data, _ = self.swept("--shapes", SMALL)
        result = data["results"][-1]
        self.assertEqual(
            (result["contender"], result["kind"], result["configuration"]), ("cudnn accurate", "peer", "fast")
        )
        self.assertEqual((result["time_us"], data["machine"]["cudnn"]), (150.0, "1.2.3"))
        self.assertEqual(len(self.world.names("trial")), 2)  # the wrong one is never timed
        self.assertEqual(self.world.trial_warm_ups, 2 * [sweep.TRIAL_WARM_UP_MS])  # compilers let the GPU rest

    def test_the_leader_is_who_has_the_highest_percentage_of_its_copy(self) -> None:
        """The same on the console, in README and on the page, though its time is not the shortest."""
        data = synthetic_sweep.sweep()
        shape = Shape("f16", 49152, 1024)
        here = [r for r in data["results"] if (r["dtype"], r["rows"], r["cols"]) == shape]
        for result in here:
            result.update(time_us=100.0, copy_us=50.0, percent_of_copy=50.0)
        stage = next(r for r in here if r["contender"] == "04_smem_bank_conflict vector_layout")
        other = next(r for r in here if r["contender"] == "06_online online")
        peer = next(r for r in here if r["contender"] == "quack softmax")
        stage.update(time_us=70.0, copy_us=63.0, percent_of_copy=90.0)
        other.update(time_us=69.0, copy_us=61.41, percent_of_copy=89.0)
        peer.update(time_us=71.0, copy_us=70.29, percent_of_copy=99.0)
        self.assertIs(results.fastest(here), peer)
        self.assertIsNone(results.fastest([{"time_us": None, "percent_of_copy": None}]))
        out = sweep_tables.text(data)
        self.assertRegex(out, r"(?m)^f16:49152x1024 .* 90\.0 04_smem_bank_conflict vector_layout .* quack 1\.10x$")
        path = self.root / "sweep.json"
        path.write_text(json.dumps(data))
        recorded = results.Recorded(path)
        row = next(r for r in report.published(recorded, data["tables"][1]).rows if r.cells[0].text == "f16 49152 × 1024")
        self.assertEqual(row.cells[2].text, "1.10 × slower than quack softmax")
        self.assertEqual([cell.text for cell in row.cells if cell.kind == "best"], ["99.0"])

    def test_who_is_faster(self) -> None:
        """On the page and on the console, both ways round."""
        ours = {"percent_of_copy": 90.0, "time_us": 1.0, "contender": "06_online online", "stage": "06_online"}
        theirs = {"percent_of_copy": 60.0, "time_us": 2.0, "contender": "cudnn accurate", "stage": "cudnn"}
        self.assertEqual(report.against(ours, theirs), report.Cell("1.50 × faster than cudnn accurate", 1.5, "ahead"))
        worse = report.against({**ours, "percent_of_copy": 40.0}, theirs)
        self.assertEqual((worse.text, worse.kind), ("1.50 × slower than cudnn accurate", "behind"))
        self.assertEqual(report.against(ours, None), report.Cell("–", None))
        self.peer(contender("cudnn", "accurate", lambda _: [Candidate("", does_nothing)]))
        for time_us, said in ((404.0, "stages 4.00x"), (50.5, "cudnn 2.00x")):
            self.world.times = lambda name, round_: {"cudnn accurate": time_us, "02_fast packs": 101.0}.get(name, 2000.0)
            self.assertRegex(self.swept("--shapes", SMALL)[1], rf"(?m)^f32:8x1024 .* {said}$")

    def test_every_column_of_the_page_s_table_shows_its_own_number(self) -> None:
        data = synthetic_sweep.sweep()
        path = self.root / "sweep.json"
        path.write_text(json.dumps(data))
        sweep_ = results.Recorded(path)
        table = report.all_results(report.Sources(None, sweep_))
        self.assertEqual(len(table.rows), len(data["results"]))
        timed = 0
        for row in table.rows:
            cells = dict(zip((column.title for column in table.columns), row.cells))
            shape = Shape(cells["dtype"].text, int(cells["rows"].text), int(cells["cols"].text))
            (result,) = [r for r in sweep_.at(shape) if r["contender"] == (cells["contender"].text or "copy")]
            for title, name in (("time (µs)", "time_us"), ("% of copy", "percent_of_copy"), ("GB/s", "bandwidth_gb_s"),
                                ("passes", "passes"), ("spread (%)", "spread_percent"),
                                ("rounds differ (%)", "round_difference_percent"), ("error ÷ allowed", "max_error")):  # fmt: skip
                self.assertEqual(cells[title].key, result[name], title)
            if result["time_us"] is not None:
                timed += 1
                size = {"f32": 4, "f16": 2, "bf16": 2}[shape.dtype]
                moved = 2 * shape.rows * shape.cols * size / (result["time_us"] * 1e3)  # 10^9 bytes a second
                self.assertAlmostEqual(float(cells["GB/s"].text), moved, delta=0.6 + 0.001 * moved)
                self.assertAlmostEqual(float(cells["% of copy"].text), 100 * result["copy_us"] / result["time_us"], delta=0.2)
        self.assertGreater(timed, 300)

    def test_colours_do_not_get_into_a_reason(self) -> None:
        self.assertEqual(sweep.one_line(RuntimeError("\x1b[91m\x1b[1mred\x1b[0m\n text")), "RuntimeError: red text")

    def test_a_peer_may_err_by_four_times_what_a_stage_may(self) -> None:
        self.peer(*(contender(peer, "v", lambda _: [Candidate("", does_nothing)]) for peer in ("cudnn", "pytorch")))
        self.world.verdicts = {"cudnn v": Verdict(True, "", 3.9), "pytorch v": Verdict(True, "", 4.1)}
        data, out = self.swept("--shapes", SMALL)
        cudnn, pytorch = data["results"][-2:]
        self.assertEqual((cudnn["status"], cudnn["max_error"], cudnn["time_us"]), ("verified", 3.9, 200.0))
        self.assertEqual((pytorch["status"], pytorch["time_us"]), ("wrong", None))
        self.assertRegex(out, r"(?m)^f32:8x1024 .* 50\.0\* ")
        self.assertIn("by up to 3.9 times that (cudnn v at f32:8x1024); more than 4 is wrong", out)
        self.world.verdicts = {"02_fast packs": Verdict(True, "", 1.1)}
        self.assertEqual(self.sweep("--shapes", SMALL)[0], 1)  # a stage may not

    def test_what_a_peer_raises_belongs_into_its_row(self) -> None:
        def raises(error: Exception) -> Callable[[Problem], List[Candidate]]:
            def prepare(_problem: Problem) -> List[Candidate]:
                raise error

            return prepare

        class OutOfResources(Exception):
            pass

        def broken(_x: int, _y: int, _stream: int) -> None:
            raise RuntimeError("no\nkernel")

        self.peer(
            contender("cudnn", "a", raises(NotApplicable("too many elements"))),
            contender("pytorch", "b", lambda _: [Candidate("", broken)]),
            contender("triton", "c", raises(OutOfResources("shared memory"))),
            contender("quack", "d", lambda _: [Candidate("broken", broken), Candidate("fine", does_nothing)]),
        )
        with mock.patch.object(sweep.sweep_compile, "triton_ahead"):
            data, out = self.swept("--shapes", SMALL)
        shown = {r["contender"]: (r["status"], r["reason"], r["configuration"]) for r in data["results"][4:]}
        self.assertEqual(
            shown,
            {
                "cudnn a": ("not applicable", "too many elements", ""),
                "pytorch b": ("failed", "RuntimeError: no kernel", ""),
                "triton c": ("not applicable", "OutOfResources: shared memory", ""),
                "quack d": ("verified", "", "fine"),
            },
        )
        self.assertIn(f"failed: pytorch b at {SMALL}: RuntimeError: no kernel", out)

    def test_a_lost_gpu_ends_the_sweep_and_the_next_one_goes_on_without_the_culprit(self) -> None:
        def kills(_x: int, _y: int, _stream: int) -> None:
            self.world.alive = False
            raise RuntimeError("illegal address")

        self.peer(contender("pytorch", "eager", lambda _: [Candidate("", kills)]))
        code, _, err = self.sweep("--shapes", f"{SMALL},{LARGE}")
        self.assertEqual(code, 4)
        self.assertIn("pytorch eager at f32:8x1024 has made the GPU unusable", err)
        self.world.alive = True
        self.world.log.clear()
        self.peer(contender("pytorch", "eager", lambda _: [Candidate("", does_nothing)]))
        data, _ = self.swept("--shapes", f"{SMALL},{LARGE}")
        status = {(r["contender"], r["rows"]): r["status"] for r in data["results"]}
        self.assertEqual(status["pytorch eager", 8], "failed")
        self.assertEqual(status["pytorch eager", 49152], "verified")

    def test_missing_peers_are_named_and_the_rest_is_measured(self) -> None:
        self.peer(contender("cudnn", "accurate", lambda _: [Candidate("", does_nothing)]), pytorch="not installed")
        code, out, err = self.sweep("--shapes", SMALL)
        self.assertEqual(code, 0)
        self.assertEqual(err.count("without "), 1)
        self.assertIn("without pytorch: not installed", err)
        self.assertIn("cudnn", out)

    def test_peers_are_loaded_before_the_harness(self) -> None:
        order: List[str] = []

        class Loaded(FakeHarness):
            def __init__(self, build: Path, l2: str) -> None:
                order.append("harness")
                super().__init__(build, l2)

        found = mock.patch.object(peers, "find", lambda wanted: order.append("peers") or ([], {}, {}))
        with found, mock.patch.object(sweep, "Harness", Loaded):
            self.assertEqual(self.sweep("--shapes", SMALL)[0], 0)
        self.assertEqual(order, ["peers", "harness"])


class FindPeersTest(unittest.TestCase):
    """peers.find, with modules in place of the peers' files."""

    def find(self, **modules: Any) -> Tuple[List[PeerContender], Dict[str, str], Dict[str, str]]:
        def module_of(peer: str) -> Any:
            module = modules[peer]
            if isinstance(module, Exception):
                raise module
            return module

        with mock.patch.object(peers, "module_of", module_of):
            return peers.find(list(modules))

    def test_found_missing_and_broken(self) -> None:
        def missing() -> str:
            raise Missing("not installed")

        def broken() -> str:
            raise OSError("libfoo.so: no such file\nand more")

        here = contender("cudnn", "accurate", lambda _: [])
        contenders, versions, why = self.find(
            cudnn=types.SimpleNamespace(version=lambda: "9.1", contenders=lambda: [here]),
            pytorch=types.SimpleNamespace(version=missing, contenders=lambda: []),
            triton=Missing("Triton is not installed"),
            quack=types.SimpleNamespace(version=lambda: "1", contenders=broken),
        )
        self.assertEqual((contenders, versions), ([here], {"cudnn": "9.1"}))
        self.assertEqual(
            why,
            {
                "pytorch": "not installed",
                "triton": "Triton is not installed",
                "quack": "OSError: libfoo.so: no such file",
            },
        )

    def test_the_real_files_say_what_is_missing(self) -> None:
        text = "from measure import peers; print(peers.find(['pytorch', 'triton', 'quack', 'liger'])[2])"
        with tempfile.TemporaryDirectory() as folder:
            for module in ("torch", "triton"):
                (Path(folder) / f"{module}.py").write_text("raise ImportError('hidden')")
            done = subprocess.run(
                [sys.executable, "-B", "-c", text],
                capture_output=True,
                text=True,
                cwd=TOOLS,  # not in PYTHONPATH, which splits at colons: the checkout's path may have one
                env={"PYTHONPATH": folder},
            )
        for said in ("'pytorch': 'PyTorch is not installed for this python3'", "'triton': 'Triton is not installed"):
            self.assertIn(said, done.stdout, done.stderr)
        self.assertEqual(done.stdout.count(" is not installed"), 4)

    def test_autotuning_is_for_few_shapes(self) -> None:
        from measure.peers import pytorch

        shapes = sweep_plan.all_shapes(list(sweep_plan.TABLES))
        tuned = [s for s in shapes if len(pytorch.modes(Problem(*s, "softmax"))) > 1]
        self.assertIn(Shape("f16", 49152, 8192), tuned)
        self.assertNotIn(Shape("f32", 1, 1048576), tuned)
        self.assertLess(len(tuned), 12)  # at up to 8 s each


class JournalTest(SweepTest):
    SHAPES = ("--shapes", f"{SMALL},{LARGE}")

    def interrupt_after(self, times: int, error: BaseException = KeyboardInterrupt()) -> None:
        left = [times]

        def before(_name: str) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise error

        self.world.before_time = before

    def interrupted(self, times: int, *arguments: str) -> Path:
        """A sweep that is interrupted after so many timings; returns its journal."""
        self.interrupt_after(times)
        code, _, err = self.sweep(*(arguments or self.SHAPES))
        self.assertEqual((code, "the same command goes on" in err), (130, True), err)
        self.world.before_time = lambda name: None
        self.world.log.clear()
        (journal,) = self.build.glob("sweep-*.jsonl")
        return journal

    def resumed(self, said: str, measured: int) -> None:
        """The same sweep again says this, measures so much, and is complete."""
        file = self.root / "resumed.json"
        code, _, err = self.sweep(*self.SHAPES, "--out", str(file))
        self.assertEqual(code, 0, err)
        self.assertIn(said, err)
        self.assertEqual(len(self.world.names("time")), measured, err)
        results = json.loads(file.read_text())["results"]
        self.assertEqual([r["status"] for r in results], ["verified"] * 8)
        self.assertEqual([r["round_difference_percent"] is not None for r in results], [True] * 8)

    def unused(self) -> List[Path]:
        return sorted(self.build.glob("*.unused"))

    def test_goes_on_where_it_was(self) -> None:
        for done in (0, 1, 5, 8, 15):
            with self.subTest(done):
                self.interrupted(done)
                self.resumed(f"going on: {done} measurements" if done else "", 16 - done)
                self.assertEqual(self.unused(), [])

    def test_keeps_the_times_that_were_measured(self) -> None:
        self.world.times = lambda name, round_: 111.0
        self.interrupted(8)
        self.world.times = lambda name, round_: 222.0
        data, _ = self.swept(*self.SHAPES)
        self.assertEqual([r["time_us"] for r in data["results"]], [111.0] * 4 + [222.0] * 4)

    def test_nothing_is_left_behind(self) -> None:
        self.swept(*self.SHAPES)
        self.assertEqual([p.name for p in self.build.glob("sweep*")], [])

    def test_a_killed_process_loses_no_finished_line(self) -> None:
        child = os.fork()
        if child == 0:
            self.world.before_time = lambda name: os._exit(9) if len(self.world.names("time")) == 6 else None
            self.sweep(*self.SHAPES)
            os._exit(0)
        self.assertEqual(os.WEXITSTATUS(os.waitpid(child, 0)[1]), 9)
        self.resumed("going on: 6 measurements", 10)

    def test_a_line_cut_short_is_named_and_measured_again(self) -> None:
        journal = self.interrupted(5)
        text = journal.read_text()
        journal.write_text(text[:-20])
        self.resumed(f"{journal}: the last line is damaged", 12)
        self.assertEqual(self.unused(), [])

    def test_a_last_line_without_its_end_is_not_believed(self) -> None:
        journal = self.interrupted(5)
        journal.write_text(journal.read_text()[:-1])
        self.resumed("it was cut short", 12)

    def test_a_damaged_journal_is_named_and_not_used(self) -> None:
        def line(**changes: object) -> str:
            return json.dumps({**good, **changes}) + "\n"

        journal = self.interrupted(5)
        whole = journal.read_text()
        lines = whole.splitlines(keepends=True)
        good = json.loads(lines[2])
        cases = {
            "its first line is damaged": ["garbage\n", *lines[1:]],
            "its first line is damaged ": [],
            "line 3 is damaged": [*lines[:2], "garbage\n", *lines[3:]],
            "line 3 is damaged: its fields": [*lines[:2], '{"shape": 1}\n', *lines[3:]],
            "line 3 is damaged: its status": [*lines[:2], line(status="fine"), *lines[3:]],
            "line 3 is damaged: it has no time": [*lines[:2], line(time_us=None), *lines[3:]],
            "line 3 is damaged: one of its numbers": [*lines[:2], line(time_us=-1.0), *lines[3:]],
            "line 3 is damaged: one of its numbers ": [*lines[:2], line(copy_us="fast"), *lines[3:]],
            "line 3 is damaged: one of its numbers is": [*lines[:2], line(copy_us=True), *lines[3:]],
            "line 3 is damaged: its status or round": [*lines[:2], line(round=True), *lines[3:]],
            "line 3 is damaged: maximum recursion": [*lines[:2], "[" * 100000 + "\n", *lines[3:]],
            "its first line is damaged  ": ["[" * 100000 + "\n", *lines[1:]],
        }
        for number, (said, damaged) in enumerate(cases.items(), start=1):
            with self.subTest(said):
                self.world.log.clear()
                journal.write_text("".join(damaged))
                self.resumed(f"{journal} is not used: {said.strip()}", 16)
                self.assertEqual(len(self.unused()), number)
                self.assertIn("".join(damaged), [path.read_text() for path in self.unused()])

    def test_a_journal_of_another_commit_machine_or_code_is_not_used(self) -> None:
        for change, what in (
            (lambda: mock.patch.object(sweep, "commit_of", lambda *_: {"commit": "f" * 40, "dirty": False}), "commit"),
            (lambda: mock.patch.object(sweep, "commit_of", lambda *_: {"commit": COMMIT, "dirty": True}), "dirty"),
            (lambda: mock.patch.object(sweep, "code_digest", lambda *_: "0"), "code"),
            (lambda: mock.patch.object(sweep.platform, "python_version", lambda: "3.0"), "machine"),
        ):
            with self.subTest(what):
                self.interrupted(5)
                with change():
                    self.resumed(f"is not used: it belongs to another {what}", 16)

    def test_a_changed_library_is_other_code(self) -> None:
        self.interrupted(5)
        (self.build / "libsoftmax_harness.so").write_text("changed")
        self.resumed("it belongs to another code", 16)

    def test_another_plan_or_settings_have_a_journal_of_their_own(self) -> None:
        journal = self.interrupted(5)
        text = journal.read_text()
        for arguments in (
            ("--shapes", SMALL),
            (*self.SHAPES, "--repeats", "7"),
            (*self.SHAPES, "--contenders", "cudnn"),
        ):
            self.assertEqual(self.sweep(*arguments)[0], 0)
            self.assertEqual(journal.read_text(), text)
        self.world.log.clear()
        self.resumed("going on: 5 measurements", 11)

    def test_fresh_forgets(self) -> None:
        self.interrupted(5)
        self.swept(*self.SHAPES, "--fresh")
        self.assertEqual(len(self.world.names("time")), 16)

    def test_two_sweeps_at_once(self) -> None:
        self.interrupt_after(0, SystemExit(9))
        self.sweep(*self.SHAPES)
        (journal,) = self.build.glob("sweep-*.jsonl")
        with open(journal.with_name(journal.name + ".lock"), "w", encoding="utf-8") as lock:
            sweep_journal.fcntl.flock(lock, sweep_journal.fcntl.LOCK_EX)
            code, _, err = self.sweep(*self.SHAPES)
        self.assertEqual((code, err.strip().count("\n")), (1, 0))
        self.assertIn("another sweep is running here", err)


class FilesTest(SweepTest):
    def test_only_the_whole_usual_sweep_replaces_the_recorded_file(self) -> None:
        recorded, other = self.results / "nvidia-fake-1-sweep.json", self.build / "nvidia-fake-1-sweep.json"
        main = ("cudnn", "pytorch", "triton")
        self.peers = ([contender(p, "v", lambda _: [Candidate("", does_nothing)]) for p in main], {}, {})
        for arguments in (
            ("--tables", "oneflow"),
            ("--shapes", SMALL),
            ("--rounds", "1"),
            ("--op", "log_softmax"),
            ("--l2", "warm"),
            ("--repeats", "5"),
            ("--contenders", "stages"),
        ):
            with self.subTest(arguments):
                code, _, err = self.sweep(*arguments)
                self.assertEqual((code, recorded.exists(), other.exists()), (0, False, True), err)
                self.assertIn(f"wrote {other}", err)
                other.unlink()
        found = self.peers
        for absent in range(len(main)):  # not all of the main peers
            self.peers = ([c for c in found[0] if c.peer != main[absent]], {}, {})
            self.sweep()
            self.assertEqual((recorded.exists(), other.exists()), (False, True))
            other.unlink()
        self.peers = found
        self.world.verdicts["02_fast packs"] = Verdict(False, "wrong", 2.0)
        self.assertEqual(self.sweep()[0], 1)
        self.assertFalse(recorded.exists())
        self.world.verdicts.clear()
        with mock.patch.object(sweep, "commit_of", lambda *_: {"commit": results.UNKNOWN, "dirty": True}):
            self.assertEqual((self.sweep()[0], recorded.exists()), (0, False))
        other.unlink()
        self.assertEqual(self.sweep()[0], 0)
        self.assertEqual((recorded.exists(), other.exists()), (True, False))
        data = json.loads(recorded.read_text(encoding="utf-8"))
        self.assertEqual(
            [t["name"] for t in data["tables"]], ["fastertransformer", "oneflow", "triton_article", "awkward"]
        )
        self.assertEqual(data["recorded"]["command"], "./run sweep")
        shapes = {shape for table in data["tables"] for shape in table["shapes"]}
        self.assertEqual(len(data["results"]), 7 * len(shapes))

    def test_one_round_has_no_difference(self) -> None:
        data, _ = self.swept("--shapes", LARGE, "--rounds", "1")
        self.assertEqual({r["round_difference_percent"] for r in data["results"]}, {None})

    def test_csv_has_the_same_rows(self) -> None:
        self.world.reasons["02_fast packs", 1024] = 'too wide, "they" say'
        file = self.root / "out.csv"
        data, _ = self.swept("--shapes", SMALL, "--csv", str(file))
        with open(file, newline="", encoding="utf-8") as text:
            rows = list(csv.DictReader(text))
        self.assertEqual(rows, [{k: "" if v is None else str(v) for k, v in r.items()} for r in data["results"]])

    def test_a_failed_write_keeps_the_measurements(self) -> None:
        with mock.patch.object(sweep, "write_whole", side_effect=OSError("disk full")):
            code, _, err = self.sweep("--shapes", SMALL)
        self.assertEqual((code, "disk full" in err), (1, True))
        self.world.log.clear()
        self.swept("--shapes", SMALL)
        self.assertEqual(self.world.log, [])  # nothing was measured again


class PlanTest(unittest.TestCase):
    def test_the_published_tables(self) -> None:
        tables = {table.name: table.shapes for table in sweep_plan.TABLES}
        self.assertEqual(
            [str(s) for s in tables["fastertransformer"]],
            ["f32:32768x16", "f32:65536x32", "f32:131072x64", "f32:262144x128", "f32:1048576x512"],
        )
        self.assertEqual([s.cols for s in tables["oneflow"]], [32 << n for n in range(11)])
        self.assertEqual({(s.dtype, s.rows) for s in tables["oneflow"]}, {("f16", 49152)})
        self.assertEqual([s.cols for s in tables["triton_article"]], [256 << n for n in range(10)])
        self.assertEqual({(s.dtype, s.rows) for s in tables["triton_article"]}, {("f32", 1024)})
        awkward = tables["awkward"]
        self.assertTrue(any(s.cols % 2 for s in awkward))
        self.assertTrue(any((s.cols - 1) & (s.cols - 2) == 0 for s in awkward))  # one past a power of two
        self.assertTrue(any(s.cols == 50257 for s in awkward))
        self.assertTrue(any(s.rows < 10 and s.cols > 100000 for s in awkward))
        self.assertEqual({s.dtype for s in awkward}, {"f32", "f16", "bf16"})


class UsageTest(SweepTest):
    def test_bad_options_are_told_before_anything_is_loaded(self) -> None:
        self.world.no_device = "must not be asked"
        for arguments, said in (
            (("--tables", "none"), "'none' is not accepted; accepted: fastertransformer, oneflow"),
            (("--contenders", "stages,onnx"), "'onnx' is not accepted; accepted: stages, cudnn, pytorch"),
            (("--shapes", "f16"), "shape 'f16' is not DTYPE:ROWSxCOLS"),
            (("--shapes", "f8:1x1"), "shape 'f8:1x1'"),
            (("--shapes", "f16:0x1"), "shape 'f16:0x1'"),
            (("--rounds", "0"), "'0' is not accepted; accepted: whole numbers from 1"),
            (("--repeats", "many"), "'many' is not accepted"),
            (("--op", "max"), "'max'"),
            (("--device", "sim"), "the simulator takes no times"),
            (("--colour",), "--colour"),
        ):
            with self.subTest(arguments):
                code, out, err = self.sweep(*arguments)
                self.assertEqual((code, out, err.strip().count("\n")), (2, "", 0), err)
                self.assertIn(said, err)

    def test_no_gpu_is_one_clear_line(self) -> None:
        self.peers = ([], {}, {"pytorch": "sees no GPU"})
        self.world.no_device = "no usable NVIDIA GPU: no NVIDIA driver is loaded"
        code, out, err = self.sweep("--shapes", SMALL)
        self.assertEqual((code, out, err), (3, "", "./run sweep: no usable NVIDIA GPU: no NVIDIA driver is loaded\n"))
        self.world.no_device, self.world.simulated = "", True
        code, out, err = self.sweep("--shapes", SMALL)
        self.assertEqual((code, out, err.count("\n")), (3, "", 1))
        self.assertIn("simulator, which takes no times", err)

    def test_not_built(self) -> None:
        (self.build / "libsoftmax_harness.so").unlink()
        code, _, err = self.sweep("--shapes", SMALL)
        self.assertEqual((code, err.count("\n")), (1, 1))
        self.assertIn("not built", err)

    def test_list_needs_no_gpu_and_nothing_built(self) -> None:
        self.world.no_device = "must not be asked"
        (self.build / "libsoftmax_harness.so").unlink()
        code, out, _ = self.sweep("--list", "--shapes", SMALL)
        self.assertEqual(code, 0)
        self.assertIn(SMALL, out)
        self.assertIn("stages: 01_naive 02_fast", out)

    def test_help(self) -> None:
        code, out, _ = self.sweep("--help")
        self.assertEqual((code, "--shapes" in out), (0, True))


class ProgressTest(SweepTest):
    def test_without_a_terminal_a_line_per_shape(self) -> None:
        _, _, err = self.sweep("--shapes", f"{SMALL},{LARGE}")
        lines = [line for line in err.splitlines() if line.startswith("[")]
        self.assertEqual([line.split("] ")[1] for line in lines], [SMALL, LARGE])
        self.assertRegex(lines[0], r"^\[  0 %, \d+:\d\d left\]")

    def test_on_a_terminal_a_bar_that_ends_at_the_end(self) -> None:
        err = io.StringIO()
        err.isatty = lambda: True  # type: ignore[method-assign]
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(err):
            self.assertEqual(command.main(["sweep", "--root", str(self.root), "--commit", COMMIT, "--shapes", SMALL]), 0)
        percents = [int(found) for found in re.findall(r"\] +(\d+) %, \d+:\d\d left", err.getvalue())]
        self.assertEqual((percents[0], percents), (0, sorted(percents)))
        self.assertGreater(percents[-1], 80)
        self.assertIn("#####", err.getvalue())


class PublishedTablesTest(SweepTest):
    """The block `sweep` of generate, made from a sweep's file; and which file the other blocks take."""

    def setUp(self) -> None:
        super().setUp()

        def cannot(_problem: Problem) -> List[Candidate]:
            raise NotApplicable("never")

        names = (("cudnn", "accurate"), ("pytorch", "eager"), ("pytorch", "compiled"))
        found = [contender(peer, name, lambda _: [Candidate("", does_nothing)]) for peer, name in names]
        self.peers = (
            [*found, contender("triton", "fused", cannot)],
            {"cudnn": "9.19.0", "pytorch": "2.11.0"},
            {},
        )
        times = {
            "copy": 100.0,
            "02_fast packs": 101.0,
            "02_fast wide": 160.0,
            "cudnn accurate": 90.0,
            "pytorch compiled": 150.0,
        }
        self.world.times = lambda name, round_: times.get(name, 200.0) * (
            1 + 0.04 * round_ * (name == "pytorch compiled")
        )
        self.world.verdicts["cudnn accurate"] = Verdict(True, "", 1.5)
        self.world.reasons.update({("02_fast packs", 512): "no", ("cudnn accurate", 512): "too narrow"})
        for cols in (16, 32):
            for name in ("01_naive slow", "02_fast packs", "02_fast wide"):
                self.world.reasons[name, cols] = "too narrow"

    def generate(self, text: str) -> Tuple[int, str, str]:
        """Exit code, what generate says, and the page that it makes."""
        page, said = self.root / "README.md", io.StringIO()
        page.write_text(text, encoding="utf-8")
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            code = command.main(["generate", "--root", str(self.root)])
        return code, said.getvalue(), page.read_text(encoding="utf-8")

    def test_a_published_table(self) -> None:
        self.assertEqual(self.sweep()[0], 0)
        text = "<!-- generated: sweep fastertransformer -->\n<!-- end generated -->\n"
        code, said, page = self.generate(text)
        self.assertEqual(code, 0, said)
        lines = page.splitlines()[1:-1]
        self.assertEqual(
            lines[0], "| shape | copy (µs) | best stage, % of copy | cuDNN, % of copy | PyTorch, % of copy |"
        )
        self.assertEqual(lines[2], "| f32 32768 × 16 | 100.0 | – | **111.1**\\* accurate | 65.4 compiled |")
        packs = "[02](02_fast/) 99.0 packs"
        self.assertEqual(lines[5], f"| f32 262144 × 128 | 100.0 | {packs} | **111.1**\\* accurate | 65.4\\~ compiled |")
        self.assertEqual(
            lines[6], "| f32 1048576 × 512 | 100.0 | [02](02_fast/) 62.5 wide | – | **65.4**\\~ compiled |"
        )
        self.assertIn("noisy", lines[8])
        self.assertIn("less than 4 times", lines[9])
        for part in (
            "NVIDIA Fake 1",
            "cuDNN 9.19.0",
            "PyTorch 2.11.0",
            "cold L2",
            "2 rounds of 25 samples",
            "`./run sweep`",
            COMMIT[:10],
        ):
            self.assertIn(part, lines[10])
        self.assertEqual(self.generate(page)[1:], ("", page))

    def test_what_is_refused(self) -> None:
        text = "<!-- generated: sweep oneflow -->\n<!-- end generated -->\n"
        self.assertIn("README.md:1: sweep: no sweep's file in common/results", self.generate(text)[1])
        self.assertEqual(self.sweep()[0], 0)
        self.assertIn(
            "no table 'two' in nvidia-fake-1-sweep.json; there are: fastertransformer, oneflow",
            self.generate(text.replace("oneflow", "two"))[1],
        )
        (self.root / "02_fast").rename(self.root / "03_fast")
        self.assertIn("no such stage: '02_fast'", self.generate(text)[1])

    def test_other_files_are_not_taken_for_a_recording(self) -> None:
        self.assertEqual(self.sweep()[0], 0)
        text = "x <!-- value: machine field=gpu --><!-- end value -->\n"
        self.assertIn("no results file in common/results", self.generate(text)[1])
        recorded = json.loads(next(self.results.glob("*-sweep.json")).read_text())
        recorded["machine"]["gpu"] = "Recorded"
        (self.results / "old.json").write_text(json.dumps(recorded))
        for name in ("simulator", "old-simulator", "old-profile"):
            (self.results / f"{name}.json").write_text("not even JSON")
        code, said, page = self.generate(text)
        self.assertEqual((code, page), (0, text.replace("--><!--", "-->Recorded<!--")), said)


if __name__ == "__main__":
    unittest.main()
