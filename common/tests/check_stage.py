#!/usr/bin/env python3
"""Runs a stage and checks that it verified exactly what its options ask for:

    check_stage.py STAGE OPTION...                    every variant on every problem and input
    check_stage.py --counts CONDITION STAGE OPTION... the same on the simulator, and what it counted of each

CONDITION is a Python expression, in which the columns of the stage's CSV stand by their names, and `size` for the bytes of an
element. Exit codes: 0 all is right, 1 not, 3 no usable GPU, or the shape does not fit it.
"""

from __future__ import annotations

import csv
import itertools
import math
import os
import re
import subprocess
import sys
from pathlib import Path

# What `all` stands for, said again: a stage whose list has become shorter must not pass.
ALL = {
    "--dtype": ["f32", "f16", "bf16"],
    "--op": ["softmax", "log_softmax"],
    "--input": ["normal", "uniform", "large_magnitude", "all_equal", "very_negative", "ascending", "one_outlier",
                "neg_inf_prefix", "all_neg_inf", "one_pos_inf", "one_nan", "lowest"],
}  # fmt: skip
DEFAULTS = {"--dtype": "f32", "--op": "softmax", "--input": "normal", "--cols": "1024", "--device": ""}
KEY = ("variant", "dtype", "op", "rows", "cols", "input")

# Most columns of stage 04: the 227 KiB of an H200's (and the simulator's) block as float, less the results of 32 warps and of all.
MAX_SHARED_COLS = 227 * 1024 // 4 - 33
# All GPUs that the toolkit compiles for have 48 KiB, less the same.
MIN_SHARED_COLS = 48 * 1024 // 4 - 33


def is_applicable(stage: str, variant: str, dtype: str, op: str, cols: int, device: str) -> bool | None:
    """Whether the variant does this problem, as its lesson says it; None: that depends on the GPU."""
    pack = 4 if dtype == "f32" else 8
    if stage == "01_naive":
        return op == "softmax"
    if stage == "02_fused_block" and variant.startswith("fastertransformer_"):
        return cols <= 1024
    if stage == "03_warp_reduce":
        if variant == "packs":
            return cols in [32 * pack * packs for packs in ((1, 2, 4, 8) if dtype == "f32" else (1, 2, 3, 4))]
        return cols <= (32 * pack if variant in ("narrow_groups", "two_rows_per_access") else 1024)
    if stage == "04_smem_bank_conflict":
        if device != "sim" and MIN_SHARED_COLS < cols <= MAX_SHARED_COLS:
            return None
        return cols <= MAX_SHARED_COLS
    if stage == "06_online" and variant == "fused":
        return cols <= 32768
    return True


class Failure(Exception):
    """What is wrong, in a line or a few."""


def option(command: list[str], name: str) -> list[str]:
    """The items of the option's last value."""
    value = DEFAULTS.get(name)
    for word, following in itertools.zip_longest(command, command[1:]):
        if word == name:
            value = following
        elif word.startswith(name + "="):
            value = word.split("=", 1)[1]
    if value == "all" and name in ALL:
        return ALL[name]
    return value.split(",") if value else []


def run(command: list[str], **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                          env={**os.environ, **environment})  # fmt: skip


def variants_of(command: list[str]) -> list[str]:
    listed = [line.split()[0] for line in run([command[0], "--list"]).stdout.splitlines() if line.strip()]
    if not listed:
        raise Failure("--list names no variant")
    return option(command, "--variant") or listed


def wrong_status(row: dict[str, str], stage: str, device: str) -> str:
    """'' or what is wrong with the row."""
    applicable = is_applicable(stage, row["variant"], row["dtype"], row["op"], int(row["cols"]), device)
    if applicable is None:  # the stage says from where on it cannot
        limit = re.search(r"at most (\d+) columns", row["reason"])
        applicable = row["status"] != "not applicable" or not limit or int(row["cols"]) <= int(limit.group(1))
    expected = "verified" if applicable else "not applicable"
    return "" if row["status"] == expected else f"{row['status']}, and not {expected}"


def check_rows(command: list[str], printed: str) -> list[dict[str, str]]:
    """The rows of the CSV: all that the command asks for, each once, each with the right status."""
    rows = list(csv.DictReader(printed.splitlines()))
    found = [tuple(row.get(column) for column in KEY) for row in rows]
    wanted = set(itertools.product(variants_of(command), *(option(command, "--" + column) for column in KEY[1:])))
    problems = [f"missing: {' '.join(key)}" for key in sorted(wanted.difference(found))]
    problems += [f"not asked for, or twice: {key}" for i, key in enumerate(found) if key not in wanted or key in found[:i]]
    stage, device = Path(command[0]).name, "".join(option(command, "--device"))
    for key, row in zip(found, rows):
        if key in wanted and (wrong := wrong_status(row, stage, device)):
            problems.append(f"{' '.join(key)}: {wrong}: {row['reason']}")
    if not wanted:
        problems.append("these options ask for nothing: give --rows")
    if problems:
        raise Failure("\n".join([f"{len(problems)} of {len(wanted)} rows are wrong", *problems[:20]]))
    return rows


def number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def check_counts(condition: str, command: list[str], rows: list[dict[str, str]]) -> None:
    checked = 0
    for row in rows:
        if row["status"] != "verified":
            continue
        names = {column: number(value) for column, value in row.items()}
        names["size"] = 4 if row["dtype"] == "f32" else 2
        checked += 1
        if not eval(condition, {"abs": abs, "int": int, "log2": math.log2}, names):  # the tests' own text
            # Where: this one again, counted by source line.
            again = [command[0], "--device", "sim", "--verify-only"]
            for column in ("variant", "dtype", "op", "rows", "cols"):
                again += ["--" + column, row[column]]
            done = run(again, SIM_REPORT="lines")
            counted = ", ".join(f"{name} {value}" for name, value in row.items() if name in condition)
            raise Failure(f"not so: {condition}\n{' '.join(again[4:])}: {counted}\n{done.stdout}{done.stderr}")
    if checked == 0:
        raise Failure("nothing was counted")


def check(condition: str | None, command: list[str]) -> None:
    mode = ["--verify-only"] if condition is None else ["--device", "sim", "--section", "heading,rows"]
    command = [*command, *mode, "--format", "csv"]
    done = run(command)
    if done.returncode == 3 or (done.returncode == 2 and "of device memory" in done.stderr):
        print(done.stderr, end="")
        sys.exit(3)
    if done.returncode != 0:
        lines = [line for line in done.stdout.splitlines() if ",wrong," in line]
        raise Failure("\n".join([f"exit code {done.returncode}", *lines[:20], done.stderr]))
    if "WRONG" in done.stdout + done.stderr:
        raise Failure("exit code 0, and a WRONG result:\n" + done.stdout + done.stderr)
    rows = check_rows(command, done.stdout)
    if condition is not None:
        check_counts(condition, command, rows)
    print(f"{len(rows)} rows, {sum(row['status'] == 'verified' for row in rows)} of them verified")


def main() -> int:
    arguments = sys.argv[1:]
    condition = None
    if arguments[:1] == ["--counts"]:
        condition, arguments = arguments[1], arguments[2:]
    try:
        check(condition, arguments)
    except Failure as failure:
        print(f"{' '.join(arguments)}\n{failure}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
