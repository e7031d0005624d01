"""Measures stage 15 and PyTorch with NCCL on several GPUs of this machine, and writes common/results/<gpu>-several.json.

    python3 common/tools several_gpus [--gpus N,...] [--python PYTHON]

It uses 2, 4 and 8 GPUs, as far as they are there, and all of them. PYTHON is one that has torch; without it, or where it
has none, PyTorch is left out. With --simulated the same runs on the simulator, at shapes for it: verified, not timed, and
nothing is written.

Exit codes: 0 recorded, 1 something failed and nothing was written, 2 bad usage, 3 no usable GPU.
"""

import argparse
import json
import os
import re
import shutil
import sys
from pathlib import Path

from command import NoDevice, Parser, ToolError, file_to_write
from measure import results
from measure.results import Json

# dtype, rows, columns of all GPUs together, operation
SHAPES = (
    ("bf16", 4096, 151936, "softmax"),
    ("f32", 1024, 262144, "softmax"),
    ("f32", 64, 128256, "softmax"),
    ("bf16", 16384, 151936, "softmax"),
    ("bf16", 4096, 151936, "log_softmax"),
    ("bf16", 4096, 151936, "cross_entropy"),
)
SIMULATED_SHAPE = 8, 16384
MOST_GPUS = 64
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


def visible_gpus() -> list[str]:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return [gpu for gpu in visible.split(",") if gpu]
    if not shutil.which("nvidia-smi"):
        return []
    return [str(i) for i in range(len(results.run_process(["nvidia-smi", "--list-gpus"], 60).stdout.splitlines()))]


def numbers_of_gpus(text: str) -> list[int]:
    numbers = [int(word) if re.fullmatch("[0-9]{1,3}", word) else 0 for word in text.split(",")]
    if not all(1 <= number <= MOST_GPUS for number in numbers):
        raise argparse.ArgumentTypeError(f"'{text}' is not accepted; accepted: whole numbers from 1 to {MOST_GPUS}, such as 2,4")
    return sorted(set(numbers))


def run_stage(arguments: argparse.Namespace, gpus: int, shape: tuple[str, int, int, str]) -> Json:
    dtype, rows, cols, op = shape
    device = "sim" if arguments.simulated else "gpu"
    options = results.stage_options(dtype, rows, str(cols), op)
    report, problems = results.run_stage(arguments.build / results.OF_SEVERAL_GPUS, options, RUN_TIMEOUT_S, device)
    if report is None or problems:
        raise ToolError(f"nothing was written: {gpus} GPUs: " + "; ".join(problems))
    for result in report["results"]:
        took = "" if result["time_us"] is None else f", {result['time_us']} us, {result['percent_of_copy']} %"
        print(f"{gpus} GPUs: {dtype} {rows} x {cols} {op} {result['variant']}: {result['status']}{took}", flush=True)
    return report


def simulate(arguments: argparse.Namespace) -> None:
    for gpus in arguments.gpus or [2]:
        os.environ["SIM_DEVICES"] = str(gpus)
        for dtype, op in dict.fromkeys((dtype, op) for dtype, _, _, op in SHAPES):
            run_stage(arguments, gpus, (dtype, *SIMULATED_SHAPE, op))


def record(arguments: argparse.Namespace) -> Path:
    header = results.header(arguments, "python3 common/tools several_gpus")
    visible = visible_gpus()
    found: list[Json] = []
    machine: Json = {}
    numbers = arguments.gpus or sorted({2, 4, 8, len(visible)})
    if not visible or (arguments.gpus and numbers[-1] > len(visible)):
        raise NoDevice(f"GPUs that are here: {len(visible)}; --simulated takes any number")
    for gpus in [number for number in numbers if number <= len(visible)]:
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(visible[:gpus])
        for shape in SHAPES:
            report = run_stage(arguments, gpus, shape)
            machine = report["machine"]
            found += [{"gpus": gpus, **result} for result in report["results"]]
        for peer in peers(arguments.python):
            print(f"{gpus} GPUs: {peer['dtype']} {peer['rows']} x {peer['cols']} {peer['variant']}: {peer['time_us']:.1f} us", flush=True)
            found.append({"gpus": gpus, **peer})
    return results.write(arguments, header, machine, "-several", results=found)


def main(argv: list[str]) -> None:
    parser = Parser("python3 common/tools several_gpus", "Measure stage 15 and PyTorch on several GPUs of this machine.")
    option = parser.add_argument
    option("--out", type=file_to_write, help="results file (default: common/results/<gpu>-several.json)")
    results.add_commit_option(parser)
    option("--python", default=sys.executable, metavar="PYTHON", help="one that has torch (default: this one)")
    option("--gpus", metavar="N,...", type=numbers_of_gpus, help="how many to use (default: 2, 4, 8, and all that are here)")
    option("--simulated", action="store_true", help="on the simulator; verify, and write nothing")
    arguments = results.parse(parser, argv)
    stage = arguments.build / results.OF_SEVERAL_GPUS
    if not stage.is_file():
        raise ToolError(f"{stage} is not built: cmake --build build --target {stage.name}")
    if arguments.simulated:
        return simulate(arguments)
    print(f"wrote {record(arguments)}")
