#!/usr/bin/env python3
"""Tests that the simulator's counts are those that the lessons derive with a pencil, for every variant of a stage, from
rows that fill no warp to rows that fill a block many times over; and that a variant does as its name says if counters
cannot tell. Counts that no pencil derives, because launchers choose among many kernels, are those in the stage's counts.csv.

    counts.py STAGE [OPTION]...    STAGE: the executable; options: fewer --variant, --rows, --cols, --dtype
    counts.py --record BUILD       writes every counts.csv anew; BUILD: the folder with the stages' executables
"""

import ctypes
import itertools
import os
import re
import sys
from pathlib import Path
from types import SimpleNamespace as Row
from typing import Callable, Iterator, NamedTuple

import check_stage
import recorded_counts
from check_stage import Failure

LIBRARY = "rowwise_bench"  # the library's kernels, which have a stage of their own

# Few rows of any width, as many narrow ones as fill several blocks, and rows that packs cover only from some offsets on.
SHAPES = [
    "--rows 3 --cols 4,8,100,256,512,1000,1024,1500,2048,4096,8192,16384",
    "--rows 64 --cols 8,32,64,100,128,1000",
    *(f"--rows 3 --cols 256,600 --offset {offset}" for offset in (1, 2, 4, 8)),
]
SHAPES_OF = {
    "10_cluster": ["--rows 3 --cols 8200,65536"],
    "12_cross_entropy": ["--rows 2 --cols 32000,65536,100003"],
    "13_masked_softmax": ["--rows 2 --cols 32000", "--rows 37 --cols 1,33,1001 --offset 3"],
    "08_unaligned_rows": [
        "--rows 37 --cols 1,7,33,50,60,129,257,513,1001,1025,2049",
        "--rows 3 --cols 33,1001,8193,16385 --offset 3",
    ],
    # Around the ends of the table's lines, some of which are for few rows.
    "14_dispatch": ["--rows 3 --cols 33,184,368,800,5800,28001,32000,65536", "--rows 9 --cols 151936", "--rows 3 --cols 1,33,1001 --offset 3"],
    # Wider than shared memory; between packs; a width for each number of packs per lane.
    LIBRARY: [
        "--rows 3 --cols 48,80,8200,65536,100003",
        "--rows 37 --cols 1,33,129,1001,2049 --offset 3",
        "--rows 9 --cols 3,6,270,417,642,1281,1350,2052,5001",
    ],
}

# On a GPU with few multiprocessors, for which few rows are many.
MULTIPROCESSORS = 132
FEW_MULTIPROCESSORS = 20
SHAPES_OF_MANY_ROWS = {
    "07_split_row": ["--rows 46 --cols 2048"],  # the number of rows changes the parts
    "09_async_copy": ["--rows 23 --cols 16384,38400", "--rows 46 --cols 2048 --offset 8"],  # more rows than blocks
    # Enough rows for clusters of few blocks, for clusters that draw their rows, and for lanes with several packs.
    LIBRARY: ["--rows 46 --cols 2048,8192", "--rows 182 --cols 33,50,60,4096", "--rows 910 --cols 128,200,202", "--rows 334 --cols 520,648,1032"],
}

# Stages whose launchers choose among too many kernels to derive the counts, which are recorded instead: for these operations,
# as the tests request them.
RECORDED = {
    "13_masked_softmax": ("causal_softmax", "causal_softmax_backward,padded_softmax,padded_softmax_backward"),
    "14_dispatch": ("softmax", "softmax_backward", "cross_entropy", "cross_entropy_gradient"),
    LIBRARY: ("softmax", "softmax_backward", "cross_entropy", "cross_entropy_gradient"),
}  # fmt: skip

# A stage and an operation whose variants do whole packs of 16 bytes alone.
WHOLE_PACKS_ALONE = {"09_async_copy", "10_cluster", "recomputed_softmax_backward"}


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


# ---- The counts that the rows of the CSV must have, by stage: a counter without "counted_", and its value. r.size: bytes of an
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
    elements = {"scalar_loads": 1, "padded_packs": pack(r), "narrow_groups": 16 // r.size}[r.variant]  # of a lane, at least
    lanes = power_of_two(divide_up(r.cols, elements)) if r.variant == "narrow_groups" else 32
    if lanes == 32:
        elements *= power_of_two(divide_up(r.cols, 32 * elements))
    warps = 4 * divide_up(r.rows * lanes, 128)  # a warp without a row takes part all the same
    yield "passes", r.passes
    yield "shared_wavefronts", 0
    yield "block_barriers", 0
    yield "shuffles", 2 * (lanes.bit_length() - 1) * warps
    # Padding costs exponentials; but a thread that would have a row of one pack to itself, and has none, skips them.
    skips = lanes == 1 and pack(r) > 1
    yield "special_function_lanes", (r.rows if skips else warps * 32) * elements
    if lanes == 32:
        width = 1 if r.variant == "scalar_loads" else pack(r)
        yield "global_load_requests", r.rows * divide_up(r.cols, 32 * width)


def smem_bank_conflict(r: Row) -> Expected:
    yield "passes", r.passes
    yield "special_function_lanes", r.rows * r.cols
    yield "block_barriers", 4 * r.rows
    # Each row is written and read twice, cols / 32 wavefronts each time without conflicts: a w-way conflict adds w - 1
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
    warps = warps_of(r, 4 * pack(r), 256 if r.variant == "small_block" else 1024)  # four packs per thread
    yield "passes", r.passes
    yield "special_function_lanes", 2 * r.rows * r.cols
    yield "block_barriers", 4 * r.rows
    yield "shuffles", 2 * 5 * (warps + 1) * r.rows
    yield "shared_wavefronts", 2 * 2 * (warps + 1) * r.rows


def block_of_fused(cols: int) -> tuple[int, int]:
    """The warps of the block that holds a row in its registers, and the elements of each thread."""
    return (power_of_two(divide_up(cols, 512)), 16) if cols <= 8192 else (16 if cols <= 16384 else 32, 32)


def held_in_registers(r: Row, warps: int, elements: int) -> Expected:
    """One block merges a row; a block of one warp needs no barrier. The second merge is of the warps' results alone: as many
    exchanges as halve their number to one. Each thread has a factor besides its elements, and each merge costs it one exponential."""
    merges = 1 if warps == 1 else 2
    second = SHUFFLES_OF_A_MERGE - 5 + warps.bit_length() - 1 if merges == 2 else 0
    yield "block_barriers", (merges - 1) * r.rows
    yield "shuffles", (SHUFFLES_OF_A_MERGE + second) * warps * r.rows
    yield "special_function_lanes", (elements + 1 + merges) * 32 * warps * r.rows


def online(r: Row) -> Expected:
    yield "passes", r.passes
    if r.variant == "fused":
        yield from held_in_registers(r, *block_of_fused(r.cols))
        return
    warps = warps_of(r, 4 * pack(r))
    exponentials = r.cols * (3 if r.variant == "online_per_element" else 2 + 1 / pack(r))
    yield "block_barriers", 2 * r.rows
    # A merge over 32 lanes costs one exponential per lane; each warp does two of them.
    yield "shuffles", 2 * SHUFFLES_OF_A_MERGE * warps * r.rows
    yield "special_function_lanes", (exponentials + 2 * 32 * warps) * r.rows


def split_row(r: Row) -> Expected:
    """Each block of a row's parts does two merges over its warps."""
    threads = 256
    if r.variant == "row_exchange":
        elements = 16 if r.cols <= 48 * 16 * threads else 32
        wanted = divide_up(r.cols, elements * threads)
    else:
        wanted = min(divide_up(4 * r.multiprocessors, r.rows), divide_up(r.cols, 8 * threads))
    parts = divide_up(r.cols, 16 * divide_up(divide_up(r.cols, wanted), 16))
    if r.variant == "row_exchange":
        # Each block sends every block a pair, looks for theirs until they are there, and empties the slots.
        yield "passes", max(r.passes + 3 * 8 * parts**2 / (r.cols * r.size), r.counted_passes)
        exponentials = parts * threads * (elements + 1)  # the row is padded; and a factor for each thread
    else:
        yield "passes", r.passes + 8 * parts * (1 + parts) / (r.cols * r.size)  # a pair written, all of the row's read
        exponentials = r.cols * (2 + 1 / pack(r))
    yield "block_barriers", 4 * parts * r.rows
    yield "shuffles", 4 * SHUFFLES_OF_A_MERGE * threads // 32 * parts * r.rows
    yield "special_function_lanes", (exponentials + parts * (2 * 2 * threads + 2 * parts)) * r.rows


def cut_of(r: Row, row: int, width: int) -> tuple[int, int]:
    """The single elements at the two ends of a row, and the packs between them."""
    head = min(-(r.offset + row * r.cols) % width, r.cols)
    packs, tail = divmod(r.cols - head, width)
    return head + tail, packs


def requests_of(cut: tuple[int, int]) -> int:
    return sum(divide_up(accesses, 32) for accesses in cut)


def unaligned_rows(r: Row) -> Expected:
    width = 1 if r.variant == "scalar" else 16 // r.size
    of_rows = sum(requests_of(cut_of(r, row, width)) for row in range(r.rows))
    warps, elements = block_of_fused(max(r.cols // width * width, 1))
    yield "passes", r.passes
    yield "global_load_requests", of_rows
    yield "global_store_requests", of_rows
    yield from held_in_registers(r, warps, elements + (width > 1))


def in_shared_memory_warps(packs: int, held: int) -> int:
    return min(divide_up(packs, 4 * 32), 32 if 2 * held > 227 * 1024 else 16)


def async_copy(r: Row) -> Expected:
    packs = r.cols * r.size // 16
    held = r.cols * r.size * (2 if r.variant == "two_rows" else 1) + (48 if r.variant == "misaligned" else 0)
    warps = in_shared_memory_warps(packs, held)
    yield "passes", 2
    yield "global_load_requests", r.rows if r.variant == "bulk_copy" else r.rows * divide_up(packs, 32)
    yield "special_function_lanes", (r.cols * (2 + 1 / pack(r)) + 2 * 32 * warps) * r.rows
    # The states of 32 warps, of two words each, are read word by word: each word of 32 is in 16 banks.
    yield "bank_conflicts", 2 * warps * r.rows if warps == 32 else 0
    yield "block_barriers", r.rows * (2 if r.variant in ("two_rows", "bulk_copy") else 1)
    if COMPUTE_CAPABILITY <= 9:  # for newer ones nvcc splits stores, and shuffles more
        yield "global_store_requests", r.rows * divide_up(packs, 32)
        yield "shuffles", 2 * SHUFFLES_OF_A_MERGE * warps * r.rows


def cluster(r: Row) -> Expected:
    """A merge in each warp, one over the warps, one over the blocks, in every warp."""
    size = int(r.variant.rpartition("_")[2])
    row_packs = r.cols * r.size // 16
    part = divide_up(row_packs, size)
    packs = [max(min(part, row_packs - block * part), 0) for block in range(size)]
    warps = min(max(divide_up(part, 8 * 32), 4), 32)
    of_packs = r.rows * sum(divide_up(each, 32) for each in packs)
    yield "passes", 2
    yield "global_load_requests", of_packs
    yield "global_store_requests", of_packs
    yield "shuffles", 3 * SHUFFLES_OF_A_MERGE * warps * size * r.rows
    yield "special_function_lanes", (r.cols * (2 + 1 / pack(r)) + 3 * 32 * warps * size) * r.rows
    yield "block_barriers", size * r.rows


def backward(r: Row) -> Expected:
    """y and dy are read alike, and dx is written by as many requests as each is read by. A sum over a warp is 5 shuffles, and a block
    has two."""
    warps = 1 if r.variant == "warp_registers" else warps_of(r, 8 if r.cols <= 4096 else 16)
    yield "passes", r.passes
    yield "shuffles", (5 if r.variant == "warp_registers" else 10) * warps * r.rows
    elements = 8 if r.cols <= 4096 else 16
    yield "special_function_lanes", elements * 32 * warps * r.rows if r.variant == "recomputed" else 0
    if r.variant != "recomputed" and COMPUTE_CAPABILITY <= 9:  # for newer ones nvcc splits stores
        yield "global_load_requests", 2 * r.counted_global_store_requests


def cross_entropy(r: Row) -> Expected:
    labelled = r.rows - (r.rows + 5) // 8  # one label in eight is ignored
    yield "passes", r.passes
    width = 16 // r.size
    if r.variant.startswith("unfused"):
        yield "block_barriers", 2 * r.rows
    elif r.variant == "one_read":
        warps = min(divide_up(divide_up(r.cols, width), 4 * 32), 8)
        cuts = [cut_of(r, row, width) for row in range(r.rows)]
        yield "global_load_requests", sum(map(requests_of, cuts)) + r.rows + labelled  # and labels, and x there
        yield "global_store_requests", r.rows  # a loss
        yield "shuffles", 2 * SHUFFLES_OF_A_MERGE * warps * r.rows
        packs = sum(packs for _, packs in cuts)
        yield "special_function_lanes", packs * (width + 1) + 2 * 32 * warps * r.rows
    else:
        packs = r.cols // width
        warps = in_shared_memory_warps(packs, r.cols * r.size)
        yield "block_barriers", r.rows
        yield "global_load_requests", r.rows * (divide_up(packs, 32) + warps)  # and each warp reads the label
        yield "shuffles", 2 * SHUFFLES_OF_A_MERGE * warps * r.rows


def masked_softmax(r: Row) -> Expected:
    # If no pack needs a check, the compiler may load a row's length once for all packs of a lane.
    lengths = divide_up(r.cols, 32 * pack(r)) if r.op.startswith("padded") and r.variant == "masked_in_a_block" else 1
    yield "passes", min(max(r.counted_passes, r.passes - 8 * (lengths - 1) / (r.cols * r.size)), r.passes)
    if r.op.endswith("softmax_backward"):
        yield "special_function_lanes", 0


def dispatched(_: Row) -> Expected:
    """Which kernel was launched, recorded counts tell."""
    yield from ()


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
    "12_cross_entropy": cross_entropy,
    "13_masked_softmax": masked_softmax,
    "14_dispatch": dispatched,
    LIBRARY: dispatched,
}


def wrong_counts(r: Row) -> str:
    expected = list(EXPECTED[r.stage](r))
    # The counts that the variant declares for a row, at least if nothing is shifted.
    if r.barriers_per_row != "":
        expected.append(("block_barriers", r.barriers_per_row * r.rows))
    if r.bank_conflicts_per_row != "" and r.offset == 0:
        expected.append(("bank_conflicts", r.bank_conflicts_per_row * r.rows))
    # Numbers that are not whole are printed with four digits.
    return ". ".join(f"{name}: {getattr(r, 'counted_' + name)}, and not {wanted:.10g}" for name, wanted in expected
                     if abs(getattr(r, "counted_" + name) - wanted) > (0 if wanted == int(wanted) else 0.00015))  # fmt: skip


# ---- Differences that no counter shows. The variants with equal counters are here, and the features that tell them apart.
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


TWINS = {
    "01_naive": [Twins("block_per_row", "block_per_row_division", "a division for every element, not for every row",
                       lambda first, second: not first.has("div.rn.ftz.f32") and second.has("div.rn.ftz.f32"))],
    "02_fused_block": [Twins("fastertransformer_block_per_head", "fastertransformer_block_per_row",
                             "a block loops over a head's rows",
                             lambda first, second: first.blocks == 1 and second.blocks > 1)],
    "05_uncached": [Twins("reversed_second_pass", "cache_hints", "the last read and the write have cache hints",
                          lambda first, second: not first.has("(ld|st).global.cs") and second.has("ld.global.cs")
                          and second.has("st.global.cs"))],
    "07_split_row": [Twins("two_kernels", "dependent_launch", "the second kernel waits for the first by itself",
                           lambda first, second: not first.has("griddepcontrol.wait")
                           and second.has("griddepcontrol.wait"), since=90)],
    "09_async_copy": [Twins("own_packs", "misaligned", "the row begins 48 bytes past a line of shared memory",
                            lambda first, second: not re.search(r"add\.s32 %r\d+, %r\d+, 48;", first.ptx)
                            and re.search(r"add\.s32 %r\d+, %r\d+, 48;", second.ptx))],
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
    # The executable holds its PTX as text, perhaps for several architectures.
    entries = re.finditer(rb"\.entry (\w+)\((.*?)\n}", Path(executable).read_bytes(), re.DOTALL)
    found = [entry.group(2) for entry in entries if f" {kernel}(" in " " + demangled(entry.group(1).decode())]
    if found:
        return Launch(int(blocks), b"".join(found).decode())
    raise Failure(f"{variant}: {executable} has no PTX of {kernel}")


def check_twins(executable: str, rows: list[Row]) -> list[str]:
    """The problems found."""
    known = TWINS.get(Path(executable).name, [])
    counted: dict[str, list] = {}
    for row in rows:
        counts = [value for name, value in vars(row).items() if name.startswith("counted_")]
        counted.setdefault(row.variant, []).append((row.rows, row.cols, row.dtype, row.offset, counts))
    problems = []
    for first, second in itertools.combinations(counted, 2):
        if counted[first] == counted[second] and (first, second) not in [twins[:2] for twins in known]:
            problems.append(f"{first} and {second}: all counters are the same. Let TWINS of common/tests/counts.py say what differs")
    for twins in known:
        first, second = twins.first, twins.second
        if not {first, second} <= counted.keys():
            continue
        if counted[first] != counted[second]:
            problems.append(f"{first} and {second}: their counters differ. Take them out of TWINS of common/tests/counts.py")
        shown = twins.since <= recorded_counts.newest_architecture(Path(executable)) < twins.until
        if shown and not twins.is_seen(last_launch(executable, first), last_launch(executable, second)):
            problems.append(f"{second}: not so: {twins.difference}")
    return problems


def number(text: str) -> float | str:
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        return text


def rows_of(command: list[str], multiprocessors: int = MULTIPROCESSORS) -> list[Row]:
    """The counts of each variant that does the problem."""
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
    counts = ", ".join(f"{name.removeprefix('counted_')} {value}" for name, value in vars(row).items() if name.startswith("counted_"))
    return f"{' '.join(shape)}: {counts}\n{lines.stdout}{lines.stderr}"


def counted_rows(executable: str, *options: str) -> list[Row]:
    """The counts of the stage's variants at its shapes."""
    stage = Path(executable).name
    shapes = [(shape, MULTIPROCESSORS) for shape in (*SHAPES, *SHAPES_OF.get(stage, ()))]
    shapes += [(shape, FEW_MULTIPROCESSORS) for shape in SHAPES_OF_MANY_ROWS.get(stage, ())]
    not_done = []
    if WHOLE_PACKS_ALONE & {stage, *options}:
        not_done.append("--offset [123]$|100003$|(warp|block)_registers$")
    return [
        row
        for shape, multiprocessors in shapes if not any(re.search(pattern, shape) for pattern in not_done)
        for row in rows_of([executable, "--dtype", "all", *shape.split(), *options], multiprocessors)
    ]  # fmt: skip


def first_of_each(rows: list[Row], wrong: Callable[[Row], str], executable: str) -> list[str]:
    """The first wrong row of each variant, with the problem."""
    found: dict[str, str] = {}
    for row in rows:
        if row.variant not in found and (what := wrong(row)):
            found[row.variant] = f"{row.variant}: {what}\n{describe(row, executable)}"
    return list(found.values())


def check(executable: str, *options: str) -> str:
    rows = counted_rows(executable, *options)
    stage = Path(executable).name
    if problems := first_of_each(rows, wrong_counts, executable):
        problems.append(f"what each variant has to count is derived by {EXPECTED[stage].__name__}() of common/tests/counts.py")
    if problems := [*problems, *check_twins(executable, rows)]:
        raise Failure("\n".join(problems))
    if stage in RECORDED:
        check_recorded(executable, rows, is_all={each for each in options if each.startswith("--")} <= {"--op"})
    return f"{len(rows)} rows: all is as it should be"


def check_recorded(executable: str, rows: list[Row], is_all: bool) -> None:
    """The rows are those that are recorded, of which they are all, or some."""
    made, recorded = recorded_counts.read(Path(executable).name)

    def differs(row: Row) -> str:
        counts = recorded_counts.counts_of(row)
        was = recorded.get(recorded_counts.place_of(row), () if is_all else counts)
        named = zip(recorded_counts.COUNTERS, counts, was)
        return ". ".join(f"{name}: {now}, and not {then}" for name, now, then in named if now != then) if was else "not recorded"

    counted = set(map(recorded_counts.place_of, rows))
    ops = {row.op for row in rows}
    gone = [" ".join(place) for place in recorded if is_all and place[1] in ops and place not in counted]
    wrong = sum(map(bool, map(differs, rows))) + len(gone)
    here = recorded_counts.made_by(Path(executable))
    if wrong and here != made:
        print(f"skipped: needs {made}, by which the counts were recorded: of {here}, {wrong} differ")
        sys.exit(3)
    if wrong:
        problems = [*first_of_each(rows, differs, executable), *(f"recorded, and no longer counted: {place}" for place in gone[:20])]
        raise Failure("\n".join([*problems, f"{wrong} differ. record again and look at the diff: {recorded_counts.AGAIN}"]))


def record(build: str) -> str:
    """All stages' whose counts are recorded."""
    if missing := [stage for stage in RECORDED if not Path(build, stage).is_file()]:
        raise Failure(f"not built: {', '.join(missing)}. Build everything first: ./test -N")
    written = []
    for stage, ops in RECORDED.items():
        executable = f"{build}/{stage}"
        rows = [row for op in ops for row in counted_rows(executable, "--op", op)]
        written.append(recorded_counts.write(stage, recorded_counts.made_by(Path(executable)), rows))
    return "\n".join(f"wrote {file}" for file in written)


if __name__ == "__main__":
    run = record if sys.argv[1] == "--record" else check
    sys.exit(check_stage.print_or_fail(lambda: run(*sys.argv[1 + (run is record) :])))
