#!/usr/bin/env python3
"""Runs a stage and checks that it verified exactly the requested cases, every variant on every problem and input:

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

# The values that `all` stands for, repeated here: a stage whose list has become shorter must not pass.
ALL = {
    "--dtype": ["f32", "f16", "bf16"],
    "--op": ["softmax", "log_softmax"],
    "--input": ["normal", "uniform", "large_magnitude", "all_equal", "very_negative", "ascending", "one_outlier",
                "neg_inf_prefix", "all_neg_inf", "one_pos_inf", "one_nan", "lowest", "near_one_hot"],
}  # fmt: skip
OPS_OF = {  # of stages without softmax; the first is usual
    "11_backward": ["softmax_backward", "log_softmax_backward", "recomputed_softmax_backward"],
    "softmax_backward": ["softmax_backward", "log_softmax_backward"],
    "12_cross_entropy": ["cross_entropy", "cross_entropy_gradient"],
    "13_masked_softmax": ["causal_softmax", "causal_softmax_backward", "padded_softmax", "padded_softmax_backward"],
    "masked_softmax": ["causal_softmax", "padded_softmax"],
    "cross_entropy": ["cross_entropy_gradient"],
    "rowwise_bench": [*ALL["--op"], "softmax_backward", "log_softmax_backward", "cross_entropy", "cross_entropy_gradient",
                      "smoothed_cross_entropy", "smoothed_cross_entropy_gradient"],
    "15_several_gpus": [*ALL["--op"], "cross_entropy"],
}
OPS_OF["14_dispatch"] = OPS_OF["rowwise_bench"]
DEFAULTS = {"--dtype": "f32", "--input": "normal", "--cols": "1024"}
KEY = ("variant", "dtype", "op", "rows", "cols", "input")

class Failure(Exception):
    """The problem, in a line or a few."""


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


def most_columns(reason: str) -> int | None:
    """The limit that a stage gives with a row that is not applicable."""
    limit = re.search(r"at most (\d+) columns", reason)
    return int(limit.group(1)) if limit else None


def wrong_status(row: dict[str, str]) -> str:
    """'' or the problem with the row. A variant's launcher decides which rows it refuses; limits.py looks at the limits."""
    if row["status"] == "verified":
        return ""
    if row["status"] != "not applicable":
        return f"{row['status']}, and not verified"
    if not row["reason"]:
        return "not applicable without a reason"
    limit = most_columns(row["reason"])
    return "not applicable within its limit" if limit is not None and int(row["cols"]) <= limit else ""


def check_rows(command: list[str], printed: str) -> list[dict[str, str]]:
    """The rows of the CSV: every requested case, each once, each with the right status."""
    rows = list(csv.DictReader(printed.splitlines()))
    found = [tuple(row.get(column) for column in KEY) for row in rows]
    wanted = set(itertools.product(variants_of(command), *(option(command, "--" + column) for column in KEY[1:])))
    problems = [f"missing: {' '.join(key)}" for key in sorted(wanted.difference(found))]
    problems += [f"not asked for, or twice: {' '.join(map(str, key))}"
                 for key, times in Counter(found).items() if key not in wanted or times > 1]  # fmt: skip
    for key, row in zip(found, rows):
        if key in wanted and (wrong := wrong_status(row)):
            problems.append(f"{' '.join(key)}: {wrong}: {row['reason']}")
    if not wanted:
        problems.append("these options ask for nothing: give --rows")
    if problems:
        raise Failure("\n".join([f"{len(problems)} of {len(wanted)} rows are wrong", *problems[:20]]))
    return rows


def verify(command: list[str], **environment: str) -> tuple[list[dict[str, str]], str]:
    """Runs the stage, which prints CSV; the rows that are not "not applicable", and the text on stderr."""
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
