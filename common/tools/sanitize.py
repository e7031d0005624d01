"""Runs every stage under NVIDIA's compute-sanitizer: memcheck, initcheck, synccheck and racecheck.

    python3 common/tools sanitize [STAGE...]

A run counts as clean only when the tool exits with 0, prints its own summary with no finding, and every variant that can
run on this GPU was verified under it: a tool that never started, or shapes that skip a variant, must not look like a
success. The tools' logs are in build/sanitizer.

Exit codes: 0 clean; 1 a finding, a failure, or a stage that is not built; 2 bad usage; 3 no compute-sanitizer, or no usable
GPU.
"""

import argparse
import itertools
import re
import shutil
import time
from pathlib import Path

from command import NoDevice, Parser, ToolError, folder_to_write, whole_number
from measure import results

# Small shapes around the edges that kernels get wrong: one row, odd counts, widths around a warp, a pack and a block, rows
# that end unaligned, a row too long for registers, and one that sixteen blocks share. At most 7 rows: with 9 such clusters
# synccheck (2025.3.1, on an H200) itself ends with an illegal access, also in ten lines in which each block waits for a mbarrier
# of its own. With 80 clusters of 8 it does not, and the other tools never do.
EDGES = "--rows 1,2,7 --cols 1,3,31,32,33,100,128,129,1000,1024,1025,4096,5001 --dtype all --op all --input normal,neg_inf_prefix"
# racecheck is many times slower. Races depend on how threads share a row: the usual op and one input are enough.
RACES = "--rows 1,2 --cols 32,33,128,1000,1024,4096,5001 --dtype all --input normal"
CLEAN = "ERROR SUMMARY: 0 errors"
# The slowest first, so that it is not waited for at the end. The shapes of each reach every variant: a test asks the simulator.
TOOLS = {
    "racecheck": (RACES, "RACECHECK SUMMARY: 0 hazards displayed"),
    "memcheck": (EDGES, CLEAN),
    "initcheck": (EDGES, CLEAN),
    "synccheck": (EDGES, CLEAN),
}
FINDING = "97"  # exit code; not one of the stages' own
TIMEOUT_S = 900


def verified(report: results.Json | None) -> set[str]:
    """The variants that a report shows as verified at least once."""
    found = report["results"] if report else []
    return {result["variant"] for result in found if result["stage"] and result["status"] == "verified"}


def options_of(stage: str, shapes: str) -> list[str]:
    ops = [] if "--op" in shapes else ["--op", ",".join(results.operations_of(stage))]  # each variant does one of them
    return ["--verify-only", *shapes.split(), *ops]


def verified_alone(stage: Path) -> set[str]:
    """The variants that can run on this GPU, found out without a tool. Raises NoDevice, and ToolError where one is wrong."""
    report, problems = results.run_stage(stage, options_of(stage.name, EDGES), TIMEOUT_S)
    if problems or not verified(report):
        raise ToolError(f"{stage.name} without a tool: {'; '.join(problems) or 'no variant was verified'}")
    return verified(report)


def sanitize(arguments: argparse.Namespace, stages: dict[str, Path]) -> list[str]:
    """Why runs are not clean: a text for each run, empty for a clean one."""
    logs: Path = arguments.logs or arguments.build / "sanitizer"
    logs.mkdir(parents=True, exist_ok=True)
    variants = {stage: verified_alone(executable) for stage, executable in stages.items()}

    def complaint(tool: str, stage: str, stopped: results.Stopped) -> str:
        (shapes, clean), log = TOOLS[tool], logs / f"{stage}-{tool}.log"
        log.write_text("")
        options = ["--tool", tool, "--error-exitcode", FINDING, "--log-file", str(log), str(stages[stage])]
        program = Path(arguments.sanitizer)  # it runs the stage, and hands on its output
        report, problems = results.run_stage(program, [*options, *options_of(stage, shapes)], TIMEOUT_S, stopped=stopped)
        text = log.read_text(encoding="utf-8", errors="replace")
        if "Device not supported" in "\n".join([text, *problems]):
            raise NoDevice("compute-sanitizer does not work with this GPU")
        summary = "".join(re.findall(r"(?:ERROR|RACECHECK) SUMMARY: .*", text)[-1:])
        if problems or clean not in summary:
            return "; ".join([*problems, summary or "the tool printed no summary"])
        missing = variants[stage] - verified(report)
        return f"these shapes never ran: {' '.join(sorted(missing))}" if missing else ""

    def run(place: tuple[str, str], stopped: results.Stopped) -> str:
        begin, why = time.monotonic(), complaint(*place, stopped)
        took = f"{time.monotonic() - begin:4.0f} s  {why}".rstrip()
        print(f"{'FAIL' if why else 'ok':<4}  {place[0]:<10} {place[1]:<24} {took}", flush=True)
        return why

    return results.in_parallel(arguments.jobs, run, itertools.product(TOOLS, stages))


def main(argv: list[str]) -> None:
    parser = Parser("python3 common/tools sanitize", __doc__)
    parser.add_argument("stages", metavar="STAGE", nargs="*", help="such as 03 (default: all)")
    parser.add_argument("--jobs", metavar="N", type=whole_number(1024), default=4, help="runs at once (default: 4)")
    parser.add_argument("--logs", metavar="FOLDER", type=folder_to_write, help="(default: build/sanitizer)")
    parser.add_argument("--sanitizer", metavar="PROGRAM", default="compute-sanitizer", help="NVIDIA's program")
    arguments = results.parse(parser, argv)
    given = [results.stage_named(text, results.stage_names(arguments.root)) for text in arguments.stages]
    stages = results.stage_executables(arguments.root, arguments.build, given or results.measured_names(arguments.root))
    if not shutil.which(arguments.sanitizer):
        raise NoDevice(f"'{arguments.sanitizer}' is not here: install it, or say where it is with --sanitizer")
    runs = sanitize(arguments, stages)
    if any(runs):
        raise ToolError(f"{sum(map(bool, runs))} of {len(runs)} runs not clean")
    print(f"{len(runs)} runs clean")
