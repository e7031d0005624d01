"""The counters, each spelled once: what the simulator calls it, and of which of ncu's metrics it comes.

ncu's metrics of a launch are those of its kernels, in launch order: [{"kernel": name, "metrics": {name: value}}]; a
metric that this ncu does not know is None.
"""

from __future__ import annotations

import re
from typing import Any, Callable, NamedTuple

from measure.results import Json

Number = float | None


def of_l1(what: str, op: str) -> str:
    return f"l1tex__t_{what}_pipe_lsu_mem_global_op_{op}.sum"


def of_l2(what: str, op: str) -> str:
    return f"lts__t_{what}_srcunit_tex_op_{op}.sum"


# Of shared memory there are two families: the hardware's own counters, and those that ncu gets by patching the machine
# code (sass).
WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"
CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{}.sum"
SASS_REQUESTS = "smsp__sass_inst_executed_op_shared_{}.sum"
SASS_WAVEFRONTS = "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"
# Executed machine instructions, by opcode.
WARP_OPCODES = "sass__inst_executed_per_opcode"
LANE_OPCODES = "sass__thread_inst_executed_true_per_opcode_with_modifier_all"
BLOCK_SIZE = "launch__block_size"
DURATION = "gpu__time_duration.sum"
DRAM_READ, DRAM_WRITE = "dram__bytes_read.sum", "dram__bytes_write.sum"
DRAM_BUSY = "dram__throughput.avg.pct_of_peak_sustained_elapsed"
WARPS_ACTIVE = "sm__warps_active.avg.pct_of_peak_sustained_active"
REGISTERS = "launch__registers_per_thread"
REQUESTED = ("smsp__sass_data_bytes_mem_global_op_ld.sum", "smsp__sass_data_bytes_mem_global_op_st.sum")
OCCUPANCY_LIMITS = ("launch__occupancy_limit_registers", "launch__occupancy_limit_shared_mem")


class Counter(NamedTuple):
    """What both count."""

    members: tuple[str, ...]  # of the simulator's entry: the first less the others
    metrics: tuple[str, ...]  # ncu's, of which `of` makes the counter
    of: Callable[..., int] = lambda number: number

    def simulated(self, entry: Json) -> int:
        first, *others = (entry[f"counted_{name}"] for name in self.members)
        return first - sum(others)

    def hardware(self, kernels: list[Json]) -> int | None:
        """The sum over a launch's kernels; None where ncu does not know a metric."""
        found = [[kernel["metrics"].get(name) for name in self.metrics] for kernel in kernels]
        if not found or any(None in numbers for numbers in found):
            return None
        return sum(self.of(*numbers) for numbers in found)


def opcodes(wanted: str) -> Callable[[Any], int]:
    """How often those that match were executed, of a metric by opcode; ncu has a plain 0 where there is none."""
    return lambda executed: sum(n for opcode, n in (executed or {}).items() if re.fullmatch(wanted, opcode))


def block_barriers(executed: Any, block_size: int) -> int:
    """BAR is counted per warp, a barrier of the simulator per block."""
    return opcodes("BAR")(executed) // -(-block_size // 32)


def patched_conflicts(patched: int, wavefronts: int, conflicts: int) -> int:
    """What the machine code's wavefronts have beyond the hardware's count of those without any conflict."""
    return patched - (wavefronts - conflicts)


def of_global_memory(name: str, op: str) -> dict[str, Counter]:
    units = ("requests", "sectors")
    return {f"global {name} {unit}": Counter((f"global_{name}_{unit}",), (of_l1(unit, op),)) for unit in units}


def of_shared_memory(name: str, op: str) -> dict[str, Counter]:
    names = (SASS_WAVEFRONTS, WAVEFRONTS, CONFLICTS, SASS_REQUESTS)
    patched, wavefronts, conflicts, requests = (metric.format(op) for metric in names)
    of = f"shared_{name}"
    return {
        f"shared {name} requests": Counter((f"{of}_requests",), (requests,)),
        f"shared {name} wavefronts": Counter((f"{of}_wavefronts",), (patched,)),
        f"shared {name} wavefronts (hardware)": Counter((f"{of}_wavefronts",), (wavefronts,)),
        f"shared {name} conflicts": Counter((f"{of}_conflicts",), (patched, wavefronts, conflicts), patched_conflicts),
        f"shared {name} conflicts (hardware)": Counter((f"{of}_conflicts",), (conflicts,)),
    }


COUNTERS: dict[str, Counter] = {
    **of_global_memory("load", "ld"),
    **of_global_memory("store", "st"),
    **of_shared_memory("load", "ld"),
    **of_shared_memory("store", "st"),
    "shuffles": Counter(("shuffles",), (WARP_OPCODES,), opcodes("SHFL")),
    "block barriers": Counter(("block_barriers",), (WARP_OPCODES, BLOCK_SIZE), block_barriers),
    "exponential lanes": Counter(("exp2_lanes",), (LANE_OPCODES,), opcodes(r"MUFU\.EX2.*")),
    "other special-function lanes": Counter(
        ("special_function_lanes", "exp2_lanes"), (LANE_OPCODES,), opcodes(r"MUFU(?!\.EX2).*")
    ),
    # REDUX, a reduction over the lanes of a warp, is none of them.
    "atomics": Counter(("atomics",), (WARP_OPCODES,), opcodes("ATOM[GS]?|REDG?")),
}


def of_launch(kernels: list[Json], name: str) -> Number:
    """A counter, or a plain metric of ncu, of all kernels: the sum; of a percentage the mean, each kernel counting for
    as long as it took; of what a launch has, like registers, the largest. None where ncu does not know it."""
    if name in COUNTERS:
        return COUNTERS[name].hardware(kernels)
    found = [kernel["metrics"].get(name) for kernel in kernels]
    if not found or None in found:
        return None
    if name.endswith(".sum"):
        return sum(found)
    if "pct_of_peak" not in name:
        return max(found)
    times = [kernel["metrics"].get(DURATION) for kernel in kernels]
    return None if None in times else ratio(sum(t * f for t, f in zip(times, found)), sum(times))


def ratio(above: Number, below: Number) -> Number:
    return None if above is None or not below else above / below
