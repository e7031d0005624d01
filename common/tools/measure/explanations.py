"""Why Nsight Compute counts otherwise than the simulator: prose, which the page simulator.md and ./run profile show beside
the numbers that it is about.

Nothing is excused by it: the simulator's numbers are recorded, too, and the test sim.hardware_table fails when one of
them changes, when one differs from ncu's where no explanation holds, and when an explanation holds nowhere any more.
"""

from __future__ import annotations

from typing import NamedTuple, Optional, Tuple

from measure.results import Json


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


def reason(entry: Json, counter: str, more: bool) -> Optional[Explanation]:
    """The first that says why ncu counts more, or fewer, of a counter at the entry's place: any shape."""
    for explanation in EXPLANATIONS:
        if explanation.more == more and any(c.hold(entry, counter) for c in explanation.cells + explanation.elsewhere):
            return explanation
    return None
