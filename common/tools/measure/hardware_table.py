"""Compares the simulator's counters with Nsight Compute's, for every variant at small shapes.

    python3 common/tools hardware_table           on a GPU: count with both, write the table's data
    python3 common/tools hardware_table 06 07     only of these stages; entries of the others stay
    python3 common/tools hardware_table --missing only shapes that are not recorded yet: a new variant, or those left at a stop
    python3 common/tools hardware_table --check   anywhere: are the recorded counts still true, and explained?

Writes common/results/<gpu>-simulator.json: the counts of ncu and of the simulator, per variant and shape, in
one launch of the same executable. `generate` makes common/results/simulator.md of it.

--check counts again with the simulator. Every number must be the recorded one; if it is not ncu's, an explanation
(explanations.md) must hold; and every explanation must hold somewhere. A variant that is not recorded yet is named, and is not a
failure: it may be added without a GPU.

Exit codes: 0 written, or all is well; 1 something failed, differs or is not explained; 2 bad usage; 3 no GPU,
no ncu, no permission to read the counters, or (--check) it differs but another nvcc compiled the stages.
"""

import argparse
import collections
import itertools
from pathlib import Path
from typing import NamedTuple

from command import Parser, ToolError, Usage, file_to_write
from measure import count, explanations, ncu, results
from measure.explanations import Explanation
from measure.quantities import COUNTERS
from measure.results import Json, Shape, place_of

TOOL = "python3 common/tools hardware_table"
ROWS = 64
DTYPES = ("f32", "f16")
# 1000: rows that fill neither a warp's last access nor a block; 8192: several turns of every loop.
COLS = (1000, 8192)
# Some variants take narrow rows only, or rows that fill every lane: each has two widths at least.
COLS_OF_STAGE = {
    "02_fused_block": (96, 1000, 8192),
    "03_warp_reduce": (96, 128, 256, 1000, 1024),
    "10_cluster": (8192, 32768),
    "11_backward": (96, 1000, 8192),
    "12_cross_entropy": (96, 200, 1000, 8192),
    "13_masked_softmax": (96, 200, 1000, 8192),
}
KERNELS_OF_OTHERS = "14_dispatch"
METRICS = tuple(dict.fromkeys(metric for counter in COUNTERS.values() for metric in counter.metrics))
COUNTS = {name: results.DIFFERENCE if "conflicts" in name else results.NUMBER for name in COUNTERS}
ENTRY = {**results.PLACE, "ncu": COUNTS, "simulator": COUNTS}
SCHEMA = {**results.BY_NCU, "entries": results.Each("entry", ENTRY, results.check_recorded)}

# --- Where they differ ------------------------------------------------------------------------------


class Difference(NamedTuple):
    entry: Json
    counter: str
    explanation: Explanation | None
    pattern: str  # of the explanation


def differences(entries: list[Json]) -> list[Difference]:
    """With their explanations. A counter that ncu does not know has none."""
    found = []
    for entry, counter in itertools.product(entries, COUNTERS):
        hardware, simulator = entry["ncu"][counter], entry["simulator"][counter]
        if None in (hardware, simulator):
            found.append(Difference(entry, counter, None, ""))
        elif hardware != simulator:
            why = explanations.explain(entry, counter, hardware > simulator, anywhere=False)
            found.append(Difference(entry, counter, *why))
    return found


def not_explained(entries: list[Json]) -> list[str]:
    """Differences without an explanation, and explanations without a difference."""
    differing = differences(entries)
    found = []
    for entry, counter, explanation, _ in differing:
        if not explanation:
            said = f"ncu {entry['ncu'][counter]}, simulator {entry['simulator'][counter]}"
            found.append(f"not explained: {place_of(entry)}: {counter}: {said}")
    used = {(difference.explanation, difference.pattern) for difference in differing}
    for explanation in explanations.EXPLANATIONS:
        for pattern in explanation.patterns:
            if not pattern.startswith(explanations.ELSEWHERE) and (explanation, pattern) not in used:
                found.append(f"explains nothing: {explanation.name} in {pattern}")
    return found


# --- Recording and checking -------------------------------------------------------------------------


def simulated(stages: dict[str, Path]) -> list[Json]:
    """The table's simulator half. Raises ToolError when a variant has fewer than two shapes with a dtype."""
    places = itertools.product((stage for stage in stages if stage != KERNELS_OF_OTHERS), DTYPES)
    work = [(stage, Shape(dtype, ROWS, cols)) for stage, dtype in places for cols in COLS_OF_STAGE.get(stage, COLS)]
    counted = [entry for entry in count.simulate(stages, work) if entry["status"] == "verified"]
    widths = collections.Counter(f"{e['stage']} {e['variant']} {e['dtype']}" for e in counted)
    few = [what for what, number in widths.items() if number < 2]
    if few:
        raise ToolError(f"fewer than two shapes: {', '.join(few)}; see COLS_OF_STAGE")
    return [
        {name: entry[name] for name in (*results.PLACE, "op")}
        | {"simulator": {name: counter.simulated(entry) for name, counter in COUNTERS.items()}}
        for entry in counted
    ]


def measured(entry: Json) -> Json:
    kernels = entry.pop("kernels")
    del entry["op"]  # a variant does one
    return {**entry, "ncu": {name: counter.hardware(kernels) for name, counter in COUNTERS.items()}}


def load_recorded(root: Path, gpu: str = "") -> Json:
    """`gpu` as in results.file_of()."""
    path = results.file_of(root / "common/results", "-simulator", gpu)
    if not path:
        raise ToolError("common/results has no file named <gpu>-simulator.json")
    return results.load(path, SCHEMA)


def check(arguments: argparse.Namespace) -> int:
    recorded = load_recorded(arguments.root)
    counted = simulated(results.stage_executables(arguments.root, arguments.build))
    measured = {place_of(entry): entry["ncu"] for entry in recorded["entries"]}
    to_record = dict.fromkeys(f"{entry['stage']} {entry['variant']}" for entry in counted if place_of(entry) not in measured)
    counted = [entry for entry in counted if place_of(entry) in measured]
    beside = [{**entry, "ncu": measured[place_of(entry)]} for entry in counted]

    def flat(entries: list[Json]) -> list[Json]:
        return [{**{name: entry[name] for name in results.PLACE}, **entry["simulator"]} for entry in entries]

    found = not_explained(beside) + count.differences(flat(recorded["entries"]), flat(counted))
    code = count.verdict(found, recorded["machine"]["nvcc"], arguments.build, f"{TOOL}, on the GPU")
    if to_record:
        print(f"not recorded yet: {', '.join(to_record)}. On a GPU, {TOOL} --missing records them")
    return code


def main(argv: list[str]) -> int | None:
    parser = Parser(TOOL, "Compare the simulator's counters with Nsight Compute's.")
    parser.add_argument("stages", nargs="*", metavar="STAGE", help="such as 03 (default: all)")
    parser.add_argument("--check", action="store_true", help="check the recorded numbers; needs no GPU")
    parser.add_argument("--missing", action="store_true", help="only shapes that are not recorded yet")
    parser.add_argument("--out", type=file_to_write, help="the file (default: common/results/<gpu>-simulator.json)")
    results.add_commit_option(parser)
    parser.add_argument("--ncu", default="ncu", help="Nsight Compute's command line program")
    arguments = results.parse(parser, argv)
    if arguments.check:
        if arguments.stages or arguments.missing or arguments.out:
            raise Usage("--check is of all that is recorded: not together with a STAGE, --missing or --out")
        return check(arguments)
    given = [results.stage_named(text, results.stage_names(arguments.root)) for text in arguments.stages]
    stages = results.stage_executables(arguments.root, arguments.build, given)
    path = ncu.record(arguments, TOOL, "-simulator", stages, lambda: simulated(stages), METRICS, measured, missing=arguments.missing)
    print(f"wrote {path}")
    return 0
