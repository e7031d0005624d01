"""The quantities of `./run profile`: what a variant declares, the simulator counts and Nsight Compute measures.

An entry is one launch of one variant, as JSON:

    stage, variant, dtype, rows, cols, op
    counted        count.simulate's entry of the same variant, which may have fewer rows; it has what is declared, too
    kernels        what ncu counted of each kernel, in launch order: [{"kernel": ..., "metrics": ...}]; [] without ncu
"""

from __future__ import annotations

from typing import Callable, NamedTuple

from measure import explanations
from measure.counters import (
    COUNTERS, DRAM_BUSY, DRAM_READ, DRAM_WRITE, DURATION, OCCUPANCY_LIMITS, REGISTERS, REQUESTED, WARPS_ACTIVE,
    Number, of_l1, of_l2, of_launch, ratio,
)  # fmt: skip
from measure.explanations import Explanation
from measure.results import Json, shape_of

# What a row costs is counted on a part of the rows, and Thrust's tiles of a fixed size do not end where that does.
SAME = 0.02


def tensor_bytes(entry: Json) -> int:
    return shape_of(entry).tensor_bytes


# What a unit divides by, at an entry's shape; by nothing, where it is not among them.
DIVISORS: dict[str, Callable[[Json], float]] = {
    "passes": tensor_bytes,
    "a row": lambda at: at["rows"],
    "an element": lambda at: at["rows"] * at["cols"],
    "µs": lambda _: 1e3,  # nanoseconds
}


class Quantity(NamedTuple):
    """A sum in a unit. What is a sum of COUNTERS alone is counted, too; the others are measured alone."""

    name: str  # its key in markers has _ for spaces
    unit: str
    of: tuple[str, ...]  # names of COUNTERS, or ncu's
    divided_by: str = ""  # another such
    declared: str = ""  # the variant's number, and ...
    counted_as: str = ""  # ... the simulator's, where it is no such sum
    explained_by: tuple[str, ...] = ()  # COUNTERS: why these differ says why it does; () means `of`
    needs_ncu: bool = False  # says nothing new without it

    @property
    def metrics(self) -> tuple[str, ...]:
        """ncu's names of what is measured."""
        names = (*self.of, self.divided_by) if self.divided_by else self.of
        metrics = (COUNTERS[name].metrics if name in COUNTERS else (name,) for name in names)
        return tuple(metric for beside in zip(*metrics) for metric in beside)

    def value(self, number: Callable[[str], Number], at: Json) -> Number:
        numbers = [number(name) for name in self.of]
        if None in numbers:
            return None
        divisor = number(self.divided_by) if self.divided_by else DIVISORS.get(self.unit, lambda _: 1)(at)
        return ratio(sum(numbers), divisor)

    def numbers(self, entry: Json) -> tuple[Number, Number, Number]:
        """Declared, counted, measured."""
        simulator = entry["counted"]
        declared = simulator[self.declared] if self.declared else None
        counted = simulator[self.counted_as] if self.counted_as else None
        if self.of[0] in COUNTERS:
            counted = self.value(lambda name: COUNTERS[name].simulated(simulator), {**entry, "rows": simulator["rows"]})
        return declared, counted, self.value(lambda name: of_launch(entry["kernels"], name), entry)


def both(name: str) -> tuple[str, str]:
    """Of loads and of stores."""
    return name.format("load"), name.format("store")


QUANTITIES: tuple[Quantity, ...] = (
    Quantity("bytes requested", "passes", REQUESTED, "", "passes", "counted_passes", ("global load sectors",)),
    Quantity("read from DRAM", "passes", (DRAM_READ,)),
    Quantity("written to DRAM", "passes", (DRAM_WRITE,)),
    # Of 32 bytes, in a warp's request.
    Quantity("sectors load", "a request", ("global load sectors",), "global load requests"),
    Quantity("sectors store", "a request", ("global store sectors",), "global store requests"),
    Quantity("L2 sectors load", "a request", (of_l2("sectors", "read"),), of_l2("requests", "read")),
    Quantity("L2 sectors store", "a request", (of_l2("sectors", "write"),), of_l2("requests", "write")),
    Quantity("shared wavefronts", "a row", both("shared {} wavefronts")),
    Quantity("bank conflicts", "a row", both("shared {} conflicts"), declared="bank_conflicts_per_row"),
    Quantity(
        "hardware conflicts", "a row", both("shared {} conflicts (hardware)"), "", "bank_conflicts_per_row", needs_ncu=True
    ),
    Quantity("shuffles", "a row", ("shuffles",)),
    Quantity("barriers", "a row", ("block barriers",), declared="barriers_per_row"),
    Quantity("exponentials", "an element", ("exponential lanes",)),
    Quantity("achieved occupancy", "%", (WARPS_ACTIVE,)),
    Quantity("registers", "a thread", (REGISTERS,)),
    Quantity("duration", "µs", (DURATION,)),
    Quantity("DRAM throughput", "% of peak", (DRAM_BUSY,)),
)
# The last are not shown, but kept: the lessons ask for them.
METRICS = tuple(dict.fromkeys([*(m for quantity in QUANTITIES for m in quantity.metrics), *OCCUPANCY_LIMITS]))


def combined(kernels: list[Json]) -> Json:
    """ncu's plain metrics of the launch, without those by opcode. What each kernel has of its own is left out where
    there are several, but for the most registers."""

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
    why: Explanation | None  # the one of hardware_table, where it has one


def rows(entry: Json) -> list[Row]:
    return [compared(entry, quantity, *quantity.numbers(entry)) for quantity in QUANTITIES]


def compared(entry: Json, quantity: Quantity, declared: Number, counted: Number, measured: Number) -> Row:
    numbers = declared, counted, measured
    if counted is None or measured is None or abs(counted - measured) <= SAME * max(abs(counted), abs(measured)):
        return Row(quantity, numbers, False, None)
    more = measured > counted
    asked = [(counter, more) for counter in quantity.explained_by or quantity.of] + [(quantity.divided_by, not more)]
    reasons = (explanations.explain(entry, counter, more_, anywhere=True) for counter, more_ in asked)
    return Row(quantity, numbers, True, next((reason for reason, _ in reasons if reason), None))
