"""Counts the variants' work on the simulator; writes common/results/simulator.json.

    python3 common/tools count            count and write
    python3 common/tools count --check    count, write nothing, compare with the recorded counts

Needs no GPU: the stages run under the CPU simulator (--device sim) at the shapes that the lessons show.
The same PTX gives the same numbers on every machine, so the file has no date. Another nvcc may make
other PTX: the file says which one it was.

Exit codes: 0 written, or nothing differs; 1 something failed or differs; 2 bad usage, or the file is damaged; 3 it
differs, but the stages were compiled by another nvcc than the recorded one.
"""

import os
import sys
from pathlib import Path

from command import Parser, ToolError
from files import write_whole
from measure import results
from measure.results import Json, Shape, Stopped, place_of

# The work on one row does not depend on the number of rows.
ROWS = 64
DEFAULT_SHAPES = (Shape("f32", ROWS, 1024), Shape("f16", ROWS, 1024))
EXTRA_SHAPES = {
    "03_warp_reduce": (Shape("f32", ROWS, 32), Shape("f16", ROWS, 128), Shape("f16", ROWS, 160)),  # narrow rows
    "04_smem_bank_conflict": (Shape("f16", ROWS, 8192),),  # as counted on the GPU
    "06_online": (Shape("f16", ROWS, 8192),),  # rows of which a thread holds several chunks
    "07_split_row": (Shape("f32", 1, 151936),),  # a single row
    "08_unaligned_rows": (Shape("f32", ROWS, 33), Shape("f16", ROWS, 1001), Shape("f32", ROWS, 50257)),
    "09_async_copy": (Shape("f16", ROWS, 8192), Shape("f16", ROWS, 32768)),
    "10_cluster": (Shape("f32", 16, 65536),),  # rows larger than an SM
    "11_backward": (Shape("f32", 16, 32768), Shape("f32", 16, 50257)),
    "12_cross_entropy": (Shape("f32", 64, 10), Shape("bf16", 16, 32000), Shape("bf16", 16, 50257)),
    "14_dispatch": (Shape("f32", 1, 151936), Shape("bf16", 16, 50257)),
}
# Instead of all these: a head of attention has as many rows as columns, and the part that a mask hides depends on the row.
SHAPES_OF_HEADS = {"13_masked_softmax": (Shape("bf16", 512, 512),)}

KEPT = (*results.PLACE, "op", *results.STATUS, "passes", "barriers_per_row", "bank_conflicts_per_row")
STAGE_TIMEOUT_S = 300


def simulate(
    stages: dict[str, Path], work: list[tuple[str, Shape]], op: str = "", variants: str = "all"
) -> list[Json]:
    """The simulator's counts: one object per variant and shape, also for variants that do not apply there.

    Without an `op` each variant does its own.

    `passes`, `barriers_per_row` and `bank_conflicts_per_row` are the variant's declarations, null if it declares none;
    the fields named `counted_...` are null if it does not apply.
    Raises ToolError when a variant is wrong or a stage fails.
    """
    entries: list[Json] = []
    problems: list[str] = []

    def run(place: tuple[str, Shape, str], stopped: Stopped) -> tuple[Json | None, list[str]]:
        stage, shape, op = place
        options = results.stage_options(*shape, op, variants)
        return results.run_stage(stages[stage], options, STAGE_TIMEOUT_S, "sim", stopped)

    runs = [(stage, shape, each) for stage, shape in work for each in ([op] if op else results.operations_of(stage))]
    for (stage, shape, _), (report, found) in zip(runs, results.in_parallel(os.cpu_count(), run, runs)):
        problems += [f"{stage} {shape}: {problem}" for problem in found]
        if report is not None:
            entries += [
                {key: result[key] for key in (*KEPT, *(key for key in result if key.startswith("counted_")))}
                for result in report["results"]
                if result["stage"]
            ]
    if problems:
        raise ToolError("the simulator's runs went wrong:\n  " + "\n  ".join(problems))
    return results.of_its_operation(entries)


def differences(recorded: list[Json], counted: list[Json]) -> list[str]:
    """Every number that is not the recorded one, as text; empty when nothing differs."""
    old, new = ({place_of(entry): entry for entry in entries} for entries in (recorded, counted))
    found = [f"differs: {place}: not recorded" for place in new if place not in old]
    found += [f"differs: {place}: recorded, and no longer counted" for place in old if place not in new]
    for place in (place for place in old if place in new):
        for field in dict.fromkeys([*old[place], *new[place]]):
            was, now = old[place].get(field), new[place].get(field)
            if was != now:
                found.append(f"differs: {place}: {field} was {was}, is {now}")
    return found


def verdict(found: list[str], recorded_nvcc: str | None, build: Path, again: str) -> int:
    """Prints the differences; returns the exit code of --check."""
    nvcc = results.software_versions(build)["nvcc"]
    skipped = bool(found) and nvcc != recorded_nvcc
    if skipped:  # first: ./test shows the first line as the reason
        print(f"skipped: recorded with nvcc {recorded_nvcc}, compiled here with {nvcc}, and {len(found)} numbers differ")
    for what in found:
        print(what)
    if skipped:
        return 3
    if found:
        print(f"record again and look at the diff: {again}", file=sys.stderr)
    return 1 if found else 0


def main(argv: list[str]) -> int | None:
    parser = Parser("python3 common/tools count", "Count the variants' work on the simulator.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when something differs")
    arguments = results.parse(parser, argv)
    stages = results.stage_executables(arguments.root, arguments.build)
    shapes = {stage: SHAPES_OF_HEADS.get(stage, (*DEFAULT_SHAPES, *EXTRA_SHAPES.get(stage, ()))) for stage in stages}
    work = [(stage, shape) for stage in stages for shape in shapes[stage]]
    entries = simulate(stages, work)
    for entry in entries:
        del entry["op"]  # a variant does one
    out = arguments.root / "common/results/simulator.json"
    again = "python3 common/tools count"
    if arguments.check:
        recorded = results.load(out, results.COUNTED)
        return verdict(differences(recorded["counted"], entries), recorded["nvcc"], arguments.build, again)
    nvcc = results.software_versions(arguments.build)["nvcc"]
    write_whole(out, results.json_text({"command": again, "nvcc": nvcc, "counted": entries}))
    print(f"wrote {out}")
    return 0
