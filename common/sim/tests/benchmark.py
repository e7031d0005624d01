#!/usr/bin/env python3
"""How fast simulators are, side by side: warp instructions per second in their launches, and whole runs.

    benchmark.py [--build BUILD] [--repeats N] [--elapsed] LIBRARY...

LIBRARY is a libcudart.so that is a simulator; the last column compares the last one with the first. Each workload runs
under all of them in turn, N times (default 5), and medians are printed: of processor time, as others may be using the
machine, or with --elapsed of elapsed time, in which alone threads show (SIM_THREADS says how many, taskset where). BUILD was configured with -DSOFTMAX_TESTS=ON.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

KERNELS = ("matmul", "fma_chain", "collatz", "gather")
SHORT_COLS = "1,2,3,7,31,32,33,63,100,127,128,129,1000,1023,1024,1025"


def workloads(build: Path) -> dict[str, list[list[str]]]:
    """By name, the commands that it is made of."""
    # The ladder's: all do softmax, and one device is enough for them.
    stages = sorted(str(stage) for stage in build.glob("0[1-9]_*") if stage.is_file())
    if not stages:
        sys.exit(f"benchmark.py: no stages in {build}")
    verify = ["--verify-only", "--device", "sim"]
    edges = [*verify, "--rows", "0,1,2,7", "--cols", SHORT_COLS, "--op", "all", "--input", "all", "--dtype"]
    return {
        "./run": [[stage, *verify, "--rows", "64", "--cols", "1024"] for stage in stages],
        "./test, edge shapes, f32": [[stage, *edges, "f32"] for stage in stages],
        "./test, edge shapes, f16": [[stage, *edges, "f16"] for stage in stages],
        **{name: [[str(build / "common/sim/tests/benchmark"), name]] for name in KERNELS},
    }


def run(command: list[str], library: Path, *before: Path, **environment: str) -> str:
    """The text that the command writes to stderr."""
    preload = " ".join(str(path) for path in (*before, library))
    done = subprocess.run(
        command,
        env={**os.environ, "LD_PRELOAD": preload, **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        sys.exit(f"benchmark.py: {' '.join(command)}: exit code {done.returncode}\n{done.stderr}")
    return done.stderr


def instructions(commands: list[list[str]], library: Path) -> int:
    reports = [run(command, library, SIM_REPORT="1") for command in commands]
    return sum(int(count) for report in reports for count in re.findall(r"^ +(\d+) warp instructions", report, re.M))


def seconds(commands: list[list[str]], library: Path, clock: Path, elapsed: bool) -> tuple[float, float]:
    """In launches, and of the whole runs."""

    def now() -> float:
        return time.monotonic() if elapsed else sum(os.times()[2:4])  # of children

    begin = now()
    in_launches = 0.0
    with tempfile.NamedTemporaryFile() as file:
        for command in commands:
            run(command, library, clock, LAUNCH_CLOCK=file.name)
            in_launches += float(Path(file.name).read_text().split()[1 if elapsed else 0])
    return in_launches, now() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=Path("build"))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--elapsed", action="store_true")
    parser.add_argument("--only", default="", help="workloads whose name contains this")
    parser.add_argument("libraries", type=Path, nargs="+")
    options = parser.parse_args()
    clock = options.build.resolve() / "common/sim/tests/liblaunch_clock.so"
    libraries = [library.resolve() for library in options.libraries]
    print("| workload | warp instructions | " + " | ".join(["M/s in launches (whole run)"] * len(libraries)), end="")
    print(" | times as fast |\n|---|--:|" + "--:|" * (len(libraries) + 1))
    for name, commands in workloads(options.build.resolve()).items():
        if options.only not in name:
            continue
        count = instructions(commands, libraries[0])
        taken = [[seconds(commands, library, clock, options.elapsed) for library in libraries] for _ in range(options.repeats)]
        medians = [[statistics.median(turn[i][which] for turn in taken) for which in (0, 1)] for i in range(len(libraries))]
        rates = [f"{count / launches / 1e6:.1f} ({whole:.2f} s)" for launches, whole in medians]
        ratios = [medians[0][which] / medians[-1][which] for which in (0, 1)]
        print(f"| {name} | {count} | {' | '.join(rates)} | {ratios[0]:.1f} ({ratios[1]:.1f}) |", flush=True)


if __name__ == "__main__":
    main()
