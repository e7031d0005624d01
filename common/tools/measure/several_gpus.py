"""Measures stage 14 and PyTorch with NCCL on all GPUs of this machine, and writes common/results/<gpu>-several.json.

    python3 common/tools several_gpus [--python PYTHON]

PYTHON is one that has torch; without it, or where it has none, PyTorch is left out.
Exit codes: 0 recorded, 1 something failed and nothing was written, 2 bad usage, 3 no usable GPU.
"""

import argparse
import json
import os
import sys
from pathlib import Path

from command import Parser, ToolError, file_to_write
from measure import results
from measure.results import Json

# dtype, rows, columns of all GPUs together, operation
SHAPES = (
    ("bf16", 4096, 151936, "softmax"),
    ("f32", 1024, 262144, "softmax"),
    ("f32", 64, 128256, "softmax"),
    ("bf16", 4096, 151936, "cross_entropy"),
)
RUN_TIMEOUT_S = 300
PEERS = Path(__file__).with_name("several_gpus_peers.py")


def peers(python: str) -> list[Json]:
    """What PyTorch takes; nothing where it cannot be run."""
    shapes = [shape for shape in SHAPES if shape[3] == "softmax"]
    done = results.run_process([python, str(PEERS), json.dumps(shapes)], 2 * RUN_TIMEOUT_S)
    if done.returncode:
        print(f"without PyTorch: {results.last_line(done.stderr)}", file=sys.stderr)
        return []
    found: list[Json] = json.loads(done.stdout)
    return found


def count_gpus() -> int:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return len(visible.split(","))
    return len(results.run_process(["nvidia-smi", "--list-gpus"], 60).stdout.splitlines())


def record(arguments: argparse.Namespace) -> Path:
    header = results.header(arguments, "python3 common/tools several_gpus")
    stage = arguments.build / results.OF_SEVERAL_GPUS
    if not stage.is_file():
        raise ToolError(f"{stage} is not built: cmake --build build --target {stage.name}")
    found: list[Json] = []
    machine: Json = {}
    for dtype, rows, cols, op in SHAPES:
        report, problems = results.run_stage(stage, results.stage_options(dtype, rows, str(cols), op), RUN_TIMEOUT_S)
        if report is None or problems:
            raise ToolError("nothing was written: " + "; ".join(problems))
        machine = report["machine"]
        found += report["results"]
        for result in report["results"]:
            print(f"{dtype} {rows} x {cols} {op} {result['variant']}: {result['time_us']} us, {result['percent_of_copy']} %")
    for peer in peers(arguments.python):
        print(f"{peer['dtype']} {peer['rows']} x {peer['cols']} {peer['variant']}: {peer['time_us']:.1f} us")
        found.append(peer)
    return results.write(arguments, header, machine, "-several", gpus=count_gpus(), results=found)


def main(argv: list[str]) -> None:
    parser = Parser("python3 common/tools several_gpus", "Measure stage 14 and PyTorch on all GPUs of this machine.")
    parser.add_argument("--out", type=file_to_write, help="results file (default: common/results/<gpu>-several.json)")
    parser.add_argument("--commit", metavar="HASH[-dirty]", help="the commit, where git does not know it")
    parser.add_argument("--python", default=sys.executable, metavar="PYTHON", help="one that has torch (default: this one)")
    print(f"wrote {record(results.parse(parser, argv))}")
