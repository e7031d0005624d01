#!/usr/bin/env python3
"""Runs a stage and checks that it verified exactly what its options ask for, every variant on every problem and input:

    check_stage.py STAGE OPTION...

Exit codes: 0 all is right, 1 not, 3 no usable GPU, or the shape does not fit it.
"""

import csv
import itertools
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Callable

# What `all` stands for, said again: a stage whose list has become shorter must not pass.
ALL = {
    "--dtype": ["f32", "f16", "bf16"],
    "--op": ["softmax", "log_softmax"],
    "--input": ["normal", "uniform", "large_magnitude", "all_equal", "very_negative", "ascending", "one_outlier",
                "neg_inf_prefix", "all_neg_inf", "one_pos_inf", "one_nan", "lowest", "near_one_hot"],
}  # fmt: skip
OPS_OF = {  # what others do than softmax; the first is usual
    "11_backward": ["softmax_backward", "log_softmax_backward", "recomputed_softmax_backward"],
    "softmax_backward": ["softmax_backward", "log_softmax_backward"],
    "12_fusion": ["cross_entropy", "cross_entropy_gradient", "smoothed_cross_entropy", "smoothed_cross_entropy_gradient",
                  "causal_softmax", "causal_softmax_backward", "padded_softmax", "padded_softmax_backward"],
    "masked_softmax": ["causal_softmax", "padded_softmax"],
    "cross_entropy": ["cross_entropy_gradient"],
    "14_several_gpus": [*ALL["--op"], "cross_entropy"],
}
OPS_OF["13_dispatch"] = [*ALL["--op"], *OPS_OF["softmax_backward"], *(op for op in OPS_OF["12_fusion"] if "cross_entropy" in op)]
DEFAULTS = {"--dtype": "f32", "--input": "normal", "--cols": "1024", "--device": ""}
KEY = ("variant", "dtype", "op", "rows", "cols", "input")

# Most columns of stage 04: the 227 KiB of an H200's (and the simulator's) block as float, less the results of 32 warps
# and of all together.
MAX_SHARED_COLS = 227 * 1024 // 4 - 33
# All GPUs that the toolkit compiles for have 48 KiB, less the same.
MIN_SHARED_COLS = 48 * 1024 // 4 - 33


def in_odd_packs(dtype: str, cols: int, offsets: tuple[int, ...]) -> bool:
    """Whether rows are an odd number of packs of at most 8 bytes, and begin at these."""
    size = 4 if dtype == "f32" else 2
    of_row = cols * size & -(cols * size)
    return of_row <= 8 and not any(offset * size % of_row for offset in offsets)


def is_applicable(stage: str, variant: str, dtype: str, op: str, cols: int, device: str,
                  offsets: tuple[int, ...] = (0,)) -> bool | None:
    """Whether the variant does this problem, as its lesson says it; None: that depends on the GPU."""
    pack = 4 if dtype == "f32" else 8
    if stage == "01_naive":
        return op == "softmax"
    if stage == "02_fused_block" and variant.startswith("fastertransformer_"):
        return cols <= 1024
    if stage == "03_warp_reduce":
        if variant == "packs":
            return cols in [32 * pack * packs for packs in ((1, 2, 4, 8) if dtype == "f32" else (1, 2, 3, 4))]
        packs = {"narrow_groups": 1, "two_packs_per_lane": 2, "two_rows_per_access": 1, "two_rows_evict_last": 1,
                 "two_packs_two_rows": 2, "two_or_three_packs": 3}
        return cols <= (32 * packs[variant] * pack if variant in packs else 1024)
    if stage == "04_smem_bank_conflict":
        if device != "sim" and MIN_SHARED_COLS < cols <= MAX_SHARED_COLS:
            return None
        return cols <= MAX_SHARED_COLS
    if stage == "06_online" and variant in ("fused", "fused_evict_last"):
        return cols <= 32768
    if stage == "08_unaligned_rows":
        return cols <= {"flat_span": 544, "row_in_flight": 1 << 30}.get(variant, 32760)
    if stage == "09_async_copy":
        if any(number % pack for number in (cols, *offsets)):
            return False
        if variant == "bulk_copy" and float(os.environ.get("SIM_COMPUTE_CAPABILITY", "9.0")) < 9:
            return False
        # A block's shared memory, less 1 KiB, holds one row in lines of 128 bytes, or three; registers 32 columns a thread.
        most, least = ((shared - 1024) // (3 if variant == "bulk_copy" else 1) // 128 * 8 * pack
                       for shared in (227 * 1024, 48 * 1024))  # fmt: skip
        if device != "sim" and (variant == "bulk_copy" or least < cols <= most):
            return None
        return cols <= (min(most, 32768) if variant == "landing" else most)
    if stage == "10_cluster":
        if float(os.environ.get("SIM_COMPUTE_CAPABILITY", "9.0")) < 9:
            return False
        any_row = variant == "unaligned_cluster"
        if not any_row and any(number % pack for number in (cols, *offsets)):
            return False
        if variant == "registers":  # 8 packs for each of 256 threads in 16 blocks
            return 8 * 32 * pack <= cols <= 16 * 256 * 8 * pack
        blocks = int(variant.removeprefix("cluster_")) if variant.startswith("cluster_") else 16
        # Of a block's shared memory 1 KiB and a line are for other things; the rest holds lines of one part, or of three.
        most, least = ((shared - 1024 - 128) // (3 if variant == "bulk_ring" else 1) // 128 * 8 * pack * blocks
                       for shared in (227 * 1024, 48 * 1024))  # fmt: skip
        if device != "sim" and least < cols <= most:
            return None
        return (0 if any_row else blocks * 32 * pack) <= cols <= most
    if stage == "11_backward":
        if (op == "recomputed_softmax_backward") != (variant == "recomputed"):
            return False
        lie_alike = len({offset % pack for offset in offsets}) <= 1
        if variant == "warp_registers":
            return cols <= (1536 if dtype != "f32" and lie_alike else 1024)
        if variant in ("unaligned", "two_kernels"):
            return True
        if variant == "flat_span":  # in which dx takes the place of dy
            return cols <= 272 and in_odd_packs(dtype, cols, offsets) and lie_alike
        if variant == "head_and_tail":
            return cols <= 16384
        if variant.endswith("cluster") and float(os.environ.get("SIM_COMPUTE_CAPABILITY", "9.0")) < 9:
            return False
        if variant == "unaligned_cluster":  # less two lines for each row, which may begin anywhere in one
            return cols <= ((227 * 1024 - 1024) // 2 - 256) // 128 * 8 * pack * 16 if device == "sim" else None
        if variant == "two_floats" and op != "softmax_backward":
            return False
        in_packs = not any(number % pack for number in (cols, *offsets))
        if variant in ("block_registers", "two_floats"):  # also by packs of 8 bytes
            return cols <= (16384 if in_packs else 0 if any(number % (pack // 2) for number in (cols, *offsets)) else 4096)
        if not in_packs:
            return False
        if variant == "recomputed":
            return cols <= 16384
        if variant == "row_exchange":  # 8192 columns for each block, of which a multiprocessor holds two; or one before 8.0
            blocks = 1 if float(os.environ.get("SIM_COMPUTE_CAPABILITY", "9.0")) < 8 else 2
            multiprocessors = int(os.environ.get("SIM_MULTIPROCESSORS", "132"))
            return cols <= blocks * multiprocessors * 8192 if device == "sim" or cols <= 8192 else None
        # Of a block's shared memory 1 KiB is for other things; the rest holds lines of both rows, or of a block's part of them.
        blocks = 16 if variant == "cluster" else 1
        most, least = ((shared - 1024) // 2 // 128 * 8 * pack * blocks for shared in (227 * 1024, 48 * 1024))
        if device != "sim" and (variant == "cluster" or least < cols <= most):
            return None
        return cols <= most
    if stage == "12_fusion":
        most_of_masked = {"four_kernels": 32768, "masked_in_a_warp": 1024, "masked_in_a_block": 32768, "masked_online": 1 << 30}
        if (op in ("causal_softmax", "padded_softmax")) != (variant in most_of_masked):
            return False
        if variant in most_of_masked:
            return cols <= most_of_masked[variant]
        if op.endswith("_backward") != (variant in ("three_kernels", "masked_backward")):
            return False
        if op.endswith("_backward"):
            return cols <= (8192 if any(number % pack for number in (cols, *offsets)) else 16384)
        if variant == "narrow_rows":  # of a warp's lanes each holds 32 packs, or 12; or 16 elements, where x and dx lie otherwise
            gradient = op.endswith("gradient")
            if gradient and len(offsets) > 1 and (offsets[0] - offsets[1]) % pack:
                return cols <= 32 * 16
            return cols <= 32 * (12 if gradient else 32) * pack + pack - 1
        if variant == "flat_span":
            return cols <= 544 and in_odd_packs(dtype, cols, offsets)
        if variant in ("cluster_loss", "cluster_registers") and float(os.environ.get("SIM_COMPUTE_CAPABILITY", "9.0")) < 9:
            return False
        if variant == "cluster_registers" and cols > 8 * 128 * 16 * pack:  # 16 packs for each thread of 8 blocks
            return False
        if op.endswith("gradient") != (variant in ("unfused_gradient", "read_again", "in_registers", "kept_row", "cluster", "unaligned_cluster")):
            return False
        if variant == "in_registers":
            return cols <= 32760 and (len(offsets) < 2 or (offsets[0] - offsets[1]) % pack == 0)
        if variant.startswith("unfused"):
            return not op.startswith("smoothed")
        if variant == "cluster":
            if any(number % pack for number in (cols, *offsets)) or float(os.environ.get("SIM_COMPUTE_CAPABILITY", "9.0")) < 9:
                return False
            return cols <= 16 * 1024 * 8 * pack if device == "sim" else None  # 8 packs for each thread of 16 blocks
        if variant == "unaligned_cluster":
            if float(os.environ.get("SIM_COMPUTE_CAPABILITY", "9.0")) < 9:
                return False
            return cols <= (227 * 1024 - 1024 - 256) // 128 * 8 * pack * 16 if device == "sim" else None
    if stage == "14_several_gpus" and variant == "device_exchange":
        if any(number % pack for number in (cols, *offsets)):
            return False
        devices = int(os.environ.get("SIM_DEVICES", "1"))
        if device != "sim" or devices < 2 or float(os.environ.get("SIM_COMPUTE_CAPABILITY", "9.0")) < 9:
            return None if device != "sim" else False
        widest = min(-(-cols // devices + 15) // 16 * 16, cols)  # in whole sectors
        return widest <= (227 * 1024 - 1024) // 128 * 8 * pack * 16
    return True


class Failure(Exception):
    """What is wrong, in a line or a few."""


def option(command: list[str], name: str) -> list[str]:
    """The items of the option's last value."""
    ops = OPS_OF.get(Path(command[0]).name, ALL["--op"])
    value = ops[0] if name == "--op" else DEFAULTS.get(name)
    for word, following in itertools.zip_longest(command, command[1:]):
        if word == name:
            value = following
        elif word.startswith(name + "="):
            value = word.split("=", 1)[1]
    if value == "all" and name in ALL:
        return ops if name == "--op" else ALL[name]
    return value.split(",") if value else []


def run(command: list[str], **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                          env={**os.environ, **environment})  # fmt: skip


def variants_of(command: list[str]) -> list[str]:
    listed = [line.split()[0] for line in run([command[0], "--list"]).stdout.splitlines() if line.strip()]
    if not listed:
        raise Failure("--list names no variant")
    return option(command, "--variant") or listed


def wrong_status(row: dict[str, str], stage: str, device: str, offsets: tuple[int, ...]) -> str:
    """'' or what is wrong with the row."""
    applicable = is_applicable(stage, row["variant"], row["dtype"], row["op"], int(row["cols"]), device, offsets)
    if applicable is None:  # the stage says from where on it cannot
        limit = re.search(r"at most (\d+) columns", row["reason"])
        applicable = row["status"] != "not applicable" or not limit or int(row["cols"]) <= int(limit.group(1))
        applicable = applicable and not row["reason"].startswith("needs ")
    expected = "verified" if applicable else "not applicable"
    return "" if row["status"] == expected else f"{row['status']}, and not {expected}"


def check_rows(command: list[str], printed: str) -> list[dict[str, str]]:
    """The rows of the CSV: all that the command asks for, each once, each with the right status."""
    rows = list(csv.DictReader(printed.splitlines()))
    found = [tuple(row.get(column) for column in KEY) for row in rows]
    wanted = set(itertools.product(variants_of(command), *(option(command, "--" + column) for column in KEY[1:])))
    problems = [f"missing: {' '.join(key)}" for key in sorted(wanted.difference(found))]
    problems += [f"not asked for, or twice: {' '.join(map(str, key))}"
                 for key, times in Counter(found).items() if key not in wanted or times > 1]  # fmt: skip
    stage, device = Path(command[0]).name, "".join(option(command, "--device"))
    offsets = tuple(map(int, option(command, "--offset")))
    for key, row in zip(found, rows):
        if key in wanted and (wrong := wrong_status(row, stage, device, offsets)):
            problems.append(f"{' '.join(key)}: {wrong}: {row['reason']}")
    if not wanted:
        problems.append("these options ask for nothing: give --rows")
    if problems:
        raise Failure("\n".join([f"{len(problems)} of {len(wanted)} rows are wrong", *problems[:20]]))
    return rows


def verify(command: list[str], **environment: str) -> tuple[list[dict[str, str]], str]:
    """Runs the stage, which prints CSV; the rows that are not "not applicable", and what it wrote to stderr."""
    done = run(command, **environment)
    if done.returncode == 3 or (done.returncode == 2 and "of device memory" in done.stderr):
        print(done.stderr, end="")
        sys.exit(3)
    if done.returncode != 0:
        lines = [line for line in done.stdout.splitlines() if ",wrong," in line]
        raise Failure("\n".join([f"exit code {done.returncode}", *lines[:20], done.stderr]))
    if "WRONG" in done.stdout + done.stderr:
        raise Failure("exit code 0, and a WRONG result:\n" + done.stdout + done.stderr)
    checked = check_rows(command, done.stdout)
    rows = [row for row in checked if row["status"] == "verified"]
    if checked and all(row["reason"].startswith("needs ") for row in checked):
        print(f"skipped: {checked[0]['reason']}")
        sys.exit(3)
    if not rows:
        raise Failure("nothing was verified")
    return rows, done.stderr


def print_or_fail(check: Callable[[], object]) -> int:
    """The exit code of a test: it prints what `check` returns, or how it failed."""
    try:
        print(check())
    except Failure as failure:
        print(failure)
        return 1
    return 0


def count_verified() -> str:
    command = [*sys.argv[1:], "--verify-only", "--format", "csv"]
    try:
        return f"{len(verify(command)[0])} verified"
    except Failure as failure:
        raise Failure(f"{' '.join(command)}\n{failure}") from failure


if __name__ == "__main__":
    sys.exit(print_or_fail(count_verified))
