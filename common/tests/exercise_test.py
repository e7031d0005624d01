#!/usr/bin/env python3
"""Tests of the exercises, on the simulator:

    python3 common/tests/exercise_test.py CHECKS check NAME     one exercise (CHECKS: build/exercise)
    python3 common/tests/exercise_test.py CHECKS list           every exercise has its files and its tests
    python3 common/tests/exercise_test.py CHECKS terminal       the commands, driven through a pseudo-terminal
    python3 common/tests/exercise_test.py CHECKS gpu            starters and solutions with --device gpu; exits 3 without one

`check`: the starter fails with the message that is meant; the solution passes, and so do other right answers
(RIGHT_ANSWERS); wrong answers fail with messages that fit: changed solutions (WRONG_ANSWERS), a loop in one thread, and
the solution handed to every other exercise.
"""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Dict, Iterator, List, NamedTuple, Tuple

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "common/tools"))

from learn import exercise as tool  # noqa: E402


class Wrong(NamedTuple):
    """A wrong answer: the solution of `of` ("" for the exercise's own) with texts replaced, and a regular expression
    that its message matches."""

    name: str
    replaced: List[Tuple[str, str]]
    message: str
    of: str = ""


# The first message of each starter.
STARTERS: Dict[str, str] = {
    "passes_and_sectors": "`passes_of_the_maximum` has no answer yet",
    "one_kernel": "launched `subtract, exponentiate, divide`; what is asked for is one kernel, `subtract_exp_divide`",
    "uncoalesced_walk": r"25\.80 sectors per load request, where at most 4\.10 are expected(.|\n)*starter.cu:\d+  32 sectors"
                        r"(.|\n)*\| y\[row \* shape.cols \+ col\] =",
    "two_bugs": r"race: read of 4 bytes of shared memory[^\n]*which thread \(0, 0, 0\) of the block wrote with no barrier"
                r"(.|\n)*\| return values\[0\];(.|\n)*value that is wrong for a row",
    "two_level_reduction": "Wrong result: row 0, column 0 of 3 x 1000(.|\n)*fill the gap in `block_all_reduce`",
    "warp_all_reduce": "Wrong result: row 0, column 0 of 5 x 100(.|\n)*fill the gap in `warp_all_reduce`",
    "packs": r"128 bytes per load request of a warp, where 512 are expected(.|\n)*values\[i\] = source\[i\];",
    "bank_conflicts": "`word_l` has no answer yet",
    "conflicting_layout": r"896 bank conflicts per row, where 0 are expected(.|\n)*\| buffer\[slot\(i, pack_size\)\] = value;",
    "walks": "`passes_of_reading` has no answer yet",
    "index_overflow": r"first row 3000000(.|\n)*out of bounds: read of 4 bytes[^\n]*which belongs to no array(.|\n)*x\[row \* cols \+ col\]",
    "merge": "Wrong result: row 0, column 0 of 3 x 1000, input normal(.|\n)*fill the gap in `merge`",
    "masked_rows": "Wrong result: row 0, column 0 of 3 x 8192, input neg_inf_prefix(.|\n)*got nan, expected 0",
}

ADD_CHUNK = """  float max = total.max;
  for (const float value : values) max = fmaxf(max, value);
  const float shift = fmaxf(max, -FLT_MAX);  // exp(-inf - -inf) would be NaN
  total.sum *= __expf(total.max - shift);
  for (const float value : values) total.sum += __expf(value - shift);
  total.max = max;
"""

LANES = "bytes per load request of a warp, where at least 16 are expected(.|\n)*one does the work of all"

BEYOND_AN_INT = r"first row 5000000000 \(more than an int holds\)(.|\n)*out of bounds: read"

WRONG_ANSWERS: Dict[str, List[Wrong]] = {
    "passes_and_sectors": [
        Wrong("reads only", [("passes_of_exponentiate = 2", "passes_of_exponentiate = 1")],
              "`passes_of_exponentiate = 1` is not what is counted. It reads one matrix, and it writes another"),
        Wrong("a sector for each lane", [("sectors_block_per_row = 4", "sectors_block_per_row = 32")],
              "neighbouring lanes read neighbouring floats"),
        Wrong("ends are not cut", [("shifted = 5", "shifted = 4")], "Where do these 128 bytes begin"),
        Wrong("no number", [("passes_of_all_five = 8 ", "passes_of_all_five = eight ")], "a number is wanted"),
        Wrong("a line is gone", [("sectors_thread_per_row_2_columns = 8", "")],
              "There is no line `sectors_thread_per_row_2_columns = ...` any more: write it again"),
        Wrong("not a number", [("passes_of_all_five = 8 ", "passes_of_all_five = nan ")], "`passes_of_all_five = nan`: a number"),
        Wrong("no end", [("passes_of_all_five = 8 ", "passes_of_all_five = inf ")], "`passes_of_all_five = inf`: a number"),
        Wrong("two answers", [("passes_of_all_five = 8 ", "passes_of_all_five = 10\npasses_of_all_five = 8 ")],
              "`passes_of_all_five = 10 and 8`: a number is wanted, and one line"),
    ],
    "one_kernel": [
        Wrong("two kernels", [("  subtract_exp_divide<<<grid, block_size, 0, stream>>>(x, row_max, row_sum, y, shape);\n",
                               "  subtract_exp_divide<<<grid, block_size, 0, stream>>>(x, row_max, row_sum, y, shape);\n" * 2)],
              "2 kernels, where 1 is expected"),
        Wrong("through y", [("expf(x[row * shape.cols + col] - max) * reciprocal;",
                             "x[row * shape.cols + col] - max;\n"
                             "      y[row * shape.cols + col] = expf(y[row * shape.cols + col]) * reciprocal;"),
                            ("const float* row_sum, float* y,\n                                    Shape", "const float* row_sum, volatile float* y,\n Shape")],
              r"passes of reading, where at most 1.10 are expected(.|\n)*\| y\[row"),
        Wrong("not rescaled", [(" * reciprocal", "")],
              r"Wrong result: row 0, column 0(.|\n)*expected(.|\n)* The results of this row add up to \d+\.\d+ instead of 1"),
        Wrong("a column too many", [("col < shape.cols", "col <= shape.cols")],
              r"element 300 of an array whose elements 0 to 299 are written \(is the index too large\?\)"),
        Wrong("a thread per row", [("row = blockIdx.x;", "row = blockIdx.x * block_size + threadIdx.x;"),
                                   ("row += gridDim.x", "row += gridDim.x * block_size"),
                                   ("col = threadIdx.x; col < shape.cols; col += block_size", "col = 0; col < shape.cols; ++col"),
                                   ("- max) * reciprocal", "- row_max[row]) / row_sum[row]")],
              "sectors per load request, where at most 4.10 (.|\n)*Neighbouring threads should read neighbouring columns"),
        Wrong("only one row", [("row += gridDim.x", "row += shape.rows"), ("<<<grid,", "<<<1,")],
              r"row 1, column 0(.|\n)*got not written"),
    ],
    "uncoalesced_walk": [
        Wrong("starts where its piece did", [("col = threadIdx.x;", "col = threadIdx.x * (shape.cols / block_size);")],
              "Wrong result: .*(.|\n)*not written"),
        Wrong("too short a step", [("col += block_size", "col += 32")], r"3\.82 passes of reading, where at most 1\.10"),
        Wrong("a step as long as its piece was", [("col += block_size", "col += divide_up(shape.cols, block_size)")],
              "7.70 passes of reading, where at most 1.10"),
        Wrong("ends where its piece did", [("col < shape.cols; col += block_size",
                                            "col < divide_up(shape.cols, block_size) * (threadIdx.x + 1) && col < shape.cols; ++col")],
              "passes of reading, where at most 1.10"),
        Wrong("one warp works", [("col = threadIdx.x; col < shape.cols; col += block_size",
                                  "col = threadIdx.x / 32; col < shape.cols; col += block_size / 32")],
              LANES),
        Wrong("strided both ways", [("const float max =", "const std::int64_t n = divide_up(shape.cols, 8);\n    const float max ="),
                                    ("      y[row", "      const std::int64_t c = col % 8 * n + col / 8;\n      if (c < shape.cols) y[row"),
                                    ("shape.cols + col] = expf(x[row * shape.cols + col]",
                                     "shape.cols + c] = expf(x[row * shape.cols + c]"),
                                    ("col < shape.cols; col +=", "col < 8 * n; col +=")],
              "sectors per load request, where at most 4.10"),
    ],
    "two_bugs": [
        Wrong("only the barrier", [("MaxOp::identity", "0.0f")], r"input very_negative \(all around -200\)(.|\n)*got nan"),
        Wrong("the smallest positive number", [("MaxOp::identity", "1.17549435e-38f")], "input very_negative(.|\n)*got nan"),
        Wrong("a small number", [("MaxOp::identity", "-1e4f")], r"input lowest \(all -1e30\)(.|\n)*got nan, expected 0.001"),
        Wrong("a write too many", [("  float sum = 0.0f;", "  if (threadIdx.x == 0) row_y[0] = max;\n  float sum = 0.0f;")],
              r"1\.00024414 passes of writing, where 1 is expected"),
        Wrong("barrier inside the branch",
              [("    __syncthreads();\n    if (threadIdx.x < stride) {\n", "    if (threadIdx.x < stride) {\n      __syncthreads();\n")],
              "barrier"),
        Wrong("only one barrier", [("    __syncthreads();\n    if", "    if"), ("  for (int stride", "  __syncthreads();\n  for (int stride")],
              "race: "),
        Wrong("barriers everywhere", [("    if (threadIdx.x < stride)", "    __syncthreads();\n    if (threadIdx.x < stride)")],
              "barriers per row, where at most 20 are expected"),
        Wrong("two levels instead", [("two_level_softmax", "tree_softmax")], "4 barriers per row, where at least 16(.|\n)*Keep the tree",
              of="two_level_reduction"),
    ],
    "two_level_reduction": [
        Wrong("no barrier before the second level", [("warp_results[warp] = value;\n  __syncthreads();", "warp_results[warp] = value;")],
              r"at byte 4, which nobody has written yet \(is a barrier missing(.|\n)*\| value = warp_reduce"),
        Wrong("all combine the results", [("  if (warp == 0 && lane < num_warps) {\n"
                                           "    value = warp_reduce<ReduceOp>(warp_results[lane], lane, num_warps);\n"
                                           "    if (lane == 0) result = value;\n  }\n  __syncthreads();\n  return result;",
                                           "  value = warp_results[0];\n"
                                           "  for (int i = 1; i < num_warps; ++i) value = ReduceOp{}(value, warp_results[i]);\n"
                                           "  return value;"),
                                          ("  __shared__ float result;\n", "")],
              "2 barriers per row, where at least 4 (.|\n)*It is right with fewer barriers, too"),
        Wrong("value instead of result", [("return result;", "return value;")], "Wrong result: row 0, column"),
        Wrong("32 lanes in the second level", [("warp == 0 && lane < num_warps", "warp == 0"), ("(warp_results[lane], lane, num_warps)", "(warp_results[lane], lane, 32)")],
              "out of bounds|has not been written|never written|not written"),
        Wrong("one thread adds them up", [("    value = warp_reduce<ReduceOp>(warp_results[lane], lane, num_warps);\n",
                                           "    for (int i = 1; i < num_warps; ++i) value = ReduceOp{}(value, warp_results[i]);\n"),
                                          ("warp == 0 && lane < num_warps", "threadIdx.x == 0")],
              "40 shuffles per row, where 50 are expected(.|\n)*one thread adding them up"),
        Wrong("the tree of 02.1", [("tree_softmax", "two_level_softmax")], "18 barriers per row, where at most 6", of="two_bugs"),
        Wrong("CUB", [("template <class ReduceOp>\n__device__ float block_all_reduce(float value) {",
                       "#include <cub/block/block_reduce.cuh>\ntemplate <class ReduceOp>\n"
                       "__device__ float block_all_reduce(float value) {\n"
                       "  using Reduce = cub::BlockReduce<float, block_size>;\n"
                       "  __shared__ typename Reduce::TempStorage storage;\n  __shared__ float all;\n"
                       "  const float reduced = Reduce(storage).Reduce(value, ReduceOp{});\n"
                       "  if (threadIdx.x == 0) all = reduced;\n  __syncthreads();\n  return all;\n}\n"
                       "template <class ReduceOp>\n__device__ float own_all_reduce(float value) {")],
              r"The kernel calls a library:(.|\n)*/cub/(.|\n)*Write it yourself"),
    ],
    "warp_all_reduce": [
        Wrong("stops one step early", [("mask > 0", "mask > 1")], "Wrong result: row 0, column 0"),
        Wrong("down instead of xor", [("__shfl_xor_sync", "__shfl_down_sync")], "Wrong result: row 0, column 0(.|\n)*500 of 500 elements wrong"),
        Wrong("asks all lanes one by one",
              [("  for (int mask = 16; mask > 0; mask /= 2) {\n    value = ReduceOp{}(value, __shfl_xor_sync(0xffffffff, value, mask));\n  }\n",
                "  const float own = value;\n  for (int lane = 0; lane < 32; ++lane) {\n"
                "    const float other = __shfl_sync(0xffffffff, own, lane);\n"
                "    value = lane == 0 ? other : ReduceOp{}(value, other);\n  }\n")],
              r"64 shuffles per row, where 10 are expected(.|\n)*one_by_one\.cu:\d+  64 shuffles per row\n"
              r"    \| const float other = __shfl_sync(.|\n)*one by one"),
        Wrong("only half of the lanes", [("    value = ReduceOp{}(value, __shfl", "    if (threadIdx.x % 32 < 16) value = ReduceOp{}(value, __shfl")],
              r"names lanes 16-31(.|\n)*\n    at .*half_of_the_lanes\.cu:\d+\n       \| if \(threadIdx.x % 32 < 16\)"),
        Wrong("through shared memory",
              [("#pragma unroll\n  for (int mask = 16; mask > 0; mask /= 2) {",
                "  __shared__ float values[4][32];\n  for (int mask = 16; mask > 0; mask /= 2) {\n    float* mine = values[threadIdx.x / 32];\n"
                "    mine[threadIdx.x % 32] = value;\n    __syncwarp();\n    const float other = mine[threadIdx.x % 32 ^ mask];\n    __syncwarp();"),
               ("__shfl_xor_sync(0xffffffff, value, mask)", "other")],
              "accesses to shared memory per row, where 0 are expected"),
        Wrong("the packs of 03.2", [("packed_softmax", "warp_softmax")], "read of 16 bytes of global memory", of="packs"),
        Wrong("endless", [("mask /= 2", "mask |= 0")], "No answer after .* seconds. Is there a loop that does not end"),
    ],
    "packs": [
        Wrong("scalar stores", [("*reinterpret_cast<float4*>(destination) = make_float4(values[0], values[1], values[2], values[3]);",
                                 "for (int i = 0; i < pack_size; ++i) destination[i] = values[i];")],
              r"128 bytes per store request of a warp, where 512(.|\n)*destination\[i\] = values\[i\]"),
        Wrong("8 bytes", [("  const float4 pack = *reinterpret_cast<const float4*>(source);",
                           "  const float2 low = *reinterpret_cast<const float2*>(source);\n"
                           "  const float2 high = *reinterpret_cast<const float2*>(source + 2);\n"
                           "  const float4 pack = make_float4(low.x, low.y, high.x, high.y);")],
              "256 bytes per load request of a warp, where 512"),
        Wrong("byte by byte", [("  const float4 pack = *reinterpret_cast<const float4*>(source);", "  float4 pack;\n  memcpy(&pack, source, 16);")],
              "bytes per load request of a warp, where 512(.|\n)*Here each lane asks for less at a time"),
        Wrong("swapped", [("values[1] = pack.y", "values[1] = pack.z")], "Wrong result: row 0, column"),
        Wrong("off by one float", [("(source);", "(source + 1);")], "misaligned"),
        Wrong("single floats of 03.1", [("warp_softmax", "packed_softmax")], "128 bytes per load request", of="warp_all_reduce"),
    ],
    "bank_conflicts": [
        Wrong("lanes one by one", [("word_5 = 1 ", "word_5 = 32 ")], "This is the same word"),
        Wrong("banks in use", [("word_8l = 8", "word_8l = 4")], "How many lanes meet in each"),
        Wrong("a quarter forgotten", [("pack_at_8l = 8", "pack_at_8l = 2")], "for each quarter of the warp"),
        Wrong("no reason known", [("word_9l = 1", "word_9l = 7")], "does any come twice"),
    ],
    "conflicting_layout": [
        Wrong("padded without room", [("int /*pack_size*/", "int pack_size"),
                                      ("return i * block_size + static_cast<int>(threadIdx.x);\n}",
                                       "return static_cast<int>(threadIdx.x) * (pack_size | 1) + i;\n}")],
              r"out of bounds: .* of shared memory at byte \d+, and the block has \d+ bytes: 32 of its __shared__ variables, then"),
        Wrong("half of the conflict", [("int /*pack_size*/", "int pack_size"),
                                       ("return i * block_size + static_cast<int>(threadIdx.x);\n}",
                                        "return i % 2 * block_size * ((pack_size + 1) / 2) + static_cast<int>(threadIdx.x) * ((pack_size + 1) / 2) + i / 2;\n}"),
                                       ("round_up(shape.cols, block_size)", "round_up(shape.cols, 2 * block_size)")],
              "bank conflicts per row, where 0 are expected"),
        Wrong("two elements share a place", [("return i * block_size +", "return i +")], "race: |Wrong result"),
        Wrong("a place of the warp", [("i * block_size +", "i * 32 +")], "race: |Wrong result"),
        Wrong("not in shared memory", [("__expf(buffer[slot(i, pack_size)] - max);\n    buffer[slot(i, pack_size)] = value;", "__expf(row_x[col(i)] - max);"),
                                       ("row_y[col(i)] = buffer[slot(i, pack_size)] * reciprocal", "row_y[col(i)] = __expf(row_x[col(i)] - max) * reciprocal")],
              "3 passes of reading, where 1 is expected"),
    ],
    "walks": [
        Wrong("only what DRAM sees", [("passes_of_reading = 3", "passes_of_reading = 2")], "This kernel asks for more"),
        Wrong("one barrier a reduction", [("barriers_per_row = 4", "barriers_per_row = 2")], "How many barriers does each of them have"),
        Wrong("the last column", [("thread_0 = 4092", "thread_0 = 4095")], "a pack of 4 begins three columns before it"),
        Wrong("unsigned", [("first_negative_row = 35792", "first_negative_row = 71583")], "unsigned index would wrap"),
    ],
    "index_overflow": [
        Wrong("unsigned", [("const std::int64_t row = first_row + blockIdx.x;", "const unsigned row = first_row + blockIdx.x;"),
                           ("x + row * cols", "x + row * static_cast<unsigned>(cols)")],
              "2 x 4096, input normal, first row 3000000:(.|\n)*out of bounds: read"),
        Wrong("converted too late", [("x + row * cols", "x + static_cast<std::int64_t>(static_cast<int>(row) * static_cast<int>(cols))")],
              "first row 3000000(.|\n)*out of bounds: read"),
        Wrong("32-bit row", [("const std::int64_t row =", "const int row =")], BEYOND_AN_INT),
        Wrong("unsigned row", [("const std::int64_t row =", "const unsigned row =")], BEYOND_AN_INT),
        Wrong("an int goes in", [("y, std::int64_t first_row, std::int64_t cols", "y, int first_row, std::int64_t cols")], BEYOND_AN_INT),
        Wrong("an int goes in, and is converted",
              [("y, std::int64_t first_row, std::int64_t cols", "y, int first_row, std::int64_t cols"),
               ("row = first_row + blockIdx.x", "row = std::int64_t{first_row} + blockIdx.x")], BEYOND_AN_INT),
        Wrong("only the reads", [("y + row * cols", "y + static_cast<int>(row * cols)")], "first row 3000000(.|\n)*out of bounds: write"),
    ],
    "merge": [
        Wrong("no guard", [("fmaxf(max, -FLT_MAX)", "max")], r"Wrong result: row 0(.|\n)*got nan(.|\n)*met no element \(-inf, 0\) or only -inf"),
        Wrong("skips -inf", [("  const float shift", "  if (max == -INFINITY) return {max, 0};\n  const float shift")],
              r"input one_nan(.|\n)*expected nan(.|\n)* The NaN of this row is in column \d+\."),
        Wrong("only a is rescaled", [("b.sum * __expf(b.max - shift)", "b.sum")], "Wrong result: row 0, column 0"),
        Wrong("sums only", [("a.sum * __expf(a.max - shift) + b.sum * __expf(b.max - shift)", "a.sum + b.sum")], "Wrong result: row 0"),
        Wrong("three reads", [("two_level_softmax", "online_softmax")], "3 passes of reading, where at most 2.10 are", of="two_level_reduction"),
    ],
    "masked_rows": [
        Wrong("only the guard", [(ADD_CHUNK,
                                  "  for (const float value : values) {\n    const float max = fmaxf(total.max, value);\n"
                                  "    const float shift = fmaxf(max, -FLT_MAX);\n"
                                  "    total.sum = total.sum * __expf(total.max - shift) + __expf(value - shift);\n"
                                  "    total.max = max;\n  }\n")],
              r"3\.02 exponentials per element, where at most 2\.60(.|\n)*rescaled for every element"),
        Wrong("rescaled at each new maximum", [(ADD_CHUNK, "  for (const float value : values) {\n"
                                                "    const float shift = fmaxf(value, -FLT_MAX);\n"
                                                "    if (value > total.max) {\n      total.sum *= __expf(total.max - shift);\n"
                                                "      total.max = value;\n    }\n"
                                                "    total.sum += __expf(value - fmaxf(total.max, -FLT_MAX));\n  }\n")],
              r"exponentials per element, where at most 2\.60(.|\n)*every element is a new maximum"),
        Wrong("only the chunk", [("fmaxf(max, -FLT_MAX);  // exp", "max;  // exp")], "input neg_inf_prefix(.|\n)*got nan, expected 0"),
        Wrong("not rescaled", [("  total.sum *= __expf(total.max - shift);\n", "")], "Wrong result: row 0, column 0"),
        Wrong("the merge of 06.1", [("online_softmax", "chunked_online_softmax")], "exponentials per element, where at most 2.60",
              of="merge"),
    ],
}

# Other right answers: what the solution is changed to. {name: replaced}
RIGHT_ANSWERS: Dict[str, Dict[str, List[Tuple[str, str]]]] = {
    "one_kernel": {
        "a copy of `subtract`": [("- max) * reciprocal", "- row_max[row]) * (1.0f / row_sum[row])")],
        "divided by what is loaded again": [("* reciprocal", "/ row_sum[row]")],
        "one of two is loaded again": [("- max)", "- row_max[row])")],
    },
    "two_bugs": {
        "the first element": [("max = MaxOp::identity;", "max = row_x[0];")],
        "an element of the row": [("max = MaxOp::identity;", "max = row_x[min(std::int64_t{threadIdx.x}, shape.cols - 1)];")],
        "the lowest float": [("max = MaxOp::identity;", "max = -3.402823466e38f;")],
    },
    "two_level_reduction": {"the first element": [("float max = MaxOp::identity;", "float max = row_x[0];")]},
    "index_overflow": {"the first element": [("float max = MaxOp::identity;", "float max = row_x[0];")]},
    "masked_rows": {
        "rescaled where the maximum is new": [("  total.sum *= __expf", "  if (max > total.max) total.sum *= __expf")],
    },
}

SERIAL = {
    "softmax": """
__global__ void KERNEL(const float* x, float* y, Shape shape) {
  const float* row_x = x + blockIdx.x * shape.cols;
  float max = -INFINITY;
  for (std::int64_t col = 0; col < shape.cols; ++col) max = fmaxf(max, row_x[col]);
  float sum = 0;
  for (std::int64_t col = 0; col < shape.cols; ++col) sum += __expf(row_x[col] - max);
  for (std::int64_t col = 0; col < shape.cols; ++col) y[blockIdx.x * shape.cols + col] = __expf(row_x[col] - max) / sum;
}
void softmax(const float* x, float* y, Shape shape, cudaStream_t stream) {
  KERNEL<<<grid_for(shape.rows), 1, 0, stream>>>(x, y, shape);
}
""",
    "softmax_from_max_and_sum": """
__global__ void KERNEL(const float* x, const float* row_max, const float* row_sum, float* y, Shape shape) {
  if (threadIdx.x > 0) return;
  for (std::int64_t i = blockIdx.x * shape.cols; i < (blockIdx.x + 1) * shape.cols; ++i) {
    y[i] = __expf(x[i] - row_max[blockIdx.x]) / row_sum[blockIdx.x];
  }
}
void softmax_from_max_and_sum(const float* x, const float* row_max, const float* row_sum, float* y, Shape shape,
                              cudaStream_t stream) {
  KERNEL<<<grid_for(shape.rows), 128, 0, stream>>>(x, row_max, row_sum, y, shape);
}
""",
    "softmax_of_rows": """
__global__ void KERNEL(const float* x, float* y, std::int64_t first_row, Shape shape) {
  const std::int64_t row = (first_row + blockIdx.x) * shape.cols;
  float max = -INFINITY;
  for (std::int64_t col = 0; col < shape.cols; ++col) max = fmaxf(max, x[row + col]);
  float sum = 0;
  for (std::int64_t col = 0; col < shape.cols; ++col) sum += __expf(x[row + col] - max);
  for (std::int64_t col = 0; col < shape.cols; ++col) y[row + col] = __expf(x[row + col] - max) / sum;
}
void softmax_of_rows(const float* x, float* y, std::int64_t first_row, Shape shape, cudaStream_t stream) {
  KERNEL<<<grid_for(shape.rows), 1, 0, stream>>>(x, y, first_row, shape);
}
""",
}

EXERCISES = {exercise.name: exercise for exercise in tool.find_exercises(ROOT)}


class Failures:
    def __init__(self) -> None:
        self.count = 0
        self.checks = 0

    def expect(self, condition: bool, what: str, printed: str = "") -> None:
        self.checks += 1
        if condition:
            return
        self.count += 1
        print(f"FAILED: {what}")
        for line in printed.splitlines():
            print(f"  | {line}")

    def exit(self) -> int:
        print(f"{self.checks} checks, {self.count} failed")
        return 1 if self.count or not self.checks else 0


def changed(text: str, replaced: List[Tuple[str, str]], what: str) -> str:
    """A text that is not found is an error: the answer would be the right one."""
    for old, new in replaced:
        if old not in text:
            raise SystemExit(f"{what}: the solution does not contain: {old!r}")
        text = text.replace(old, new)
    return text


def solution_text(name: str) -> str:
    return EXERCISES[name].file("solution").read_text(encoding="utf-8")


def serial_text(name: str) -> str:
    check = (EXERCISES[name].folder / "check.cpp").read_text(encoding="utf-8")
    kernel = re.search(r'exercise.kernel = "(\w+)"', check)
    launcher = re.search(r"Launcher::(\w+)", check)
    assert kernel is not None
    source = SERIAL[launcher[1] if launcher else "softmax"].replace("KERNEL", kernel[1])
    return '#include "common/exercise/launchers.cuh"\n' + source


def check_exercise(checks: Path, name: str) -> int:
    exercise = EXERCISES[name]
    failures = Failures()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        sources: Dict[str, Path] = {"starter": exercise.file("starter"), "solution": exercise.file("solution")}
        for wrong in WRONG_ANSWERS[name]:
            text = changed(solution_text(wrong.of or name), wrong.replaced, f"{name}, {wrong.name}")
            sources[wrong.name] = work / (re.sub(r"\W", "_", wrong.name) + exercise.suffix)
            sources[wrong.name].write_text(text, encoding="utf-8")
        right = RIGHT_ANSWERS.get(name, {})
        for which, replaced in right.items():
            sources[which] = work / (re.sub(r"\W", "_", which) + exercise.suffix)
            sources[which].write_text(changed(solution_text(name), replaced, f"{name}, {which}"), encoding="utf-8")
        if exercise.kind != "predict":
            sources["one thread"] = work / "one_thread.cu"
            sources["one thread"].write_text(serial_text(name), encoding="utf-8")

        def run(which: str) -> Tuple[int, str]:
            timeout_s = 5 if which == "endless" else tool.CHECK_TIMEOUT_S
            checker = tool.Checker(ROOT, checks, "sim", timeout_s)
            checker.work = work
            return checker.check(exercise, sources[which])

        results = {which: run(which) for which in sources if which != "solution"}
        results["solution"] = run("solution")  # last: its library is used again below
        expected = {"starter": STARTERS[name], "one thread": LANES}
        expected.update({wrong.name: wrong.message for wrong in WRONG_ANSWERS[name]})
        for which, (code, text) in results.items():
            if which == "solution":
                failures.expect(code == 0 and text.startswith("Solved"), "the solution passes", text)
                failures.expect("stopped" not in text or name in ("two_bugs", "index_overflow"), "counters before", text)
            elif which in right:
                failures.expect(code == 0, f"{which}: passes", text)
            else:
                fits = re.search(expected[which], text) is not None
                failures.expect(code == 1 and fits, f"{which}: exit code {code}, and a message like {expected[which]}", text)
                failures.expect("It does not compile" not in text, f"{which} compiles", text)
        if exercise.kind != "predict":
            library = work / f"{name}-sim.so"
            for other in EXERCISES.values():
                if other.name == name or other.kind == "predict":
                    continue
                code, text = tool.Checker(ROOT, checks, "sim", 60).run_check(other, [str(library)] * 2)
                fits = re.search("file of another exercise|defines no function", text) is not None
                failures.expect(code == 1 and fits, f"the solution is refused by {other.name}", text)
    return failures.exit()


def check_gpu(checks: Path) -> int:
    failures = Failures()
    with tempfile.TemporaryDirectory() as folder:
        checker = tool.Checker(ROOT, checks, "gpu", tool.CHECK_TIMEOUT_S)
        checker.work = Path(folder)
        for exercise in EXERCISES.values():
            if exercise.kind == "predict":
                continue
            code, text = checker.run_check(exercise, ["no library", "no library", "--device", "gpu"])
            if code == tool.NO_DEVICE:
                print(text)
                return code
            code, text = checker.check(exercise, exercise.file("starter"))
            failures.expect(code == 1 and "It does not compile" not in text, f"{exercise.name}: the starter fails", text)
            code, text = checker.check(exercise, exercise.file("solution"))
            failures.expect(code == 0 and "Verified on NVIDIA" in text, f"{exercise.name}: the solution passes", text)
    return failures.exit()


def check_list() -> int:
    """Nothing is forgotten, and no solution is a starter: `check` asks that the one fails and the other passes."""
    failures = Failures()
    numbers = [exercise.number for exercise in EXERCISES.values()]
    failures.expect(len(set(numbers)) == len(numbers), f"each number once: {numbers}")
    stages = {path.parent.name for path in ROOT.glob("0[1-6]_*/main.cu")}
    failures.expect(stages == {exercise.stage for exercise in EXERCISES.values()}, "an exercise in every stage")
    for name, exercise in EXERCISES.items():
        failures.expect(exercise.number[:2] == exercise.stage[:2], f"{name} is numbered after its stage")
        failures.expect(name in STARTERS, f"{name}: the starter's message is tested")
        failures.expect(len(WRONG_ANSWERS.get(name, [])) >= 2, f"{name}: two wrong answers are tested")
        starter = exercise.file("starter").read_text(encoding="utf-8").splitlines()
        solution = solution_text(name).splitlines()
        failures.expect(starter[0] == solution[0], f"{name}: starter and solution have the same title")
        failures.expect(starter[1:] != solution[1:], f"{name}: the solution is not the starter")
        hints = (exercise.folder / "hints.md").read_text(encoding="utf-8")
        failures.expect(len(tool.HINT.findall(hints)) == 3, f"{name}: three hints")
        checks = list(exercise.folder.glob("check.c*"))
        failures.expect(len(checks) == 1, f"{name}: one check")
        lesson = (ROOT / exercise.stage / "README.md").read_text(encoding="utf-8")
        failures.expect(f"./run exercise {exercise.number}" in lesson, f"{name}: the lesson names ./run exercise {exercise.number}")
    for name in set(STARTERS) | set(WRONG_ANSWERS) | set(RIGHT_ANSWERS):
        failures.expect(name in EXERCISES, f"the tests name an exercise that does not exist: {name}")
    return failures.exit()


# ---- The commands, as a person types them


class Terminal:
    """A program in a pseudo-terminal."""

    def __init__(self, command: List[str], environment: Dict[str, str]) -> None:
        self.screen = ""
        self.pid, self.file = pty.fork()
        if self.pid == 0:
            try:
                os.execvpe(command[0], command, environment)
            finally:
                os._exit(127)

    def read_until(self, pattern: str, timeout_s: float = 120) -> bool:
        """What was read stays in `screen`; what matched is taken away."""
        end = time.monotonic() + timeout_s
        while True:
            found = re.search(pattern, self.screen)
            if found:
                self.screen = self.screen[found.end():]
                return True
            ready, _, _ = select.select([self.file], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                return False
            try:
                data = os.read(self.file, 65536)
            except OSError:  # the program has ended
                data = b""
            if not data:
                return re.search(pattern, self.screen) is not None
            self.screen += data.decode(errors="replace").replace("\r\n", "\n")

    def type(self, text: str) -> None:
        os.write(self.file, text.encode())

    def wait(self) -> int:
        """The exit code; what is still printed goes to `screen`. A program that does not end is killed."""
        self.read_until(r"\Z(?!)")
        os.kill(self.pid, signal.SIGKILL)  # one that has ended does not mind
        _, status = os.waitpid(self.pid, 0)
        os.close(self.file)
        return os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)


@contextlib.contextmanager
def copy_of_the_exercises() -> Iterator[Path]:
    """The learner's checkout: nothing is written into this one."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve() / "checkout"
        root.mkdir()
        (root / "common").symlink_to(ROOT / "common")
        for stage in ROOT.glob("[0-9][0-9]_*"):
            shutil.copytree(stage, root / stage.name, ignore=shutil.ignore_patterns("mine.*"))
        yield root


def check_terminal(checks: Path) -> int:
    failures = Failures()
    with copy_of_the_exercises() as root:
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "PYTHONDONTWRITEBYTECODE": "1"}
        environment.pop("NO_COLOR", None)
        base = [sys.executable, str(ROOT / "common/tools"), "exercise", "--root", str(root), "--checks", str(checks)]

        def terminal(*arguments: str) -> Terminal:
            return Terminal(base + list(arguments), environment)

        def typed(*arguments: str) -> Tuple[int, str]:
            session = terminal(*arguments)
            code = session.wait()
            return code, session.screen

        def piped(*arguments: str, **more: str) -> Tuple[int, str, str]:
            result = subprocess.run(base + list(arguments), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, text=True, env={**environment, **more}, check=False)
            return result.returncode, result.stdout, result.stderr

        def save(path: Path, text: str) -> None:
            partial = path.with_name("editor.tmp")  # as editors do it: a new file in place of the old one
            partial.write_text(text, encoding="utf-8")
            os.replace(partial, path)

        count = len(EXERCISES)
        progress = root / tool.PROGRESS_FILE

        # The list, and the first exercise from starter to solution, in --watch.
        code, screen = typed()
        failures.expect(code == 0 and f"0 of {count} solved" in screen and "\033[33mnext\033[0m  01.1" in screen, "list", screen)
        failures.expect("Next: read 01_naive/README.md, then" in screen, "list says what is next", screen)
        mine = root / "01_naive/exercise/passes_and_sectors/mine.txt"
        session = terminal("--watch")
        failures.expect(session.read_until("now a copy of the starter"), "the starter is copied", session.screen)
        failures.expect(session.read_until("`passes_of_the_maximum` has no answer yet"), "first message", session.screen)
        failures.expect(session.read_until("Waiting for .*mine.txt to be saved"), "it waits", session.screen)
        answers = mine.read_text(encoding="utf-8")
        save(mine, answers.replace("passes_of_the_maximum = ?", "passes_of_the_maximum = 2"))
        failures.expect(session.read_until("a single float per row"), "a save is checked", session.screen)
        failures.expect(session.read_until("Waiting for"), "it waits again", session.screen)
        save(mine, solution_text("passes_and_sectors"))
        failures.expect(session.read_until("Solved: ") and session.read_until("Go on: .*./run exercise 01.2"), "solved", session.screen)
        failures.expect(session.wait() == 0, "--watch ends when it is solved", session.screen)
        code, screen = typed()
        failures.expect(f"1 of {count} solved" in screen and "\033[32mdone\033[0m  01.1" in screen
                        and "\033[33mnext\033[0m  01.2" in screen, "the list shows it", screen)

        # Ctrl-C ends --watch.
        session = terminal("warp_all_reduce", "--watch")
        failures.expect(session.read_until("Waiting for"), "watching", session.screen)
        session.type("\x03")
        failures.expect(session.wait() == 130 and "Traceback" not in session.screen, "Ctrl-C", session.screen)

        # A compile error comes first, short; the learner's file is not touched.
        mine = root / "03_warp_reduce/exercise/warp_all_reduce/mine.cu"
        broken = mine.read_text(encoding="utf-8").replace("  return value;\n}", "  return valu;\n}", 1)
        save(mine, broken)
        code, screen = typed("03")
        failures.expect("checking ..." in screen, "it says that it works", screen)
        failures.expect(code == 1 and re.search(r"It does not compile:.*\n.*mine.cu\(\d+\): error: identifier \"valu\" is undefined",
                                                screen) is not None and len(screen.splitlines()) < 16, "compile error", screen)
        failures.expect(mine.read_text(encoding="utf-8") == broken, "the file is as it was")

        # Hints one after the other, then all of them again. Code keeps its indentation.
        hints = [typed("3.1", "--hint")[1] for _ in range(4)]
        for numbers, hint in zip(([1], [2], [3], [1, 2, 3]), hints):
            shown = [int(number) for number in re.findall(r"Hint (\d):", hint)]
            failures.expect(shown == numbers, f"hints {numbers}", hint)
        failures.expect("no more hints" in hints[2] and "no more hints" in hints[3], "the last hint", hints[3])
        failures.expect("\n    for (int distance" in hints[2] and "\n    for (int distance" in hints[3], "indented", hints[2])
        code, screen = typed("3.1")
        failures.expect(code == 1 and "Stuck? ./run exercise 03.1 --hint (all again), or --solution" in screen, "all hints are shown", screen)

        # The solution: a warning, and a question that only yes answers.
        session = terminal("3.1", "--solution")
        failures.expect(session.read_until("is not solved yet") and session.read_until(r"\[y/N\]"), "warning", session.screen)
        session.type("\n")
        failures.expect(session.wait() == 0 and "__shfl_xor_sync" not in session.screen, "not shown", session.screen)
        session = terminal("3.1", "--solution")
        session.read_until(r"\[y/N\]")
        session.type("y\n")
        failures.expect(session.wait() == 0 and "__shfl_xor_sync" in session.screen, "shown", session.screen)

        # --reset keeps what was there, every time, but no copy of the starter; and the hints begin anew.
        code, screen = typed("3.1", "--reset")
        failures.expect(code == 0 and "mine.1.cu" in screen, "--reset", screen)
        mine.with_name("mine.1.cu").unlink()
        code, screen = typed("3.1", "--reset")
        failures.expect(code == 0 and "kept as" not in screen and not mine.with_name("mine.1.cu").exists(), "nothing to keep", screen)
        code, screen = typed("3.1")
        failures.expect(code == 1 and "Stuck? ./run exercise 03.1 --hint\n" in screen, "no hint is shown", screen)
        for number in (1, 2):
            save(mine, f"// version {number}\n")
            code, screen = typed("3.1", "--reset")
            failures.expect(code == 0 and f"mine.{number}.cu" in screen, "--reset names the backup", screen)
            failures.expect(mine.with_name(f"mine.{number}.cu").read_text(encoding="utf-8") == f"// version {number}\n", "backup")
            failures.expect(mine.read_bytes() == EXERCISES["warp_all_reduce"].file("starter").read_bytes(), "the starter again")

        # Solved: noted, and the solution comes without a warning. A stage means its next open exercise.
        save(mine, solution_text("warp_all_reduce"))
        code, screen = typed("3")
        failures.expect(code == 0 and "Solved: " in screen and re.search(r"barriers per row +4 +0", screen) is not None,
                        "solved, with counters before and after", screen)
        failures.expect("Go on: read 01_naive/README.md, then" in screen, "the next open exercise", screen)
        code, screen = typed("03.1", "--solution")
        failures.expect(code == 0 and "not solved" not in screen and "[y/N]" not in screen, "no warning", screen)
        code, screen = typed("3", "--hint")
        failures.expect("03.2 Hint 1" in screen, "the next open exercise of the stage", screen)

        # Deleting the progress loses nothing else; a broken file is no obstacle.
        progress.unlink()
        code, screen = typed()
        failures.expect(code == 0 and f"0 of {count} solved" in screen and mine.exists(), "progress deleted", screen)
        progress.write_text("{broken", encoding="utf-8")
        code, screen = typed()
        failures.expect(code == 0 and "the progress begins anew" in screen and f"0 of {count} solved" in screen, "broken", screen)
        progress.write_text(json.dumps({"solved": {e.number: "2026-01-01" for e in EXERCISES.values()}, "hints": {}}), encoding="utf-8")
        code, screen = typed()
        failures.expect(f"Exercises: all {count} solved.\n" in screen and "minutes" not in screen, "all solved", screen)
        progress.unlink()

        # Bad input: one line, exit code 2. Colour only in a terminal that wants it.
        for arguments in (("9",), ("03.9",), ("nosuch",), ("3", "--hint", "--reset"), ("--nosuch",), ("3", "4"),
                          ("3", "--device", "tpu"), ("--reset",), ("3", "--reset")):
            code, out, err = piped(*arguments)
            failures.expect(code == 2 and out == "" and len(err.splitlines()) == 1, f"bad input: {arguments}", out + err)
            if arguments == ("03.9",):
                failures.expect("stage 03 has 03.1, 03.2" in err, "what the stage has", err)
        code, out, err = piped()
        failures.expect(code == 0 and "\033" not in out and err == "", "no colour in a pipe", out + err)
        environment["NO_COLOR"] = "1"
        code, screen = typed()
        failures.expect(code == 0 and "\033" not in screen and "next  01.1" in screen, "NO_COLOR", screen)
        code, out, err = piped("3.1", "--solution")
        failures.expect(code == 0 and "__shfl_xor_sync" in out and "not solved yet" in err, "--solution in a pipe", out + err)
        code, out, err = piped("3.1", "--device", "gpu", CUDA_VISIBLE_DEVICES="")
        failures.expect(code == 3 and "no usable NVIDIA GPU" in err and len(err.splitlines()) == 1, "no GPU", out + err)

        # A line of the check that is wider than the terminal is wrapped; a line of a table is not.
        code, out, err = piped("2.1", COLUMNS="80")
        failures.expect("which thread (0, 0, 0) of\n  the block wrote with no barrier between\n" in out, "wrapped", out)
        save(mine, solution_text("warp_all_reduce").replace("ReduceOp{}(value, _", "ReduceOp{}(0, _"))
        code, out, err = piped("3.1", COLUMNS="60")
        failures.expect(re.search(r"\n +column +> 0 +1 +2 +3 +4 +5\n +x ", out) is not None, "the table is not wrapped", out)

        # A launch that CUDA refuses: the place as it is seen from the checkout.
        save(mine, solution_text("warp_all_reduce").replace("<<<grid, warps_per_block * 32,", "<<<grid, 2048,"))
        code, out, err = piped("3.1")
        failures.expect(code == 1 and re.search(r"at\s+03_warp_reduce/exercise/warp_all_reduce/mine.cu:", out) is not None
                        and "A block has 1 to 1024 threads" in out, "too many threads", out)

        # A launcher that ends the program, and one that launches nothing.
        save(mine, solution_text("warp_all_reduce").replace("  const unsigned grid", "  y[0] = x[0];\n  const unsigned grid"))
        code, out, err = piped("3.1")
        failures.expect(code == 1 and "The launcher ended the program (SIGSEGV)" in out, "device pointer on the host", out + err)
        save(mine, '#include "common/exercise/launchers.cuh"\nvoid softmax(const float*, float*, Shape, cudaStream_t) {}\n')
        code, out, err = piped("3.1")
        failures.expect(code == 1 and "launched no kernel; it should launch `warp_softmax`" in out, "no kernel", out + err)
        save(mine, '#include "common/exercise/launchers.cuh"\n')
        code, out, err = piped("3.1")
        failures.expect(code == 1 and "defines no function `softmax`" in out, "no launcher", out + err)

    return failures.exit()


def main() -> int:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the pseudo-terminals are closed while programs still run
    checks = Path(sys.argv[1]).resolve()
    if sys.argv[2] == "check":
        return check_exercise(checks, sys.argv[3])
    if sys.argv[2] == "gpu":
        return check_gpu(checks)
    return check_list() if sys.argv[2] == "list" else check_terminal(checks)


if __name__ == "__main__":
    sys.exit(main())
