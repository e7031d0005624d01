"""Tests what tests the stages: check_stage.py, physics.py and expect.sh, with stages and times that are fakes. Where
nothing is verified, or less than was asked for, or no GPU could be so fast, they must fail.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Callable, Tuple

import physics
import pytest

TESTS = Path(__file__).resolve().parent

# Does what a stage does: verifies all that it is asked for. FAULT names what it does not do.
FAKE_STAGE = """\
import itertools, os, sys

fault = os.environ.get("FAULT", "")
options = {"--variant": "all", "--dtype": "f32", "--op": "softmax", "--rows": "64", "--cols": "1024", "--input": "normal"}
arguments = iter(sys.argv[1:])
for name in arguments:
    options[name] = next(arguments) if name in ("--device", "--section", "--format", *options) else ""
limits = {"shared_memory_tree": 10**9, "fastertransformer_block_per_head": 1024, "fastertransformer_block_per_row": 1024}
if "--list" in options:
    print(*(f"{name:32}  idea" for name in limits), sep="\\n")
    sys.exit(0)
refusals = {
    "no GPU": (3, "no usable NVIDIA GPU"),
    "too large": (2, "--rows: needs 99 GiB of device memory, and 1 GiB are free"),
    "unknown option": (2, "unknown option"),
}
if fault in refusals:
    code, text = refusals[fault]
    print("02_fused_block:", text, file=sys.stderr)
    sys.exit(code)

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
keys = ("--variant", "--dtype", "--op", "--rows", "--cols", "--input")
for key in itertools.product(*map(items, keys)):
    variant, cols = key[0], key[4]
    if fault == "variant left out" and variant == "fastertransformer_block_per_row":
        continue
    status, reason = "verified", ""
    if int(cols) > limits[variant] and fault != "does what it cannot":
        status, reason = "not applicable", "at most 1024 columns"
    if fault == "refuses all" or fault == "refuses odd widths" and int(cols) % 2:
        status, reason = "not applicable", "odd"
    if cols == "31" and fault.startswith("wrong"):
        status, reason = "wrong", "1 of 31 elements wrong"
    row = ",".join(("02_fused_block", *key, status, reason))
    print(row)
    if fault == "twice" and cols == "31":
        print(row)
    if fault == "says WRONG":
        print("WRONG  shared_memory_tree, f32 softmax, 1 x 31", file=sys.stderr)
    if fault == "wrong" and status == "wrong":
        sys.exit(1)
sys.exit(4 if fault == "crash" else 0)
"""

OPTIONS = "--rows 1,7 --cols 31,1000,1025 --dtype all --op all --input all"


@pytest.fixture(name="check", scope="module")
def check_fixture(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Tuple[int, str]]:
    """check_stage.py of the fake: its exit code, and what it printed."""
    stage = tmp_path_factory.mktemp("fake") / "02_fused_block"
    stage.write_text(f"#!{sys.executable}\n{FAKE_STAGE}", encoding="utf-8")
    stage.chmod(0o755)
    return lambda fault="", options=OPTIONS: run([sys.executable, TESTS / "check_stage.py", stage, *options.split()], fault)


def run(command: list, fault: str = "") -> Tuple[int, str]:
    done = subprocess.run([str(word) for word in command], env={**os.environ, "FAULT": fault}, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)  # fmt: skip
    return done.returncode, done.stdout


def test_accepts_a_stage_that_verifies_all(check) -> None:
    verified = 2 * 3 * 2 * 12 * (1 * 3 + 2 * 2)
    assert check() == (0, f"{verified} verified\n")
    assert check(options="--rows=3 --cols 8,8000")[0] == 1  # the fake knows no --rows=3
    assert check(options="--rows 3 --cols 8,8000")[0] == 0


@pytest.mark.parametrize(
    "fault, said",
    {
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
        "wrong in silence": "31 normal: wrong, and not verified: 1 of 31 elements wrong",
        "says WRONG": "exit code 0, and a WRONG result",
        "twice": "not asked for, or twice",
        "crash": "exit code 4",
        "unknown option": "exit code 2",
    }.items(),
)
def test_refuses_a_stage_that_verifies_less(check, fault: str, said: str) -> None:
    code, printed = check(fault)
    assert code == 1 and said in printed


def test_is_skipped_without_a_gpu_or_where_the_shape_does_not_fit(check) -> None:
    code, printed = check("no GPU")
    assert code == 3 and "no usable NVIDIA GPU" in printed
    assert check("too large")[0] == 3


def test_refuses_a_run_in_which_nothing_applies(check) -> None:
    code, printed = check(options="--rows 1 --cols 1025 --variant fastertransformer_block_per_row")
    assert code == 1 and "nothing was verified" in printed


# ---- The timer's test, with times that a GPU could give and with those of timers that are wrong.
GB_S = 4000.0


def record(time_us: float, copy_us: float, rows: int) -> dict:
    return {"time_us": time_us, "copy_us": copy_us, "percent_of_copy": 100 * copy_us / time_us,
            "bandwidth_gb_s": 2 * rows * 4096 / time_us / 1e3}  # fmt: skip


def plausible(variant: str, rows: int, l2: str) -> physics.Times:
    copy = 2 * rows * 4096 / GB_S / 1e3 * (0.5 if l2 == "warm" else 1) + 1.5
    slower = 8 if variant == "thread_per_row" else 1.2
    return {variant: record(slower * copy, copy, rows), "copy": record(copy, copy, rows)}


def implausible(change: Callable) -> str:
    """What is said of times that are `change`d."""

    def times_of(_stage: str, variant: str, rows: int, l2: str = "cold") -> physics.Times:
        return change(plausible(variant, rows, l2), rows, l2)

    return " ".join(physics.implausible_times(times_of, 4915))


def with_all(times: physics.Times, **fields: float) -> physics.Times:
    return {name: {**of, **fields} for name, of in times.items()}


def scaled(times: physics.Times, factor: float) -> physics.Times:
    return {name: {**of, "time_us": of["time_us"] * factor, "copy_us": of["copy_us"] * factor} for name, of in times.items()}


def test_physics_accepts_what_a_gpu_could_give() -> None:
    assert implausible(lambda times, rows, l2: times) == ""


@pytest.mark.parametrize(
    "said, change",
    [
        ("the copy: ", lambda times, rows, l2: with_all(times, time_us=1e-3)),
        ("the copy: ", lambda times, rows, l2: scaled(times, 1 / 5)),
        ("the copy: ", lambda times, rows, l2: scaled(times, 1000)),
        ("twice the rows take 1.00 times the time", lambda times, rows, l2: with_all(times, time_us=100.0)),
        ("twice the rows take 3.97", lambda times, rows, l2: scaled(times, rows / 49152)),
        ("the times say", lambda times, rows, l2: with_all(times, percent_of_copy=97.0)),
        ("the time says", lambda times, rows, l2: with_all(times, bandwidth_gb_s=3000.0)),
        ("of its own time", lambda times, rows, l2: {**times, "copy": {**times["copy"], "percent_of_copy": 80.0}}),
        ("thread_per_row: 100.0 % of the copy", lambda times, rows, l2: dict.fromkeys(times, times["copy"])),
        ("µs from the L2", lambda times, rows, l2: plausible("warp_then_shared", rows, "cold") if l2 == "warm" else times),
    ],
)
def test_physics_refuses_what_none_could(said: str, change: Callable) -> None:
    assert said in implausible(change)


def test_every_variant_has_a_time() -> None:
    right = {"variant": "a", "time_us": "4.5", "copy_us": "3.1", "percent_of_copy": "69"}
    assert physics.implausible_rows([right]) == []
    for field, value in (("time_us", ""), ("time_us", "0.0"), ("copy_us", ""), ("percent_of_copy", "9999")):
        assert len(physics.implausible_rows([right, {**right, field: value}])) == 1


# ---- expect.sh
def expect(code: int, regex: str, script: str = "echo 'line one'; echo 'line two' >&2; exit 4") -> Tuple[int, str]:
    return run(["bash", TESTS / "expect.sh", code, regex, "bash", "-c", script])


def test_expect_looks_at_the_exit_code() -> None:
    assert expect(4, "one")[0] == 0
    for other in (0, 1, 3, 5):
        code, printed = expect(other, "one")
        assert code == 1 and f"exit code 4, expected {other}" in printed


def test_expect_looks_at_both_streams_and_wants_every_line() -> None:
    assert expect(4, "^line two$\n^line one$")[0] == 0
    for regex in ("three", "^line one$\nthree", "three\n^line one$", "one.*two"):
        assert expect(4, regex)[0] == 1
    assert "nothing printed matches 'one.*two'" in expect(4, "one.*two")[1]


@pytest.mark.parametrize(
    "script, expected, regex, code",
    [
        ("echo no usable GPU; exit 3", 0, "one", 3),
        ("echo no usable GPU; exit 3", 3, "no usable", 0),
        ("echo 9 GiB of device memory; exit 2", 0, "one", 3),
        ("echo 9 GiB of device memory; exit 2", 2, "9 GiB of device memory", 0),
        ("echo some other reason; exit 3", 0, "one", 1),
    ],
)
def test_expect_is_skipped_where_there_is_no_gpu_unless_that_is_expected(script, expected, regex, code) -> None:
    assert expect(expected, regex, script)[0] == code
