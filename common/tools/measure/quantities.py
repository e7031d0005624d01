"""The counters of a launch, and the quantities that `./run profile` makes of them.

The simulator and Nsight Compute (ncu) both count the counters. Each is spelled once: the simulator's name, and the ncu
metrics that it is made of. Quantities are sums of counters in a unit: a variant declares them, the simulator counts them
and ncu measures them.

ncu's metrics of a launch are those of its kernels, in launch order: [{"kernel": name, "metrics": {name: value}}]; a
metric that this ncu does not know is None. An entry is one launch of one variant, as JSON:

    stage, variant, dtype, rows, cols, op
    counted        count.simulate's entry of the same variant, which may have fewer rows; it has the declared numbers, too
    kernels        ncu's counts of each kernel; [] without ncu
"""

import re
from typing import Any, Callable, NamedTuple

from measure import explanations
from measure.explanations import Explanation
from measure.results import Json, shape_of

Number = float | None


def of_l1(what: str, op: str) -> str:
    return f"l1tex__t_{what}_pipe_lsu_mem_global_op_{op}.sum"


def of_l2(what: str, op: str) -> str:
    return f"lts__t_{what}_srcunit_tex_op_{op}.sum"


# Shared memory has two families of counters: the hardware's own, and those that ncu gets by patching the machine code
# (sass).
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
    """A number that the simulator and ncu both count."""

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
    """The machine code's wavefronts beyond the hardware's count of those without any conflict."""
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
    """A counter, or a plain metric of ncu, of all kernels: the sum; for a percentage the mean, weighted by the kernels'
    durations; for a property of a launch, like registers, the largest. None if ncu does not know it."""
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


# --- Quantities -------------------------------------------------------------------------------------

# The cost of a row is counted on a part of the rows, and Thrust's tiles of a fixed size do not end where that does.
SAME = 0.02


def same(a: float, b: float) -> bool:
    return abs(a - b) <= SAME * max(abs(a), abs(b))


def tensor_bytes(entry: Json) -> int:
    return shape_of(entry).tensor_bytes


# The divisor of each unit, at an entry's shape, for quantities that no counter divides.
DIVISORS: dict[str, Callable[[Json], float]] = {
    "passes": tensor_bytes,
    "per row": lambda at: at["rows"],
    "per element": lambda at: at["rows"] * at["cols"],
    "µs": lambda _: 1e3,  # nanoseconds
    **dict.fromkeys(("per thread", "%", "% of peak"), lambda _: 1),
}


class Quantity(NamedTuple):
    """A sum in a unit. A sum of COUNTERS alone is counted, too; the others are only measured."""

    name: str  # its key in markers has _ for spaces
    unit: str
    of: tuple[str, ...]  # names of COUNTERS, or ncu's
    divided_by: str = ""  # another such
    declared: str = ""  # the variant's number, and ...
    counted_as: str = ""  # ... the simulator's, if it is not such a sum
    explained_by: tuple[str, ...] = ()  # COUNTERS: why these differ says why it does; () means `of`
    needs_ncu: bool = False  # says nothing new without it

    @property
    def metrics(self) -> tuple[str, ...]:
        """ncu's names of the measured numbers."""
        names = (*self.of, self.divided_by) if self.divided_by else self.of
        metrics = (COUNTERS[name].metrics if name in COUNTERS else (name,) for name in names)
        return tuple(metric for beside in zip(*metrics) for metric in beside)

    def value(self, number: Callable[[str], Number], at: Json) -> Number:
        numbers = [found for name in self.of if (found := number(name)) is not None]
        if len(numbers) < len(self.of):
            return None
        divisor = number(self.divided_by) if self.divided_by else DIVISORS[self.unit](at)
        return ratio(sum(numbers), divisor)

    @property
    def heading(self) -> str:
        return f"{self.name} {self.unit}" if self.unit.startswith("per ") else f"{self.name}, {self.unit}"

    def numbers(self, entry: Json) -> tuple[Number, Number, Number]:
        """Declared, counted, measured."""
        simulator = entry["counted"]
        declared = simulator[self.declared] if self.declared else None
        counted = simulator[self.counted_as] if self.counted_as else None
        if self.of[0] in COUNTERS:
            counted = self.value(lambda name: COUNTERS[name].simulated(simulator), {**entry, "rows": simulator["rows"]})
        return declared, counted, self.value(lambda name: of_launch(entry["kernels"], name), entry)


def both(name: str) -> tuple[str, str]:
    """The names for loads and for stores."""
    return name.format("load"), name.format("store")


QUANTITIES: tuple[Quantity, ...] = (
    Quantity("bytes requested", "passes", REQUESTED, "", "passes", "counted_passes", ("global load sectors",)),
    Quantity("read from DRAM", "passes", (DRAM_READ,)),
    Quantity("written to DRAM", "passes", (DRAM_WRITE,)),
    # Sectors of 32 bytes, in a warp's request.
    Quantity("sectors load", "per request", ("global load sectors",), "global load requests"),
    Quantity("sectors store", "per request", ("global store sectors",), "global store requests"),
    Quantity("L2 sectors load", "per request", (of_l2("sectors", "read"),), of_l2("requests", "read")),
    Quantity("L2 sectors store", "per request", (of_l2("sectors", "write"),), of_l2("requests", "write")),
    Quantity("shared wavefronts", "per row", both("shared {} wavefronts")),
    Quantity("bank conflicts", "per row", both("shared {} conflicts"), declared="bank_conflicts_per_row"),
    Quantity(
        "hardware conflicts", "per row", both("shared {} conflicts (hardware)"), "", "bank_conflicts_per_row", needs_ncu=True
    ),
    Quantity("shuffles", "per row", ("shuffles",)),
    Quantity("barriers", "per row", ("block barriers",), declared="barriers_per_row"),
    Quantity("exponentials", "per element", ("exponential lanes",)),
    Quantity("achieved occupancy", "%", (WARPS_ACTIVE,)),
    Quantity("registers", "per thread", (REGISTERS,)),
    Quantity("duration", "µs", (DURATION,)),
    Quantity("DRAM throughput", "% of peak", (DRAM_BUSY,)),
)
# The last are not shown, but kept: the lessons use them.
METRICS = tuple(dict.fromkeys([*(m for quantity in QUANTITIES for m in quantity.metrics), *OCCUPANCY_LIMITS]))


def combined(kernels: list[Json]) -> Json:
    """ncu's plain metrics of the launch, without those by opcode. If there are several kernels, metrics that
    each has of its own are left out, except for the most registers."""

    def is_kept(name: str) -> bool:
        if any(isinstance(kernel["metrics"].get(name), dict) for kernel in kernels):
            return False
        return name.endswith(".sum") or "pct_of_peak" in name or name == REGISTERS or len(kernels) == 1

    return {name: of_launch(kernels, name) for name in METRICS if is_kept(name)}


class Row(NamedTuple):
    """One quantity of one entry."""

    quantity: Quantity
    numbers: tuple[Number, Number, Number]  # declared, counted, measured
    differs: bool  # counted and measured
    why: Explanation | None  # the one of hardware_table, if it has one


def rows(entry: Json) -> list[Row]:
    return [compared(entry, quantity, *quantity.numbers(entry)) for quantity in QUANTITIES]


def compared(entry: Json, quantity: Quantity, declared: Number, counted: Number, measured: Number) -> Row:
    numbers = declared, counted, measured
    if counted is None or measured is None or same(counted, measured):
        return Row(quantity, numbers, False, None)
    more = measured > counted
    asked = [(counter, more) for counter in quantity.explained_by or quantity.of] + [(quantity.divided_by, not more)]
    reasons = (explanations.explain(entry, counter, more_, anywhere=True) for counter, more_ in asked)
    return Row(quantity, numbers, True, next((reason for reason, _ in reasons if reason), None))
