"""Compares the simulator's counters with Nsight Compute's, for every variant at small shapes.

    python3 common/tools hardware_table           on a GPU: count with both, write the table's data
    python3 common/tools hardware_table --check   anywhere: is what is recorded still true, and explained?

Writes common/results/<gpu>-simulator.json: per variant and shape what ncu and what the simulator counted in
one launch of the same executable. `generate` makes common/results/simulator.md of it.

--check counts again with the simulator at the same shapes and compares with what is recorded for it; then
every counter on which ncu and the simulator differ must have an explanation in EXPLANATIONS, and every
explanation must still have a difference.

Exit codes: 0 written, or all is well; 1 something failed, differs or is not explained; 2 bad usage; 3 no GPU,
no ncu, no permission to read the counters, or (--check) it differs but another nvcc compiled the stages.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Callable, Dict, List, NamedTuple, Optional, Tuple

from command import Parser, ToolError, file_to_write
from files import write_whole
from measure import count, ncu, results
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

# --- Why they differ -------------------------------------------------------------------------------


class Cells(NamedTuple):
    """Where an explanation holds; () means all of them."""

    stage: str
    variants: Tuple[str, ...]
    counters: Tuple[str, ...]
    shapes: Tuple[str, ...] = ()

    def hold(self, entry: Json, counter: str) -> bool:
        shape = f"{entry['dtype']}:{entry['rows']}x{entry['cols']}"
        asked = ((entry["variant"], self.variants), (counter, self.counters), (shape, self.shapes))
        return entry["stage"] == self.stage and all(not known or name in known for name, known in asked)


class Explanation(NamedTuple):
    name: str
    reason: str
    more: bool  # ncu counts more than the simulator; otherwise fewer
    cells: Tuple[Cells, ...]
    elsewhere: Tuple[Cells, ...] = ()  # seen by `./run profile` at shapes that this table does not have


_LOADS = ("shared load requests", "shared load wavefronts", "shared load wavefronts (hardware)")
_STORES = ("shared store requests", "shared store wavefronts", "shared store wavefronts (hardware)")
_HARDWARE = (
    "shared load wavefronts (hardware)",
    "shared load conflicts (hardware)",
    "shared store wavefronts (hardware)",
    "shared store conflicts (hardware)",
)
_PAIRS = ("fused", "online_per_element", "online", "online_reversed")  # of stage 06: exchange pairs (m, d)
_STAGES = ("01_naive", "02_fused_block", "03_warp_reduce", "04_smem_bank_conflict", "05_uncached", "06_online")

EXPLANATIONS: Tuple[Explanation, ...] = (
    Explanation(
        "Divisions",
        "The simulator counts PTX's approximate instructions. A division is one instruction of PTX, be it exact "
        "(`rcp.rn` for the one reciprocal of a thread, `div.rn`) or of integers (`div.u32`, `div.u64`), and ptxas "
        "begins each with a MUFU.RCP. A thread that needs no result may skip it.",
        True,
        tuple(Cells(stage, (), ("other special-function lanes",)) for stage in _STAGES),
    ),
    Explanation(
        "Merged accesses",
        "ptxas joins accesses of neighbouring words that PTX has one by one: in stage 06 the two floats of a pair "
        "(m, d), in CUB's and Thrust's reductions the warps' results, which become loads of 8 and 16 bytes.",
        False,
        (
            Cells("01_naive", ("block_per_row", "block_per_row_division"), _LOADS),
            Cells("01_naive", ("thrust_calls",), ("shared load requests",)),
            Cells("02_fused_block", ("cub_block_reduce",), _LOADS),
            Cells("06_online", _PAIRS, _LOADS + _STORES),
        ),
        # 32 lanes read 32 pairs: two loads of every other word, 2 turns each, become one load of all words.
        (Cells("06_online", _PAIRS, ("shared load conflicts", "shared load conflicts (hardware)")),),
    ),
    Explanation(
        "Broadcast of wide words",
        "All lanes of a warp load the same address. The simulator serves lanes in groups, 16 at 8 bytes and 8 at 16 "
        "bytes: 2 and 4 wavefronts. If the GPU joins pairs of such groups, to 1 and 2, the numbers come out: for a "
        "tile of 1152 elements each warp of Thrust's two reductions has one such load of 8 bytes and four of 16, 9 "
        "wavefronts. 64 rows of 1000 columns are 56 tiles, for 4 warps and twice: 9 · 448 = 4032.",
        False,
        (Cells("01_naive", ("thrust_calls",), ("shared load wavefronts", "shared load wavefronts (hardware)")),),
    ),
    Explanation(
        "Block size",
        "The launcher of stage 04 asks for the occupancy. On the GPU it also depends on the registers that ptxas "
        "takes, in the simulator they limit nothing. Here the GPU got blocks of 128 threads and the simulator of "
        "256: twice the warps that write, read and shuffle their results.",
        False,
        (Cells("04_smem_bank_conflict", ("transposed_layout",), ("shuffles", *_LOADS, *_STORES), ("f32:64x8192",)),),
    ),
    Explanation(
        "Unrolled loops",
        "At 1000 columns 8 lanes of a block's last warp have one turn more than the other 24. In an unrolled loop the "
        "two groups go different ways, and each makes its own requests: 8 + 7 = 15 instead of 8. PTX unrolls by four, "
        "so they meet again for the last four turns, 11 requests; ptxas unrolls further, and they do not. The sectors "
        "are the same.",
        True,
        (
            Cells(
                "01_naive",
                ("thread_per_row", "block_per_row", "block_per_row_division"),
                ("global load requests", "global store requests"),
                ("f32:64x1000", "f16:64x1000"),
            ),
        ),
    ),
    Explanation(
        "Look-back",
        "In Thrust's reductions a block asks those before it for their sums, until they are there. In the simulator "
        "they always are, because blocks run one after the other. On the GPU even two launches of the same kernel "
        "differ.",
        True,
        (Cells("01_naive", ("thrust_calls",), ("global load requests", "global load sectors", "shuffles")),),
    ),
    Explanation(
        "Arbitration",
        "The hardware's counters of shared memory have a few wavefronts more, and call them conflicts. They do not "
        "come from the kernel's accesses: the patched machine code has exactly the simulator's wavefronts, and the "
        "same kernel gives another surplus in stage 05 (`large_block`) than in stage 06 (`three_pass_tile`). "
        "Probably an access then waits for other traffic in the L1's data stage, such as data that arrives from "
        "memory; no counter says so.",
        True,
        (
            Cells("01_naive", ("thrust_calls",), _HARDWARE),
            *(Cells(stage, (), _HARDWARE) for stage in _STAGES if stage not in ("01_naive", "03_warp_reduce")),
        ),
        (Cells("01_naive", (), _HARDWARE),),
    ),
)


class Difference(NamedTuple):
    entry: Json
    counter: str
    explanation: Optional[Explanation]
    cells: Optional[Cells]


def explained(entry: Json, counter: str) -> Difference:
    """A difference with its explanation, the first that holds there. A counter that ncu does not know has none."""
    hardware, simulator = entry["ncu"].get(counter), entry["simulator"].get(counter)
    if hardware is not None and simulator is not None:
        for explanation in EXPLANATIONS:
            for cells in explanation.cells:
                if cells.hold(entry, counter) and (hardware > simulator) == explanation.more:
                    return Difference(entry, counter, explanation, cells)
    return Difference(entry, counter, None, None)


def reason(entry: Json, counter: str, more: bool) -> Optional[Explanation]:
    """The first that says why ncu counts more, or fewer, of a counter at the entry's place: any shape."""
    for explanation in EXPLANATIONS:
        if explanation.more == more and any(c.hold(entry, counter) for c in explanation.cells + explanation.elsewhere):
            return explanation
    return None


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
    for explanation in EXPLANATIONS:
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
    unexplained = not_explained(recorded["entries"])
    for problem in unexplained:
        print(problem)
    stages = results.stage_executables(arguments.root, arguments.build)

    def flat(entries: List[Json]) -> List[Json]:
        return [{**entry, **entry["simulator"], "simulator": None, "ncu": None} for entry in entries]

    found = count.differences(flat(recorded["entries"]), flat(simulated(stages)))
    again = "python3 common/tools hardware_table, on the GPU"
    verdict = count.verdict(found, recorded["machine"]["nvcc"], arguments.build, again)
    return 1 if unexplained else verdict


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
