"""Compares the simulator's counters with Nsight Compute's, for every variant at small shapes.

    python3 common/tools hardware_table           on a GPU: count with both, write the table's data
    python3 common/tools hardware_table --check   anywhere: is what is recorded still true, and explained?

Writes common/results/<gpu>-simulator.json: per variant and shape what ncu and what the simulator counted in
one launch of the same executable. `generate` makes common/results/simulator.md of it.

--check counts again with the simulator. Every number must be the recorded one; where it is not ncu's, an explanation
(explanations.py) must hold; and every explanation must hold somewhere.

Exit codes: 0 written, or all is well; 1 something failed, differs or is not explained; 2 bad usage; 3 no GPU,
no ncu, no permission to read the counters, or (--check) it differs but another nvcc compiled the stages.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Callable, Dict, List, NamedTuple, Optional, Tuple

from command import Parser, ToolError, file_to_write
from files import write_whole
from measure import count, explanations, ncu, results
from measure.explanations import Cells, Explanation
from measure.ncu import Launch
from measure.results import Json, Shape

ROWS = 64
DTYPES = ("f32", "f16")
# 1000: rows that fill neither a warp's last access nor a block; 8192: several turns of every loop.
COLS = (1000, 8192)
# Some variants take narrow rows only, or rows that fill every lane: each has two widths at least.
COLS_OF_STAGE = {
    "02_fused_block": (96, 1000, 8192),
    "03_warp_reduce": (96, 128, 256, 1000, 1024),
}

# --- What is compared ------------------------------------------------------------------------------

_REQUESTS = "l1tex__t_requests_pipe_lsu_mem_global_op_{}.sum"
_SECTORS = "l1tex__t_sectors_pipe_lsu_mem_global_op_{}.sum"
# Two families: the hardware's own counters, and those that ncu gets by patching the machine code (sass).
WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"
CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{}.sum"
_SASS_REQUESTS = "smsp__sass_inst_executed_op_shared_{}.sum"
SASS_WAVEFRONTS = "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"
WARP_OPCODES = "sass__inst_executed_per_opcode"
LANE_OPCODES = "sass__thread_inst_executed_true_per_opcode_with_modifier_all"
BLOCK_SIZE = "launch__block_size"

METRICS = (
    *(name.format(op) for name in (_REQUESTS, _SECTORS, WAVEFRONTS, CONFLICTS) for op in ("ld", "st")),
    *(name.format(op) for name in (_SASS_REQUESTS, SASS_WAVEFRONTS) for op in ("ld", "st")),
    WARP_OPCODES,
    LANE_OPCODES,
    BLOCK_SIZE,
)

Value = Callable[[Json], Optional[int]]  # ncu's metrics of one kernel → a count, None where ncu has none


def metric(name: str) -> Value:
    return lambda kernel: kernel[name]


def opcodes(name: str, wanted: Callable[[str], bool]) -> Value:
    """The executed machine instructions of some opcodes, `wanted` of their names such as MUFU.EX2."""

    def total(kernel: Json) -> Optional[int]:
        executed = kernel[name]
        return executed and sum(number for opcode, number in executed.items() if wanted(opcode))

    return total


def block_barriers(kernel: Json) -> Optional[int]:
    """BAR is counted per warp, a barrier of the simulator per block."""
    executed, block_size = opcodes(WARP_OPCODES, lambda opcode: opcode == "BAR")(kernel), kernel[BLOCK_SIZE]
    return None if None in (executed, block_size) else executed // -(-block_size // 32)


def exact_conflicts(op: str) -> Value:
    """What the machine code's wavefronts have beyond the hardware's count of those without any conflict."""

    def value(kernel: Json) -> Optional[int]:
        names = (SASS_WAVEFRONTS, WAVEFRONTS, CONFLICTS)
        sass, wavefronts, conflicts = (kernel[name.format(op)] for name in names)
        return None if None in (sass, wavefronts, conflicts) else sass - (wavefronts - conflicts)

    return value


class Counter(NamedTuple):
    simulated: Callable[[Json], int]  # of count.simulate's entry
    hardware: Value


def field(name: str) -> Callable[[Json], int]:
    return lambda entry: entry[f"counted_{name}"]


def other_special(entry: Json) -> int:
    return entry["counted_special_function_lanes"] - entry["counted_exp2_lanes"]


COUNTERS: Dict[str, Counter] = {
    "global load requests": Counter(field("global_load_requests"), metric(_REQUESTS.format("ld"))),
    "global load sectors": Counter(field("global_load_sectors"), metric(_SECTORS.format("ld"))),
    "global store requests": Counter(field("global_store_requests"), metric(_REQUESTS.format("st"))),
    "global store sectors": Counter(field("global_store_sectors"), metric(_SECTORS.format("st"))),
    "shared load requests": Counter(field("shared_load_requests"), metric(_SASS_REQUESTS.format("ld"))),
    "shared load wavefronts": Counter(field("shared_load_wavefronts"), metric(SASS_WAVEFRONTS.format("ld"))),
    "shared load wavefronts (hardware)": Counter(field("shared_load_wavefronts"), metric(WAVEFRONTS.format("ld"))),
    "shared load conflicts": Counter(field("shared_load_conflicts"), exact_conflicts("ld")),
    "shared load conflicts (hardware)": Counter(field("shared_load_conflicts"), metric(CONFLICTS.format("ld"))),
    "shared store requests": Counter(field("shared_store_requests"), metric(_SASS_REQUESTS.format("st"))),
    "shared store wavefronts": Counter(field("shared_store_wavefronts"), metric(SASS_WAVEFRONTS.format("st"))),
    "shared store wavefronts (hardware)": Counter(field("shared_store_wavefronts"), metric(WAVEFRONTS.format("st"))),
    "shared store conflicts": Counter(field("shared_store_conflicts"), exact_conflicts("st")),
    "shared store conflicts (hardware)": Counter(field("shared_store_conflicts"), metric(CONFLICTS.format("st"))),
    "shuffles": Counter(field("shuffles"), opcodes(WARP_OPCODES, lambda opcode: opcode == "SHFL")),
    "block barriers": Counter(field("block_barriers"), block_barriers),
    "exponential lanes": Counter(field("exp2_lanes"), opcodes(LANE_OPCODES, lambda o: o.startswith("MUFU.EX2"))),
    "other special-function lanes": Counter(
        other_special,
        opcodes(LANE_OPCODES, lambda o: o.startswith("MUFU") and not o.startswith("MUFU.EX2")),
    ),
    # REDUX, a reduction over the lanes of a warp, is none of them.
    "atomics": Counter(
        field("atomics"),
        opcodes(WARP_OPCODES, lambda opcode: opcode in ("ATOM", "ATOMG", "ATOMS", "RED", "REDG")),
    ),
}

# --- Where they differ ------------------------------------------------------------------------------


class Difference(NamedTuple):
    entry: Json
    counter: str
    explanation: Optional[Explanation]
    cells: Optional[Cells]


def explained(entry: Json, counter: str) -> Difference:
    """A difference with its explanation, the first that holds there. A counter that ncu does not know has none."""
    hardware, simulator = entry["ncu"].get(counter), entry["simulator"].get(counter)
    if hardware is not None and simulator is not None:
        for explanation in explanations.EXPLANATIONS:
            for cells in explanation.cells:
                if cells.hold(entry, counter) and (hardware > simulator) == explanation.more:
                    return Difference(entry, counter, explanation, cells)
    return Difference(entry, counter, None, None)


def differences(entries: List[Json]) -> List[Difference]:
    return [
        explained(entry, counter)
        for entry in entries
        for counter in COUNTERS
        if entry["ncu"].get(counter) != entry["simulator"].get(counter)
    ]


def not_explained(entries: List[Json]) -> List[str]:
    """Differences without an explanation, and explanations without a difference."""
    differing = differences(entries)
    found = []
    for entry, counter, explanation, _ in differing:
        if not explanation:
            said = f"ncu {entry['ncu'].get(counter)}, simulator {entry['simulator'].get(counter)}"
            found.append(f"not explained: {place_of(entry)}: {counter}: {said}")
    used = {difference.cells for difference in differing}
    for explanation in explanations.EXPLANATIONS:
        unused = (cells for cells in explanation.cells if cells not in used)
        found += [f"explains nothing: {explanation.name} in {' '.join((c.stage, *c.variants))}" for c in unused]
    return found


# --- Recording -------------------------------------------------------------------------------------


def plan(stages: List[str]) -> List[Tuple[str, Shape]]:
    return [
        (stage, Shape(dtype, ROWS, cols))
        for stage in stages
        for dtype in DTYPES
        for cols in COLS_OF_STAGE.get(stage, COLS)
    ]


def place_of(entry: Json) -> str:
    return f"{entry['stage']} {entry['variant']} {entry['dtype']}:{entry['rows']}x{entry['cols']}"


def simulated(stages: Dict[str, Path]) -> List[Json]:
    """The table's simulator half. Raises ToolError when a variant has fewer than two shapes with a dtype."""
    counted = [e for e in count.simulate(stages, plan(list(stages))) if e["status"] == "verified"]
    widths: Dict[Tuple[str, str, str], int] = {}
    entries = []
    for entry in counted:
        key = entry["stage"], entry["variant"], entry["dtype"]
        widths[key] = widths.get(key, 0) + 1
        where = {name: entry[name] for name in ("stage", "variant", "dtype", "rows", "cols")}
        entries.append({**where, "simulator": {name: c.simulated(entry) for name, c in COUNTERS.items()}})
    few = [" ".join(key) for key, number in widths.items() if number < 2]
    if few:
        raise ToolError(f"fewer than two shapes: {', '.join(few)}; see COLS_OF_STAGE")
    return entries


def total(kernels: List[Json], value: Value) -> Optional[int]:
    """The sum over a launch's kernels, None when ncu has none for one of them."""
    values = [value(kernel["metrics"]) for kernel in kernels]
    return None if None in values else sum(values)


def collect(arguments: argparse.Namespace) -> Path:
    """Counts with both and writes; returns the file. Raises ToolError, and then has written nothing."""
    root, build = arguments.root, arguments.build
    commit, dirty = results.commit_of(root, arguments.commit)
    stages = results.stage_executables(root, build)
    program = ncu.find(arguments.ncu)
    entries = simulated(stages)
    launches = [
        Launch(stages[e["stage"]], e["variant"], Shape(e["dtype"], e["rows"], e["cols"])) for e in entries
    ]

    def progress(n: int, launch: Launch) -> None:
        print(f"{n + 1} of {len(launches)}: {launch}", flush=True)

    for entry, launch, outcome in zip(entries, launches, ncu.profile(program, launches, METRICS, progress=progress)):
        if outcome.problem:
            raise ToolError(f"{launch}: {outcome.problem}")
        entry["ncu"] = {name: total(outcome.kernels, counter.hardware) for name, counter in COUNTERS.items()}
    machine = {**results.machine_of(stages), **results.software_versions(build)}
    header = {"date_utc": results.utc_now(), "commit": commit, "dirty": dirty}
    header["command"] = "python3 common/tools hardware_table"
    header["ncu"] = ncu.version(program)
    out = arguments.out or root / "common/results" / f"{results.gpu_slug(machine['gpu'])}-simulator.json"
    write_whole(out, results.json_text({"recorded": header, "machine": machine, "entries": entries}))
    return out


# --- Checking --------------------------------------------------------------------------------------


def recorded_file(root: Path) -> Path:
    files = sorted((root / "common/results").glob("*-simulator.json"))
    if len(files) != 1:
        raise ToolError(f"common/results has {len(files)} files named <gpu>-simulator.json; one is needed")
    return files[0]


def load_recorded(root: Path) -> Json:
    return results.load_hardware(recorded_file(root), COUNTERS)


def check(arguments: argparse.Namespace) -> int:
    recorded = load_recorded(arguments.root)
    counted = simulated(results.stage_executables(arguments.root, arguments.build))
    measured = {place_of(entry): entry["ncu"] for entry in recorded["entries"]}
    beside = [{**entry, "ncu": measured[place_of(entry)]} for entry in counted if place_of(entry) in measured]

    def flat(entries: List[Json]) -> List[Json]:
        return [{**entry, **entry["simulator"], "simulator": None, "ncu": None} for entry in entries]

    found = not_explained(beside) + count.differences(flat(recorded["entries"]), flat(counted))
    again = "python3 common/tools hardware_table, on the GPU"
    return count.verdict(found, recorded["machine"]["nvcc"], arguments.build, again)


def main(argv: List[str]) -> Optional[int]:
    description = "Compare the simulator's counters with Nsight Compute's."
    parser = Parser(prog="python3 common/tools hardware_table", description=description)
    parser.add_argument("--check", action="store_true", help="check what is recorded; needs no GPU")
    parser.add_argument("--build", type=Path, help="folder with the stages' executables (default: build)")
    parser.add_argument("--out", type=file_to_write, help="the file (default: common/results/<gpu>-simulator.json)")
    parser.add_argument("--commit", metavar="HASH[-dirty]", help="the commit, where git does not know it")
    parser.add_argument("--ncu", default="ncu", help="Nsight Compute's command line program")
    parser.add_argument("--root", type=Path, default=results.ROOT, help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    arguments.build = arguments.build or arguments.root / "build"
    if arguments.check:
        return check(arguments)
    print(f"wrote {collect(arguments)}")
    return 0
