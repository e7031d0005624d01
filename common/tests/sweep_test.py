"""Tests of ./run sweep on a machine without a GPU: the harness and the peers are fakes."""

import contextlib
import csv
import gc
import io
import itertools
import json
import os
import re
import signal
import sys
import time
from collections import Counter
from concurrent.futures import wait
from pathlib import Path
from typing import Any, Callable, Iterator
from unittest.mock import MagicMock, call

import pytest
import synthetic_sweep
from fake_stages import COMMIT, Repository

import command
from command import NoDevice, ToolError, Usage
from measure import peers, results, sweep, sweep_journal, sweep_options, sweep_tables
from measure.harness import Contender, HarnessError, Timing, Verdict, WrongResult
from measure.peers import Candidate, Missing, NotApplicable, PeerContender, Problem, cudnn, on_torch
from measure.results import Json, Shape
from pages import blocks, charts

STAGES = {"01_naive": [("slow", 50.0, 10**9)], "02_fast": [("packs", 99.0, 10**9), ("wide", 50.0, 10**9)]}
NAMES = ["copy", "01_naive slow", "02_fast packs", "02_fast wide"]
SMALL, LARGE = "f32:8x1024", "f32:49152x1024"  # below and above 32 MiB
BOTH = ("--shapes", f"{SMALL},{LARGE}")
RIGHT = Verdict(True, "", 0.25)
NOTHING = Candidate("", lambda x, y, stream: None)


class World(Repository):
    """A folder with two fake stages, built, the peers, and a fake GPU: the harness that it opens is itself.

    A test changes their behaviour.
    """

    stages = STAGES

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.no_device, self.is_terminal, self.alive = "", False, True
        self.device = {"gpu": "NVIDIA Fake 1", "compute_capability": "9.0", "simulated": 0}
        self.reasons: dict = {}  # (contender, cols): why it cannot
        self.verdicts: dict = {}  # by contender
        self.times = lambda name, round_: {"copy": 100.0, NAMES[2]: 101.0}.get(name, 200.0)
        self.copies = lambda name, round_: 100.0  # timed next to the contender
        self.spreads: dict = {}  # by contender, in percent
        self.before_time = lambda name: None
        self.peers, self.versions, self.missing = [], {}, {}
        # The opened problems (op, input, seed, offset); ("verify", "time" or "trial", contender) in order; the loaded things.
        self.problems, self.log, self.loaded = [], [], []

    def find(self, _wanted: list) -> tuple:
        self.loaded.append("peers")
        return self.peers, self.versions, self.missing

    def open(self, _build: Path, _l2: str) -> Any:
        self.loaded.append("harness")
        if self.no_device:
            raise NoDevice(self.no_device)
        self.added: list = [(Contender("", "copy"), NOTHING.launch)]
        self.timed: Counter = Counter()
        return contextlib.nullcontext(self)

    def is_alive(self) -> bool:
        return self.alive

    def add_stages(self, stages: list[str]) -> None:
        self.added += [(Contender(stage, name), NOTHING.launch) for stage in stages for name, *_ in STAGES[stage]]

    def add_contender(self, stage: str, name: str, launch: Callable) -> None:
        self.added.append((Contender(stage, name), launch))

    def contenders(self) -> list[Contender]:
        return [contender for contender, _ in self.added]

    def open_problem(self, shape: Shape, op: str, *how: object) -> None:
        if op == "max":
            raise Usage("op: 'max' is not accepted")
        self.problems.append((op, *how))
        self.passes = {"softmax_backward": 3.0, "cross_entropy": 1.0}.get(op, 2.0)
        if shape.cols > 1 << 20:
            raise Usage("needs 9.0 GiB of device memory, and 1.0 GiB are free")
        self.shape = shape

    def close_problem(self) -> None:
        del self.shape

    def name(self, number: int) -> str:
        return " ".join(self.added[number][0]).strip()

    def applies(self, number: int) -> tuple:
        return self.reasons.get((self.name(number), self.shape.cols), ""), self.passes

    def verify(self, number: int, tolerance_factor: float) -> Verdict:
        self.log.append(("verify", self.name(number)))
        self.added[number][1](0, 0, 0)
        found = self.verdicts.get(self.name(number), RIGHT)
        return found._replace(correct=found.correct and found.max_error <= tolerance_factor)

    def time(self, number: int, repeats: int, warm_up_ms: int, _limit_ms: int) -> Timing:
        name, place = self.name(number), (number, self.shape)
        self.before_time(name)
        # Compilers let the GPU rest before a trial.
        is_trial = (repeats, warm_up_ms) == (sweep.TRIAL_REPEATS, sweep.TRIAL_WARM_UP_MS)
        self.log.append(("trial" if is_trial else "time", name))
        self.added[number][1](0, 0, 0)
        self.timed[place] += 1
        time_us, copy_us = (of(name, self.timed[place] - 1) for of in (self.times, self.copies))
        return Timing(time_us, self.spreads.get(name, 1.0), copy_us, 0.5, "")

    def names(self, what: str) -> list[str]:
        return [name for kind, name in self.log if kind == what]

    def sweep(self, *arguments: str) -> tuple[int, str, str]:
        """The exit code, stdout and stderr."""
        with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
            err.isatty = lambda: self.is_terminal
            try:
                code = command.main(["sweep", "--root", str(self.root), "--commit", COMMIT, *arguments])
            except SystemExit as stop:  # --help
                code = int(stop.code or 0)
        return code, out.getvalue(), err.getvalue()

    def swept(self, *arguments: str, expected: int = 0, said: str = "") -> tuple[Json, str]:
        """The results file of a sweep, and its stdout; `said` is in its stderr."""
        file = self.root / "out.json"
        code, out, err = self.sweep("--out", str(file), *arguments)
        assert (code, said in err) == (expected, True), err
        return results.load(file, results.SWEEP), out


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(tmp_path.resolve())
    (made.build / "libsoftmax_harness.so").touch()
    monkeypatch.setattr(sweep, "Harness", made.open)
    monkeypatch.setattr(peers, "find", made.find)
    return made


def peer(name: str, *candidates: Candidate, raises: Exception | None = None, **more: Any) -> PeerContender:
    prepare = MagicMock(return_value=list(candidates or [NOTHING]), side_effect=raises)
    return PeerContender(*name.split(), prepare, **more)


# ---- The measurements.


def test_every_contender_of_every_shape_is_in_the_file(world: World) -> None:
    world.reasons[NAMES[2], 1024] = 'too wide, "they" say'
    file, shapes = world.root / "out.csv", f"{SMALL},{LARGE},f32:8x7,{SMALL}"
    data, _ = world.swept("--shapes", shapes, "--csv", str(file), "--op", "log_softmax")
    rows, settings = data["results"], data["settings"]
    assert [table["shapes"] for table in data["tables"]] == [[SMALL, LARGE, "f32:8x7"]]  # once, though given twice
    assert [(r["contender"], r["kind"]) for r in rows] == list(zip(NAMES, ("copy", "stage", "stage", "stage"))) * 3
    assert [(r["rows"], r["cols"]) for r in rows] == [(8, 1024)] * 4 + [(49152, 1024)] * 4 + [(8, 7)] * 4
    assert [r["status"] for r in rows[8:]] == ["verified"] * 4
    recorded = {"commit": COMMIT, "dirty": False, "command": f"./run sweep --shapes {shapes} --op log_softmax"}
    assert data["recorded"] == {"date_utc": data["recorded"]["date_utc"], **recorded}
    known = {"gpu", "driver_version", "nvcc", "python", "torch", "triton", "cudnn", "quack", "liger"}
    assert known <= set(data["machine"])
    assert str(world.root) not in json.dumps(data)
    # The problem is the one that the file names.
    assert (settings["rounds"], settings["seed"], settings["offset"]) == (2, 1, 0)
    assert set(world.problems) == {("log_softmax", "normal", 1, 0)}
    assert {(r["op"], r["input"]) for r in rows} == {("log_softmax", "normal")}
    with open(file, newline="", encoding="utf-8") as text:
        assert list(csv.DictReader(text)) == [{k: "" if v is None else str(v) for k, v in r.items()} for r in rows]


def test_verified_before_timed_and_the_rounds_run_in_opposite_order(world: World) -> None:
    world.swept("--shapes", SMALL)
    assert world.log == [*(("verify", n) for n in NAMES), *(("time", n) for n in NAMES + NAMES[::-1])]


def test_numbers(world: World) -> None:
    """The percentages are of the copies that were timed next to a contender, in all rounds: others saw another copy."""
    world.times = lambda name, round_: 200.0 + 10 * round_
    world.copies = lambda name, round_: {NAMES[2]: 110.0}.get(name, 150.0) + 20 * round_
    packs, wide = world.swept("--shapes", LARGE)[0]["results"][2:]
    names = ("time_us", "copy_us", "percent_of_copy", "round_difference_percent", "noisy", "passes")
    assert [packs[name] for name in names] == [205.0, 120.0, 58.54, 5.0, True, 2.0]
    assert [wide[name] for name in names] == [205.0, 160.0, 78.05, 5.0, True, 2.0]
    assert packs["bandwidth_gb_s"] == round(2 * 49152 * 1024 * 4 / 205e3, 1)
    data, _ = world.swept("--shapes", LARGE, "--rounds", "3")
    assert [r["copy_us"] for r in data["results"]] == [170.0, 170.0, 130.0, 170.0]
    data, _ = world.swept("--shapes", LARGE, "--rounds", "1")
    assert {r["round_difference_percent"] for r in data["results"]} == {None}


@pytest.mark.parametrize("op", results.SWEEPS)
def test_every_lesson_s_shapes_are_in_a_table(op: str) -> None:
    context = blocks.Context(Path(__file__).resolve().parents[2], None)
    shapes = [shape for _, shape, _ in blocks.lesson_places(context, op)]
    assert shapes
    assert set(shapes) <= set(sweep_options.all_shapes(sweep_options.tables_of(op)))


def test_a_peer_is_known_wherever_peers_are_named() -> None:
    known = sorted(peers.PEERS)
    assert sorted([*peers._FILES, *on_torch.LIBRARIES]) == known, "measure/peers: what measures a peer, and PEERS"
    assert sorted(blocks.PEER_NAMES) == known, "pages/blocks.py: how a peer is written"
    assert sorted(charts.PEERS) == known, "pages/charts.py: how a peer looks"


def test_the_larger_spread_of_two_rounds_is_shown() -> None:
    problem = Problem("f32", 4, 8, "softmax")
    once = sweep_journal.Measurement(str(problem), "", time_us=2, copy_us=1)
    rounds = [once._replace(round=number, spread_percent=spread) for number, spread in enumerate((1, 3, 2))]
    assert sweep_tables.row({}, problem, rounds, 2)["spread_percent"] == 3


def test_noisy(world: World) -> None:
    large, small = 33 << 20, 32 << 20
    noisy = [(large, 3.1, 0.0), (small, 0.0, 5.1)]
    quiet = [(large, 3.0, 5.0), (small, 50.0, 5.0), (large, None, 1.0)]
    assert [sweep_tables.is_noisy(*case) for case in (*noisy, *quiet)] == [True] * 2 + [False] * 3
    world.times = lambda name, round_: 100.0 + 4 * round_ * (name == NAMES[2])
    data, out = world.swept(*BOTH)
    assert [(r["contender"], r["rows"]) for r in data["results"] if r["noisy"]] == [(NAMES[2], 49152)]
    assert f"noisy: 1 of 8:\n  02_fast packs at {LARGE}: rounds differ by 4.0 %, spread 1.0 %\n" in out


def test_what_is_slow_has_one_round_and_no_line_where_it_is_noisy(world: World) -> None:
    world.times = lambda name, round_: {NAMES[2]: 200.0, NAMES[3]: 201.0}.get(name, 200.0)
    world.spreads = dict.fromkeys(NAMES[2:], 7.0)
    data, out = world.swept("--shapes", LARGE)
    assert Counter(world.names("time")) == {**dict.fromkeys(NAMES[:3], 2), NAMES[3]: 1}
    shown = [(r["time_us"], r["round_difference_percent"], r["noisy"]) for r in data["results"][2:]]
    assert shown == [(200.0, 0.0, True), (201.0, None, True)]
    assert out.endswith(f"noisy: 1 of 4:\n  02_fast packs at {LARGE}: rounds differ by 0.0 %, spread 7.0 %\n")


@pytest.mark.parametrize("verdict", [Verdict(False, "7 of 9 wrong", 3.0), Verdict(True, "7 of 9 wrong", 1.1)])
def test_a_wrong_stage_gets_no_time_and_fails_the_sweep(world: World, verdict: Verdict) -> None:
    """And a stage may not err by more than its tolerance."""
    world.verdicts[NAMES[2]] = verdict
    data, out = world.swept("--shapes", SMALL, expected=1, said=f"wrong: 02_fast packs {SMALL}: 7 of 9 wrong\n")
    wrong = data["results"][2]
    assert (wrong["status"], wrong["reason"], wrong["time_us"]) == ("wrong", "7 of 9 wrong", None)
    assert NAMES[2] not in world.names("time")
    assert f"wrong: 02_fast packs at {SMALL}: 7 of 9 wrong\n" in out


@pytest.mark.parametrize("error, status", [(WrongResult("not after"), "wrong"), (HarnessError("not after"), "failed")])
def test_right_before_timing_and_not_in_the_second_round(world: World, error: Exception, status: str) -> None:
    def before_time(name: str) -> None:
        if name == NAMES[2] and name in world.names("time"):
            raise error

    world.before_time = before_time
    result = world.swept("--shapes", SMALL, expected=1)[0]["results"][2]
    assert (result["status"], result["reason"], result["time_us"]) == (status, "not after", None)


def test_what_cannot_do_a_shape_is_shown_with_the_reason(world: World) -> None:
    widths = (1 << 21, 512, 1024, 2048, 4096, 8192)
    world.reasons = {(NAMES[2], cols): "at most 512 columns" for cols in widths[2:]}
    data, out = world.swept("--shapes", ",".join(f"f32:8x{cols}" for cols in widths))
    assert {r["status"] for r in data["results"] if r["cols"] == widths[0]} == {"not applicable"}
    packs = [r for r in data["results"] if r["variant"] == "packs" and r["cols"] != widths[0]]
    shown = [(r["status"], r["reason"], r["time_us"] is None) for r in packs]
    assert shown == [("verified", "", False)] + [("not applicable", "at most 512 columns", True)] * 4
    assert "not applicable: 02_fast packs at f32:8x1024 to f32:8x8192 (4 shapes): at most 512 columns" in out
    assert "not applicable: 02_fast packs, wide at f32:8x2097152: needs 9.0 GiB of device memory" in out


# ---- Peers.


def test_the_fastest_right_candidate_stands_for_the_peer(world: World) -> None:
    times = {"slow": 300.0, "fast": 150.0, "wrong": 10.0}

    def launch(name: str) -> None:
        world.verdicts["cudnn accurate"] = RIGHT._replace(correct=name != "wrong")
        world.times = lambda contender, round_: times[name] if contender == "cudnn accurate" else 200.0

    world.peers = [peer("cudnn accurate", *(Candidate(name, lambda *_, name=name: launch(name)) for name in times))]
    world.versions = {"cudnn": "1.2.3"}
    data, _ = world.swept("--shapes", SMALL)
    result = data["results"][-1]
    assert (result["contender"], result["kind"], result["configuration"]) == ("cudnn accurate", "peer", "fast")
    assert (result["time_us"], data["machine"]["cudnn"]) == (150.0, "1.2.3")
    assert world.names("trial") == 2 * ["cudnn accurate"]  # the wrong one is never timed


@pytest.mark.parametrize(
    "percents, spreads, leading, said",
    [
        ((98.0, 97.1), (0.4, 0.4), "both", "as fast as quack"),
        ((97.1, 98.0), (0.4, 0.4), "both", "as fast as quack"),
        ((98.0, 97.0), (0.4, 0.4), "both", "as fast as quack"),
        ((98.0, 96.9), (0.4, 0.4), "stage", "stages 1.01x"),
        ((96.9, 98.0), (0.4, 0.4), "peer", "quack 1.01x"),
        # Ahead by less than the samples of one of them spread: 3 % of 90.
        ((93.0, 90.4), (0.4, 3.0), "both", "as fast as quack"),
        ((90.4, 93.0), (3.0, 0.4), "both", "as fast as quack"),
        ((93.5, 90.4), (0.4, 3.0), "stage", "stages 1.03x"),
        ((93.5, 90.4), (0.4, None), "stage", "stages 1.03x"),
    ],
)
def test_who_is_ahead_by_less_than_a_point_or_the_spread_is_as_fast(
    percents: tuple, spreads: tuple, leading: str, said: str
) -> None:
    """In percent of its copy: the leading contender has the longer time here."""
    data = synthetic_sweep.sweep()
    here = [r for r in data["results"] if (r["dtype"], r["rows"], r["cols"]) == ("f16", 49152, 1024)]
    for result in here:
        result.update(time_us=100.0, copy_us=50.0, percent_of_copy=50.0)
    pair = {r["kind"]: r for r in here if r["contender"] in ("06_online online", "quack softmax")}
    for (kind, percent), spread in zip(zip(("stage", "peer"), percents), spreads):
        pair[kind].update(percent_of_copy=percent, spread_percent=spread, time_us=percent)
    leaders = list(pair.values()) if leading == "both" else [pair[leading]]
    assert results.leaders(r for r in here if r["kind"] != "copy") == leaders
    printed = sweep_tables.text(data)
    assert re.search(rf"(?m)^f16:49152x1024 .*  {said}$", printed)
    by_peer = r"44\.5 +69\.6 compiled +88\.0 fused +90\.0 +59\.3 +39\.8"  # named where a peer has several variants
    assert re.search(rf"(?m)^f16:49152x32 .* 97\.9 03_warp_reduce packs +{by_peer} +stages 1\.09x$", printed)


def test_what_a_peer_does_stands_in_its_row(world: World) -> None:
    class OutOfResources(Exception):
        pass

    broken = MagicMock(side_effect=RuntimeError("\x1b[91mno\x1b[0m\nkernel"))  # colours do not get into a reason
    world.peers = [
        peer("cudnn a", raises=NotApplicable("too many elements")),
        peer("pytorch b", Candidate("", broken)),
        peer("triton c", raises=OutOfResources("shared memory")),
        peer("quack d", Candidate("broken", broken), Candidate("fine", NOTHING.launch)),
        peer("liger e", operations=["log_softmax"]),
        peer("cudnn f"),
        peer("pytorch g"),
    ]
    # It may err four times as much as a stage.
    world.verdicts = {"cudnn f": Verdict(True, "", 3.9), "pytorch g": Verdict(True, "no", 4.1)}
    world.missing = {"liger": "not installed"}
    data, out = world.swept("--shapes", SMALL, said="without liger: not installed\n")
    rows = data["results"][4:]
    assert {r["contender"]: (r["status"], r["reason"], r["configuration"], r["time_us"]) for r in rows} == {
        "cudnn a": ("not applicable", "too many elements", "", None),
        "pytorch b": ("failed", "RuntimeError: no kernel", "", None),
        "triton c": ("not applicable", "OutOfResources: shared memory", "", None),
        "quack d": ("verified", "", "fine", 200.0),
        "liger e": ("not applicable", "liger has no softmax", "", None),
        "cudnn f": ("verified", "", "", 200.0),
        "pytorch g": ("wrong", "no", "", None),
    }
    assert f"failed: pytorch b at {SMALL}: RuntimeError: no kernel\n" in out
    assert re.search(r"(?m)^f32:8x1024 .* 50\.0\* f ", out)
    assert "by up to 3.9 times that (cudnn f at f32:8x1024); more than 4 is wrong" in out
    assert world.loaded == ["peers", "harness"]  # the other way round PyTorch would crash


@pytest.mark.parametrize(
    "other, op, found",
    [
        ("softmax_backward", "softmax", NAMES[:2]),
        ("softmax_backward", "softmax_backward", [NAMES[0], *NAMES[2:]]),
        ("cross_entropy", "softmax", NAMES[:2]),
        ("cross_entropy", "cross_entropy_gradient", [NAMES[0], *NAMES[2:]]),
    ],
)
def test_stages_of_another_operation_are_left_out(
    world: World, monkeypatch: Any, other: str, op: str, found: list[str]
) -> None:
    monkeypatch.setattr(results, "OPERATIONS", {"02_fast": (other,)})
    world.peers = [peer("quack softmax", operations=(*peers.OPERATIONS, *peers.CROSS_ENTROPY))]
    data, _ = world.swept("--shapes", SMALL, "--op", op)
    assert [r["contender"] for r in data["results"]] == [*found, "quack softmax"]
    data, _ = world.swept("--shapes", SMALL, "--op", op, "--contenders", "quack")  # and no other stage
    assert [r["contender"] for r in data["results"]] == ["copy", "quack softmax"]


def test_the_library_s_kernels_are_contenders(world: World, monkeypatch: Any) -> None:
    monkeypatch.setattr(results, "OPERATIONS", {results.OF_LIBRARY: ("softmax", "softmax_backward")})
    monkeypatch.setitem(STAGES, results.OF_LIBRARY, [("fused", 90.0, 10**9)])
    main = world.root / "common/rowwise/bench/main.cu"
    main.parent.mkdir(parents=True)
    main.touch()
    name = f"{results.OF_LIBRARY} fused"
    for more, found in {
        (): [*NAMES, name],
        ("--contenders", "stages"): NAMES,
        ("--contenders", "rowwise"): ["copy", name],
        ("--contenders", "rowwise", "--op", "softmax_backward"): ["copy", name],
    }.items():
        data, _ = world.swept("--shapes", SMALL, *more)
        assert [r["contender"] for r in data["results"]] == found


def test_of_a_peer_s_contenders_those_that_do_the_operation() -> None:
    """If a peer does not do it at all, its first contender: the rows say so."""
    found = [
        peer("quack softmax", operations=("softmax", "softmax_backward")),
        peer("quack cross_entropy", operations=peers.CROSS_ENTROPY),
        peer("triton fused", operations=peers.OPERATIONS),
        peer("triton tile", operations=peers.OPERATIONS),
    ]
    for ops, names in (
        ({"softmax"}, ["softmax", "fused", "tile"]),
        ({"softmax", "log_softmax"}, ["softmax", "fused", "tile"]),
        ({"log_softmax"}, ["softmax", "fused", "tile"]),
        ({"cross_entropy_gradient"}, ["cross_entropy", "fused"]),
    ):
        assert [one.variant for one in peers.of_operations(found, ops)] == names


@pytest.mark.parametrize("op, passes", [("softmax_backward", 3), ("cross_entropy", 1), ("cross_entropy_gradient", 2)])
def test_an_operation_beside_its_ceiling(world: World, monkeypatch: Any, op: str, passes: int) -> None:
    """Which of a peer's contenders are shown with it, and the bytes that it needs."""
    monkeypatch.setattr(results, "OPERATIONS", dict.fromkeys(STAGES, (op,)))
    world.peers = [
        peer("quack softmax"),
        peer("quack this", operations=[op]),
        peer("cudnn accurate", compile_ahead=lambda problems: pytest.fail("not its operation")),
    ]
    data, _ = world.swept("--shapes", LARGE, "--op", op)
    rows = data["results"]
    assert [r["contender"] for r in rows] == [*NAMES, "quack this", "cudnn accurate"]
    assert [r["status"] for r in rows] == ["verified"] * 5 + ["not applicable"]
    assert rows[-1]["reason"] == f"cudnn has no {op}"
    assert rows[0]["bandwidth_gb_s"] == round(passes * 49152 * 1024 * 4 / 100e3, 1)


@pytest.mark.parametrize("op", ["softmax", "softmax_backward"])
def test_an_offset_reaches_the_harness_the_peers_and_the_file(world: World, monkeypatch: Any, op: str) -> None:
    monkeypatch.setattr(results, "OPERATIONS", dict.fromkeys(STAGES, (op,)))
    one = peer("cudnn accurate", operations=peers.OPERATIONS, compile_ahead=MagicMock())
    world.peers = [one]
    data, _ = world.swept("--shapes", SMALL, "--op", op, "--offset", "3")
    problem = Problem("f32", 8, 1024, op, 3)
    assert (one.prepare.call_args_list, one.compile_ahead.call_args_list) == ([call(problem)], [call([problem])])
    assert world.problems[-1] == (op, "normal", 1, 3)
    assert (data["settings"]["offset"], {r["offset"] for r in data["results"]}) == (3, {3})
    assert data["recorded"]["command"].endswith(" --offset 3")


def test_a_lost_gpu_ends_the_sweep_and_the_next_one_goes_on_without_the_culprit(world: World) -> None:
    def kills(_x: int, _y: int, _stream: int) -> None:
        world.alive = False
        raise RuntimeError("illegal address")

    world.peers = [peer("pytorch eager", Candidate("", kills))]
    code, _, err = world.sweep(*BOTH)
    assert code == 4
    assert "pytorch eager at f32:8x1024 has made the GPU unusable" in err
    world.alive = True
    world.peers = [peer("pytorch eager")]
    data, _ = world.swept(*BOTH)
    assert [r["status"] for r in data["results"] if r["kind"] == "peer"] == ["failed", "verified"]
    assert world.names("time").count("pytorch eager") == 2  # two rounds at one of two shapes


def test_peers_are_found_missing_or_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    here = peer("cudnn accurate")
    found = [
        MagicMock(**{"version.return_value": "9.1", "contenders.return_value": [here]}),
        MagicMock(**{"version.side_effect": Missing("not installed")}),
        Missing("Triton is not installed"),
        MagicMock(**{"contenders.side_effect": OSError("libfoo.so: no such file\nand more")}),
    ]
    monkeypatch.setattr(peers, "load", MagicMock(side_effect=found))
    why = {"pytorch": "not installed", "triton": "Triton is not installed", "quack": "OSError: libfoo.so: no such file"}
    assert peers.find(["cudnn", *why]) == ([here], {"cudnn": "9.1"}, why)


def test_the_real_files_say_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("torch", "triton"):
        monkeypatch.setitem(sys.modules, module, None)  # as if it were not installed
    names = {"pytorch": "PyTorch", "triton": "Triton", "quack": "PyTorch", "liger": "PyTorch", "flashinfer": "PyTorch"}
    missing = {peer: f"{name} is not installed for this python3" for peer, name in names.items()}
    assert peers.find(list(names)) == ([], {}, missing)


# ---- How the libraries are called, with their modules and PyTorch's in one stand-in. A sweep finds out for itself whether
# their results are right, wherever they are.


@pytest.fixture
def foreign(monkeypatch: pytest.MonkeyPatch) -> MagicMock:
    """Its tensors are the pointers themselves."""
    fake = MagicMock(__version__="2.0+cu", compile=lambda function, **_: function)
    fake.calculate_settings.return_value = 65536, 32
    fake.import_module().MAX_FUSED_SIZE = 32768
    for name in ("liger_kernel", "liger_kernel.ops", "liger_kernel.ops.utils"):
        monkeypatch.setitem(sys.modules, name, fake)
    monkeypatch.setattr(cudnn, "_load", lambda: fake)
    monkeypatch.setattr(cudnn._Cudnn, "check", lambda *_: None)
    monkeypatch.setattr(on_torch, "importlib", fake)
    monkeypatch.setattr(on_torch, "import_torch", lambda: fake)
    monkeypatch.setattr(on_torch, "on_tensors", lambda problem, function: lambda *memory: function(*memory[:-1]))
    monkeypatch.setattr(on_torch, "_flashinfer_kernels", lambda: fake)
    return fake


def prepared(peer: str, problem: Problem) -> list[Candidate]:
    """All that a library has for the problem."""
    found = cudnn.contenders() if peer == "cudnn" else on_torch.LIBRARIES[peer]._replace(load=lambda: None).contenders()
    some = [contender.prepare(problem) for contender in found if problem.op in contender.operations]
    return [candidate for candidates in some for candidate in candidates]


# For each candidate: the functions that get tensors, with these and then the whole numbers among their arguments.
CALLS = {
    "cudnn softmax f32:4x8": ["cudnnSoftmaxForward x y 1 0", "cudnnSoftmaxForward x y 1 1"],
    "cudnn log_softmax f32:4x8": ["cudnnSoftmaxForward x y 2 0", "cudnnSoftmaxForward x y 2 1"],
    "cudnn softmax_backward f32:4x8": ["cudnnSoftmaxBackward y dy dx 1 0", "cudnnSoftmaxBackward y dy dx 1 1"],
    "cudnn log_softmax_backward f32:4x8": ["cudnnSoftmaxBackward y dy dx 2 0", "cudnnSoftmaxBackward y dy dx 2 1"],
    "pytorch softmax f16:4x8": ["_softmax.out x y -1", "softmax x -1; y.copy_"],
    "pytorch log_softmax f16:4x8": ["_log_softmax.out x y -1", "log_softmax x -1; y.copy_"],
    "pytorch softmax_backward f16:4x8": [
        "_softmax_backward_data.out dy y dx -1",
        "_softmax_backward_data dy y -1; dx.copy_",
    ],
    "pytorch log_softmax_backward f16:4x8": [
        "_log_softmax_backward_data.out dy y dx -1",
        "_log_softmax_backward_data dy y -1; dx.copy_",
    ],
    "pytorch cross_entropy f32:4x8": [
        "_log_softmax.out x -1; nll_loss_forward.output label loss 0 -100",
        "nn.functional.cross_entropy label; loss.copy_",
    ],
    "pytorch cross_entropy_gradient f32:4x8": [
        "_log_softmax.out x -1; nll_loss_forward.output label loss 0 -100; "
        "nll_loss_backward.grad_input label 0 -100; _log_softmax_backward_data.out dx -1",
        "nn.functional.cross_entropy label; loss.copy_; dx.copy_",
    ],
    "pytorch cross_entropy_gradient bf16:4x8": [
        "empty.copy_ x; nll_loss_forward.output label loss 0 -100; "
        "nll_loss_backward.grad_input label 0 -100; dx.copy_",
        "nn.functional.cross_entropy label; loss.copy_; dx.copy_",
    ],
    "quack softmax f16:4x1024": ["_softmax_fwd x y"],
    "quack softmax_backward f16:4x1024": ["_softmax_backward dy y dx"],
    "quack cross_entropy bf16:4x1002": ["cross_entropy_fwd_out x label loss -100"],
    "quack cross_entropy_gradient f32:4x1001": [
        "cross_entropy_fwd_out x label loss dx -100",
        "cross_entropy_fwd_out x label loss -100; cross_entropy_bwd_out x label dx -100",
    ],
    "liger softmax f32:4x65536": ["softmax._softmax_single_block_forward_kernel y x 65536"],
    "liger softmax_backward f32:4x65537": ["softmax._softmax_multi_block_backward_kernel dy y dx 65537"],
    "liger cross_entropy_gradient bf16:4x50257": ["dx.copy_ x; loss.zero_; liger_cross_entropy_kernel dx label loss"],
    "flashinfer softmax f32:4x32000": ["softmax x y", "softmax x y"],
}


@pytest.mark.parametrize("where", CALLS)
def test_which_function_of_a_library_gets_which_tensors(foreign: MagicMock, where: str) -> None:
    peer, op, shape = where.split()
    memory = "x label loss dx" if op in peers.CROSS_ENTROPY else "y dy dx" if op in peers.GRADIENTS else "x y"
    tensors = {getattr(foreign, name): name for name in memory.split()}
    shown = []
    for candidate in prepared(peer, Problem(*results.parse_shape(shape), op)):
        foreign.reset_mock()
        candidate.launch(*list(tensors)[: 3 if op == "cross_entropy" else None], "stream")
        called = []
        for path, arguments, named in foreign.mock_calls:
            found = [one for one in (*arguments, *named.values()) if isinstance(one, MagicMock) and one in tensors]
            if found or path.endswith(("copy_", "zero_")):
                name = re.sub(r"ops\.aten\.|import_module\(\)\.|\.__getitem__|\(\)", "", path)
                numbers = [str(one) for one in arguments if type(one) is int]
                called.append(" ".join([name, *map(tensors.get, found), *numbers]))
        shown.append("; ".join(called))
    assert shown == CALLS[where]


@pytest.mark.parametrize(
    "peer, problem, why",
    [
        ("quack", Problem("f16", 4, 1024, "softmax_backward", 8), ""),
        ("quack", Problem("f16", 4, 1024, "softmax", 1), "tensors aligned to 16 bytes only"),
        ("quack", Problem("f16", 4, 1025, "softmax"), "rows of whole packs of 16 bytes only: 8 columns"),
        ("quack", Problem("bf16", 4, 1002, "cross_entropy", 2), ""),
        ("quack", Problem("f32", 4, 1001, "cross_entropy_gradient", 1), ""),
        ("quack", Problem("bf16", 4, 1001, "cross_entropy"), "loads at least 4 bytes at once: an even number of columns"),
        ("quack", Problem("bf16", 4, 1002, "cross_entropy", 1), "tensors aligned to its packs of 2 elements only"),
        ("liger", Problem("f32", 4, 8, "cross_entropy"), "overwrites the logits of ignored rows, even for the loss alone"),
        ("flashinfer", Problem("f32", 4, 32001, "softmax", 1), ""),
        ("flashinfer", Problem("f32", 4, 32000, "softmax", 1), "tensors aligned to its packs of 4 elements only"),
        ("flashinfer", Problem("bf16", 4, 32000, "softmax"), "its result is f32, whatever its input"),
    ],
)
def test_what_a_library_cannot_do(foreign: MagicMock, peer: str, problem: Problem, why: str) -> None:
    try:
        assert prepared(peer, problem) and not why
    except NotApplicable as error:
        assert why and str(error).endswith(why)


@pytest.mark.parametrize(
    "dtype, arch, warps", [("bf16", "hopper", 32), ("bf16", "blackwell", 8), ("f32", "blackwell", 32)]
)
def test_liger_s_loss_has_the_warps_of_liger(foreign: MagicMock, dtype: str, arch: str, warps: int) -> None:
    foreign.import_module().infer_device_arch.return_value = arch
    (candidate,) = prepared("liger", Problem(dtype, 4, 50257, "cross_entropy_gradient"))
    assert candidate.configuration == f"{warps} warps"


@pytest.mark.parametrize("offset", [0, 1])
def test_compiled_for_aligned_tensors_is_cached_for_those_alone(foreign: MagicMock, offset: int) -> None:
    prepared("pytorch", Problem("f16", 4, 8, "softmax", offset))
    assert foreign.import_module().enable_autograd_cache == (offset == 0)


def test_a_library_of_pytorch_s_that_is_not_installed(foreign: MagicMock, monkeypatch: pytest.MonkeyPatch) -> None:
    absent = on_torch.LIBRARIES["quack"]._replace(package="no-such-package")
    monkeypatch.setitem(on_torch.LIBRARIES, "quack", absent)
    missing = {"quack": "no-such-package is not installed for this python3"}
    found, versions, why = peers.find(["pytorch", "quack"])
    assert ([one.variant for one in found], versions, why) == (["eager", "compiled"], {"pytorch": "2.0+cu"}, missing)
    nvcc_fails = MagicMock(side_effect=OSError("no nvcc"))  # said once, and not at each problem
    monkeypatch.setitem(on_torch.LIBRARIES, "pytorch", on_torch.LIBRARIES["pytorch"]._replace(load=nvcc_fails))
    assert peers.find(["pytorch"]) == ([], {}, {"pytorch": "OSError: no nvcc"})


def test_tensors_begin_where_the_harness_s_memory_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the offset in their storage: torch.compile would take a tensor that begins a storage for aligned."""
    torch = MagicMock(bfloat16="bf16", int64="i64", float32="f32")
    monkeypatch.setattr(on_torch, "import_torch", lambda: torch)
    on_torch.on_tensors(Problem("bf16", 3, 5, "softmax", 7), lambda x, y: None)(6014, 7014, 0)
    loss = Problem("bf16", 3, 5, "cross_entropy_gradient", 7)
    on_torch.on_tensors(loss, lambda x, label, loss, dx: None)(1014, 2056, 3028, 4014, 0)
    interfaces = [each.args[0].__cuda_array_interface__ for each in torch.as_tensor.call_args_list]
    assert [interface["data"][0] for interface in interfaces] == [6000, 7000, 1000, 2000, 3000, 4000]
    assert [interface["shape"] for interface in interfaces] == [(22,), (22,), (22,), (10,), (10,), (22,)]
    storage = torch.as_tensor().view
    assert storage.call_args_list == list(map(call, ("bf16", "bf16", "bf16", "i64", "f32", "bf16")))
    assert storage().__getitem__.call_args_list == 6 * [call(slice(7, None))]
    shapes = [each.args for each in storage()[7:].view.call_args_list]
    assert shapes == [(3, 5), (3, 5), (3, 5), (3,), (3,), (3, 5)]


def test_autotuning_is_for_few_shapes() -> None:
    shapes = sweep_options.all_shapes(sweep_options.TABLES)
    tuned = [shape for shape in shapes if len(on_torch.modes(Problem(*shape, "softmax"))) > 1]
    assert Shape("f16", 49152, 8192) in tuned
    assert Shape("f32", 1, 1048576) not in tuned
    assert len(tuned) < 12  # at up to 8 s each


# ---- Compiling Triton's kernels ahead, with a Triton that compiles by `compile`, in `raw_futures`.


@pytest.fixture
def triton(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    fake = MagicMock(jit=lambda kernel=None, **_: kernel or (lambda kernel: kernel), compiled=[])

    @contextlib.contextmanager
    def compiling(executor: Any, ignore_errors: bool) -> Iterator[Any]:
        fake.raw_futures, fake.executor = [], executor
        try:
            yield fake
        finally:
            # As Triton, which would wait for cancelled ones for ever.
            assert not wait(fake.raw_futures, timeout=5).not_done

    def compile_(kernel: str) -> None:
        fake.compiled.append(kernel)
        fake.compile(kernel)

    def warm_up(kernel: Any, _configuration: Any, _problem: Problem) -> None:
        fake.raw_futures.append(fake.executor.submit(compile_, kernel.__name__))

    fake.AsyncCompileMode = compiling
    for name in ("triton", "triton.language"):
        monkeypatch.setitem(sys.modules, name, fake)
    fake.peer = peers.load("triton")
    monkeypatch.setattr(fake.peer, "_warm_up", warm_up)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: range(4))
    yield fake
    del sys.modules["measure.peers.triton_kernels"]


PROBLEMS = [Problem(*shape, "softmax") for shape in sweep_options.all_shapes(sweep_options.TABLES)]


def test_what_fails_to_compile_ahead_is_told_and_stops_no_other(triton: Any, capsys: Any) -> None:
    def fails(kernel: str) -> None:
        if kernel == "fused":
            raise ValueError("two\nlines")

    triton.compile = fails
    triton.peer.compile_ahead(PROBLEMS)
    number = Counter(triton.compiled)
    assert set(number) == set(triton.peer.KERNELS)
    assert number["tile"] == sum(len(triton.peer.KERNELS["tile"][1](problem.cols)) for problem in PROBLEMS)
    told = f"compiling {len(triton.compiled)} Triton kernels in 4 threads ...\n{number['fused']} of them failed here: "
    assert capsys.readouterr().err == told + "ValueError: two lines\n"


def test_an_interrupt_ends_the_compiling(triton: Any) -> None:
    numbers = itertools.count()

    def interrupts(_kernel: str) -> None:
        if next(numbers) == 7:
            os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.2)

    triton.compile = interrupts
    gc.collect()  # an interrupt within a finalizer would be lost
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        triton.peer.compile_ahead(PROBLEMS)
    assert time.monotonic() - begin < 10 and len(triton.compiled) < 100  # of hundreds, which would take longer
    del triton.AsyncCompileMode
    triton.peer.compile_ahead(PROBLEMS)  # an older Triton compiles each when its turn comes


@pytest.mark.parametrize(
    "name, cols, why",
    [
        ("online", 8, "for softmax alone, not for its gradient"),
        ("fused", 65537, "both rows must fit the registers of a program: at most 65536 columns"),
    ],
)
def test_what_triton_does_of_softmax_alone(triton: Any, monkeypatch: Any, name: str, cols: int, why: str) -> None:
    monkeypatch.setattr(triton.peer, "on_tensors", lambda problem, run: run)
    assert triton.peer._prepare(name, Problem("f32", 4, cols, "softmax"))
    with pytest.raises(NotApplicable, match=why):
        triton.peer._prepare(name, Problem("f32", 4, cols, "softmax_backward"))


def test_what_is_left_is_compiled_ahead_once(world: World) -> None:
    asked: list[list[Problem]] = []
    world.peers = [peer(f"triton {name}", compile_ahead=asked.append) for name in ("a", "b")]
    world.swept(*BOTH)
    assert asked == [[Problem("f32", 8, 1024, "softmax"), Problem("f32", 49152, 1024, "softmax")]]


# ---- The journal.


def interrupted(world: World, times: int) -> Path:
    """A sweep that is interrupted after `times` timings; returns its journal."""

    def before(_name: str) -> None:
        if len(world.names("time")) == times:
            raise KeyboardInterrupt

    world.log.clear()
    world.before_time = before
    code, _, err = world.sweep(*BOTH)
    assert (code, "the same command goes on" in err) == (130, True), err
    world.before_time = lambda name: None
    world.log.clear()
    (journal,) = world.build.glob("sweep-*.sqlite")
    return journal


def resumed(world: World, said: str, measured: int) -> list[Json]:
    """The same sweep again says this, makes `measured` timings, and is complete."""
    found = world.swept(*BOTH, said=said)[0]["results"]
    assert len(world.names("time")) == measured
    assert [(r["status"], r["round_difference_percent"] is None) for r in found] == [("verified", False)] * 8
    return found


@pytest.mark.parametrize("done", [0, 1, 5, 8, 15])
def test_goes_on_where_it_was(world: World, done: int) -> None:
    world.times = lambda name, round_: 100.0
    interrupted(world, done)
    world.times = lambda name, round_: 200.0
    found = resumed(world, f"going on: {done} measurements" if done else "", 16 - done)
    assert sum(2 * r["time_us"] for r in found) == done * 100 + (16 - done) * 200  # of two rounds each
    assert list(world.build.glob("sweep*")) == []  # nothing is left behind


def test_fresh_forgets(world: World) -> None:
    interrupted(world, 5)
    world.swept(*BOTH, "--fresh")
    assert len(world.names("time")) == 16


def test_a_killed_process_loses_no_finished_row(world: World) -> None:
    child = os.fork()
    if child == 0:
        world.before_time = lambda name: os._exit(9) if len(world.names("time")) == 6 else None
        world.sweep(*BOTH)
        os._exit(0)
    assert os.WEXITSTATUS(os.waitpid(child, 0)[1]) == 9
    resumed(world, "going on: 6 measurements", 10)


def test_a_damaged_journal_is_named_and_not_used(world: World) -> None:
    """And kept next to those that were damaged before."""
    journal = interrupted(world, 5)
    damaged = [b"garbage" * 1000, journal.read_bytes()[:4096] + b"?" * 12288]
    for content in damaged:
        world.log.clear()
        journal.write_bytes(content)
        resumed(world, f"{journal} is not used: it is damaged", 16)
    assert sorted(path.read_bytes() for path in world.build.glob("*.unused")) == sorted(damaged)


OTHER = {
    "commit": lambda patch, _: patch.setattr(results, "commit_of", lambda *_, **__: ("f" * 40, False)),
    "dirty": lambda patch, _: patch.setattr(results, "commit_of", lambda *_, **__: (COMMIT, True)),
    "code": lambda _, world: (world.build / "libsoftmax_harness.so").write_text("changed"),
    "machine": lambda patch, _: patch.setattr(sweep.platform, "python_version", lambda: "3.0"),
}


@pytest.mark.parametrize("what", OTHER)
def test_a_journal_of_another_commit_machine_or_code_is_not_used(world: World, monkeypatch: Any, what: str) -> None:
    interrupted(world, 5)
    OTHER[what](monkeypatch, world)
    resumed(world, f"is not used: it belongs to another {what}", 16)


def test_another_plan_or_settings_have_a_journal_of_their_own(world: World) -> None:
    journal = interrupted(world, 5)
    content = journal.read_bytes()
    for arguments in (("--shapes", SMALL), (*BOTH, "--repeats", "7"), (*BOTH, "--contenders", "cudnn")):
        assert world.sweep(*arguments)[0] == 0
        assert journal.read_bytes() == content
    world.log.clear()
    resumed(world, "going on: 5 measurements", 11)


def test_two_sweeps_at_once(tmp_path: Path) -> None:
    header = {"settings": {"rounds": 1}, "plan": {}}
    with contextlib.closing(sweep_journal.Journal(tmp_path, header, False)):
        for fresh in (False, True):
            with pytest.raises(ToolError, match=f"another sweep is running here: it holds {tmp_path}/sweep-"):
                sweep_journal.Journal(tmp_path, header, fresh)
    sweep_journal.Journal(tmp_path, header, False).remove()
    assert list(tmp_path.iterdir()) == []


# ---- Files, options and progress.


def test_only_the_whole_usual_sweep_replaces_the_recorded_file(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    file, other = world.results / "nvidia-fake-1-sweep.json", world.build / "nvidia-fake-1-sweep.json"

    def written(*arguments: str) -> tuple[int, bool, bool]:
        """The exit code, and which of the two files was written."""
        other.unlink(missing_ok=True)
        code, _, err = world.sweep(*arguments)
        assert f"wrote {file if file.exists() else other}" in err
        return code, file.exists(), other.exists()

    main = [peer("cudnn v"), peer("pytorch v"), peer("triton v")]
    world.peers = main
    unusual = "--tables oneflow", f"--shapes {SMALL}", "--rounds 1", "--op log_softmax", "--l2 warm", "--repeats 5"
    for arguments in (*unusual, "--contenders stages"):
        assert written(*arguments.split()) == (0, False, True), arguments
    for absent in main:
        world.peers = [one for one in main if one is not absent]
        assert written() == (0, False, True), absent
    world.peers, world.verdicts = main, {NAMES[2]: Verdict(False, "wrong", 2.0)}
    assert written() == (1, False, True)
    world.verdicts.clear()
    with monkeypatch.context() as patch:
        patch.setattr(results, "commit_of", lambda *_, **__: (results.UNKNOWN, True))
        assert written() == (0, False, True)
    assert written() == (0, True, False)
    data = results.load(file, results.SWEEP)
    assert data["recorded"]["command"] == "./run sweep"
    content, world.device["gpu"] = file.read_bytes(), "NVIDIA Fake 2"
    assert world.sweep()[0] == 0
    assert sorted(path.name for path in world.results.iterdir()) == [file.name, "nvidia-fake-2-sweep.json"]
    assert file.read_bytes() == content  # another GPU's stays
    assert len(data["results"]) == 7 * len({shape for table in data["tables"] for shape in table["shapes"]})


@pytest.mark.parametrize(
    "op, tables",
    [
        ("softmax_backward", ["oneflow", "gradient", "narrow_gradient"]),
        ("cross_entropy", ["cross_entropy", "classes"]),
        ("cross_entropy_gradient", ["cross_entropy", "classes"]),
    ],
)
def test_another_operation_has_tables_and_a_recorded_file_of_its_own(
    world: World, monkeypatch: Any, op: str, tables: list[str]
) -> None:
    monkeypatch.setattr(results, "OPERATIONS", {"02_fast": (op,)})
    world.peers = [peer(name, operations=peers.OPERATIONS) for name in ("cudnn v", "pytorch v", "triton v")]
    assert world.sweep("--op", op)[0] == 0
    (file,) = world.results.iterdir()
    assert file.name == f"nvidia-fake-1-sweep-{op}.json"
    data = results.Recorded(file)
    assert [table["name"] for table in data.tables] == tables
    assert {r["op"] for r in data.results} == {op}
    assert data.recorded["command"] == f"./run sweep --op {op}"
    assert results.recorded_files(world.results, "") == {}  # it is not a recording of another GPU
    file.unlink()
    for other in ("--op log_softmax", f"--op {op} --offset 1", "--offset 1", "--random 2", f"--random 2 --op {op}"):
        assert world.sweep(*other.split())[0] == 0
    assert list(world.results.iterdir()) == []


# ---- Random shapes.


def test_random_shapes_are_the_same_for_the_same_seed() -> None:
    some = sweep_options.random_problems(400, 1, None, None)
    assert sweep_options.random_problems(400, 1, None, None) == some
    assert sweep_options.random_problems(40, 1, None, None) == some[:40]
    shapes = [problem.shape for problem in some]
    assert len(set(shapes)) == 400
    assert not set(shapes) & {problem.shape for problem in sweep_options.random_problems(400, 2, None, None)}
    gradients = sweep_options.random_problems(400, 1, "softmax_backward", 5)
    assert gradients == [Problem(*shape, "softmax_backward", 5) for shape in shapes]


def test_random_shapes_are_of_all_kinds() -> None:
    some = sweep_options.random_problems(400, 1, None, None)
    for kinds, number in (
        ([p.dtype for p in some], 3),
        ([p.op for p in some], 2),
        ([p.offset for p in some], 2),
        ([p.cols % 8 == 0 for p in some], 2),
    ):
        counted = Counter(kinds)
        assert len(counted) == number and min(counted.values()) > 80, counted
    assert {p.op for p in some} == {"softmax", "log_softmax"} and {p.offset for p in some} == {0, 1}
    assert all(2**16 <= p.shape.tensor_bytes <= 2**31 for p in some)
    assert all(1 <= p.rows <= 10**6 and 1 <= p.cols <= 2 * 10**6 for p in some)
    for sizes in ([p.rows for p in some], [p.cols for p in some], [p.shape.tensor_bytes >> 14 for p in some]):
        assert min(sizes) < 10 and max(sizes) > 10**5  # over the orders of magnitude


def test_random_shapes_end_with_a_line_for_each(world: World) -> None:
    problems = sweep_options.random_problems(4, 3, None, None)
    percents = {problem.cols: percent for problem, percent in zip(problems, (99.0, 96.0, 95.9, 40.0))}

    def times(name: str, _round: int) -> float:
        return 100.0 * 100 / percents[world.shape.cols] if name == NAMES[2] else 1000.0 if name in NAMES else 101.0101

    world.times, world.device["gpu"] = times, "NVIDIA Fake 1"
    world.peers = [peer("triton fused"), peer("quack softmax")]
    world.reasons = {("triton fused", problems[0].cols): "too wide", ("quack softmax", problems[0].cols): "no packs"}
    code, out, err = world.sweep("--random", "4", "--seed", "3")
    file = world.build / "nvidia-fake-1-sweep-random.json"
    assert (code, f"wrote {file}" in err) == (0, True)
    assert [problem[2:] for problem in world.problems[1:]] == [(1, problem.offset) for problem in problems]
    lines = out.splitlines()
    shown = [line.split("  ")[0] for line in lines[2:6]]
    assert shown == [str(problem) for problem in (problems[3], problems[2], problems[1], problems[0])]
    assert re.fullmatch(r".* 40\.0 +02_fast packs +99\.0 +triton fused +-59\.0", lines[2])
    assert re.fullmatch(r".* 99\.0 +02_fast packs +- +- +-", lines[5])
    assert "too wide" not in out
    assert lines[-1] == "2 of 4 shapes: the best stage is more than 3 points behind the best peer"
    data = results.Recorded(file)
    assert data.recorded["command"] == "./run sweep --random 4 --seed 3"
    assert {(r["op"], r["offset"]) for r in data.results} == {problem[3:] for problem in problems}
    assert (data.tables, data.settings["rounds"], data.settings["repeats"]) == ([], 1, 11)
    options = "--random 4 --seed 3 --op softmax --offset 0"  # it would choose others than the last two
    assert world.swept(*options.split())[0]["recorded"]["command"] == f"./run sweep {options}"


def test_random_shapes_go_on_where_they_were_and_say_what_is_wrong(world: World, monkeypatch: Any) -> None:
    monkeypatch.setattr(results, "OPERATIONS", dict.fromkeys(STAGES, ("softmax_backward",)))
    world.verdicts[NAMES[2]] = Verdict(False, "7 of 9 wrong", 3.0)

    def before(_name: str) -> None:
        if len(world.names("time")) == 4:
            raise KeyboardInterrupt

    world.before_time = before
    assert world.sweep("--random", "3", "--op", "softmax_backward")[0] == 130
    world.before_time = lambda name: None
    code, out, err = world.sweep("--random", "3", "--op", "softmax_backward")
    assert (code, "going on: 6 measurements" in err) == (1, True), err
    assert len(world.names("time")) == 3 * 3  # nothing twice
    assert re.search(r"(?m)^wrong: 02_fast packs at .*: 7 of 9 wrong$", out)


def test_a_failed_write_keeps_the_measurements(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sweep, "write_whole", MagicMock(side_effect=OSError("disk full")))
        code, _, err = world.sweep("--shapes", SMALL)
    assert (code, "disk full" in err) == (1, True)
    world.log.clear()
    world.swept("--shapes", SMALL)
    assert world.log == []  # nothing was measured again


def test_the_recorded_sweeps_are_of_the_published_tables() -> None:
    """A table that was added since is missing in them, none is another."""
    for op, kind in results.SWEEPS.items():
        of_op = sweep_options.tables_of(op)
        tables = [{**table._asdict(), "shapes": list(map(str, table.shapes))} for table in of_op]
        recorded = [results.load(path, results.SWEEP)["tables"] for path in (results.ROOT / "common/results").glob(f"*{kind}.json")]
        assert recorded or op != "softmax"
        for of_one in recorded:
            assert of_one == [table for table in tables if table["name"] in [one["name"] for one in of_one]]


@pytest.mark.parametrize(
    "arguments, said",
    [
        ("--tables none", "'none' is not accepted; accepted: fastertransformer, oneflow"),
        ("--contenders stages,onnx", "'onnx' is not accepted; accepted: stages, rowwise, cudnn, pytorch"),
        ("--shapes f16", "shape 'f16' is not DTYPE:ROWSxCOLS"),
        ("--shapes f16:0x1", "shape 'f16:0x1'"),
        ("--random 0", "'0' is not accepted; accepted: whole numbers from 1"),
        ("--random 3 --tables oneflow", "--random: not together with --tables or --shapes"),
        ("--seed 3", "--seed: needs --random"),
        ("--offset 1025", "'1025' is not accepted; accepted: whole numbers from 0 to 1024"),
        ("--offset=-1", "'-1' is not accepted"),
        ("--rounds 0", "'0' is not accepted; accepted: whole numbers from 1"),
        ("--device sim", "the simulator takes no times"),
    ],
)
def test_bad_options_are_told_before_anything_is_loaded(world: World, arguments: str, said: str) -> None:
    code, out, err = world.sweep(*arguments.split())
    assert (code, out, err.count("\n"), world.loaded) == (2, "", 1, []), err
    assert said in err
    # Which operations there are the harness knows.
    assert world.sweep("--op", "max") == (2, "", "./run sweep: op: 'max' is not accepted\n")


def test_no_gpu_is_one_clear_line(world: World) -> None:
    world.missing = {"pytorch": "sees no GPU"}
    world.no_device = "no usable NVIDIA GPU: no NVIDIA driver is loaded"
    assert world.sweep("--shapes", SMALL) == (3, "", f"./run sweep: {world.no_device}\n")
    world.no_device, world.device["simulated"] = "", 1
    code, out, err = world.sweep("--shapes", SMALL)
    assert (code, out, err.count("\n")) == (3, "", 1)
    assert "simulator, which takes no times" in err


def test_not_built(world: World) -> None:
    (world.build / "libsoftmax_harness.so").unlink()
    code, _, err = world.sweep("--shapes", SMALL)
    assert (code, err.count("\n"), world.loaded) == (1, 1, [])
    assert "not built" in err
    code, out, _ = world.sweep("--list", "--shapes", SMALL)  # needs no GPU and nothing built
    assert (code, world.loaded) == (0, [])
    assert SMALL in out
    assert "stages: 01_naive 02_fast" in out
    code, out, _ = world.sweep("--help")
    assert (code, "--shapes" in out) == (0, True)


def test_progress(world: World) -> None:
    """A line per shape; on a terminal a bar that ends at the end."""
    lines = [line for line in world.sweep(*BOTH)[2].splitlines() if line.startswith("[")]
    assert [line.split("] ")[1] for line in lines] == [SMALL, LARGE]
    assert re.match(r"^\[  0 %, \d+:\d\d left\]", lines[0])
    world.is_terminal = True
    code, _, err = world.sweep("--shapes", SMALL)
    percents = [int(found) for found in re.findall(r"\] +(\d+) %, \d+:\d\d left", err)]
    assert (code, percents[0], percents) == (0, 0, sorted(percents))
    assert percents[-1] > 80 and "#####" in err
