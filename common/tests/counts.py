#!/usr/bin/env python3
"""What the lessons derive with a pencil is what the simulator counts, for every variant of a stage, from rows that fill
no warp to rows that fill a block many times over; and a variant is what its name says where counters cannot tell.

    counts.py STAGE [OPTION]...    STAGE: the executable; options: fewer --variant, --rows, --cols, --dtype
"""

from __future__ import annotations

import ctypes
import itertools
import re
import sys
from pathlib import Path
from types import SimpleNamespace as Row
from typing import Callable, NamedTuple

import check_stage
from check_stage import Failure

# Few rows of any width, as many narrow ones as fill several blocks, and rows that packs cover only from some offsets on.
SHAPES = [
    "--rows 3 --cols 4,8,100,256,512,1000,1024,1500,2048,4096,8192,16384",
    "--rows 64 --cols 8,32,64,100,128,1000",
    *(f"--rows 3 --cols 256,600 --offset {offset}" for offset in (1, 2, 4, 8)),
]

SHAPES_OF = {
    "08_unaligned_rows": [
        "--rows 37 --cols 1,7,33,129,257,513,1001,1025,2049",
        "--rows 3 --cols 33,1001,8193,16385 --offset 3",
    ]
}


class Claim(NamedTuple):
    name: str
    holds: Callable[[Row], bool]  # of a row of the CSV, with `size`, the bytes of an element
    variants: str = ""  # none: all

    def is_about(self, row: Row) -> bool:
        return not self.variants or row.variant in self.variants.split()


# ---- How much of a kernel there is. One reduction over a warp is 5 shuffles. A block of w warps does 5 w, and 5 more
# where one warp then reduces the warps' results.
def divide_up(a: float, b: float) -> int:
    return -int(-a // b)


def pack(r: Row) -> int:
    """Elements of one access: 16 bytes where they cover the row, else one."""
    return 16 // r.size if r.cols * r.size % 16 == 0 and r.offset * r.size % 16 == 0 else 1


def warps_of(r: Row, elements_a_thread: float, most: int = 1024) -> int:
    """Warps of a block that has no more threads than the row has work for."""
    return min(divide_up(r.cols, elements_a_thread * 32), most // 32)


def power_of_two(n: float) -> int:
    """The first that is not smaller."""
    return 1 << (int(n) - 1).bit_length()


# Stage 03: a block has 4 warps, and a warp without a row takes part all the same.
def warps_03(r: Row) -> int:
    return 4 * divide_up(r.rows, 4)


def tile_03(r: Row, steps: tuple[int, ...]) -> int:
    """Columns of the first tile of 32 lanes that holds the row."""
    return next(32 * step * pack(r) for step in steps if 32 * step * pack(r) >= r.cols)


def padded_tile_03(r: Row) -> int:
    scalar = (1, 2, 4, 8, 16, 32)
    return tile_03(r, {1: scalar, 4: (1, 2, 4, 8), 8: (1, 2, 3, 4)}[pack(r)])


def scalar_tile_03(r: Row) -> int:
    return max(32, power_of_two(r.cols))


def lanes_03(r: Row) -> int:
    """Of a narrow group: one pack each, as few as possible."""
    return min(32, power_of_two(divide_up(r.cols, pack(r))))


def narrow_shuffles(r: Row) -> int:
    rows_at_once = 2 if r.variant == "two_rows_per_access" else 1
    blocks = divide_up(r.rows, 128 / lanes_03(r) * rows_at_once)
    return 2 * (lanes_03(r).bit_length() - 1) * 4 * blocks * rows_at_once


# Stages 05 and 06: four packs a thread.
def warps_05(r: Row) -> int:
    return warps_of(r, 4 * pack(r), 256 if r.variant == "small_block" else 1024)


# Stage 06, fused: the first tile that holds the row.
FUSED_TILES = ((32, 8), (64, 16), (128, 16), (256, 16), (512, 16), (512, 32), (1024, 32))


def fused_tile(r: Row) -> tuple[int, int]:
    """Threads, and columns of each."""
    return next(tile for tile in FUSED_TILES if tile[0] * tile[1] >= r.cols)


# A merge over 32 lanes is 5 times 2 shuffles and 2 exponentials a lane; each warp does two of them.
def merges(warps: int, r: Row) -> int:
    """The exponentials, with 20 shuffles a warp."""
    return 20 * 32 * warps * r.rows


# Stage 08. Each thread has 1, 2, 4 or 8 packs of a row, or 8, 16 or 32 single elements.
def pack_08(r: Row) -> int:
    return 1 if r.variant == "scalar" else 16 // r.size


def packs_a_thread_08(r: Row) -> int:
    packs = r.cols // pack_08(r)
    tiles = ((8, 256), (16, 16384), (32, 32768)) if r.variant == "scalar" else ((1, 32), (2, 64), (4, 4096), (8, 8192))
    return next(each for each, most in tiles if packs <= most)


def warps_08(r: Row) -> int:
    return max(1, divide_up(r.cols // pack_08(r), 32 * packs_a_thread_08(r)))


def requests(r: Row, begin: int, count: int, boundary: int = 16) -> int:
    """Of `count` elements from element `begin` on, by packs from a boundary on and single elements."""
    head = min(-(r.offset + begin) * r.size % boundary // r.size, count)
    packs, tail = divmod(count - head, pack_08(r))
    return divide_up(packs, 32) + divide_up(head + tail, 32)


def requests_of_rows(r: Row) -> int:
    boundary = r.size if r.variant == "scalar" else 128
    while boundary // r.size + pack_08(r) > 32 * warps_08(r) and r.variant == "head_and_tail":
        boundary //= 2
    return sum(requests(r, row * r.cols, r.cols, boundary) for row in range(r.rows))


def span_08(r: Row) -> tuple[int, int, int]:
    """Columns that a thread may have, parts of a row, and rows of a block."""
    most = next(most for most in (8, 16, 33) if r.cols <= most or most == 33)
    parts = divide_up(r.cols, most)
    return most, parts, 32 * max(min(16384 // (r.cols * r.size), 256 // parts) // 32, 1)


def requests_of_spans(r: Row) -> int:
    rows = span_08(r)[2]
    return sum(requests(r, row * r.cols, min(rows, r.rows - row) * r.cols) for row in range(0, r.rows, rows))


# What a variant declares of a row.
DECLARED = (
    Claim("declared barriers", lambda r: r.barriers_per_row in ("", r.counted_block_barriers / r.rows)),
    Claim("declared conflicts", lambda r: r.offset > 0
          or r.bank_conflicts_per_row in ("", r.counted_bank_conflicts / r.rows)),
)
PASSES = Claim("passes", lambda r: r.counted_passes == r.passes)

CLAIMS = {
    "01_naive": (
        # A row's maximum and sum are declared once per row, and loaded by each of the 4 warps of a block.
        Claim("passes", lambda r: abs(r.counted_passes - r.passes - 24 / (r.cols * r.size)) < 0.00015,
              "thread_per_row block_per_row block_per_row_division"),
        Claim("thread per row", lambda r: (r.counted_shuffles, r.counted_block_barriers, r.counted_shared_wavefronts)
              == (0, 0, 0), "thread_per_row"),
        Claim("shuffles", lambda r: r.counted_shuffles == 2 * 4 * 5 * r.rows, "block_per_row block_per_row_division"),
        Claim("exponentials", lambda r: r.counted_special_function_lanes == r.rows * r.cols),
    ),
    "02_fused_block": (
        PASSES,
        Claim("tree", lambda r: (r.counted_shuffles, r.counted_block_barriers) == (0, 2 * (8 + 2) * r.rows),
              "shared_memory_tree"),
        Claim("barriers", lambda r: r.counted_block_barriers == 4 * r.rows,
              "warp_then_shared warp_then_shared_112 cub_block_reduce "
              "fastertransformer_block_per_head fastertransformer_block_per_row"),
        Claim("shuffles", lambda r: r.counted_shuffles == 2 * (8 + 1) * 5 * r.rows, "warp_then_shared"),
        Claim("shuffles of 112", lambda r: r.counted_shuffles == 2 * (4 + 1) * 5 * r.rows, "warp_then_shared_112"),
        Claim("shuffles of CUB", lambda r: r.counted_shuffles == 2 * 8 * 5 * r.rows, "cub_block_reduce"),
        Claim("shuffles of a thread per column",
              lambda r: r.counted_shuffles == 2 * (warps_of(r, 1) + 1) * 5 * r.rows,
              "fastertransformer_block_per_head fastertransformer_block_per_row"),
        Claim("exponentials", lambda r: r.counted_special_function_lanes == 2 * r.rows * r.cols),
    ),
    "03_warp_reduce": (
        PASSES,
        Claim("load requests", lambda r: r.counted_global_load_requests == r.rows * divide_up(r.cols, 32 * pack(r)),
              "packs padded_packs"),
        Claim("no shared memory, no barrier",
              lambda r: (r.counted_shared_wavefronts, r.counted_block_barriers) == (0, 0)),
        Claim("shuffles", lambda r: r.counted_shuffles == 2 * 5 * warps_03(r), "scalar_loads packs padded_packs"),
        Claim("shuffles of narrow groups", lambda r: r.counted_shuffles == narrow_shuffles(r),
              "narrow_groups two_rows_per_access"),
        Claim("exponentials", lambda r: r.counted_special_function_lanes == warps_03(r) * r.cols, "packs"),
        Claim("padding costs exponentials",
              lambda r: r.counted_special_function_lanes == warps_03(r) * padded_tile_03(r), "padded_packs"),
        Claim("padding costs exponentials, scalars",
              lambda r: r.counted_special_function_lanes == warps_03(r) * scalar_tile_03(r), "scalar_loads"),
    ),
    "04_smem_bank_conflict": (
        PASSES,
        Claim("barriers", lambda r: r.counted_block_barriers == 4 * r.rows),
        Claim("no conflict", lambda r: r.counted_bank_conflicts == 0, "transposed_layout vector_layout"),
        # Each row is written and read twice, cols / 32 wavefronts each time if nobody waits: a w-way conflict adds w - 1
        # times as many. Known for rows that fill every access.
        Claim("conflicts of single words", lambda r: r.cols % 256 != 0
              or r.counted_bank_conflicts == (pack(r) - 1) * 4 * r.rows * r.cols / 32, "interleaved_scalar_layout"),
        Claim("conflicts of merged words", lambda r: r.cols % 256 != 0
              or r.counted_bank_conflicts == (4 * r.rows * r.cols / 32 if pack(r) == 8 else 0), "interleaved_layout"),
        # 4 cols / 32 wavefronts for the row; in 2 reductions w warps write and read w + 1 results, after 5 (w + 1)
        # shuffles.
        Claim("shuffles", lambda r: r.cols % 1024 != 0 or r.counted_shuffles
              == 10 * (r.counted_shared_wavefronts - r.counted_bank_conflicts - 4 * r.rows * r.cols / 32) / 4),
        Claim("exponentials", lambda r: r.counted_special_function_lanes == r.rows * r.cols),
    ),
    "05_uncached": (
        PASSES,
        Claim("barriers", lambda r: r.counted_block_barriers == 4 * r.rows),
        Claim("shuffles", lambda r: r.counted_shuffles == 2 * (warps_05(r) + 1) * 5 * r.rows),
        Claim("wavefronts", lambda r: r.counted_shared_wavefronts == 2 * 2 * (warps_05(r) + 1) * r.rows),
        Claim("exponentials", lambda r: r.counted_special_function_lanes == 2 * r.rows * r.cols),
    ),
    "06_online": (
        PASSES,
        Claim("one merge", lambda r: r.counted_block_barriers == 2 * r.rows,
              "fused online online_per_element online_reversed"),
        Claim("shuffles", lambda r: r.counted_shuffles == 20 * warps_05(r) * r.rows,
              "online online_per_element online_reversed"),
        Claim("per element", lambda r: r.counted_special_function_lanes
              == 3 * r.rows * r.cols + merges(warps_05(r), r), "online_per_element"),
        Claim("per chunk", lambda r: r.counted_special_function_lanes
              == (2 + 1 / pack(r)) * r.rows * r.cols + merges(warps_05(r), r), "online online_reversed"),
        Claim("shuffles of the tile", lambda r: r.counted_shuffles == 20 * fused_tile(r)[0] // 32 * r.rows, "fused"),
        # And a factor for each thread; the row is padded to the tile.
        Claim("exponentials of the tile", lambda r: r.counted_special_function_lanes
              == (fused_tile(r)[0] * (fused_tile(r)[1] + 1)) * r.rows + merges(fused_tile(r)[0] // 32, r), "fused"),
        Claim("three passes", lambda r: r.counted_special_function_lanes == 2 * r.rows * r.cols,
              "three_pass_tile three_pass_tile_reversed"),
    ),
    "08_unaligned_rows": (
        Claim("passes", lambda r: r.counted_passes == r.passes, "scalar head_and_tail"),
        # The simulator counts a cp.async as an access of shared memory, not as one of global memory.
        Claim("passes but for what is copied", lambda r: 1 <= r.counted_passes <= 2, "flat_span row_in_flight"),
        # Where x begins elsewhere, its rows begin elsewhere between packs.
        Claim("passes with the neighbours", lambda r: r.counted_passes == r.passes if r.offset == 0
              else 2 <= r.counted_passes <= 2 + 2 * pack_08(r) / r.cols, "shifted"),
        Claim("loads", lambda r: r.counted_global_load_requests == requests_of_rows(r), "scalar head_and_tail"),
        Claim("stores", lambda r: r.counted_global_store_requests == requests_of_rows(r),
              "scalar head_and_tail row_in_flight"),
        Claim("stores of spans", lambda r: r.counted_global_store_requests == requests_of_spans(r), "flat_span"),
        Claim("shuffles", lambda r: r.counted_shuffles == (10 if warps_08(r) == 1 else 20) * warps_08(r) * r.rows,
              "scalar head_and_tail"),
        Claim("barriers", lambda r: r.counted_block_barriers == (0 if warps_08(r) == 1 else 2) * r.rows,
              "scalar head_and_tail"),
        Claim("barriers and shuffles in flight", lambda r: (r.counted_block_barriers, r.counted_shuffles)
              == (3 * r.rows, 20 * 16 * r.rows), "row_in_flight"),
        Claim("barriers of spans", lambda r: (r.counted_block_barriers, r.counted_shuffles)
              == (4 * divide_up(r.rows, span_08(r)[2]), 0), "flat_span"),
        Claim("no conflict at an odd width", lambda r: r.size == 2 or r.cols % 2 == 0 or span_08(r)[1] > 1
              or r.counted_bank_conflicts == 0, "flat_span"),
        Claim("one exponential an element", lambda r: r.counted_special_function_lanes
              == (packs_a_thread_08(r) * pack_08(r) + 2 + (10 if warps_08(r) == 1 else 20)) * 32 * warps_08(r) * r.rows,
              "scalar head_and_tail"),
    ),
    # Test-only stages.
    "softmax_backward": (PASSES,),
    "cross_entropy": (Claim("passes", lambda r: abs(r.counted_passes - r.passes) < 0.00011),),
}  # fmt: skip


# ---- What counters do not tell. Variants of which all counters are the same are here, and what else tells them apart.
class Launch(NamedTuple):
    """A kernel as it was launched."""

    blocks: int
    ptx: str

    def has(self, instruction: str) -> bool:
        return re.search(rf"\b{instruction}\b", self.ptx) is not None


class Twins(NamedTuple):
    first: str
    second: str
    difference: str
    is_seen: Callable[[Launch, Launch], bool]  # in the last launch of the first, and of the second


TWINS = {
    "01_naive": Twins("block_per_row", "block_per_row_division", "a division for every element, not for every row",
                      lambda first, second: not first.has("div.rn.ftz.f32") and second.has("div.rn.ftz.f32")),
    "02_fused_block": Twins("fastertransformer_block_per_head", "fastertransformer_block_per_row",
                            "a block loops over a head's rows",
                            lambda first, second: first.blocks == 1 and second.blocks > 1),
    "05_uncached": Twins("reversed_second_pass", "cache_hints", "the last read and the write have cache hints",
                         lambda first, second: not first.has("(ld|st).global.cs") and second.has("ld.global.cs")
                         and second.has("st.global.cs")),
}  # fmt: skip
# More columns than rows: one head.
SHAPE_OF_TWINS = ["--rows", "64", "--cols", "100"]


def demangled(name: str) -> str:
    library = ctypes.CDLL("libstdc++.so.6")
    library.__cxa_demangle.restype = ctypes.c_char_p
    return (library.__cxa_demangle(name.encode(), None, None, None) or name.encode()).decode()


def last_launch(executable: str, variant: str) -> Launch:
    done = check_stage.run([executable, "--device", "sim", "--verify-only", *SHAPE_OF_TWINS, "--variant", variant],
                           SIM_REPORT="1")  # fmt: skip
    launches = re.findall(r"^counted: (.*) <<<\((\d+),", done.stderr, re.MULTILINE)
    if done.returncode != 0 or not launches:
        raise Failure(f"{variant}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    kernel, blocks = launches[-1]
    # The executable holds its PTX as text.
    for entry in re.finditer(rb"\.entry (\w+)\((.*?)\n}", Path(executable).read_bytes(), re.DOTALL):
        if f" {kernel}(" in " " + demangled(entry.group(1).decode()):
            return Launch(int(blocks), entry.group(2).decode())
    raise Failure(f"{variant}: {executable} has no PTX of {kernel}")


def check_twins(executable: str, rows: list[Row]) -> list[str]:
    """What is wrong."""
    known = TWINS.get(Path(executable).name)
    counted: dict[str, list] = {}
    for row in rows:
        counts = [value for name, value in vars(row).items() if name.startswith("counted_")]
        counted.setdefault(row.variant, []).append((row.rows, row.cols, row.dtype, row.offset, counts))
    problems = []
    for first, second in itertools.combinations(counted, 2):
        if counted[first] == counted[second] and (not known or (known.first, known.second) != (first, second)):
            problems.append(f"{first} and {second}: all counters are the same. what tells them apart?")
    if known and known.first in counted and known.second in counted:
        if counted[known.first] != counted[known.second]:
            problems.append(f"{known.first} and {known.second}: their counters differ: they are no twins")
        if not known.is_seen(last_launch(executable, known.first), last_launch(executable, known.second)):
            problems.append(f"{known.second}: not so: {known.difference}")
    return problems


def number(text: str) -> float | str:
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        return text


def rows_of(command: list[str]) -> list[Row]:
    """What is counted of each variant that does the problem."""
    command = [*command, "--device", "sim", "--section", "heading,rows", "--format", "csv"]
    offset = int("".join(check_stage.option(command, "--offset")) or 0)
    found = []
    for row in check_stage.verify(command)[0]:
        found.append(Row(**{name: number(value) for name, value in row.items()}))
        found[-1].size, found[-1].offset = (4 if row["dtype"] == "f32" else 2), offset
    return found


def describe(row: Row, executable: str) -> str:
    """The row, and where it was counted."""
    shape = [f"--{name}={getattr(row, name)}" for name in ("variant", "dtype", "op", "rows", "cols", "offset")]
    lines = check_stage.run([executable, "--device", "sim", "--verify-only", *shape], SIM_REPORT="lines")
    counts = ", ".join(f"{name} {value}" for name, value in vars(row).items() if "_" in name or name == "passes")
    return f"{' '.join(shape)}: {counts}\n{lines.stdout}{lines.stderr}"


def check(executable: str, *options: str) -> str:
    name = Path(executable).name
    rows = [row for shapes in (*SHAPES, *SHAPES_OF.get(name, ())) for row in rows_of([executable, "--dtype", "all", *shapes.split(), *options])]
    failed = []
    for claim in (*DECLARED, *CLAIMS[name]):
        about = [row for row in rows if claim.is_about(row)]
        wrong = [row for row in about if not claim.holds(row)]
        if wrong or (not about and not options):
            failed.append(f"{claim.name}: not so for {len(wrong)} of {len(about)} rows")
            failed += [describe(row, executable) for row in wrong[:1]]
    failed += check_twins(executable, rows)
    if failed:
        raise Failure("\n".join(failed))
    return f"{len(rows)} rows: all is as it should be"


if __name__ == "__main__":
    sys.exit(check_stage.print_or_fail(lambda: check(*sys.argv[1:])))
