"""The quantities of `./run profile`: what a variant declares, the simulator counts and Nsight Compute measures.

An entry is one launch of one variant, as JSON:

    stage, variant, dtype, rows, cols, op
    passes         what the variant declares; what it declares of a row is in `counted`
    counted        count.simulate's entry of the same variant, which may have fewer rows
    kernels        what ncu counted of each kernel, in launch order: [{"kernel": ..., "metrics": ...}]; [] without ncu
"""

from __future__ import annotations

from typing import Callable, List, NamedTuple, Optional, Tuple

from measure import explanations, hardware_table
from measure.explanations import Explanation
from measure.results import ELEMENT_BYTES, Json

Number = Optional[float]
Value = Callable[[Json], Number]  # of an entry

# What a row costs is counted on a part of the rows, and Thrust's tiles of a fixed size do not end where that does.
SAME = 0.02


class Quantity(NamedTuple):
    name: str  # its key in markers has _ for spaces
    unit: str
    declared: Value
    counted: Value
    measured: Value
    metrics: Tuple[str, ...]  # ncu's names of what is measured
    counters: Tuple[str, ...] = ()  # of hardware_table: why more or fewer of them holds here, too ...
    divided_by: str = ""  # ... and why fewer or more of this one
    needs_ncu: bool = False  # says nothing new without it


def nothing(_: Json) -> Number:
    return None


def ratio(above: Number, below: Number) -> Number:
    return None if above is None or not below else above / below


def tensor_bytes(entry: Json) -> int:
    return entry["rows"] * entry["cols"] * ELEMENT_BYTES[entry["dtype"]]


# --- What ncu measured, of all kernels of a launch --------------------------------------------------


def total(*names: str) -> Value:
    """The sum of counters over the kernels; None where ncu does not know one."""

    def value(entry: Json) -> Number:
        found = [kernel["metrics"].get(name) for kernel in entry["kernels"] for name in names]
        return None if not found or None in found else sum(found)

    return value


def largest(name: str) -> Value:
    def value(entry: Json) -> Number:
        found = [kernel["metrics"].get(name) for kernel in entry["kernels"]]
        return None if not found or None in found else max(found)

    return value


def mean_over_time(name: str) -> Value:
    """A percentage: each kernel counts for as long as it took."""

    def value(entry: Json) -> Number:
        times = [kernel["metrics"].get(DURATION) for kernel in entry["kernels"]]
        found = [kernel["metrics"].get(name) for kernel in entry["kernels"]]
        if not found or None in found or None in times:
            return None
        return ratio(sum(t * f for t, f in zip(times, found)), sum(times))

    return value


def per(value: Value, divisor: Callable[[Json], float]) -> Value:
    return lambda entry: ratio(value(entry), divisor(entry))


def passes(*names: str) -> Value:
    return per(total(*names), tensor_bytes)


# --- What both count: the counters of hardware_table ------------------------------------------------


def simulated(*counters: str) -> Value:
    return lambda entry: sum(hardware_table.COUNTERS[name].simulated(entry["counted"]) for name in counters)


def hardware(*counters: str) -> Value:
    def value(entry: Json) -> Number:
        found = [hardware_table.total(entry["kernels"], hardware_table.COUNTERS[name].hardware) for name in counters]
        return None if not entry["kernels"] or None in found else sum(found)

    return value


def counted_rows(entry: Json) -> int:
    return entry["counted"]["rows"]


def of_row(name: str) -> Value:
    """What the variant declares of a row; it says so where it is counted."""
    return lambda entry: entry["counted"][name]


def per_row(name: str, metrics: Tuple[str, ...], *counters: str, declared: Value = nothing) -> Quantity:
    """What a row costs."""
    counted = per(simulated(*counters), counted_rows)
    measured = per(hardware(*counters), lambda entry: entry["rows"])
    return Quantity(name, "a row", declared, counted, measured, metrics, counters)


def per_request(name: str, sectors: str, requests: str, metrics: Tuple[str, ...]) -> Quantity:
    """Sectors of 32 bytes in a warp's request."""

    def divided(count: Callable[..., Value]) -> Value:
        return lambda entry: ratio(count(sectors)(entry), count(requests)(entry))

    return Quantity(name, "a request", nothing, divided(simulated), divided(hardware), metrics, (sectors,), requests)


def exponentials() -> Quantity:
    name = "exponential lanes"
    counted = per(simulated(name), lambda entry: counted_rows(entry) * entry["cols"])
    measured = per(hardware(name), lambda entry: entry["rows"] * entry["cols"])
    return Quantity("exponentials", "an element", nothing, counted, measured, (hardware_table.LANE_OPCODES,), (name,))


def only_measured(name: str, unit: str, measured: Value, *metrics: str) -> Quantity:
    return Quantity(name, unit, nothing, nothing, measured, metrics)


DURATION = "gpu__time_duration.sum"
DRAM_READ, DRAM_WRITE = "dram__bytes_read.sum", "dram__bytes_write.sum"
DRAM_BUSY = "dram__throughput.avg.pct_of_peak_sustained_elapsed"
WARPS_ACTIVE = "sm__warps_active.avg.pct_of_peak_sustained_active"
REGISTERS = "launch__registers_per_thread"
REQUESTED = ("smsp__sass_data_bytes_mem_global_op_ld.sum", "smsp__sass_data_bytes_mem_global_op_st.sum")
# Not shown, but kept: the lessons ask for them.
OCCUPANCY_LIMITS = ("launch__occupancy_limit_registers", "launch__occupancy_limit_shared_mem")


def of_l1(what: str, op: str) -> str:
    return f"l1tex__t_{what}_pipe_lsu_mem_global_op_{op}.sum"


def of_l2(what: str, op: str) -> str:
    return f"lts__t_{what}_srcunit_tex_op_{op}.sum"


def both(name: str) -> Tuple[str, str]:
    return name.format("ld"), name.format("st")


QUANTITIES: Tuple[Quantity, ...] = (
    Quantity(
        "bytes requested",
        "passes",
        lambda entry: entry["passes"],
        lambda entry: entry["counted"]["counted_passes"],
        passes(*REQUESTED),
        REQUESTED,
        ("global load sectors",),
    ),
    only_measured("read from DRAM", "passes", passes(DRAM_READ), DRAM_READ),
    only_measured("written to DRAM", "passes", passes(DRAM_WRITE), DRAM_WRITE),
    *(
        per_request(
            f"sectors {name}",
            f"global {name} sectors",
            f"global {name} requests",
            (of_l1("sectors", op), of_l1("requests", op)),
        )
        for name, op in (("load", "ld"), ("store", "st"))
    ),
    *(
        only_measured(
            f"L2 sectors {name}",
            "a request",
            lambda entry, op=op: ratio(total(of_l2("sectors", op))(entry), total(of_l2("requests", op))(entry)),
            of_l2("sectors", op),
            of_l2("requests", op),
        )
        for name, op in (("load", "read"), ("store", "write"))
    ),
    per_row(
        "shared wavefronts", both(hardware_table.SASS_WAVEFRONTS), "shared load wavefronts", "shared store wavefronts"
    ),
    per_row(
        "bank conflicts",
        (*both(hardware_table.SASS_WAVEFRONTS), *both(hardware_table.WAVEFRONTS), *both(hardware_table.CONFLICTS)),
        "shared load conflicts",
        "shared store conflicts",
        declared=of_row("bank_conflicts_per_row"),
    ),
    per_row(
        "hardware conflicts",
        both(hardware_table.CONFLICTS),
        "shared load conflicts (hardware)",
        "shared store conflicts (hardware)",
        declared=of_row("bank_conflicts_per_row"),
    )._replace(needs_ncu=True),
    per_row("shuffles", (hardware_table.WARP_OPCODES,), "shuffles"),
    per_row(
        "barriers",
        (hardware_table.WARP_OPCODES, hardware_table.BLOCK_SIZE),
        "block barriers",
        declared=of_row("barriers_per_row"),
    ),
    exponentials(),
    only_measured("achieved occupancy", "%", mean_over_time(WARPS_ACTIVE), WARPS_ACTIVE),
    only_measured("registers", "a thread", largest(REGISTERS), REGISTERS),
    only_measured("duration", "µs", per(total(DURATION), lambda _: 1e3), DURATION),
    only_measured("DRAM throughput", "% of peak", mean_over_time(DRAM_BUSY), DRAM_BUSY),
)
METRICS = tuple(dict.fromkeys([m for quantity in QUANTITIES for m in quantity.metrics] + list(OCCUPANCY_LIMITS)))


def combined(kernels: List[Json]) -> Json:
    """ncu's plain counters for the launch: sums; of several kernels, percentages weighted by time, the most registers."""
    entry = {"kernels": kernels}
    found: Json = {}
    for name in METRICS:
        if any(isinstance(kernel["metrics"].get(name), dict) for kernel in kernels):
            continue  # by opcode
        if name.endswith(".sum"):
            found[name] = total(name)(entry)
        elif "pct_of_peak" in name:
            found[name] = mean_over_time(name)(entry)
        elif name == REGISTERS or len(kernels) == 1:
            found[name] = largest(name)(entry)
    return found


class Row(NamedTuple):
    """One quantity of one entry."""

    quantity: Quantity
    numbers: Tuple[Number, Number, Number]  # declared, counted, measured
    differs: bool  # counted and measured
    why: Optional[Explanation]  # the one of hardware_table, where it has one


def rows(entry: Json) -> List[Row]:
    return [compared(entry, q, q.declared(entry), q.counted(entry), q.measured(entry)) for q in QUANTITIES]


def compared(entry: Json, quantity: Quantity, declared: Number, counted: Number, measured: Number) -> Row:
    numbers = declared, counted, measured
    if counted is None or measured is None or abs(counted - measured) <= SAME * max(abs(counted), abs(measured)):
        return Row(quantity, numbers, False, None)
    more = measured > counted
    asked = [(counter, more) for counter in quantity.counters] + [(quantity.divided_by, not more)]
    reasons = (explanations.reason(entry, counter, more_) for counter, more_ in asked)
    return Row(quantity, numbers, True, next(filter(None, reasons), None))
