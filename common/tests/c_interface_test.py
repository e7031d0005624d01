"""Tests of common/harness/c/c_interface.h through ctypes, as ./run sweep uses it, under the simulator: nothing is timed.

LD_PRELOAD=build/simulator/libcudart.so.13 python3 common/tests/run_pytest.py common/tests/c_interface_test.py

BUILD in the environment is where the libraries are built: build.
"""

from __future__ import annotations

import ctypes
import math
import os
import subprocess
from pathlib import Path
from typing import Any, Callable, Iterator, List, Set

import pytest

from command import ToolError, Usage
from measure.harness import Contender, Harness, Tensor, Verdict
from measure.results import ROOT, Shape, stage_names

BUILD = Path(os.environ.get("BUILD", ROOT / "build")).resolve()
SMALL = Shape("f32", 4, 96)
Floats = ctypes.c_float * (SMALL.rows * SMALL.cols)


class Session(Harness):
    """With shorter names for what the tests do most."""

    def open(self, shape: Shape = SMALL, op: str = "softmax", kind: str = "normal", offset: int = 0) -> List[Tensor]:
        return self.open_problem(shape, op, kind, 1, offset)

    def number(self, name: str) -> int:
        return [contender.name for contender in self.contenders()].index(name)

    def verdict(self, name: str, tolerance_factor: float = 1) -> Verdict:
        return self.verify(self.number(name), tolerance_factor)

    def is_right(self, name: str) -> bool:
        return self.verdict(name)[:2] == (True, "")


@pytest.fixture
def harness() -> Iterator[Session]:
    with Session(BUILD, "cold") as session:
        yield session


def refused(call: Callable, *arguments: object) -> str:
    """What a call says that is refused as bad usage."""
    with pytest.raises(Usage) as caught:
        call(*arguments)
    return str(caught.value)


def copied(to: Any, source: Any, stream: int) -> Any:
    """Between SMALL's floats on the host and a pointer of the device, with the CUDA runtime of this process."""
    to_host = isinstance(source, int)
    ends = (ctypes.addressof(to), source) if to_host else (to, ctypes.addressof(source))
    runtime, size, kind = ctypes.CDLL(None), ctypes.sizeof(Floats), 2 if to_host else 1
    assert runtime.cudaMemcpyAsync(*map(ctypes.c_void_p, ends), size, kind, ctypes.c_void_p(stream)) == 0
    assert runtime.cudaStreamSynchronize(ctypes.c_void_p(stream)) == 0
    return to


def on_host(function: Callable[..., List[float]]) -> Callable[..., None]:
    """A contender in Python for SMALL with one output: the function makes one row of it of each row of the inputs."""

    def launch(*pointers: int) -> None:
        *inputs, output, stream = pointers
        values = [copied(Floats(), pointer, stream) for pointer in inputs]
        result = Floats()
        for first in range(0, len(result), SMALL.cols):
            row = slice(first, first + SMALL.cols)
            result[row] = function(*(value[row] for value in values))
        copied(output, result, stream)

    return launch


def softmax(row: List[float]) -> List[float]:
    exponentials = [math.exp(value - max(row)) for value in row]
    return [value / sum(exponentials) for value in exponentials]


def does_nothing(*_pointers: int) -> None:
    pass


def test_contenders_are_the_copy_and_every_variant_that_the_stages_list(harness: Session) -> None:
    assert (harness.device["simulated"], harness.device["multiprocessors"]) == (1, 132)
    assert "simulator" in harness.device["gpu"]
    listed = [Contender("", "copy")]
    assert harness.contenders() == listed
    stages = stage_names(ROOT)
    assert len(stages) >= 6
    harness.add_stages(stages)
    for stage in stages:
        said = subprocess.run([str(BUILD / stage), "--list"], check=True, capture_output=True, text=True).stdout
        listed += [Contender(stage, line.split()[0]) for line in said.splitlines()]
    assert harness.contenders() == listed


def test_every_variant_is_verified_or_says_why_not(harness: Session) -> None:
    harness.add_stages(stage_names(ROOT))
    done: Set[Contender] = set()
    for shape, op, offset in (
        (Shape("f32", 3, 96), "softmax", 0),
        (Shape("f16", 3, 1024), "log_softmax", 1),
        (Shape("bf16", 3, 1000), "softmax", 0),
        (Shape("f32", 3, 128), "softmax", 0),
    ):
        harness.open(shape, op, offset=offset)
        for number, contender in enumerate(harness.contenders()):
            reason, passes = harness.applies(number)
            if reason:
                assert contender.stage in ("01_naive", "02_fused_block", "03_warp_reduce")
                continue
            verdict = harness.verify(number)
            assert verdict[:2] == (True, "") and verdict.max_error <= 1 and passes >= 2, (contender, verdict)
            done.add(contender)
    assert done == set(harness.contenders())


def test_the_seed_chooses_the_input(harness: Session) -> None:
    seen: List[List[float]] = []

    def looks(row: List[float]) -> List[float]:
        seen[-1] += row
        return row

    number = harness.add_contender("python", "looks", on_host(looks))
    for seed in (1, 1, 2, 1 << 40):
        harness.open_problem(SMALL, "softmax", "normal", seed, 0)
        seen.append([])
        harness.verify(number)
    assert seen[0] == seen[1]
    assert len(set(map(tuple, seen))) == 3


def test_liars_are_caught(harness: Session) -> None:
    harness.add_stages(["liars"])
    harness.open(Shape("f32", 7, 100))
    for liar, said in {
        "never_runs": "700 of 700 elements never written",
        "writes_nan": "1 of 700 elements wrong",
        "one_percent_off": "700 of 700 elements wrong",
        "changes_its_input": "changed its input",
        "writes_past_the_end": "wrote 1 bytes past the output's end",
    }.items():
        verdict = harness.verdict(liar, 4)
        assert not verdict.correct and said in verdict.explanation, liar
        assert harness.is_right("copy") and harness.is_right("honest")  # also after a liar


def test_a_contender_in_python(harness: Session) -> None:
    def twice(row: List[float]) -> List[float]:
        return [value * (1 + 4e-5) for value in softmax(row)]  # 2e-5: what f32 is allowed, relatively

    right = harness.add_contender("peer", "right", on_host(softmax))
    harness.add_contender("peer", "twice", on_host(twice))
    harness.add_contender("peer", "nothing", does_nothing)
    assert harness.contenders()[right:] == [Contender("peer", name) for name in ("right", "twice", "nothing")]
    harness.open()
    assert harness.applies(right) == ("", None)
    assert harness.is_right("right")
    assert "never written" in harness.verdict("nothing").explanation
    for factor, correct in ((1, False), (1.9, False), (2.1, True), (4, True)):
        verdict = harness.verdict("twice", factor)
        assert verdict.correct == correct, (factor, verdict)
        assert verdict.max_error == pytest.approx(2, abs=0.01)  # in units of the tolerance, whatever the factor
    for factor in (0, -1, math.nan):
        assert "tolerance_factor" in refused(harness.verify, right, factor)


def test_an_operation_with_other_tensors(harness: Session) -> None:
    def backward(y: List[float], dy: List[float]) -> List[float]:
        total = sum(map(float.__mul__, y, dy))
        return [value * (gradient - total) for value, gradient in zip(y, dy)]

    harness.add_stages(["softmax_backward"])
    tensors = harness.open(SMALL, "softmax_backward")
    assert tensors == [Tensor(name, *SMALL, is_output=name == "dx") for name in ("y", "dy", "dx")]
    harness.add_contender("peer", "right", on_host(backward))
    harness.add_contender("peer", "nothing", does_nothing)
    assert harness.applies(harness.number("copy")) == ("", 3)
    assert harness.applies(harness.number("naive")) == ("", 5)
    assert harness.is_right("right")
    assert "384 of 384 elements never written" in harness.verdict("nothing").explanation
    assert "changed its input" in harness.verdict("changes_dy").explanation
    assert harness.is_right("naive")


def test_an_operation_with_two_outputs(harness: Session) -> None:
    harness.add_stages(["cross_entropy"])
    assert harness.open(Shape("bf16", 4, 96), "cross_entropy") == [
        Tensor("x", "bf16", 4, 96, False),
        Tensor("label", "i64", 4, 1, False),
        Tensor("loss", "f32", 4, 1, True),
        Tensor("dx", "bf16", 4, 96, True),
    ]
    assert harness.is_right("naive")
    assert "loss: 4 of 4 elements never" in harness.verdict("never_writes_the_loss").explanation
    assert "dx: 4 of 384" in harness.verdict("no_gradient_at_the_label").explanation


def test_what_a_contender_raises_comes_out(harness: Session) -> None:
    def launch(*_pointers: int) -> None:
        raise KeyboardInterrupt("now")

    number = harness.add_contender("peer", "raises", launch)
    harness.add_contender("peer", "right", on_host(softmax))
    harness.open()
    with pytest.raises(KeyboardInterrupt, match="now"):
        harness.verify(number)
    assert harness.is_alive() and harness.is_right("right")


@pytest.mark.parametrize(
    "arguments, said",
    [
        ((Shape("f64", 1, 1),), "'f64' is not accepted; accepted: f32, f16, bf16"),
        ((SMALL, "max"), "accepted: softmax, log_softmax"),
        ((SMALL, "softmax", "ones"), "accepted: normal"),
        ((Shape("f32", 0, 1),), "rows, cols: at least 1"),
        *(((SMALL, "softmax", "normal", offset), "offset: 0 to 1024") for offset in (-1, 1025, 1 << 62)),
        ((Shape("f32", 1 << 31, 1 << 20),), "of device memory"),
    ],
)
def test_problems_that_are_refused(harness: Session, arguments: tuple, said: str) -> None:
    harness.open()
    assert said in refused(harness.open, *arguments)
    assert "no problem is open" in refused(harness.verify, 0)


def test_bad_usage(harness: Session) -> None:
    for call in (harness.verify, harness.applies):
        assert "no problem is open" in refused(call, 0)
    assert "accepted: cold, warm" in refused(Harness, BUILD, "hot")
    harness.open()
    for number in (-1, 1):
        assert f"no contender {number}" in refused(harness.verify, number)
    assert "the simulator takes no times" in refused(harness.time, 0, 3, 0, 0)
    harness.add_stages(["02_fused_block", "softmax_backward"])
    assert "no problem is open" in refused(harness.verify, 0)
    harness.open(Shape("f32", 2, 5000))
    wide = harness.number("fastertransformer_block_per_row")
    assert "at most 1024 columns" in refused(harness.verify, wide)
    assert harness.applies(harness.number("naive"))[0] == "softmax_backward does not do softmax"
    harness.open(SMALL, "softmax_backward")
    assert harness.applies(wide)[0] == "02_fused_block does not do softmax_backward"
    assert "does not do" in refused(harness.verify, wide)
    harness.close_problem()
    assert "no problem is open" in refused(harness.verify, 0)


def test_libraries_that_are_no_stage(harness: Session, tmp_path: Path) -> None:
    for name, target in (("harness", BUILD / "libsoftmax_harness.so"), ("text", Path(__file__))):
        (tmp_path / f"libstage_{name}.so").symlink_to(target)
    harness._build = tmp_path
    assert "is not the library of a stage" in refused(harness.add_stages, ["harness"])
    assert f"{tmp_path}/libstage_text.so" in refused(harness.add_stages, ["text"])
    for build, stages in ((BUILD, ["99_none"]), (BUILD / "none", [])):
        with pytest.raises(ToolError, match="not built"):
            Harness(build, "cold").add_stages(stages)
