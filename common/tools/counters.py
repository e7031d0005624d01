#!/usr/bin/env python3
"""Counts with Nsight Compute what the variants do; writes common/results/<gpu>-counters.json.

    python3 common/tools/counters.py
    python3 common/tools/counters.py --stage 04_smem_bank_conflict --shape f16:49152x8192

Each variant is launched once under `ncu` (the stages' --profile). Counters are whole-GPU sums over
that launch: bytes, sectors (32 bytes each), requests (one per warp instruction), wavefronts
(shared-memory passes), nanoseconds for gpu__time_duration. A counter that this ncu does not know
is null. ncu empties the caches before each kernel. Earlier entries of other variants and shapes are kept
when they come from the same machine.

Exit codes: 0 written, 1 something failed and nothing was written, 2 bad usage, 3 no GPU, no ncu, or
no permission to read the counters.
"""

from __future__ import annotations

import argparse
import csv
import re
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Dict, List, Optional, Sequence, Tuple, Union

import results
from results import Json, NoDevice, Shape, ToolError

DEFAULT_SHAPES = (Shape("f16", 49152, 1024), Shape("f32", 1024, 32768))
# Bank conflicts depend on the element's size and on the row's length.
EXTRA_SHAPES = {"04_smem_bank_conflict": (Shape("f32", 49152, 1024), Shape("f16", 49152, 8192))}

METRICS = (
    "gpu__time_duration.sum",
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
    # The same wavefronts, counted by patched machine code instead of by the hardware.
    "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "sm__warps_active.avg.pct_of_peak_sustained_active",
    "launch__registers_per_thread",
    "launch__occupancy_limit_registers",
    "launch__occupancy_limit_shared_mem",
)

STAGE_TIMEOUT_S = 120
NCU_TIMEOUT_S = 180

# ncu is asked for base units; older versions still scale some of them.
UNIT_FACTORS = {
    "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9,
    "us": 1e3, "usecond": 1e3, "ms": 1e6, "msecond": 1e6, "s": 1e9, "second": 1e9,
}


def number(text: str, unit: str) -> Optional[float]:
    """A cell of ncu's CSV (`1,234`) in base units; None for `n/a`. Whole numbers come back as int."""
    try:
        value = float(text.replace(",", "")) * UNIT_FACTORS.get(unit, 1)
    except ValueError:
        return None
    return int(value) if value == int(value) else value


def value(text: str, unit: str) -> Union[None, float, Dict[str, int]]:
    """A number, or for a counter by opcode, `30 (LDS: 10; STS: 20)`, what each of them has."""
    by_opcode = re.findall(r"([A-Z][A-Z0-9_.]*): ([\d,]+)", text)
    if by_opcode:
        return {name: int(count.replace(",", "")) for name, count in by_opcode}
    return number(text.split("(")[0], unit)  # 256 (0: 256) has one instance, itself


def parse_ncu(log: str, metrics: Sequence[str] = METRICS) -> List[Json]:
    """ncu's CSV, one row per kernel and counter → [{"kernel", "metrics"}], in launch order.

    Lines that are not CSV (ncu's ==PROF== messages) are skipped. Raises ToolError when no kernel is in it.
    """
    kernels: Dict[str, Json] = {}
    for row in csv.DictReader(line for line in log.splitlines() if line.startswith('"')):
        if row.get("Metric Name") in metrics:
            empty = {"kernel": row["Kernel Name"], "metrics": dict.fromkeys(metrics)}
            kernel = kernels.setdefault(row["ID"], empty)
            kernel["metrics"][row["Metric Name"]] = value(row["Metric Value"], row["Metric Unit"])
    if not kernels:
        raise ToolError("ncu counted no kernel")
    return [kernels[key] for key in sorted(kernels, key=int)]


def total(kernels: List[Json]) -> Json:
    """One launch's counters: sums over its kernels.

    A percentage or a register count of several kernels has no sum: it is null then, and the
    kernels' own values tell.
    """
    if len(kernels) == 1:
        return kernels[0]["metrics"]
    sums: Json = {}
    for metric in METRICS:
        values = [kernel["metrics"][metric] for kernel in kernels]
        sums[metric] = sum(values) if metric.endswith(".sum") and None not in values else None
    return sums


def count(
    ncu: str,
    executable: Path,
    variant: str,
    shape: Shape,
    metrics: Sequence[str] = METRICS,
    options: Sequence[str] = (),
) -> List[Json]:
    """Runs one variant under ncu. Raises NoDevice without permission, ToolError on any failure."""
    with tempfile.TemporaryDirectory() as folder:
        # A file of its own: the stage's output cannot get between the lines of the CSV.
        log = Path(folder) / "ncu.csv"
        command = [ncu, "--clock-control", "none", "--csv", "--print-units", "base"]
        command += ["--print-kernel-base", "function", "--profile-from-start", "off", *options]
        command += ["--metrics", ",".join(metrics), "--log-file", str(log), str(executable)]
        command += ["--dtype", shape.dtype, "--rows", str(shape.rows), "--cols", str(shape.cols)]
        command += ["--op", "softmax", "--input", "normal", "--variant", variant, "--device", "gpu", "--profile"]
        done = results.run_process(command, NCU_TIMEOUT_S)
        text = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
    said = text + done.stdout + done.stderr
    if "ERR_NVGPUCTRPERM" in said:
        raise NoDevice("no permission to read the GPU's counters (ERR_NVGPUCTRPERM): root has it")
    if "Failed to initialize the profiler" in said:
        raise NoDevice("ncu cannot profile on this machine: it failed to initialise the profiler")
    if done.returncode != 0 or "==ERROR==" in said:
        why = [line for line in said.splitlines() if "==ERROR==" in line] or said.strip().splitlines()[-1:]
        raise ToolError(f"ncu failed (exit code {done.returncode}). {' '.join(why)}")
    return parse_ncu(text, metrics)


def plan(stages: List[str], chosen: List[str], shapes: List[Shape]) -> List[Tuple[str, Shape]]:
    """Which stage is counted at which shapes: the chosen ones, otherwise the default set."""
    unknown = sorted(set(chosen) - set(stages))
    if unknown:
        raise ToolError(f"no such stage: {', '.join(unknown)}; there are: {', '.join(stages)}")
    work = []
    for stage in chosen or stages:
        for shape in shapes or (*DEFAULT_SHAPES, *EXTRA_SHAPES.get(stage, ())):
            work.append((stage, shape))
    return work


def collect(arguments: argparse.Namespace) -> Path:
    """Counts and writes; returns the file. Raises ToolError, and then has written nothing."""
    root, build = arguments.root, arguments.build
    commit, dirty = results.commit_of(root, arguments.commit)
    stages = results.stage_executables(root, build)
    work = plan(list(stages), arguments.stage, arguments.shape)
    ncu = shutil.which(arguments.ncu)
    if not ncu:
        raise NoDevice(f"'{arguments.ncu}' is not here: install Nsight Compute or pass --ncu PATH")

    origin = {"date_utc": results.utc_now(), "commit": commit, "dirty": dirty}
    machine: Optional[Json] = None
    entries: List[Json] = []
    problems: List[str] = []
    for stage, shape in work:
        # The plain run says which variants apply here, and that what is counted is correct.
        place = ["--dtype", shape.dtype, "--rows", str(shape.rows), "--cols", str(shape.cols)]
        same = ["--op", "softmax", "--input", "normal", "--variant", "all", "--verify-only"]
        report, found = results.run_stage(stages[stage], place + same, STAGE_TIMEOUT_S)
        problems += [f"{stage} {shape}: {problem}" for problem in found]
        if report is None or found:
            continue
        machine = machine or report["machine"]
        for variant in (r["variant"] for r in report["results"] if r["stage"] and r["status"] == "verified"):
            start = time.monotonic()
            outcome = "FAILED"
            try:
                kernels = count(ncu, stages[stage], variant, shape)
                entry = {"stage": stage, "variant": variant, **shape._asdict(), "kernels": kernels}
                for kernel in kernels:
                    kernel["kernel"] = " ".join(kernel["kernel"].split())
                entry["kernel"] = ", ".join(kernel["kernel"] for kernel in kernels)
                entry["metrics"] = total(kernels)
                entries.append({**entry, **origin})
                outcome = f"{len(kernels)} kernel{'s' if len(kernels) > 1 else ''}"
            except NoDevice:
                raise
            except ToolError as error:
                problems.append(f"{stage} {variant} {shape}: {error}")
            print(f"{stage} {variant} {shape}: {outcome}, {time.monotonic() - start:.1f} s", flush=True)
    if problems:
        raise ToolError("nothing was written:\n  " + "\n  ".join(problems))
    if machine is None or not entries:
        raise ToolError("no variant is applicable at these shapes; nothing was written")

    machine = {**machine, **results.software_versions(build)}
    out = arguments.out or root / "common/results" / f"{results.gpu_slug(machine['gpu'])}-counters.json"
    entries = sorted(kept_entries(out, machine, entries) + entries, key=place_of)
    header = {**origin, "command": "python3 common/tools/counters.py"}
    results.write_whole(out, results.json_text({"recorded": header, "machine": machine, "counters": entries}))
    return out


def place_of(entry: Json) -> Tuple[str, str, int, int]:
    return entry["stage"], entry["dtype"], entry["rows"], entry["cols"]


def kept_entries(out: Path, machine: Json, fresh: List[Json]) -> List[Json]:
    """Earlier entries that the fresh ones do not replace; none when they come from another machine."""
    if not out.is_file():
        return []
    old = results.load_json(out)
    if old["machine"] != machine:
        print(f"{out.name} was counted on another machine or driver: its entries are dropped")
        return []

    # A variant that was renamed must not live on, so a stage's shape is replaced as a whole.
    replaced = {place_of(entry) for entry in fresh}
    return [entry for entry in old["counters"] if place_of(entry) not in replaced]


def main(argv: Optional[List[str]] = None) -> int:
    parser = argparse.ArgumentParser(description="Count memory traffic and bank conflicts with Nsight Compute.")
    parser.add_argument("--stage", action="append", default=[], help="only this stage (may be repeated)")
    shape_help = "only this shape, for example f16:49152x1024 (may be repeated)"
    parser.add_argument("--shape", action="append", default=[], metavar="DTYPE:ROWSxCOLS", help=shape_help)
    parser.add_argument("--build", type=Path, help="folder with the stages' executables (default: build)")
    parser.add_argument("--out", type=Path, help="counters file (default: common/results/<gpu>-counters.json)")
    parser.add_argument("--commit", metavar="HASH[-dirty]", help="the commit, where git does not know it")
    parser.add_argument("--ncu", default="ncu", help="Nsight Compute's command line program")
    parser.add_argument("--root", type=Path, default=results.ROOT, help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    arguments.build = arguments.build or arguments.root / "build"
    try:
        arguments.shape = [results.parse_shape(text) for text in arguments.shape]
    except ToolError as error:
        parser.error(str(error))
    try:
        print(f"wrote {collect(arguments)}")
    except ToolError as error:
        print(f"counters.py: {error}", file=sys.stderr)
        return 3 if isinstance(error, NoDevice) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
