"""Tests of common/harness/c/c_interface.h through ctypes, as ./run sweep uses it, under the simulator: nothing is timed.

LD_PRELOAD=build/simulator/libcudart.so.13 python3 common/tests/run_pytest.py common/tests/c_interface_test.py

BUILD in the environment is where the libraries are built: build.
"""

import ctypes
import math
import os
import subprocess
from pathlib import Path
from typing import Callable, Iterator

import pytest

from command import ToolError, Usage
from measure.harness import Contender, Harness, Tensor, Verdict
from measure.results import ROOT, Shape, measured_names

BUILD = Path(os.environ.get("BUILD", ROOT / "build")).resolve()
SMALL = Shape("f32", 4, 96)
Floats = ctypes.c_float * (SMALL.rows * SMALL.cols)


class Session(Harness):
    """A harness with shorter names for the most frequent calls."""

    def open(self, shape: Shape = SMALL, op: str = "softmax", kind: str = "normal", offset: int = 0) -> list[Tensor]:
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
    """The message of a call that is refused as bad usage."""
    with pytest.raises(Usage) as caught:
        call(*arguments)
    return str(caught.value)


def writes(value: float) -> Callable[..., None]:
    """A contender in Python for SMALL: it writes the value into every element of y."""

    def launch(_x: int, y: int, stream: int) -> None:
        runtime, floats = ctypes.CDLL(None), Floats(*[value] * len(Floats()))
        to_device = ctypes.c_void_p(y), floats, ctypes.sizeof(floats), 1, ctypes.c_void_p(stream)
        assert runtime.cudaMemcpyAsync(*to_device) == 0
        assert runtime.cudaStreamSynchronize(ctypes.c_void_p(stream)) == 0

    return launch


def test_contenders_are_the_copy_and_every_variant_that_the_stages_list(harness: Session) -> None:
    assert (harness.device["simulated"], harness.device["multiprocessors"]) == (1, 132)
    assert "simulator" in harness.device["gpu"]
    listed = [Contender("", "copy")]
    assert harness.contenders() == listed
    stages = measured_names(ROOT)
    assert len(stages) >= 6
    harness.add_stages(stages)
    for stage in stages:
        said = subprocess.run([str(BUILD / stage), "--list"], check=True, capture_output=True, text=True).stdout
        listed += [Contender(stage, line.split()[0]) for line in said.splitlines()]
    assert harness.contenders() == listed


def test_every_variant_is_verified_or_says_why_not(harness: Session) -> None:
    """The stages' own tests and limits.py check whether it may say so."""
    harness.add_stages(measured_names(ROOT))
    done: set[Contender] = set()
    for shape, op, offset in (
        (Shape("f32", 3, 96), "softmax", 0),
        (Shape("f16", 3, 1024), "log_softmax", 1),
        (Shape("bf16", 3, 1000), "softmax", 0),
        (Shape("f32", 3, 128), "softmax", 0),
        (Shape("f32", 3, 8192), "softmax", 0),  # for all clusters
        (Shape("f32", 3, 128), "softmax_backward", 0),
        (Shape("f32", 3, 33), "softmax_backward", 0),  # for flat_span
        (Shape("f32", 3, 128), "recomputed_softmax_backward", 0),
        (Shape("f32", 3, 128), "cross_entropy", 0),
        (Shape("f32", 3, 33), "cross_entropy", 0),  # for flat_span
        (Shape("f32", 3, 33), "cross_entropy_gradient", 0),
        (Shape("f32", 3, 128), "cross_entropy_gradient", 0),
        (Shape("f32", 3, 128), "causal_softmax", 0),
        (Shape("f32", 3, 128), "padded_softmax_backward", 0),
    ):
        harness.open(shape, op, offset=offset)
        for number, contender in enumerate(harness.contenders()):
            reason, passes = harness.applies(number)
            if reason:
                continue
            verdict = harness.verify(number)
            assert verdict[:2] == (True, "") and verdict.max_error <= 1, (contender, verdict)
            assert passes >= (1 if op.startswith(("cross_entropy", "padded")) else 2), contender
            done.add(contender)
    assert done == set(harness.contenders())


@pytest.mark.parametrize("op", ["softmax", "softmax_backward", "cross_entropy", "cross_entropy_gradient", "causal_softmax"])
def test_rows_too_wide_for_a_variant_are_a_reason_and_no_error(harness: Session, op: str) -> None:
    harness.add_stages(measured_names(ROOT))
    harness.open(Shape("bf16", 1, 50257), op)
    told = [harness.applies(number) for number in range(len(harness.contenders()))]
    assert any("at most" in reason for reason, _ in told)
    assert all(passes is None for reason, passes in told if reason)


def test_the_seed_chooses_the_input(harness: Session) -> None:
    harness.add_stages(["02_fused_block"])
    errors = []
    for seed in (1, 1, 2, 1 << 40):
        harness.open_problem(SMALL, "softmax", "normal", seed, 0)
        errors.append(harness.verdict("warp_then_shared").max_error)
    assert errors[0] == errors[1] and len(set(errors)) == 3


def test_a_contender_in_python(harness: Session) -> None:
    right = harness.add_contender("peer", "right", writes(1 / SMALL.cols))
    harness.add_contender("peer", "twice", writes((1 + 4e-5) / SMALL.cols))  # 2e-5: the relative error allowed for f32
    harness.add_contender("peer", "nothing", lambda *_: None)
    assert harness.contenders()[right:] == [Contender("peer", name) for name in ("right", "twice", "nothing")]
    harness.open(kind="all_equal")
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
    harness.add_stages(["cross_entropy"])
    tensors = [Tensor("x", "bf16", 4, 96, False), Tensor("label", "i64", 4, 1, False)]
    tensors += [Tensor("loss", "f32", 4, 1, True), Tensor("dx", "bf16", 4, 96, True)]
    assert harness.open(Shape("bf16", 4, 96), "cross_entropy_gradient") == tensors
    seen: list[int] = []
    harness.add_contender("peer", "nothing", lambda *pointers: seen.append(len(pointers)))
    assert "loss: 4 of 4 elements never written" in harness.verdict("nothing").explanation
    assert seen == [4 + 1]
    assert harness.applies(harness.number("copy")) == ("", pytest.approx(2 + 12 / (96 * 2)))
    assert harness.applies(harness.number("naive")) == ("", pytest.approx(3 + 68 / (96 * 2)))
    assert "dx: 3 of 384" in harness.verdict("no_gradient_at_the_label").explanation
    assert "changed its input" in harness.verdict("changes_a_label").explanation
    assert harness.is_right("naive")  # also after a liar


def test_what_a_contender_raises_comes_out(harness: Session) -> None:
    def launch(*_pointers: int) -> None:
        raise KeyboardInterrupt("now")

    number = harness.add_contender("peer", "raises", launch)
    harness.add_contender("peer", "right", writes(1 / SMALL.cols))
    harness.open(kind="all_equal")
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
    harness.add_stages(["02_fused_block", "cross_entropy"])
    assert "no problem is open" in refused(harness.verify, 0)
    harness.open(Shape("f32", 2, 5000))
    wide = harness.number("fastertransformer_block_per_row")
    assert "at most 1024 columns" in refused(harness.verify, wide)
    assert harness.applies(harness.number("naive"))[0] == "cross_entropy does not do softmax"
    harness.open(SMALL, "cross_entropy_gradient")
    assert harness.applies(wide)[0] == "02_fused_block does not do cross_entropy_gradient"
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
