"""Tests of the stages' checkers: check_stage.py, physics.py and expect.sh, with fake stages and times. They must fail if
nothing is verified, or less than was requested, or if no GPU could be so fast.
"""

import itertools
import subprocess
import sys
from pathlib import Path
from typing import Callable

import check_stage
import physics
import pytest

NARROW = ("fastertransformer_block_per_head", "fastertransformer_block_per_row")
VARIANTS = ("shared_memory_tree", *NARROW)
OPTIONS = "--rows 1,7 --cols 31,1000,1025 --dtype all --op all --input all"
HEADER = "variant,dtype,op,rows,cols,input,status,reason"

Row = list[str]
Check = Callable[..., tuple[int, str]]


def right(rows: str = "1,7", cols: str = "31,1000,1025") -> list[Row]:
    """The rows that a stage with three variants prints for OPTIONS: it verifies all that it can."""
    dtypes, ops, inputs = check_stage.ALL.values()
    keys = itertools.product(VARIANTS, dtypes, ops, rows.split(","), cols.split(","), inputs)
    return [[*key, *(("not applicable", "narrow") if key[0] in NARROW and int(key[4]) > 1024 else ("verified", ""))]
            for key in keys]  # fmt: skip


@pytest.fixture(name="check")
def check_fixture(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Check:
    """check_stage.py for a stage that prints these rows: its exit code and its output."""

    def check(rows: list[Row], code: int = 0, said: str = "", options: str = OPTIONS) -> tuple[int, str]:
        def run(command: list[str], **_: str) -> subprocess.CompletedProcess:
            printed = "\n".join(VARIANTS if "--list" in command else [HEADER, *map(",".join, rows)])
            return subprocess.CompletedProcess(command, code, printed, said)

        monkeypatch.setattr(check_stage, "run", run)
        monkeypatch.setattr(sys, "argv", ["check_stage.py", "build/02_fused_block", *options.split()])
        try:
            ended = check_stage.print_or_fail(check_stage.count_verified)
        except SystemExit as end:
            ended = end.code
        return ended, capsys.readouterr().out

    return check


def test_accepts_a_stage_that_verifies_all(check: Check) -> None:
    assert check(right()) == (0, f"{2 * 3 * 2 * 13 * (1 * 3 + 2 * 2)} verified\n")
    one = right("3", "8,8000")
    assert check(one)[0] == 1
    assert check(one, options="--rows=3 --cols 8,8000 --dtype all --op all --input all")[0] == 0


def with_status(status: str, reason: str, *where: str) -> list[Row]:
    return [[*row[:6], status, reason] if set(where) <= set(row) else row for row in right()]


@pytest.mark.parametrize(
    "said, rows",
    [
        *(("missing: ", [row for row in right() if row[i] == right()[0][i]]) for i in range(6)),
        ("missing: fastertransformer_block_per_row", [row for row in right() if row[0] != NARROW[1]]),
        ("missing: ", []),
        ("31 normal: not applicable within its limit: a thread per column: at most 1024", with_status("not applicable", "a thread per column: at most 1024 columns", "31")),
        ("not applicable without a reason", with_status("not applicable", "")),
        ("31 normal: wrong, and not verified: 1 of 31", with_status("wrong", "1 of 31 elements wrong", "31")),
        ("not asked for, or twice", [*right(), right()[0]]),
    ],
)
def test_refuses_a_stage_that_verifies_less(check: Check, said: str, rows: list[Row]) -> None:
    code, printed = check(rows)
    assert code == 1 and said in printed


def test_refuses_what_is_verified_if_the_stage_says_that_something_is_wrong(check: Check) -> None:
    for code in (1, 2, 4):
        assert check(right(), code)[0] == 1
        assert f"exit code {code}" in check(right(), code)[1]
    ended, printed = check(right(), said="WRONG  shared_memory_tree, f32 softmax, 1 x 31")
    assert ended == 1 and "exit code 0, and a WRONG result" in printed


def test_is_skipped_without_a_gpu_or_where_the_shape_does_not_fit(check: Check) -> None:
    assert check([], 3, "no usable NVIDIA GPU") == (3, "no usable NVIDIA GPU")
    assert check([], 2, "needs 99 GiB of device memory, and 1 GiB are free")[0] == 3


def test_refuses_a_run_in_which_nothing_applies(check: Check) -> None:
    options = f"--rows 1 --cols 1025 --variant {NARROW[1]}"
    rows = [[NARROW[1], "f32", "softmax", "1", "1025", "normal", "not applicable", "narrow"]]
    ended, printed = check(rows, options=options)
    assert ended == 1 and "nothing was verified" in printed


# ---- The timer's test, with times that a GPU could give and with those of timers that are wrong.


def plausible(variant: str, rows: int, l2: str = "cold") -> physics.Times:
    """Times for a memory with 4000 GB/s."""
    gb = 2 * rows * 4096 / 1e9
    copy_us = gb / 4e-3 * (0.5 if l2 == "warm" else 1) + 1.5
    times = {variant: copy_us * (8 if variant == "thread_per_row" else 1.2), "copy": copy_us}
    return {name: {"time_us": us, "copy_us": copy_us, "percent_of_copy": 100 * copy_us / us, "bandwidth_gb_s": gb / us * 1e6}
            for name, us in times.items()}  # fmt: skip


def scaled(times: physics.Times, factor: float) -> physics.Times:
    return {name: {**of, **{us: of[us] * factor for us in ("time_us", "copy_us")}} for name, of in times.items()}


@pytest.mark.parametrize(
    "said, change",
    [
        ("", lambda times, rows: times),
        ("the copy: ", lambda times, rows: scaled(times, 1 / 5)),
        ("the copy: ", lambda times, rows: scaled(times, 1000)),
        ("twice the rows take 3.97", lambda times, rows: scaled(times, rows / 49152)),
        ("the times say", lambda times, rows: {n: {**of, "percent_of_copy": 97.0} for n, of in times.items()}),
        ("the time says", lambda times, rows: {n: {**of, "bandwidth_gb_s": 3000.0} for n, of in times.items()}),
        ("of its own time", lambda times, rows: {**times, "copy": {**times["copy"], "percent_of_copy": 80.0}}),
        ("thread_per_row: 100.0 % of the copy", lambda times, rows: dict.fromkeys(times, times["copy"])),
        ("µs from the L2", lambda times, rows: plausible(next(iter(times)), rows)),
    ],
)
def test_physics_refuses_what_no_gpu_could_give(said: str, change: Callable) -> None:
    def times_of(_stage: str, variant: str, rows: int, l2: str = "cold") -> physics.Times:
        return change(plausible(variant, rows, l2), rows)

    found = physics.implausible_times(times_of, 4915)
    assert said in " ".join(found) and bool(said) == bool(found)


def test_every_variant_has_a_time() -> None:
    right = {"variant": "a", "time_us": "4.5", "copy_us": "3.1", "percent_of_copy": "69"}
    assert physics.implausible_rows([right]) == []
    for field, value in (("time_us", ""), ("time_us", "0.0"), ("copy_us", ""), ("percent_of_copy", "9999")):
        assert len(physics.implausible_rows([right, {**right, field: value}])) == 1


# ---- expect.sh
TWO_LINES = "echo 'line one'; echo 'line two' >&2; exit 4"


@pytest.mark.parametrize(
    "ends, code, regex, script",
    [
        (0, 4, "^line two$\n^line one$", TWO_LINES),
        (1, 0, "one", TWO_LINES),
        (1, 3, "one", TWO_LINES),
        *((1, 4, regex, TWO_LINES) for regex in ("^line one$\nthree", "three\n^line one$", "one.*two")),
        *((ends, code, "GPU", "echo no usable GPU; exit 3") for ends, code in ((3, 0), (0, 3))),
        *((ends, code, "GiB", "echo 9 GiB of device memory; exit 2") for ends, code in ((3, 0), (0, 2))),
        (1, 0, "one", "echo some other reason; exit 3"),
    ],
)
def test_expect(ends: int, code: int, regex: str, script: str) -> None:
    command = ["bash", str(Path(__file__).with_name("expect.sh")), str(code), regex, "bash", "-c", script]
    assert subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode == ends
