#!/usr/bin/env python3
"""What the lessons derive with a pencil is what the simulator counts, for every variant of a stage, from rows that fill
no warp to rows that fill a block many times over; and a variant is what its name says where counters cannot tell.

    counts.py STAGE [OPTION]...    STAGE: the executable; options: fewer --variant, --rows, --cols, --dtype
"""

import ctypes
import itertools
import math
import os
import re
import sys
from pathlib import Path
from types import SimpleNamespace as Row
from typing import Callable, Iterator, NamedTuple

import check_stage
from check_stage import Failure

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
from measure import choices  # noqa: E402

# Few rows of any width, as many narrow ones as fill several blocks, and rows that packs cover only from some offsets on.
SHAPES = [
    "--rows 3 --cols 4,8,100,256,512,1000,1024,1500,2048,4096,8192,16384",
    "--rows 64 --cols 8,32,64,100,128,1000",
    *(f"--rows 3 --cols 256,600 --offset {offset}" for offset in (1, 2, 4, 8)),
]
SHAPES_OF = {
    "03_warp_reduce": ["--rows 3 --cols 12,48,80,160"],  # where three packs leave fewer lanes without one
    "10_cluster": [
        "--rows 3 --cols 8200,65536",
        "--rows 3 --cols 1,33,1001,50257,100003 --offset 3 --variant unaligned_cluster",
    ],
    # Wider than shared memory, where rows are read again; and between packs.
    "11_backward": [
        "--rows 2 --cols 65536,100003",
        "--rows 37 --cols 1,33,1001 --offset 3",
        "--rows 9 --cols 3,6,270,417,642,1281 --variant warp_registers",
        "--rows 3 --cols 12,14,1348,1350,2052,2054 --variant block_registers",
    ],
    "12_fusion": [
        "--rows 2 --cols 32000,65536,100003",
        "--rows 37 --cols 1,33,1001 --offset 3",
        "--rows 9 --cols 1301,5001 --variant narrow_rows",
    ],
    "08_unaligned_rows": [
        "--rows 37 --cols 1,7,33,50,60,129,257,513,1001,1025,2049",
        "--rows 3 --cols 33,1001,8193,16385 --offset 3",
    ],
    # Around what the lines of the table end with, some of which are for few rows.
    "13_dispatch": ["--rows 3 --cols 33,184,368,800,5800,28001,32000,65536", "--rows 9 --cols 151936", "--rows 3 --cols 1,33,1001 --offset 3"],
}

# On a GPU with few multiprocessors, for which few rows are many.
MULTIPROCESSORS = 132
FEW_MULTIPROCESSORS = 20
SHAPES_OF_MANY_ROWS = {
    "07_split_row": ["--rows 46 --cols 2048"],  # where the number of rows changes the parts
    "09_async_copy": ["--rows 23 --cols 16384,38400", "--rows 46 --cols 2048 --offset 8"],  # more rows than blocks
    # More rows than as many clusters take at once, and than they begin with in a ring of three.
    "10_cluster": ["--rows 64 --cols 4096 --variant tickets,bulk_ring"],
    "11_backward": ["--rows 46 --cols 2048", "--rows 652 --cols 33,65,201 --variant warp_registers"],
    "12_fusion": [
        "--rows 182 --cols 33,50,60",
        "--rows 46 --cols 8192",  # so many that a cluster has few blocks
        "--rows 910 --cols 128,200,202 --variant narrow_rows",
        "--rows 334 --cols 520,648,1032 --variant narrow_rows",
    ],
}

# A stage and an operation whose variants do whole packs of 16 bytes alone.
WHOLE_PACKS_ALONE = {"09_async_copy", "recomputed_softmax_backward"}


def divide_up(a: float, b: float) -> int:
    return -int(-a // b)


def power_of_two(n: float) -> int:
    """The first that is not smaller."""
    return 1 << (int(n) - 1).bit_length()


def pack(r: Row) -> int:
    """Elements of one access: 16 bytes where they cover the row, else one."""
    return 16 // r.size if r.cols * r.size % 16 == 0 and r.offset * r.size % 16 == 0 else 1


def warps_of(r: Row, elements_a_thread: float, most: int = 1024) -> int:
    """Warps of a block that has no more threads than the row has work for."""
    return min(divide_up(r.cols, elements_a_thread * 32), most // 32)


# ---- What the rows of the CSV must say, by stage: a counter without "counted_", and its value. r.size: bytes of an
# element. One reduction over a warp is 5 shuffles. A block of w warps does 5 w, and 5 more where one warp then reduces
# the warps' results.
Expected = Iterator[tuple[str, float]]
COMPUTE_CAPABILITY = float(os.environ.get("SIM_COMPUTE_CAPABILITY", "9.0"))
SHUFFLES_OF_A_MERGE = 5 if COMPUTE_CAPABILITY >= 8 else 10  # of (m, d) over a warp; a maximum may be one instruction


def naive(r: Row) -> Expected:
    yield "special_function_lanes", r.rows * r.cols
    if r.variant != "thrust_calls":
        # A row's maximum and sum are declared once per row, and loaded by each of the 4 warps of a block.
        yield "passes", r.passes + 24 / (r.cols * r.size)
        yield "shuffles", 0 if r.variant == "thread_per_row" else 2 * 4 * 5 * r.rows


def fused_block(r: Row) -> Expected:
    yield "passes", r.passes
    yield "special_function_lanes", 2 * r.rows * r.cols
    yield "block_barriers", (2 * (8 + 2) if r.variant == "shared_memory_tree" else 4) * r.rows
    warps = {"shared_memory_tree": 0, "warp_then_shared": 8 + 1, "warp_then_shared_112": 4 + 1, "cub_block_reduce": 8}
    # The others have a thread for each column.
    yield "shuffles", 2 * 5 * warps.get(r.variant, warps_of(r, 1) + 1) * r.rows


def warp_reduce(r: Row) -> Expected:
    yield "passes", r.passes
    yield "shared_wavefronts", 0
    yield "block_barriers", 0
    if r.variant.startswith(("narrow_groups", "two_")):
        two_or_three = r.variant == "two_or_three_packs"
        rows_at_once = 2 if "two_rows" in r.variant or two_or_three else 1
        most = 3 if two_or_three else 2 if "two_packs" in r.variant else 1
        groups = [(lanes, most) for lanes in (1, 2, 4, 8, 16, 32)]  # of so many packs each
        if two_or_three:  # no more packs than lanes, and three from four lanes on
            groups = [(1, 1), (2, 1), (2, 2), *((lanes, packs) for lanes in (4, 8, 16, 32) for packs in (2, 3))]
        tiles = [(lanes * packs * pack(r), lanes) for lanes, packs in groups]
        tiles.append((32 * most * 16 // r.size, 32))  # without packs a lane takes as many elements
        elements, lanes = next(tile for tile in tiles if tile[0] >= r.cols)
        blocks = divide_up(r.rows, 128 / lanes * rows_at_once)
        yield "shuffles", 2 * (lanes.bit_length() - 1) * 4 * blocks * rows_at_once
        if most > 1:  # those of lanes without a pack, too
            yield "special_function_lanes", blocks * 128 / lanes * rows_at_once * elements
        return
    warps = 4 * divide_up(r.rows, 4)  # a warp without a row takes part all the same
    yield "shuffles", 2 * 5 * warps
    if r.variant == "scalar_loads":
        yield "special_function_lanes", warps * max(32, power_of_two(r.cols))
        return
    yield "global_load_requests", r.rows * divide_up(r.cols, 32 * pack(r))
    steps = {1: (1, 2, 4, 8, 16, 32), 4: (1, 2, 4, 8), 8: (1, 2, 3, 4)}[pack(r)]
    tiles = [32 * step * pack(r) for step in steps]  # padding costs exponentials
    yield "special_function_lanes", warps * next(cols for cols in tiles if cols >= r.cols)


def smem_bank_conflict(r: Row) -> Expected:
    yield "passes", r.passes
    yield "special_function_lanes", r.rows * r.cols
    yield "block_barriers", 4 * r.rows
    # Each row is written and read twice, cols / 32 wavefronts each time if nobody waits: a w-way conflict adds w - 1
    # times as many. Known for rows that fill every access.
    wavefronts = 4 * r.rows * r.cols / 32
    if r.variant in ("transposed_layout", "vector_layout"):
        yield "bank_conflicts", 0
    elif r.cols % 256 == 0:
        merged = r.variant == "interleaved_layout"
        yield "bank_conflicts", wavefronts * ((pack(r) == 8) if merged else pack(r) - 1)
    # In 2 reductions w warps write and read w + 1 results, after 5 (w + 1) shuffles.
    if r.cols % 1024 == 0:
        results = r.counted_shared_wavefronts - r.counted_bank_conflicts - wavefronts
        yield "shuffles", 10 * results / 4


def uncached(r: Row) -> Expected:
    warps = warps_of(r, 4 * pack(r), 256 if r.variant == "small_block" else 1024)  # four packs a thread
    yield "passes", r.passes
    yield "special_function_lanes", 2 * r.rows * r.cols
    yield "block_barriers", 4 * r.rows
    yield "shuffles", 2 * 5 * (warps + 1) * r.rows
    yield "shared_wavefronts", 2 * 2 * (warps + 1) * r.rows


def online(r: Row) -> Expected:
    yield "passes", r.passes
    if r.variant.startswith("three_pass_tile"):
        yield "special_function_lanes", 2 * r.rows * r.cols
        return
    if r.variant in ("fused", "fused_evict_last"):
        # The first tile that holds the row: threads, and columns of each, and a factor for each thread.
        two_packs = 8 if pack(r) == 4 else 16
        tiles = (32, 8), *((threads, two_packs) for threads in (64, 128, 256)), (256, 16), (512, 16), (512, 32), (1024, 32)
        threads, cols = next(tile for tile in tiles if tile[0] * tile[1] >= r.cols)
        warps, merges = threads // 32, 1 if threads == 32 else 2
        yield "block_barriers", (merges - 1) * r.rows
        # The second merge is of the warps' results alone: as many exchanges as halve their number to one.
        second = SHUFFLES_OF_A_MERGE - 5 + warps.bit_length() - 1 if merges == 2 else 0
        yield "shuffles", (SHUFFLES_OF_A_MERGE + second) * warps * r.rows
        yield "special_function_lanes", (threads * (cols + 1) + merges * threads) * r.rows
        return
    warps = warps_of(r, 4 * pack(r))
    exponentials = r.cols * (3 if r.variant == "online_per_element" else 2 + 1 / pack(r))
    yield "block_barriers", 2 * r.rows
    # A merge over 32 lanes costs an exponential a lane; each warp does two of them.
    yield "shuffles", 2 * SHUFFLES_OF_A_MERGE * warps * r.rows
    yield "special_function_lanes", (exponentials + 2 * 32 * warps) * r.rows


def split_row(r: Row) -> Expected:
    """Each block of a row's parts does two merges over its warps."""
    if r.variant in ("row_exchange", "fixed_split"):
        # Threads, columns of each, the most parts of a row, blocks of an SM.
        sms = r.multiprocessors
        tiles = ((256, 8, 32, 1), (512, 8, 64, 1), (1024, 8, 128, 1), (1024, 16, 128, 1), (512, 16, sms, 3), (512, 32, 2 * sms, 1000))
        if r.variant == "fixed_split":
            tiles = tuple((threads, cols, 64, 1000) for threads, cols in ((256, 8), (512, 8), (512, 16), (512, 32)))
        threads, cols, parts = next(
            (threads, cols, parts) for threads, cols, most, blocks in tiles for parts in [divide_up(r.cols, threads * cols)]
            if parts <= most and parts * r.rows <= sms * blocks)  # fmt: skip
        # Each block sends every block a pair, looks for theirs until they are there, and empties the slots.
        least = r.passes + 3 * 8 * parts**2 / (r.cols * r.size)
        yield "passes", max(least, r.counted_passes)
        yield "block_barriers", 2 * parts * r.rows
        exponentials = parts * threads * (cols + 1)  # the row is padded to the tiles; and a factor for each thread
    else:
        wanted = min(divide_up(4 * r.multiprocessors, r.rows), divide_up(r.cols, 8 * 256))
        threads, parts = 256, divide_up(r.cols, 16 * divide_up(divide_up(r.cols, wanted), 16))
        yield "passes", r.passes + 8 * parts * (1 + parts) / (r.cols * r.size)  # a pair written, all of the row's read
        yield "block_barriers", 4 * parts * r.rows
        exponentials = r.cols * (2 + 1 / pack(r))
    yield "shuffles", 4 * SHUFFLES_OF_A_MERGE * threads // 32 * parts * r.rows
    yield "special_function_lanes", (exponentials + parts * (2 * 2 * threads + 2 * parts)) * r.rows


def cut(r: Row, width: int, begin: int, count: int, boundary: int) -> tuple[int, int]:
    """`count` elements from element `begin` on: packs of `width` from a boundary on, and single elements."""
    head = min(-(r.offset + begin) * r.size % boundary // r.size, count)
    packs, tail = divmod(count - head, width)
    return packs, head + tail


def requests(r: Row, width: int, begin: int, count: int, boundary: int = 16) -> int:
    return sum(divide_up(accesses, 32) for accesses in cut(r, width, begin, count, boundary))


def boundary_of_packs(r: Row, width: int, warps: int) -> int:
    """A line of the cache; less where a row's threads would be fewer than the single elements before it."""
    boundary = 128
    while boundary // r.size + width > 32 * warps:
        boundary //= 2
    return boundary


def packs_of_threads(r: Row, width: int) -> tuple[int, int]:
    """Of a row in registers: each thread has 1, 2, 4 or 8 packs of it, or 8, 16 or 32 single elements. And its warps."""
    packs = r.cols // width
    tiles = ((8, 256), (16, 16384), (32, 32768)) if width == 1 else ((1, 32), (2, 64), (4, 4096), (8, 8192), (8, 1 << 30))
    packs_a_thread = next(each for each, most in tiles if packs <= most)
    return packs_a_thread, max(1, divide_up(packs, 32 * packs_a_thread))


def unaligned_rows(r: Row) -> Expected:
    if r.variant == "flat_span":
        yield from flat_span(r)
        return
    if r.variant == "shifted":
        # The neighbours in the packs at both ends. Where x begins elsewhere, its rows begin elsewhere between packs.
        most = 2 + 2 * (16 // r.size) / r.cols
        yield "passes", r.passes if r.offset == 0 else min(max(r.counted_passes, 2), most)
        return
    width = 1 if r.variant == "scalar" else 16 // r.size
    packs_a_thread, warps = packs_of_threads(r, width)
    boundary = r.size if width == 1 else boundary_of_packs(r, width, warps) if r.variant == "head_and_tail" else 128
    if r.variant == "row_in_flight":
        # In the PTX of some architectures the lanes of a warp part at the ends of a row, and make requests of their own.
        of_rows = sum(requests(r, width, row * r.cols, r.cols, boundary) for row in range(r.rows))
        yield "passes", r.passes
        yield "global_load_requests", min(max(r.counted_global_load_requests, of_rows), 2 * of_rows)
        yield "global_store_requests", min(max(r.counted_global_store_requests, of_rows), 2 * of_rows)
        merges = 2 * SHUFFLES_OF_A_MERGE * 16 * r.rows
        yield "shuffles", min(max(r.counted_shuffles, merges), merges + 16 * r.rows)
        yield "block_barriers", 3 * r.rows
        return
    of_rows = sum(requests(r, width, row * r.cols, r.cols, boundary) for row in range(r.rows))
    yield "global_store_requests", of_rows
    merges = 1 if warps == 1 else 2
    yield "passes", r.passes
    yield "global_load_requests", of_rows
    yield "shuffles", SHUFFLES_OF_A_MERGE * merges * warps * r.rows
    yield "block_barriers", 0 if warps == 1 else 2 * r.rows
    yield "special_function_lanes", (packs_a_thread * width + 2 + merges) * 32 * warps * r.rows


def flat_span(r: Row) -> Expected:
    width, parts, rows = parts_of_span(r)
    begins = range(0, r.rows, rows)
    yield "passes", r.passes
    for accesses in ("load", "store"):
        yield f"global_{accesses}_requests", sum(requests_of_spans(r, begins, rows))
    yield "block_barriers", 4 * len(begins)
    yield "shuffles", 0
    if r.cols // width % 2 == 1 and width * r.size >= 4 and parts == 1:
        yield "bank_conflicts", 0


def widest_pack(r: Row, most_bytes: int = 16) -> int:
    """The elements of the widest pack that covers the rows, or 1."""
    sizes = (size for size in (16, 8, 4, 2) if r.size <= size <= most_bytes)
    return next(size for size in sizes if (r.cols | r.offset) * r.size % size == 0) // r.size


def tiles_of_narrow_rows(r: Row, gradient: bool) -> tuple[int, bool, list[tuple[int, int]]]:
    """The elements of a pack, whether rows are cut, and the tiles, of packs and lanes, of which the first that fits is taken."""
    widest = 16 // r.size
    width = widest_pack(r)  # that covers x and dx
    is_small = r.rows * r.cols // widest <= r.multiprocessors * 1024
    is_wide = r.cols > (32 * width if width > 1 else 64 if r.size == 2 else 40)
    # Few rows have a warp each, but for the loss alone not by single elements of 16 bits.
    has_warp_each = r.rows <= r.multiprocessors * 32
    is_cut = width < widest and is_wide and not (has_warp_each and r.cols <= 512 and (gradient or width * r.size >= 4))
    if width == widest or is_cut:
        if is_cut and gradient:
            few_lanes = [(2, 32), (3, 32)] if has_warp_each else [(2, 8), (3, 8), (4, 8), (3, 16), (4, 16), (6, 16)]
        elif is_cut and is_small and r.size == 2:
            few_lanes = [(2, 16), (2, 32)]
        elif is_cut:
            few_lanes = [(packs, lanes) for lanes in (4, 8, 16) for packs in (4, 6)]
        elif is_small:
            few_lanes = [(1, 1), (1, 2), (2, 2), (2, 4), (1, 16), (1, 32), (2, 32)]
        elif r.size == 2:
            few_lanes = [(1, 1), (1, 2), (2, 2), (2, 4), *((packs, lanes) for lanes in (4, 8, 16) for packs in (4, 5, 6))]
        else:
            few_lanes = [(1, 1), (1, 2), (2, 2), (2, 4), (4, 4), (4, 8), (5, 8), (6, 8), (4, 16), (5, 16)]
        of_all_lanes = (4, 5, 6, 8, 10, 12) if gradient else (4, 5, 6, 8, 12, 16, 24, 32)
        return widest, is_cut, few_lanes + [(packs, 32) for packs in of_all_lanes]
    if is_wide:
        return width, False, [(packs, 32) for packs in ((2, 3, 4, 6, 8) if width > 1 else (4, 6, 8, 10, 16))]
    if width == 1:
        return 1, False, [(4, 4), (5, 4), (8, 4), (5, 8), (8, 8)] if gradient else [(4, 1), (8, 1), (16, 1), (16, 2), (10, 4), (16, 4)]
    if r.rows <= r.multiprocessors * (128 if gradient else 256) and (gradient or r.size == 2):
        return width, False, [(2, 4), (2, 8), (2, 16) if gradient else (4, 8)]
    if gradient and width * r.size == 4:
        return width, False, [(1, 1), (2, 1), (2, 2), (4, 2), (2, 8), (4, 8)]
    if gradient:
        return width, False, [(1, 1), (1, 2), (2, 2), (2, 4), (4, 4), (4, 8)]
    most = 4 if r.size == 4 else 32 // width
    return width, False, [(most // 2, 1), (most, 1), (most, 2), (most, 4), (most, 8)]


def tiles_of_two_rows(r: Row) -> tuple[int, bool, list[tuple[int, int]]]:
    """The same of the gradient of stage 11: as few lanes as cover a row by 16 bytes each, or by four single elements."""
    width = widest_pack(r)
    most_uncut = 40 if width == 1 and r.rows > r.multiprocessors * 32 else 4 * 32 * width
    if r.size == 2 and width < 8 and r.cols > most_uncut:
        return 8, True, [(1, 8), (2, 8), (3, 8), (2, 16), (3, 16), *((packs, 32) for packs in range(2, 7))]
    few = 4 if width == 1 else 16 // r.size // width
    lanes_of_rows = (4, 8, 16) if width * r.size == 4 and width > 1 else (1, 2, 4, 8, 16)
    return width, False, [*((few, lanes) for lanes in lanes_of_rows), (32, 32)]  # in a wider row all lanes have more


def tile_of_row(r: Row, width: int, is_cut: bool, tiles: list[tuple[int, int]]) -> tuple[int, int]:
    """The packs of a lane and the lanes of a row, of the first tile that fits."""
    in_packs = r.cols // width * width if is_cut else r.cols
    return next((packs, lanes) for packs, lanes in tiles if packs * lanes * width >= in_packs)


def cuts_of_rows(r: Row, width: int, is_cut: bool) -> list[tuple[int, int]]:
    """The packs of each row, and its single elements."""
    return [cut(r, width, row * r.cols, r.cols, 16) if is_cut else (divide_up(r.cols, width), 0) for row in range(r.rows)]


def accesses_of_lanes(cuts: list[tuple[int, int]], lanes: int) -> int:
    """Of warps in which so many lanes share each row: as many as the row of a warp that needs most, of packs and of single elements."""
    rows_of_warp = 32 // lanes
    of_warps = [cuts[first : first + rows_of_warp] for first in range(0, len(cuts), rows_of_warp)]
    return sum(divide_up(max(each[kind] for each in of_warp), lanes) for of_warp in of_warps for kind in (0, 1))


def parts_of_span(r: Row) -> tuple[int, int, int]:
    """The elements of a pack, the threads of a row, and the rows of a block."""
    width = widest_pack(r, 8)
    tiles = {1: (9, 17, 25, 33, 43), 2: (5, 9, 13, 17), 4: (5, 9)}[width]
    ways = [(divide_up(r.cols, packs * width), packs * width) for packs in tiles]
    parts, _ = min((way for way in ways if way[0] <= 16), key=lambda way: way[0] * (way[1] + 16))
    return width, parts, rows_of_span(r.cols * r.size, parts)


def rows_of_span(row_bytes: int, parts: int) -> int:
    return 32 * max(min(6144 // row_bytes, 256 // parts) // 32, 1)


def requests_of_spans(r: Row, begins: range, rows: int) -> Iterator[int]:
    return (requests(r, 16 // r.size, row * r.cols, min(rows, r.rows - row) * r.cols) for row in begins)


def async_copy(r: Row) -> Expected:
    packs = r.cols * r.size // 16
    row_bytes = r.cols * r.size
    if r.variant == "landing":
        threads, cols = next(tile for tile in ((128, 16), (512, 16), (512, 32), (1024, 32)) if tile[0] * tile[1] >= r.cols)
        warps, exponentials = threads // 32, threads * (cols + 1)
    else:
        wide = r.variant != "bulk_copy" and 2 * row_bytes > 227 * 1024
        warps = min(divide_up(packs, 4 * 32), 32 if wide else 16)
        exponentials = r.cols * (2 + 1 / pack(r))
    blocks = r.rows
    if r.variant == "bulk_copy":
        # Of so many threads, and three rows in lines of 128 bytes and about a KiB beside.
        of_sm = min(2048 // (32 * warps), 228 * 1024 // (3 * divide_up(row_bytes, 128) * 128 + 2 * 1024), 32)
        blocks = min(r.rows, r.multiprocessors * of_sm)
    tickets = {"refill": r.rows, "landing": r.rows, "bulk_copy": r.rows - blocks}.get(r.variant, 0)
    yield "passes", 2 + 4 * tickets / r.rows / row_bytes
    yield "global_load_requests", r.rows if r.variant == "bulk_copy" else r.rows * divide_up(packs, 32)
    yield "special_function_lanes", (exponentials + 2 * 32 * warps) * r.rows
    # The states of 32 warps, of two words each, are read word by word: each word of 32 lies in 16 banks.
    yield "bank_conflicts", 2 * warps * r.rows if warps == 32 else 0
    if r.variant == "bulk_copy":
        yield "block_barriers", r.rows + blocks
    if COMPUTE_CAPABILITY <= 9:  # for newer ones nvcc splits stores, and shuffles more
        yield "global_store_requests", r.rows * divide_up(packs, 32) + tickets
        yield "shuffles", 2 * SHUFFLES_OF_A_MERGE * warps * r.rows


def cluster_registers(r: Row) -> Expected:
    row_packs, threads, warps = r.cols * r.size // 16, 256, 8
    size = 8 if divide_up(row_packs, 8) <= 8 * threads else 16
    part = divide_up(divide_up(row_packs, size), 8) * 8  # lines of 128 bytes
    packs_a_thread = next(packs for packs in (2, 4, 8) if part <= packs * threads)
    accesses = sum(divide_up(max(min(part, row_packs - block * part), 0), 32) for block in range(size))
    yield "passes", 2
    yield "global_load_requests", r.rows * accesses
    yield "global_store_requests", r.rows * accesses
    # Each warp merges its own pairs, and those of all.
    yield "shuffles", SHUFFLES_OF_A_MERGE * 2 * warps * size * r.rows
    merged = 2 * (size * warps // 32)  # one after the other, by a lane
    exponentials = {
        "softmax": size * threads * (packs_a_thread * pack(r) + merged + 3),  # of packs that are not there, too
        "log_softmax": r.cols + size * threads * (merged + 2),
    }
    yield "special_function_lanes", exponentials[r.op] * r.rows


def unaligned_cluster(r: Row) -> Expected:
    width = 16 // r.size
    size = next((size for size in (2, 4, 8) if 16 * divide_up(r.cols * r.size, 16) <= size << 15), 16)
    part = 8 * divide_up(divide_up(divide_up(r.cols * r.size, 16), size), 8)  # packs, lines of 128 bytes
    packs_a_thread = next(packs for packs in (4, 8, 16) if part <= packs * 1024 and packs * r.size >= 16)
    warps = max(divide_up(part, packs_a_thread * 32), 4)
    parts = [cut(r, width, row * r.cols + first, min(part * width, r.cols - first), 128)
             for row in range(r.rows) for first in range(0, r.cols, part * width)]  # fmt: skip
    accesses = sum(divide_up(packs, 32) + divide_up(singles, 32) for packs, singles in parts)
    yield "passes", 2
    yield "global_load_requests", accesses
    if COMPUTE_CAPABILITY <= 9:  # for newer ones nvcc splits stores
        yield "global_store_requests", accesses
    yield "shuffles", SHUFFLES_OF_A_MERGE * (warps + 2) * size * r.rows
    yield "block_barriers", 2 * size * r.rows
    yield "special_function_lanes", (2 * r.cols + 32 * (warps + 2) * size) * r.rows + sum(map(sum, parts))


def cluster(r: Row) -> Expected:
    if r.variant == "registers":
        yield from cluster_registers(r)
        return
    if r.variant == "unaligned_cluster":
        yield from unaligned_cluster(r)
        return
    size = 16 if r.variant in ("tickets", "bulk_ring") else int(r.variant.removeprefix("cluster_"))
    row_packs = r.cols * r.size // 16
    part = divide_up(divide_up(row_packs, size), 8) * 8  # lines of 128 bytes
    packs = [max(min(part, row_packs - block * part), 0) for block in range(size)]
    packs_a_thread = 4 if r.variant == "tickets" and r.size == 4 and part <= 4 * 512 else 8 if part <= 8 * 1024 else 16
    warps = max(divide_up(part, packs_a_thread * 32), 4)
    tickets = r.rows if r.variant in ("tickets", "bulk_ring") else 0
    loads = (each > 0 if r.variant == "bulk_ring" else divide_up(each, 32) for each in packs)  # a block copies its part at once
    yield "passes", 2 + 4 * tickets / r.rows / (r.cols * r.size)
    yield "global_load_requests", r.rows * sum(loads)
    yield "global_store_requests", r.rows * sum(divide_up(each, 32) for each in packs) + tickets
    # A merge in each warp, one over the warps, one over the blocks; and a ticket of two words that goes from lane 0 to all.
    yield "shuffles", SHUFFLES_OF_A_MERGE * (warps + 2) * size * r.rows + 2 * tickets
    yield "special_function_lanes", (r.cols * (2 + 1 / pack(r)) + 32 * (warps + 2) * size) * r.rows
    if r.variant != "bulk_ring":  # which has one more for each block that is there
        yield "block_barriers", 2 * size * r.rows


def backward(r: Row) -> Expected:
    """One sum: a merge over a warp is 5 shuffles, or 10 of two floats."""
    in_block = r.variant in ("block_registers", "two_floats", "recomputed")
    width = widest_pack(r) if in_block else 16 // r.size
    packs = divide_up(r.cols, width)
    if in_block:
        tiles = ((128, 8), (128, 16), (256, 16), (512, 16), (1024, 16)) if width * r.size == 16 else ((128, 8), (256, 8), (512, 8))
        threads, elements = next(tile for tile in tiles if tile[0] * tile[1] >= r.cols)
    # Made again, y is an exponential, also of what does not exist.
    of_y = threads * elements if r.variant == "recomputed" else r.cols
    yield "special_function_lanes", 0 if r.op == "softmax_backward" else r.rows * of_y
    if r.variant == "warp_registers":
        width, is_cut, tiles = tiles_of_two_rows(r)
        _, lanes = tile_of_row(r, width, is_cut, tiles)
        accesses = accesses_of_lanes(cuts_of_rows(r, width, is_cut), lanes)
        yield "passes", r.passes
        yield "global_load_requests", 2 * accesses
        yield "global_store_requests", accesses
        yield "shuffles", (lanes.bit_length() - 1) * 4 * divide_up(r.rows, 128 // lanes)
        return
    if r.variant == "flat_span":
        parts = divide_up(r.cols, 17)
        rows = rows_of_span(2 * r.cols * r.size, parts)
        begins = range(0, r.rows, rows)
        of_spans = sum(requests_of_spans(r, begins, rows))
        yield "passes", r.passes
        yield "global_load_requests", 2 * of_spans
        yield "global_store_requests", of_spans
        yield "block_barriers", (4 if parts > 1 else 3) * len(begins)
        yield "shuffles", 0
        return
    if r.variant in ("two_kernels", "row_exchange"):
        sms = r.multiprocessors
        small = r.variant == "row_exchange" and packs * width <= sms * 2048 and divide_up(r.cols, 2048) * r.rows <= 4 * sms
        wanted = min(divide_up(4 * sms, r.rows), divide_up(r.cols, 2048))
        if r.variant == "row_exchange":
            wanted = divide_up(r.cols, 2048 if small else 8192)
        parts = divide_up(r.cols, 16 * divide_up(divide_up(r.cols, wanted), 16))
        if r.variant == "two_kernels":
            yield "passes", r.passes + 4 * parts * (1 + parts) / (r.cols * r.size)  # a sum written, all of the row's read
            yield "block_barriers", 4 * parts * r.rows
            yield "shuffles", 2 * 10 * 8 * parts * r.rows
        else:  # a merge of sums, and one of sums and the number of their parts
            yield "passes", max(r.passes + 3 * 8 * parts**2 / (r.cols * r.size), r.counted_passes)
            yield "block_barriers", 2 * parts * r.rows
            yield "shuffles", (10 + 20) * (8 if small else 16) * parts * r.rows
        return
    blocks, merges, boundary = 1, 2, 16
    kept = packs * width
    if in_block:
        warps = threads // 32
        merges = 4 if r.variant == "two_floats" else 2
    elif r.variant == "shared_memory":
        warps = min(divide_up(packs, 4 * 32), 32 if 4 * 128 * divide_up(r.cols * r.size, 128) > 227 * 1024 else 16)
    elif r.variant == "head_and_tail":
        packs_a_thread = next(each for each, most in ((1, 32), (16 // width, 16384 // width)) if r.cols // width <= most)
        warps = max(1, divide_up(r.cols // width, 32 * packs_a_thread))
        boundary = boundary_of_packs(r, width, warps)
        merges = 1 if warps == 1 else 2
    elif r.variant == "unaligned":
        kept = min(r.cols, ((227 * 1024 - 1024) // 2 - 2 * 128) // r.size)
        row_bytes = 16 * divide_up(kept * r.size, 16) + 128
        warps = min(divide_up(r.cols, 2 * width * 32), 32 if 4 * row_bytes > 227 * 1024 else 16)
    else:
        blocks = next((size for size in (2, 4, 8) if 2 * r.cols * r.size <= size << 16), 16)
        part = 8 * divide_up(divide_up(packs, blocks), 8)
        warps = max(divide_up(part, 8 * 32), 4)
    part_cols = part * width if blocks > 1 else r.cols
    begins = range(0, r.cols, part_cols)
    of_rows = sum(requests(r, width, row * r.cols + begin, min(part_cols, r.cols - begin), boundary)
                  for row in range(r.rows) for begin in begins)  # fmt: skip
    if in_block:
        of_rows = r.rows * divide_up(packs, 32)
    if r.variant == "cluster":
        of_rows = r.rows * sum(divide_up(max(min(part, packs - block * part), 0), 32) for block in range(blocks))
    yield "passes", r.passes
    if kept >= r.cols:
        yield "global_load_requests", 2 * of_rows + (2 * warps * r.rows if r.variant == "recomputed" else 0)
    barriers = {"unaligned": 4, "unaligned_cluster": 3 * blocks, "head_and_tail": 2 * (warps > 1)}.get(r.variant, 2 * blocks)
    yield "block_barriers", barriers * r.rows
    if float(os.environ.get("SIM_COMPUTE_CAPABILITY", "9.0")) > 9 and r.variant not in ("block_registers", "recomputed"):
        return  # for newer ones nvcc splits stores, and shuffles more
    yield "global_store_requests", of_rows
    # Over the blocks of a cluster one warp merges alone, and the results of warps likewise.
    yield "shuffles", (5 * (warps + 2) * blocks if blocks > 1 else 5 * merges * warps) * r.rows


def fusion(r: Row) -> Expected:
    """Of the labels one in eight is ignored: there x is not read once more."""
    width = 16 // r.size
    row_bytes = r.cols * r.size
    counted_rows = r.rows - (r.rows + 5) // 8
    if "softmax" in r.op:
        yield from masked_softmax(r)
        return

    def with_gradient(others: float, threads: int) -> float:
        """An exponential for each element and each thread besides; nvcc may leave out those of ignored rows."""
        of_row = r.cols + threads
        return min(max(r.counted_special_function_lanes, others + of_row * counted_rows), others + of_row * r.rows)

    def with_logarithm(others: float, lanes: int = 1) -> float:
        """And of a row's sum, by so many lanes, unless it is near 1; nvcc may leave out those of ignored rows."""
        return min(max(r.counted_special_function_lanes, others), others + lanes * r.rows)

    if r.variant.startswith("unfused"):
        gradient = r.variant == "unfused_gradient"
        warps = warps_of(r, 4 * pack(r))
        # nvcc may move the read of a log-probability to where it knows that the row is not ignored.
        yield "passes", min(max(r.counted_passes, r.passes - gradient * 4 / r.size * (1 - counted_rows / r.rows)), r.passes)
        yield "shuffles", 2 * SHUFFLES_OF_A_MERGE * warps * r.rows
        yield "block_barriers", 2 * r.rows
        of_softmax = (r.cols * (1 + 1 / pack(r)) + 2 * 32 * warps) * r.rows
        of_gradient = 4 if r.cols % 4 == 0 and r.offset % 4 == 0 else 1  # its pack, of floats
        yield "special_function_lanes", (
            with_gradient(of_softmax, 32 * warps_of(r, 4 * of_gradient)) if gradient else of_softmax)  # fmt: skip
        return

    def of_sums(num_packs: int, singles: int, threads: int, packs_a_turn: int = 4) -> int:
        """Exponentials beside one for each element: a sum is rescaled for two packs of a lane, for one that is left (of a kept row
        for each), for a single element, and in the end in each thread that has some of the row."""
        turns, rest = divmod(num_packs, 2 * 32)
        rescaled = num_packs if packs_a_turn == 1 else 32 * turns + min(rest, 32)
        first_packs = (thread // 32 * 32 * packs_a_turn + thread % 32 for thread in range(threads))
        return rescaled + singles + sum(first < num_packs or thread < singles for thread, first in enumerate(first_packs))

    def of_sums_at_once(num_packs: int, singles: int, threads: int, packs_a_thread: int) -> int:
        """All exponentials: of four packs of a lane at a time, and of what is left over, of which some need not exist, and of a
        single element; each time a sum is rescaled, and in the end."""
        total = 2 * singles
        for thread in range(threads):
            first = thread // 32 * 32 * packs_a_thread + thread % 32
            added = [min(4, packs_a_thread - i) for i in range(0, packs_a_thread, 4) if first + 32 * i < num_packs]
            total += sum(packs * width + 1 for packs in added) + (bool(added) or thread < singles)
        return total

    def enough_blocks(size: int) -> bool:
        return r.rows * size >= 3 * r.multiprocessors or 16 * divide_up(row_bytes, 16) <= size << 12

    def cut_row(begin: int, count: int) -> tuple[int, int]:
        return cut(r, width, begin, count, 16 if row_bytes // 16 <= {"one_read": 256}.get(r.variant, -1) else 128)

    if r.variant == "narrow_rows":
        gradient = r.op.endswith("gradient")
        width, is_cut, tiles = tiles_of_narrow_rows(r, gradient)
        packs, lanes = tile_of_row(r, width, is_cut, tiles)
        most_singles = divide_up(2 * (width - 1), lanes) if is_cut else 0
        cuts = cuts_of_rows(r, width, is_cut)
        rows_of_warp = 32 // lanes
        warps = divide_up(r.rows, rows_of_warp)
        accesses = accesses_of_lanes(cuts, lanes)
        of_labels = sum(any(row % 8 != 2 for row in range(first, min(first + rows_of_warp, r.rows)))
                        for first in range(0, r.rows, rows_of_warp))  # fmt: skip
        yield "passes", r.passes
        yield "global_load_requests", accesses + warps + of_labels
        yield "global_store_requests", (accesses if gradient else 0) + warps
        # Of the gradient, and of the loss where a lane has 64 bytes, a warp without a row leaves; not with four packs of 16-bit elements.
        leaves = gradient or (packs * width * r.size >= 64 and (packs > 4 or r.size == 4 or is_cut))
        launched = warps if leaves else 4 * divide_up(r.rows, 4 * rows_of_warp)
        yield "shuffles", (SHUFFLES_OF_A_MERGE if lanes == 32 else 2 * (lanes.bit_length() - 1)) * launched
        if packs * width * r.size <= 256:  # the maximum of the row first
            # Of elements that do not exist, too, but for those that a few lanes alone may have.
            of_all = min(packs, 4) if lanes < 32 and width > 1 else packs
            others = 32 * launched * (of_all * width + most_singles)
            others += width * sum(max(num_packs - of_all * lanes, 0) for num_packs, _ in cuts)
        else:
            # A sum is rescaled for each four packs of a lane, of which some need not exist, and for single elements; and in the end.
            times = sum(divide_up(num_packs - lane, 4 * 32) for num_packs, _ in cuts for lane in range(32) if lane < num_packs)
            of_singles = 32 * launched * (most_singles + 1) if is_cut else 0
            others = times * (4 * width + 1) + of_singles + 32 * (r.rows + launched)
        yield "special_function_lanes", with_logarithm(others, lanes)
        return
    if r.variant == "flat_span":
        gradient = r.op.endswith("gradient")
        _, parts, rows = parts_of_span(r)
        begins = range(0, r.rows, rows)
        of_spans = sum(requests_of_spans(r, begins, rows))
        labels = sum(divide_up(min(rows, r.rows - row), 32) for row in begins)
        yield "passes", r.passes
        yield "global_load_requests", of_spans + parts * labels
        stored = of_spans if gradient else 0  # and the losses, each by the thread that has x at the label
        yield "global_store_requests", min(max(r.counted_global_store_requests, stored + labels), stored + parts * labels)
        yield "block_barriers", (4 if gradient else 3 if parts > 1 else 2) * len(begins)
        yield "shuffles", 0
        return
    if r.variant == "split_row":
        wanted = min(divide_up(4 * r.multiprocessors, r.rows), divide_up(r.cols, 8 * 256))
        part = 16 * divide_up(divide_up(r.cols, wanted), 16)
        parts = divide_up(r.cols, part)
        cuts = [cut_row(row * r.cols + first, min(part, r.cols - first)) for row in range(r.rows) for first in range(0, r.cols, part)]
        yield "passes", r.passes + 2 * 8 * parts / row_bytes  # pairs, written and read
        yield "shuffles", SHUFFLES_OF_A_MERGE * (2 * 8 * parts + 1) * r.rows
        yield "block_barriers", 2 * parts * r.rows
        exponentials = r.cols + 2 * 32 * 8 * parts + 2 * parts + 32
        yield "special_function_lanes", with_logarithm(r.rows * exponentials + sum(of_sums(*each, 256) for each in cuts))
        return
    cuts = [cut_row(row * r.cols, r.cols) for row in range(r.rows)]
    requests_of_rows = sum(divide_up(packs, 32) + divide_up(singles, 32) for packs, singles in cuts)
    tickets = r.rows if r.variant in ("drawn_rows", "cluster") else 0
    yield "passes", r.passes + 4 * tickets / r.rows / row_bytes
    if r.variant in ("one_read", "drawn_rows"):
        narrow = r.variant == "one_read" and row_bytes // 16 <= 256
        warps = 1 if narrow else min(max(divide_up(row_bytes, 64 * 32), 4), 8)
        if r.variant == "drawn_rows":
            turns = {warps: divide_up(divide_up(row_bytes, 16), 4 * 32 * warps) for warps in range(4, 33)}
            in_all = {warps: turns[warps] * (r.rows / (32 // warps * r.multiprocessors) + 0.5) for warps in turns if turns[warps] >= 4}
            warps = min(in_all, key=lambda warps: (in_all[warps], -warps), default=4)
        merges = warps if warps == 1 else 2 * warps
        yield "global_load_requests", requests_of_rows + r.rows + counted_rows
        yield "global_store_requests", r.rows + tickets
        yield "shuffles", SHUFFLES_OF_A_MERGE * merges * r.rows
        exponentials = r.cols + 32 * merges
        yield "special_function_lanes", with_logarithm(r.rows * exponentials + sum(of_sums(*each, 32 * warps) for each in cuts))
        return
    if r.variant == "cluster":
        size = next((size for size in (2, 4, 8) if row_bytes <= size << 15 and enough_blocks(size)), 16)
        part = 8 * divide_up(divide_up(row_bytes // 16, size), 8)
        packs = [max(min(part, row_bytes // 16 - block * part), 0) for block in range(size)]
        warps = max(divide_up(part, 8 * 32), 4)
        requests_of_rows = r.rows * sum(divide_up(each, 32) for each in packs)
        yield "global_load_requests", requests_of_rows + r.rows * size * warps + counted_rows
        yield "global_store_requests", requests_of_rows + r.rows + tickets
        yield "shuffles", (SHUFFLES_OF_A_MERGE * (warps + 2) * size + 2) * r.rows
        yield "block_barriers", 2 * size * r.rows
        exponentials = r.cols + 32 * (warps + 2) * size + sum(of_sums(each, 0, 32 * warps, 1) for each in packs)
        yield "special_function_lanes", with_logarithm(with_gradient(exponentials * r.rows, 32 * warps * size))
        return
    if r.variant == "in_registers":
        packs_a_thread, warps = packs_of_threads(r, width)
        boundary = boundary_of_packs(r, width, warps)
        of_rows = sum(requests(r, width, row * r.cols, r.cols, boundary) for row in range(r.rows))
        merges = 1 if warps == 1 else 2
        yield "global_load_requests", of_rows + r.rows * warps + counted_rows
        yield "global_store_requests", of_rows + r.rows
        yield "shuffles", SHUFFLES_OF_A_MERGE * merges * warps * r.rows
        # Also of elements that do not exist; and what a thread's maximum is below that of the row, unless it is ignored.
        others = (packs_a_thread * width + 1 + merges) * r.rows
        exponentials = min(max(r.counted_special_function_lanes / (32 * warps), others + counted_rows), others + r.rows)
        yield "special_function_lanes", with_logarithm(32 * warps * exponentials)
        return
    if r.variant in ("cluster_loss", "cluster_registers"):
        at_once = r.variant == "cluster_registers"
        packs_of_row = divide_up(row_bytes, 16)
        if at_once:
            # Blocks of 128 threads, or a smaller one: 8 at most, and with as many packs a thread as leave the least room.
            layouts = []
            for packs_a_thread in (16, 13, 10):
                size = divide_up(row_bytes, 128 * packs_a_thread * 16)
                warps = 4 if size > 1 else divide_up(8 * divide_up(packs_of_row, 8), 32 * packs_a_thread)
                layouts += [(packs_a_thread, size, warps)] if size <= 8 else []
            packs_a_thread, size, warps = min(layouts, key=math.prod)
        else:
            size = next((size for size in (2, 4, 8) if enough_blocks(size)), 16)
        part = 8 * divide_up(divide_up(packs_of_row, size), 8)
        if not at_once:
            warps = min(max(divide_up(part, 4 * 32), 4), 16)
        boundary = 16 if warps < 3 else 128
        cuts = [cut(r, width, row * r.cols + first, min(part * width, r.cols - first), boundary)
                for row in range(r.rows) for first in range(0, r.cols, part * width)]  # fmt: skip
        loads = sum(divide_up(packs, 32) + divide_up(singles, 32) for packs, singles in cuts) + r.rows + counted_rows
        yield "block_barriers", r.rows if size == 1 else 0
        if at_once:
            others = sum(of_sums_at_once(*each, 32 * warps, packs_a_thread) for each in cuts)
        else:
            others = r.rows * r.cols + sum(of_sums(*each, 32 * warps) for each in cuts)
        states = size * warps
        yield "special_function_lanes", with_logarithm(others + r.rows * (32 * states + 2 * states + 32))
        yield "global_store_requests", r.rows
        if COMPUTE_CAPABILITY <= 9:  # for newer ones nvcc splits accesses, and shuffles more
            yield "shuffles", SHUFFLES_OF_A_MERGE * (states + 1) * r.rows
            yield "global_load_requests", loads
        return
    if r.variant == "unaligned_cluster":
        size = next((size for size in (2, 4, 8) if 16 * divide_up(row_bytes, 16) <= size << 15 and enough_blocks(size)), 16)
        part = 8 * divide_up(divide_up(divide_up(row_bytes, 16), size), 8)
        warps = min(max(divide_up(part, 8 * 32), 4), 32)
        cuts = [cut_row(row * r.cols + first, min(part * width, r.cols - first))
                for row in range(r.rows) for first in range(0, r.cols, part * width)]  # fmt: skip
        blocks, shuffles = size * r.rows, SHUFFLES_OF_A_MERGE * (warps + 2) * size * r.rows
        stores = sum(divide_up(packs, 32) + divide_up(singles, 32) for packs, singles in cuts) + r.rows
        loads = stores + blocks * warps - r.rows
        yield "block_barriers", 2 * blocks
        exponentials = r.cols + 32 * (warps + 2) * size
        yield "special_function_lanes", with_logarithm(with_gradient(
            r.rows * exponentials + sum(of_sums(*each, 32 * warps, 1) for each in cuts), 32 * warps * size))  # fmt: skip
        if COMPUTE_CAPABILITY <= 9:  # for newer ones nvcc splits accesses, and shuffles more
            yield "shuffles", shuffles
            yield "global_load_requests", loads
            yield "global_store_requests", stores
        return
    keeps = r.variant == "kept_row"
    kept_bytes = 16 * divide_up(min(row_bytes, 227 * 1024 - 1024 - 2 * 128), 16) + 128
    most_warps = max(1024 // (227 * 1024 // kept_bytes) // 32, 3) if keeps else 16
    warps = min(max(divide_up(row_bytes, 64 * 32), 4), most_warps)
    # In the PTX of some architectures the lanes of a warp part at the ends of a row, and make requests of their own.
    stores, loads = requests_of_rows + r.rows, (1 if keeps else 2) * requests_of_rows + r.rows * warps + counted_rows
    shuffles = 2 * SHUFFLES_OF_A_MERGE * warps * r.rows
    yield "global_store_requests", min(max(r.counted_global_store_requests, stores), stores + r.rows)
    yield "shuffles", min(max(r.counted_shuffles, shuffles), shuffles + warps * r.rows)
    if keeps and row_bytes > 227 * 1024 - 1024 - 2 * 128:
        return  # what is not kept is a row of its own, with ends of its own
    yield "global_load_requests", min(max(r.counted_global_load_requests, loads), loads + 2 * r.rows)
    exponentials = r.cols + 2 * 32 * warps
    yield "special_function_lanes", with_logarithm(with_gradient(
        r.rows * exponentials + sum(of_sums(*each, 32 * warps, 1 if keeps else 4) for each in cuts), 32 * warps))


def masked_softmax(r: Row) -> Expected:
    """Row r sees r % cols + 1 columns, or what the harness fills in as its length. A warp has 32 packs of a row at a time, and
    one of which nothing is seen is not read."""
    padded, backward = r.op.startswith("padded"), r.op.endswith("backward")
    width = pack(r)
    accesses = divide_up(r.cols, 32 * width)  # by warps, for a row

    def seen(row: int) -> int:
        if not padded:
            return row % r.cols + 1
        return 0 if row % 8 == 2 else 1 if row % 8 == 1 else r.cols - r.cols * (row % 8) // 8

    seen_accesses = sum(divide_up(seen(row), 32 * width) for row in range(r.rows))
    lengths = r.rows * accesses if padded else 0
    # Where no pack needs a check, the compiler may ask for a row's length once for all packs of a lane.
    spare_lengths = lengths - r.rows if padded and r.variant == "masked_in_a_block" else 0
    least_passes = r.passes - 8 * spare_lengths / (r.rows * r.cols * r.size)
    yield "passes", min(max(r.counted_passes, least_passes), r.passes)
    if backward:
        warps = divide_up(r.cols, (8 if r.cols <= 8192 else 16) * 32)
        yield "shuffles", 5 * (1 if warps == 1 else 2) * warps * r.rows
        yield "block_barriers", 0 if warps == 1 else 2 * r.rows
        yield "special_function_lanes", 0
        if r.variant == "masked_backward":
            yield "global_load_requests", 2 * seen_accesses + 3 * lengths
            yield "global_store_requests", r.rows * accesses
        return
    # Where a lane has one pack at most, the compiler may spare those without one the last exponential.
    in_a_block = r.variant in ("four_kernels", "masked_in_a_block")
    spared = r.rows * (32 - divide_up(r.cols, width)) if in_a_block and width == 8 and r.cols <= 256 else 0
    for name, count in (warp_reduce if r.variant == "masked_in_a_warp" else online)(as_softmax(r)):
        if name in ("shuffles", "block_barriers"):
            yield name, count
        elif name == "special_function_lanes":
            yield name, min(max(r.counted_special_function_lanes, count - spared), count)
    if r.variant != "four_kernels":
        reads = 2 if r.variant == "masked_online" else 1
        requests = reads * seen_accesses + (reads + 1) * lengths
        yield "global_load_requests", min(max(r.counted_global_load_requests, requests - spare_lengths), requests)
        yield "global_store_requests", 2 * r.rows * accesses


def as_softmax(r: Row) -> Row:
    """As if a stage before had counted it: what its kernel does between the reads and the writes."""
    variants = {"masked_in_a_warp": "padded_packs", "masked_in_a_block": "fused", "masked_online": "online", "four_kernels": "fused"}
    return Row(**{**vars(r), "variant": variants[r.variant]})


def dispatched(r: Row) -> Expected:
    """The kernel that the table names is launched, and no other: what is counted is what its own stage derives."""
    work, part = choices.work_of(r.op), choices.Part(r.size, pack(r) > 1)
    kernels = [
        kernel for kernel, stage in work.stages.items()
        if check_stage.is_applicable(stage, kernel, r.dtype, r.op, r.cols, "sim", (r.offset,))
        and choices.is_offered(kernel, r.size, r.cols, r.offset)
    ]  # fmt: skip
    cell = choices.Cell(r.rows, r.cols, dict.fromkeys(kernels, 100.0), 100.0)
    kernel = choices.chosen(choices.read_table(choices.ROOT / choices.TABLE)[work.name, part], cell)
    stage = work.stages[kernel]
    for name, value in EXPECTED[stage](Row(**{**vars(r), "stage": stage, "variant": kernel})):
        if stage != "12_fusion" or name != "passes":  # who reads a label how often is not declared here
            yield name, value


EXPECTED = {
    "01_naive": naive,
    "02_fused_block": fused_block,
    "03_warp_reduce": warp_reduce,
    "04_smem_bank_conflict": smem_bank_conflict,
    "05_uncached": uncached,
    "06_online": online,
    "07_split_row": split_row,
    "08_unaligned_rows": unaligned_rows,
    "09_async_copy": async_copy,
    "10_cluster": cluster,
    "11_backward": backward,
    "12_fusion": fusion,
    "13_dispatch": dispatched,
}


def wrong_counts(r: Row) -> list[str]:
    expected = list(EXPECTED[r.stage](r))
    # What the variant declares of a row, at least where nothing is shifted.
    if r.barriers_per_row != "":
        expected.append(("block_barriers", r.barriers_per_row * r.rows))
    if r.bank_conflicts_per_row != "" and r.offset == 0:
        expected.append(("bank_conflicts", r.bank_conflicts_per_row * r.rows))
    # Four digits are printed of what is no whole number.
    return [f"{name}: {getattr(r, 'counted_' + name)}, and not {wanted:.10g}" for name, wanted in expected
            if abs(getattr(r, "counted_" + name) - wanted) > (0 if wanted == int(wanted) else 0.00015)]  # fmt: skip


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
    since: int = 0  # the architecture whose PTX is the first to show it
    until: int = 1000  # and the first that does not


HINTED_READS = ("the reads have a cache hint",
                lambda first, second: not first.has("L2::cache_hint") and second.has("L2::cache_hint"))
TWINS = {
    "01_naive": Twins("block_per_row", "block_per_row_division", "a division for every element, not for every row",
                      lambda first, second: not first.has("div.rn.ftz.f32") and second.has("div.rn.ftz.f32")),
    "02_fused_block": Twins("fastertransformer_block_per_head", "fastertransformer_block_per_row",
                            "a block loops over a head's rows",
                            lambda first, second: first.blocks == 1 and second.blocks > 1),
    "03_warp_reduce": Twins("two_rows_per_access", "two_rows_evict_last", *HINTED_READS, since=80, until=100),
    "05_uncached": Twins("reversed_second_pass", "cache_hints", "the last read and the write have cache hints",
                         lambda first, second: not first.has("(ld|st).global.cs") and second.has("ld.global.cs")
                         and second.has("st.global.cs")),
    "06_online": Twins("fused", "fused_evict_last", *HINTED_READS, since=80, until=100),
    "07_split_row": Twins("two_kernels", "dependent_launch", "the second kernel waits for the first by itself",
                          lambda first, second: not first.has("griddepcontrol.wait")
                          and second.has("griddepcontrol.wait"), since=90),
    "09_async_copy": Twins("own_packs", "misaligned", "the row begins 48 bytes past a line of shared memory",
                           lambda first, second: not re.search(r"add\.s32 %r\d+, %r\d+, 48;", first.ptx)
                           and re.search(r"add\.s32 %r\d+, %r\d+, 48;", second.ptx)),
}  # fmt: skip
# More columns than rows: one head.
SHAPE_OF_TWINS = ["--rows", "64", "--cols", "100"]


def demangled(name: str) -> str:
    library = ctypes.CDLL("libstdc++.so.6")
    library.__cxa_demangle.restype = ctypes.c_char_p
    return (library.__cxa_demangle(name.encode(), None, None, None) or name.encode()).decode()


def newest_architecture(executable: str) -> int:
    return max(map(int, re.findall(rb"^\.target sm_(\d+)", Path(executable).read_bytes(), re.MULTILINE)))


def last_launch(executable: str, variant: str) -> Launch:
    done = check_stage.run([executable, "--device", "sim", "--verify-only", *SHAPE_OF_TWINS, "--variant", variant],
                           SIM_REPORT="1")  # fmt: skip
    launches = re.findall(r"^counted: (.*) <<<\((\d+),", done.stderr, re.MULTILINE)
    if done.returncode != 0 or not launches:
        raise Failure(f"{variant}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    kernel, blocks = launches[-1]
    # The executable holds its PTX as text, perhaps for several architectures.
    entries = re.finditer(rb"\.entry (\w+)\((.*?)\n}", Path(executable).read_bytes(), re.DOTALL)
    found = [entry.group(2) for entry in entries if f" {kernel}(" in " " + demangled(entry.group(1).decode())]
    if found:
        return Launch(int(blocks), b"".join(found).decode())
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
        shown = known.since <= newest_architecture(executable) < known.until
        if shown and not known.is_seen(last_launch(executable, known.first), last_launch(executable, known.second)):
            problems.append(f"{known.second}: not so: {known.difference}")
    return problems


def number(text: str) -> float | str:
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        return text


def rows_of(command: list[str], multiprocessors: int = MULTIPROCESSORS) -> list[Row]:
    """What is counted of each variant that does the problem."""
    command = [*command, "--device", "sim", "--section", "heading,rows", "--format", "csv"]
    offset = int("".join(check_stage.option(command, "--offset")) or 0)
    found = []
    for row in check_stage.verify(command, SIM_MULTIPROCESSORS=str(multiprocessors))[0]:
        found.append(Row(**{name: number(value) for name, value in row.items()}))
        found[-1].size, found[-1].offset = (4 if row["dtype"] == "f32" else 2), offset
        found[-1].multiprocessors = multiprocessors
    return found


def describe(row: Row, executable: str) -> str:
    """The row, and where it was counted."""
    shape = [f"--{name}={getattr(row, name)}" for name in ("variant", "dtype", "op", "rows", "cols", "offset")]
    lines = check_stage.run([executable, "--device", "sim", "--verify-only", *shape],
                            SIM_REPORT="lines", SIM_MULTIPROCESSORS=str(row.multiprocessors))  # fmt: skip
    counts = ", ".join(f"{name} {value}" for name, value in vars(row).items() if "_" in name or name == "passes")
    return f"{' '.join(shape)}: {counts}\n{lines.stdout}{lines.stderr}"


def check(executable: str, *options: str) -> str:
    stage = Path(executable).name
    shapes = [(shape, MULTIPROCESSORS) for shape in (*SHAPES, *SHAPES_OF.get(stage, ()))]
    shapes += [(shape, FEW_MULTIPROCESSORS) for shape in SHAPES_OF_MANY_ROWS.get(stage, ())]
    not_done = []
    if WHOLE_PACKS_ALONE & {stage, *options}:
        not_done.append("--offset [123]$|100003$|(warp|block)_registers$")
    if "causal_softmax" in "".join(options):  # attention's has variants of its own
        not_done.append("narrow_rows$")
    rows = [
        row
        for shape, multiprocessors in shapes if not any(re.search(pattern, shape) for pattern in not_done)
        for row in rows_of([executable, "--dtype", "all", *shape.split(), *options], multiprocessors)
    ]  # fmt: skip
    failed: dict[str, str] = {}  # the first row of each variant
    for row in rows:
        if row.variant not in failed and (wrong := wrong_counts(row)):
            failed[row.variant] = f"{row.variant}: {'. '.join(wrong)}\n{describe(row, executable)}"
    if problems := [*failed.values(), *check_twins(executable, rows)]:
        raise Failure("\n".join(problems))
    return f"{len(rows)} rows: all is as it should be"


if __name__ == "__main__":
    sys.exit(check_stage.print_or_fail(lambda: check(*sys.argv[1:])))
