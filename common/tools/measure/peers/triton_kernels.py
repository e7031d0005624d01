"""Softmax and its gradient in Triton: the kernels of the Triton article on softmax and of Triton's tutorial, written anew.

fused        one program a row; the row is one tile and stays in registers
fused_rows   the same with several narrow rows in a tile
tile         rows of any width in three passes over tiles: maximum, sum, result
online       two passes: maximum and sum together, then the result
persistent   the tutorial's: as many programs as fit the GPU, each loops over rows, loads run ahead

The gradient comes as the first three: its tile holds two rows, and its passes over tiles are two, sum and result.

Each comes with its candidates: numbers of warps and, if it walks, tiles and the direction of its last pass
(backwards, the tiles that were read last are still in the cache). Nothing here knows the GPU but the persistent kernel's
number of programs.
"""

from __future__ import annotations

import contextlib
import functools
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, NamedTuple

from command import say
from measure.results import ELEMENT_BYTES

from . import GRADIENTS, OPERATIONS, Candidate, Missing, NotApplicable, PeerContender, Problem, one_line
from .on_torch import dtype_of, import_torch, on_tensors, release

try:
    import triton
    import triton.language as tl
except ImportError as error:
    raise Missing("Triton is not installed for this python3") from error

# The widest row, and the message for a wider one.
REGISTERS = 131072, "the row must fit the registers of a program"  # 128 floats for each of 1024 threads
TWO_IN_REGISTERS = 65536, "both rows must fit the registers of a program"
NARROW = 1024, "for narrow rows"


@triton.jit
def _result(x, row_max, row_sum, LOG: tl.constexpr):
    if LOG:
        return x - row_max - tl.log(row_sum)
    return tl.exp(x - row_max) / row_sum


@triton.jit
def _row_of_tile(x, LOG: tl.constexpr):
    """The result for a tile that holds whole rows; elements past their end are -inf."""
    row_max = tl.max(x, axis=-1, keep_dims=True)
    row_sum = tl.sum(tl.exp(x - row_max), axis=-1, keep_dims=True)
    return _result(x, row_max, row_sum, LOG)


@triton.jit(do_not_specialize=["rows"])
def fused(x_ptr, y_ptr, rows, cols, TILE: tl.constexpr, LOG: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * cols
    col = tl.arange(0, TILE)
    x = tl.load(x_ptr + start + col, mask=col < cols, other=-float("inf")).to(tl.float32)
    tl.store(y_ptr + start + col, _row_of_tile(x, LOG), mask=col < cols)


@triton.jit(do_not_specialize=["rows"])
def fused_rows(x_ptr, y_ptr, rows, cols, TILE: tl.constexpr, ROWS: tl.constexpr, LOG: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    col = tl.arange(0, TILE)[None, :]
    mask = (row < rows) & (col < cols)
    # 0 in the rows past the last: -inf would make NaN of them, at the cost of slow paths.
    x = tl.load(x_ptr + row * cols + col, mask=mask, other=0).to(tl.float32)
    x = tl.where(col < cols, x, -float("inf"))
    tl.store(y_ptr + row * cols + col, _row_of_tile(x, LOG), mask=mask)


@triton.jit
def _write(x_ptr, y_ptr, start, cols, row_max, row_sum, TILE: tl.constexpr, LOG: tl.constexpr, REVERSED: tl.constexpr):
    tiles = tl.cdiv(cols, TILE)
    for i in range(0, tiles):
        tile = tiles - 1 - i if REVERSED else i
        col = tile * TILE + tl.arange(0, TILE)
        x = tl.load(x_ptr + start + col, mask=col < cols, other=-float("inf")).to(tl.float32)
        tl.store(y_ptr + start + col, _result(x, row_max, row_sum, LOG), mask=col < cols)


@triton.jit(do_not_specialize=["rows"])
def tile(x_ptr, y_ptr, rows, cols, TILE: tl.constexpr, LOG: tl.constexpr, REVERSED: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * cols
    maxima = tl.full((TILE,), -float("inf"), tl.float32)
    for first in range(0, cols, TILE):
        col = first + tl.arange(0, TILE)
        x = tl.load(x_ptr + start + col, mask=col < cols, other=-float("inf")).to(tl.float32)
        maxima = tl.maximum(maxima, x)
    row_max = tl.max(maxima, axis=0)
    sums = tl.zeros((TILE,), tl.float32)
    tiles = tl.cdiv(cols, TILE)
    for i in range(0, tiles):
        # Backwards through the sum, forwards through the result, or the other way round: each pass begins
        # where the one before it ended.
        col = (tiles - 1 - i if REVERSED else i) * TILE + tl.arange(0, TILE)
        x = tl.load(x_ptr + start + col, mask=col < cols, other=-float("inf")).to(tl.float32)
        sums += tl.exp(x - row_max)
    _write(x_ptr, y_ptr, start, cols, row_max, tl.sum(sums, axis=0), TILE, LOG, False)


@triton.jit(do_not_specialize=["rows"])
def online(x_ptr, y_ptr, rows, cols, TILE: tl.constexpr, LOG: tl.constexpr, REVERSED: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * cols
    # A (max, sum) for each place in the tile; they are merged once, after the last tile.
    maxima = tl.full((TILE,), -float("inf"), tl.float32)
    sums = tl.zeros((TILE,), tl.float32)
    for first in range(0, cols, TILE):
        col = first + tl.arange(0, TILE)
        x = tl.load(x_ptr + start + col, mask=col < cols, other=-float("inf")).to(tl.float32)
        grown = tl.maximum(maxima, x)
        # A place that has seen nothing but -inf would give exp(-inf - -inf), NaN.
        base = tl.where(grown == -float("inf"), 0.0, grown)
        sums = sums * tl.exp(maxima - base) + tl.exp(x - base)
        maxima = grown
    row_max = tl.max(maxima, axis=0)
    row_sum = tl.sum(sums * tl.exp(maxima - row_max), axis=0)
    _write(x_ptr, y_ptr, start, cols, row_max, row_sum, TILE, LOG, REVERSED)


@triton.jit(do_not_specialize=["rows"])
def persistent(x_ptr, y_ptr, rows, cols, TILE: tl.constexpr, LOG: tl.constexpr, STAGES: tl.constexpr):
    col = tl.arange(0, TILE)
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=STAGES):
        start = row.to(tl.int64) * cols
        x = tl.load(x_ptr + start + col, mask=col < cols, other=-float("inf")).to(tl.float32)
        tl.store(y_ptr + start + col, _row_of_tile(x, LOG), mask=col < cols)


@triton.jit
def _summand(y, dy, LOG: tl.constexpr):
    if LOG:
        return dy
    return y * dy


@triton.jit
def _gradient(y, dy, row_sum, LOG: tl.constexpr):
    if LOG:
        return dy - tl.exp(y) * row_sum
    return y * (dy - row_sum)


@triton.jit(do_not_specialize=["rows"])
def gradient_fused(y_ptr, dy_ptr, dx_ptr, rows, cols, TILE: tl.constexpr, LOG: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * cols
    col = tl.arange(0, TILE)
    y = tl.load(y_ptr + start + col, mask=col < cols, other=0).to(tl.float32)
    dy = tl.load(dy_ptr + start + col, mask=col < cols, other=0).to(tl.float32)
    row_sum = tl.sum(_summand(y, dy, LOG), axis=0)
    tl.store(dx_ptr + start + col, _gradient(y, dy, row_sum, LOG), mask=col < cols)


@triton.jit(do_not_specialize=["rows"])
def gradient_fused_rows(
    y_ptr, dy_ptr, dx_ptr, rows, cols, TILE: tl.constexpr, ROWS: tl.constexpr, LOG: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    col = tl.arange(0, TILE)[None, :]
    mask = (row < rows) & (col < cols)
    y = tl.load(y_ptr + row * cols + col, mask=mask, other=0).to(tl.float32)
    dy = tl.load(dy_ptr + row * cols + col, mask=mask, other=0).to(tl.float32)
    row_sum = tl.sum(_summand(y, dy, LOG), axis=1, keep_dims=True)
    tl.store(dx_ptr + row * cols + col, _gradient(y, dy, row_sum, LOG), mask=mask)


@triton.jit(do_not_specialize=["rows"])
def gradient_tile(
    y_ptr, dy_ptr, dx_ptr, rows, cols, TILE: tl.constexpr, LOG: tl.constexpr, REVERSED: tl.constexpr
):
    start = tl.program_id(0).to(tl.int64) * cols
    sums = tl.zeros((TILE,), tl.float32)
    for first in range(0, cols, TILE):
        col = first + tl.arange(0, TILE)
        y = tl.load(y_ptr + start + col, mask=col < cols, other=0).to(tl.float32)
        dy = tl.load(dy_ptr + start + col, mask=col < cols, other=0).to(tl.float32)
        sums += _summand(y, dy, LOG)
    row_sum = tl.sum(sums, axis=0)
    tiles = tl.cdiv(cols, TILE)
    for i in range(0, tiles):
        col = (tiles - 1 - i if REVERSED else i) * TILE + tl.arange(0, TILE)
        y = tl.load(y_ptr + start + col, mask=col < cols, other=0).to(tl.float32)
        dy = tl.load(dy_ptr + start + col, mask=col < cols, other=0).to(tl.float32)
        tl.store(dx_ptr + start + col, _gradient(y, dy, row_sum, LOG), mask=col < cols)


class Configuration(NamedTuple):
    """One way to compile a kernel. `rows_per_program` divides the grid; 0: the grid is as large as the GPU."""

    text: str
    warps: int
    constants: dict[str, int]
    rows_per_program: int

    def options(self, problem: Problem) -> dict[str, int]:
        return {**self.constants, "LOG": int(problem.op.startswith("log")), "num_warps": self.warps}


def _width(cols: int, most: int, why: str) -> int:
    """The width of a tile that holds a row: a power of two."""
    width = 1 << (cols - 1).bit_length()
    if width > most:
        raise NotApplicable(f"{why}: at most {most} columns")
    return width


def _warps(elements: int) -> list[int]:
    """Numbers of warps that leave 8, 16 or 32 elements of a tile to a thread."""
    return sorted({min(32, max(1, elements // (32 * each))) for each in (8, 16, 32)})


def _fused(cols: int, limit: tuple[int, str] = REGISTERS) -> list[Configuration]:
    width = _width(cols, *limit)
    return [Configuration(f"{warps} warps", warps, {"TILE": width}, 1) for warps in _warps(width)]


def _fused_rows(cols: int) -> list[Configuration]:
    width = _width(cols, *NARROW)
    numbers = [rows for rows in (1024 // width, 2048 // width, 4096 // width) if rows > 1]
    return [Configuration(f"{rows} rows, 4 warps", 4, {"TILE": width, "ROWS": rows}, rows) for rows in numbers]


def _walking(cols: int) -> list[Configuration]:
    found = []
    for tile_cols, warps in ((1024, 4), (4096, 8), (8192, 16), (16384, 32)):
        if tile_cols > 1024 and tile_cols // 2 >= cols:
            continue  # most of the tile would be masked
        for reversed_ in (0, 1):
            text = f"tile {tile_cols}, {warps} warps" + (", reversed" if reversed_ else "")
            found.append(Configuration(text, warps, {"TILE": tile_cols, "REVERSED": reversed_}, 1))
    return found


def _persistent(cols: int) -> list[Configuration]:
    width = _width(cols, *REGISTERS)
    choices = [(8, 2), (8, 4)]  # the tutorial's
    choices += [(warps, 2) for warps in _warps(width) if warps != 8][:1]
    return [
        Configuration(f"{warps} warps, {stages} stages", warps, {"TILE": width, "STAGES": stages}, 0)
        for warps, stages in choices
    ]


Kernels = dict[str, tuple[Any, Callable[[int], list[Configuration]]]]
KERNELS: Kernels = {
    "fused": (fused, _fused),
    "fused_rows": (fused_rows, _fused_rows),
    "tile": (tile, _walking),
    "online": (online, _walking),
    "persistent": (persistent, _persistent),
}
GRADIENT_KERNELS: Kernels = {
    "fused": (gradient_fused, functools.partial(_fused, limit=TWO_IN_REGISTERS)),
    "fused_rows": (gradient_fused_rows, _fused_rows),
    "tile": (gradient_tile, _walking),
}


def _kernels(problem: Problem) -> Kernels:
    return GRADIENT_KERNELS if problem.op in GRADIENTS else KERNELS


def version() -> str:
    import_torch()  # Triton finds the device and the stream through it
    return str(triton.__version__)


def _resident_programs(compiled: Any, warps: int) -> int:
    """As in the tutorial: how many programs the multiprocessors hold at once, by registers and shared memory."""
    device = import_torch().cuda.get_device_properties(0)
    compiled._init_handles()
    programs = device.max_threads_per_multi_processor // (32 * warps)
    if compiled.n_regs > 0:
        programs = min(programs, device.regs_per_multiprocessor // (compiled.n_regs * 32 * warps))
    if compiled.metadata.shared > 0:
        programs = min(programs, device.shared_memory_per_multiprocessor // compiled.metadata.shared)
    return device.multi_processor_count * max(programs, 1)


def _candidate(kernel: Any, configuration: Configuration, problem: Problem) -> Candidate:
    options = configuration.options(problem)

    @functools.cache
    def programs() -> int:
        if configuration.rows_per_program:
            return -(-problem.rows // configuration.rows_per_program)
        return min(problem.rows, _resident_programs(_warm_up(kernel, configuration, problem), configuration.warps))

    def run(*tensors: Any) -> None:
        kernel[(programs(),)](*tensors, problem.rows, problem.cols, **options)

    return Candidate(configuration.text, on_tensors(problem, run))


def _prepare(name: str, problem: Problem) -> list[Candidate]:
    kernels = _kernels(problem)
    if name not in kernels:
        raise NotApplicable("for softmax alone, not for its gradient")
    kernel, configurations = kernels[name]
    return [_candidate(kernel, configuration, problem) for configuration in configurations(problem.cols)]


class _Pointer:
    """A kernel is compiled for these: a tensor's type and, since Triton looks whether 16 bytes divide it, its address."""

    def __init__(self, problem: Problem) -> None:
        self.dtype = dtype_of(problem)
        self._address = problem.offset * ELEMENT_BYTES[problem.dtype]

    def data_ptr(self) -> int:
        return self._address


def _warm_up(kernel: Any, configuration: Configuration, problem: Problem) -> Any:
    """The compiled kernel."""
    tensors = [_Pointer(problem)] * (3 if problem.op in GRADIENTS else 2)
    return kernel.warmup(*tensors, problem.rows, problem.cols, grid=(1,), **configuration.options(problem))


def compile_ahead(problems: list[Problem]) -> None:
    """Compiles the kernels of the problems in parallel, into Triton's caches, before the GPU is measured.

    Only to save time: kernels that fail here, or are left out, are compiled when their turn comes. An interrupt waits for
    those that are being compiled, and drops the rest.
    """
    if not hasattr(triton, "AsyncCompileMode"):  # an older Triton
        return
    workers = len(os.sched_getaffinity(0))
    with ThreadPoolExecutor(workers) as pool, triton.AsyncCompileMode(pool, ignore_errors=True) as compiling:
        try:
            for problem in problems:
                for kernel, configurations in _kernels(problem).values():
                    with contextlib.suppress(NotApplicable):
                        for configuration in configurations(problem.cols):
                            _warm_up(kernel, configuration, problem)
            say(f"compiling {len(compiling.raw_futures)} Triton kernels in {workers} threads ...")
            errors = [future.exception() for future in compiling.raw_futures]
        except BaseException:
            compiling.raw_futures.clear()  # it would wait for them
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    failed = [one_line(error) for error in errors if error]
    if failed:
        say(f"{len(failed)} of them failed here: {failed[0]}"[:300])


def contenders() -> list[PeerContender]:
    return [
        PeerContender("triton", name, functools.partial(_prepare, name), release, OPERATIONS, compile_ahead)
        for name in KERNELS
    ]
