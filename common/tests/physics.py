#!/usr/bin/env python3
"""Tests times and counters by rules that hold on any GPU: no numbers of a certain one, only the limits of physics.

    physics.py times BUILD LIBCUDART      the timer, against the limits of a memory and a cache
    physics.py every_variant STAGE        each variant of a stage gets a time, and a plausible one
    physics.py kept_l2 PERSISTING_L2      a request to the L2 to keep data changes no later time
    physics.py profile STAGE COMMAND...   ./run profile measures if ncu may, and says why if it may not

Exit codes: 0 all is right, 1 not, 3 no usable GPU.
"""

import ctypes
import functools
import glob
import json
import re
import shutil
import sys
from pathlib import Path
from typing import Callable

import check_stage
from check_stage import Failure

ABSURD_GB_S = 10_000  # if the GPU does not tell its own peak

Times = dict[str, dict[str, float]]  # variant, or "copy" → the fields of its record


def on_gpu(command: list[str]) -> str:
    """The output of a stage. Ends the test if there is no GPU."""
    done = check_stage.run([*command[:1], "--device", "gpu", *command[1:]])
    if done.returncode == 3:
        print(done.stderr, end="")
        sys.exit(3)
    if done.returncode != 0:
        raise Failure(f"{command[0]}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def measure(build: Path, stage: str, variant: str, rows: int, l2: str = "cold") -> Times:
    """The variant and the copy, f32, rows of 1024 columns."""
    options = ["--variant", variant, "--rows", str(rows), "--l2", l2, "--format", "json"]
    return {record["variant"]: record for record in json.loads(on_gpu([str(build / stage), *options]))["results"]}


def peak_gb_s(libcudart: str) -> float:
    """The peak by the memory's clock and width, with two transfers per clock."""
    runtime, clock_khz, bits = ctypes.CDLL(libcudart), ctypes.c_int(), ctypes.c_int()
    runtime.cudaDeviceGetAttribute(ctypes.byref(clock_khz), 36, 0)
    runtime.cudaDeviceGetAttribute(ctypes.byref(bits), 37, 0)
    return 2 * clock_khz.value * 1e3 * bits.value / 8 / 1e9 or ABSURD_GB_S


def implausible_times(times_of: Callable[..., Times], peak: float) -> list[str]:
    """The impossible times. times_of: as `measure` without the folder."""
    found = []

    def expect(holds: bool, what: str) -> None:
        if not holds:
            found.append(what)

    rows = 49152  # 2 x 201 MB: no cache holds that
    once, twice = (times_of("02_fused_block", "warp_then_shared", n) for n in (rows, 2 * rows))
    copied_gb = 2 * rows * 1024 * 4 / 1e9
    speed = copied_gb / (once["copy"]["time_us"] * 1e-6)
    expect(10 < speed < peak, f"the copy: {speed:.0f} GB/s, and the memory has at most {peak:.0f}")
    for name, record in once.items():
        ratio = twice[name]["time_us"] / record["time_us"]
        expect(1.6 < ratio < 2.4, f"{name}: twice the rows take {ratio:.2f} times the time")
        percent = 100 * record["copy_us"] / record["time_us"]
        reported = record["percent_of_copy"]
        expect(abs(percent / reported - 1) < 0.01, f"{name}: {reported} % of the copy, and the times say {percent:.2f}")
        credited = copied_gb / (record["time_us"] * 1e-6)
        expect(abs(credited / record["bandwidth_gb_s"] - 1) < 0.01,
               f"{name}: {record['bandwidth_gb_s']} GB/s, and the time says {credited:.1f}")  # fmt: skip
    itself = once["copy"]["percent_of_copy"]
    expect(90 <= itself <= 110, f"the copy takes {itself} % of its own time")

    # Eight passes, most of them uncoalesced or twice as wide: nowhere near the copy.
    slow = times_of("01_naive", "thread_per_row", rows)["thread_per_row"]["percent_of_copy"]
    expect(slow < 60, f"01 thread_per_row: {slow} % of the copy, with four times its passes")

    cold, warm = (times_of("02_fused_block", "warp_then_shared", 256, l2) for l2 in ("cold", "warm"))  # 1 MiB
    for name in cold:
        expect(warm[name]["time_us"] < cold[name]["time_us"],
               f"{name}, 1 MiB: {warm[name]['time_us']} µs from the L2, {cold[name]['time_us']} µs from memory")  # fmt: skip
    return found


def times(build: str, libcudart: str) -> None:
    times_of = functools.partial(measure, Path(build))
    times_of("02_fused_block", "warp_then_shared", 1)  # is there a GPU?
    if found := implausible_times(times_of, peak_gb_s(libcudart)):
        raise Failure("\n".join(found))


def implausible_rows(rows: list[dict[str, str]]) -> list[str]:
    """2048 x 512 in f32, 8 MB: slower than any launch, faster than a disk."""
    return [f"{row['variant']}: {row['time_us']} µs, {row['percent_of_copy']} % of the copy's {row['copy_us']}"
            for row in rows
            if not (0.5 < float(row["time_us"] or 0) < 1e5 and 0.5 < float(row["copy_us"] or 0) < 1e3
                    and 0.1 < float(row["percent_of_copy"] or 0) < 300)]  # fmt: skip


def every_variant(stage: str) -> None:
    rows, _ = check_stage.verify([stage, "--device", "gpu", "--rows", "2048", "--cols", "512", "--repeats", "3",
                                  "--section", "heading,rows", "--format", "csv"])  # fmt: skip
    if found := implausible_rows(rows):
        raise Failure("\n".join(found))


def kept_l2(stage: str) -> None:
    """On an H200 both take twice their time where the settings stay, and 0.3 us more where they are taken back."""
    folder, name = Path(stage).parent, Path(stage).name
    alone, after = (measure(folder, name, before + "nothing_kept", 4096) for before in ("", "input_kept,"))
    for who in ("nothing_kept", "copy"):
        times = alone[who]["time_us"], after[who]["time_us"]
        print(f"{who}: {times[0]} us, and {times[1]} where the L2 was asked before to keep the input")
        if not 0.9 < times[1] / times[0] < 1.2:
            raise Failure("they differ")


def profile(stage: str, *command: str) -> None:
    """Whether ncu may count is asked of ncu itself."""
    launch = [stage, "--profile", "--variant", "padded_packs"]
    on_gpu(launch)
    places = [shutil.which("ncu"), "/usr/local/cuda/bin/ncu", *glob.glob("/opt/nvidia/nsight-compute/*/ncu")]
    ncu = next((place for place in places if place and Path(place).exists()), None)
    if ncu is None:
        expected = "not measured: 'ncu' is not here"
    else:
        done = check_stage.run([ncu, "--metrics", "dram__bytes_read.sum", *launch, "--device", "gpu"])
        said = done.stdout + done.stderr
        if "ERR_NVGPUCTRPERM" in said:
            expected = "not measured: no permission"
        elif "dram__bytes_read.sum" in said:
            expected = "^bytes requested, passes +2 · 2 · 2$"
        else:
            expected = "not measured: ncu cannot"
    done = check_stage.run(list(command))
    if done.returncode != 0 or not re.search(expected, done.stdout + done.stderr, re.MULTILINE):
        raise Failure(f"exit code {done.returncode}; expected: {expected}\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    TESTS = {"times": times, "every_variant": every_variant, "kept_l2": kept_l2, "profile": profile}
    sys.exit(check_stage.print_or_fail(lambda: TESTS[sys.argv[1]](*sys.argv[2:]) or "all is as it can be"))
