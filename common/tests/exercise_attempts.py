"""Attempts at the exercises, right and wrong ones: what learners write, and what cheats would.

Of each a regular expression that the message matches (None, or one that begins with "Solved": the attempt is right), and how it differs from the solution:
"old => new" for what is replaced, and a text without an arrow for all of the part that is the exercise, see GAPS.
"""

from exercise_warm_ups import WARM_UPS

# Exercises in which the same things go wrong.
FAMILIES = {
    "which lane touches which address": ["one_kernel", "uncoalesced_walk", "packs", "head_and_tail", "vector_copy"],
    "reductions and barriers": ["two_bugs", "two_level_reduction", "warp_all_reduce", "block_sum", "gradient_in_a_warp", "loss_and_gradient"],
    "pairs of maximum and sum": ["merge", "masked_rows", "four_blocks", "pairs_in_a_cluster"],
    "places and indices": ["conflicting_layout", "index_overflow", "two_rows", "mask_and_dropout"],
    "predictions": ["passes_and_sectors", "bank_conflicts", "walks", "who_takes", "over_the_link"],
}

# Where the part begins and ends that is the exercise.
GAPS = {
    "one_kernel": ("Shape shape) {\n", "}\n\nvoid softmax"),
    "uncoalesced_walk": ("1.0f / row_sum[row];\n\n", "  }\n}\n"),
    "packs": ("constexpr int packs_per_lane = 8;\n\n", "// ---- Given"),
    "head_and_tail": ("__device__ Cut cut_row(const float* row, int cols) {\n", "}\n\n// ---- Given"),
    "two_bugs": ("float tree_all_reduce(float value) {\n", "}\n\n__global__"),
    "two_level_reduction": ("min(32, block_size - warp * 32);\n\n", "}\n\n// ---- Given"),
    "warp_all_reduce": ("__device__ float warp_all_reduce(float value) {\n", "}\n\n// ---- Given"),
    "merge": ("__device__ MaxSum merge(MaxSum a, MaxSum b) {\n", "}\n\n// ---- Given"),
    "masked_rows": ("__device__ void add_chunk(MaxSum& total, const float (&values)[chunk_size]) {\n", "}\n\n// ---- Given"),
    "four_blocks": ("  if (threadIdx.x >= parts) return {};\n", "}\n\n// ---- Given"),
    "pairs_in_a_cluster": ("cg::this_cluster();\n", "}\n\n// ---- Given"),
    "conflicting_layout": ("__device__ int slot(int i, int /*pack_size*/) {\n", "}\n\n// ---- Given"),
}


def attempt(solution: str, name: str, changes: tuple[str, ...]) -> str:
    """The text of an attempt."""
    for change in sorted(changes, key=lambda change: " => " in change):  # the gap first
        old, arrow, new = change.partition(" => ")
        if not arrow:
            assert name in GAPS, f"{name}: an attempt without an arrow needs its place in GAPS"
            begin, end = GAPS[name]
            before, found_begin, rest = solution.partition(begin)
            _, found_end, after = rest.partition(end)
            assert found_begin and found_end, name
            solution = before + begin + change + end + after
            continue
        assert old in solution, f"the solution does not contain: {old!r}"
        solution = solution.replace(old, new)
    return solution


ADD_CHUNK = """  float max = total.max;
  for (const float value : values) max = fmaxf(max, value);
  const float shift = fmaxf(max, -FLT_MAX);  // exp(-inf - -inf) would be NaN
  total.sum *= __expf(total.max - shift);
  for (const float value : values) total.sum += __expf(value - shift);
  total.max = max;
"""
BEYOND_AN_INT = r"first row 5000000000 \(more than an int holds\).*out of bounds: read"

# fmt: off
ATTEMPTS: dict[str, dict[str, tuple[str | None, ...]]] = {
    "passes_and_sectors": {
        "starter": ("`passes_of_the_maximum` has no answer yet",),
        "reads only": (
            "`passes_of_exponentiate = 1` is not what is counted. It reads one matrix, and it writes another",
            "passes_of_exponentiate = 2 => passes_of_exponentiate = 1"),
        "no number": ("a number is wanted", "passes_of_all_five = 8  => passes_of_all_five = eight "),
        "a line is gone": ("There is no line `sectors_thread_per_row_2_columns = ...` any more: write it again",
            "sectors_thread_per_row_2_columns = 8 => "),
        "not a number": ("`passes_of_all_five = nan`: a number",
            "passes_of_all_five = 8  => passes_of_all_five = nan "),
        "two answers": ("`passes_of_all_five = 10 and 8`: a number is wanted, and one line",
            "passes_of_all_five = 8  => passes_of_all_five = 10\npasses_of_all_five = 8 "),
        "passes_of_the_maximum = 2": ("passes_of_the_maximum = 2.*is not what is counted", "passes_of_the_maximum = 1  => passes_of_the_maximum = 2 "),
        "passes_of_the_maximum = 64": ("is not what is counted", "passes_of_the_maximum = 1  => passes_of_the_maximum = 64 "),
        "passes_of_exponentiate = 3": ("is not what is counted", "passes_of_exponentiate = 2  => passes_of_exponentiate = 3 "),
        "passes_of_all_five = 10": ("is not what is counted", "passes_of_all_five = 8  => passes_of_all_five = 10 "),
        "passes_of_all_five = 5": ("is not what is counted", "passes_of_all_five = 8  => passes_of_all_five = 5 "),
        "sectors_block_per_row = 1": ("is not what is counted", "sectors_block_per_row = 4  => sectors_block_per_row = 1 "),
        "sectors_block_per_row = 32": ("is not what is counted", "sectors_block_per_row = 4  => sectors_block_per_row = 32 "),
        "sectors_block_per_row = 128": ("is not what is counted", "sectors_block_per_row = 4  => sectors_block_per_row = 128 "),
        "sectors_thread_per_row = 4": ("is not what is counted", "sectors_thread_per_row = 32  => sectors_thread_per_row = 4 "),
        "sectors_thread_per_row = 1": ("is not what is counted", "sectors_thread_per_row = 32  => sectors_thread_per_row = 1 "),
        "sectors_thread_per_row_2_columns = 32": ("is not what is counted", "sectors_thread_per_row_2_columns = 8  => sectors_thread_per_row_2_columns = 32 "),
        "sectors_thread_per_row_2_columns = 16": ("is not what is counted", "sectors_thread_per_row_2_columns = 8  => sectors_thread_per_row_2_columns = 16 "),
        "sectors_block_per_row_shifted = 4": ("is not what is counted", "sectors_block_per_row_shifted = 5  => sectors_block_per_row_shifted = 4 "),
        "sectors_block_per_row_shifted = 8": ("is not what is counted", "sectors_block_per_row_shifted = 5  => sectors_block_per_row_shifted = 8 "),
        "with a point": (None, "passes_of_all_five = 8 => passes_of_all_five = 8.0"),
    },
    "one_kernel": {
        "starter": (
            "launched `subtract, exponentiate, divide`; what is asked for is one kernel, `subtract_exp_divide`",),
        "two kernels": ("2 kernels, where 1 is expected",
            "  subtract_exp_divide<<<grid, block_size, 0, stream>>>(x, row_max, row_sum, y, shape);\n"
            " =>   subtract_exp_divide<<<grid, block_size, 0, stream>>>(x, row_max, row_sum, y, shape);\n"
            "  subtract_exp_divide<<<grid, block_size, 0, stream>>>(x, row_max, row_sum, y, shape);\n"),
        "through y": (r"passes of reading, where at most 1.10 are expected.*\d  1 pass of reading\n.*\| y\[row",
            "expf(x[row * shape.cols + col] - max) * reciprocal; => x[row * shape.cols + col] - max;\n"
            "      y[row * shape.cols + col] = expf(y[row * shape.cols + col]) * reciprocal;",
            "const float* row_sum, float* y,\n"
            "                                    Shape => const float* row_sum, volatile float* y,\n Shape"),
        "every block goes through all rows": (r"16\.12 passes of reading, where at most 1\.10.*or every block all rows",
            "row = blockIdx.x; => row = 0;", "row += gridDim.x => ++row"),
        "not rescaled": (
            r"Wrong result: row 0, column 0.*expected.* The results of this row add up to \d+\.\d+ instead of 1",
            " * reciprocal => "),
        "a column too many": (
            r"race: write .* thread \(100, 0, 0\) of block \(0, 0, 0\) wrote, and nothing orders the two blocks \(does each",
            "col < shape.cols => col <= shape.cols"),
        "a thread per row": (
            "sectors per load request, where at most 4.10 .*Neighbouring threads should read neighbouring columns",
            "row = blockIdx.x; => row = blockIdx.x * block_size + threadIdx.x;",
            "row += gridDim.x => row += gridDim.x * block_size",
            "col = threadIdx.x; col < shape.cols; col += block_size => col = 0; col < shape.cols; ++col",
            "- max) * reciprocal => - row_max[row]) / row_sum[row]"),
        "a copy of `subtract`": (None, "- max) * reciprocal => - row_max[row]) * (1.0f / row_sum[row])"),
        "1024 threads": (None, "block_size = 128 => block_size = 1024"),
        "a warp": (None, "block_size = 128 => block_size = 32"),
        "in a namespace": (None, "__global__ => namespace {\n__global__", "\n\nvoid softmax => \n}\n\nvoid softmax"),
        "packs": (None, """  const float max = row_max[blockIdx.x];
  const float sum = row_sum[blockIdx.x];
  const float* row_x = x + blockIdx.x * shape.cols;
  float* row_y = y + blockIdx.x * shape.cols;
  const bool packs = shape.cols % 4 == 0;
  for (std::int64_t i = threadIdx.x; packs && i < shape.cols / 4; i += block_size) {
    const float4 v = reinterpret_cast<const float4*>(row_x)[i];
    reinterpret_cast<float4*>(row_y)[i] =
        make_float4(expf(v.x - max) / sum, expf(v.y - max) / sum, expf(v.z - max) / sum, expf(v.w - max) / sum);
  }
  for (std::int64_t col = threadIdx.x; !packs && col < shape.cols; col += block_size) {
    row_y[col] = expf(row_x[col] - max) / sum;
  }
"""),
        "a pack of each thread's own piece": ("sectors per load request, where at most",
            """  const float* row_x = x + blockIdx.x * shape.cols;
  float* row_y = y + blockIdx.x * shape.cols;
  if (shape.cols % 4 != 0) {
    for (std::int64_t col = threadIdx.x; col < shape.cols; col += block_size)
      row_y[col] = expf(row_x[col] - row_max[blockIdx.x]) / row_sum[blockIdx.x];
    return;
  }
  const std::int64_t each = (shape.cols / 4 + 63) / 64;
  for (std::int64_t i = threadIdx.x * each; threadIdx.x < 64 && i < min((threadIdx.x + 1) * each, shape.cols / 4); ++i) {
    const float4 v = reinterpret_cast<const float4*>(row_x)[i];
    const float max = row_max[blockIdx.x], sum = row_sum[blockIdx.x];
    reinterpret_cast<float4*>(row_y)[i] =
        make_float4(expf(v.x - max) / sum, expf(v.y - max) / sum, expf(v.z - max) / sum, expf(v.w - max) / sum);
  }
"""),
        "the fast exponential": (None, "expf => __expf"),
        "the sum as a logarithm": (None, " - max) * reciprocal => - max - logf(row_sum[row]))"),
        "a division": (None, "* reciprocal => / row_sum[row]"),
        "in double": (None, "expf(x[row * shape.cols + col] - max) * reciprocal => exp(double(x[row * shape.cols + col]) - max) / row_sum[row]"),
        "no loop over the rows": (None, "  for (std::int64_t row = blockIdx.x; row < shape.rows; row += gridDim.x) { => {\n  const std::int64_t row = blockIdx.x;"),
        "a flat index": (None, """  const std::int64_t step = std::int64_t{gridDim.x} * block_size;
  for (std::int64_t i = blockIdx.x * block_size + threadIdx.x; i < shape.rows * shape.cols; i += step) {
    y[i] = expf(x[i] - row_max[i / shape.cols]) / row_sum[i / shape.cols];
  }
"""),
        "maximum and sum mixed up": ("Wrong result: row 0, column 0", "(x, row_max, row_sum, y => (x, row_sum, row_max, y"),
        "the first row's maximum": ("Wrong result: row 1, column 0", "row_max[row] => row_max[0]"),
        "not shifted": ("Wrong result: row 0, column 0", "] - max) => ])"),
        "divided before": ("Wrong result: row 0, column 0", "] - max) * reciprocal => ] * reciprocal - max)"),
        "a block that is too large": ("A block has 1 to 1024 threads", "grid, block_size => grid, 2048"),
        "twice as many threads as the step": ("1.89 passes of reading.*Does another thread read it, too", "grid, block_size => grid, 2 * block_size"),
        "half as many": ("Wrong result: row 0, column 64 .*not written", "grid, block_size => grid, block_size / 2"),
        "in y's place": ("wrote 1 bytes past the output's end", "y[row * shape.cols + col] => y[row * block_size + col]"),
    },
    "uncoalesced_walk": {
        "starter": (
            r"25\.80 sectors per load request, where at most 4\.10 are expected.*starter.cu:\d+  32 sectors.*\| y\[row "
            r"\* shape.cols \+ col\] =",),
        "starts where its piece did": ("Wrong result: .*not written",
            "col = threadIdx.x; => col = threadIdx.x * (shape.cols / block_size);"),
        "too short a step": (r"3\.82 passes of reading, where at most 1\.10", "col += block_size => col += 32"),
        "1024 threads": (None, "block_size = 128 => block_size = 1024"),
        "from the end": (None, """    for (std::int64_t col = shape.cols - 1 - threadIdx.x; col >= 0; col -= block_size) {
      y[row * shape.cols + col] = expf(x[row * shape.cols + col] - max) * reciprocal;
    }
"""),
        "a piece for each warp": (None, """    const std::int64_t piece = divide_up(divide_up(shape.cols, block_size / 32), 32) * 32;
    const std::int64_t begin = threadIdx.x / 32 * piece;
    for (std::int64_t col = begin + threadIdx.x % 32; col < min(begin + piece, shape.cols); col += 32) {
      y[row * shape.cols + col] = expf(x[row * shape.cols + col] - max) * reciprocal;
    }
"""),
        "turns that are counted": (None, """    for (int turn = 0; turn < divide_up(shape.cols, block_size); ++turn) {
      const std::int64_t col = turn * block_size + threadIdx.x;
      if (col < shape.cols) y[row * shape.cols + col] = expf(x[row * shape.cols + col] - max) * reciprocal;
    }
"""),
        "float4": (None, """    const float* row_x = x + row * shape.cols;
    float* row_y = y + row * shape.cols;
    const std::int64_t packs = shape.cols % 4 == 0 ? shape.cols / 4 : 0;
    for (std::int64_t pack = threadIdx.x; pack < packs; pack += block_size) {
      const float4 v = reinterpret_cast<const float4*>(row_x)[pack];
      reinterpret_cast<float4*>(row_y)[pack] = make_float4(expf(v.x - max) * reciprocal, expf(v.y - max) * reciprocal,
                                                           expf(v.z - max) * reciprocal, expf(v.w - max) * reciprocal);
    }
    for (std::int64_t col = 4 * packs + threadIdx.x; col < shape.cols; col += block_size) {
      row_y[col] = expf(row_x[col] - max) * reciprocal;
    }
"""),
        "two columns each": (r"sectors per load request, where at most 4\.10", """    for (std::int64_t first = 2 * threadIdx.x; first < shape.cols; first += 2 * block_size) {
      for (std::int64_t col = first; col < min(first + 2, shape.cols); ++col) {
        y[row * shape.cols + col] = expf(x[row * shape.cols + col] - max) * reciprocal;
      }
    }
"""),
        "a turn too many": ("race: ", "col < shape.cols => col < shape.cols + block_size"),
        "the last turn is missing": ("Wrong result: .*not written", "col < shape.cols => col + block_size <= shape.cols"),
        "all take all": ("4 bytes per load request of a warp, where at least 16.*all do the same", "col = threadIdx.x; => col = 0;", "col += block_size => ++col"),
        "reads well, writes badly": ("race: write", "      y[row * shape.cols + col] =>       y[row * shape.cols + (col * 2) % shape.cols]"),
    },
    "two_bugs": {
        "starter": (
            r"race: read of 4 bytes of shared memory[^\n]*which thread \(0, 0, 0\) of the block wrote with no "
            r"barrier.*\| return values\[0\];.*value that is wrong for a row",),
        "only the barrier": (r"input very_negative \(all around -200\).*got nan", "MaxOp::identity => 0.0f"),
        "a small number": (r"input lowest \(all -1e30\).*got nan, expected 0.001", "MaxOp::identity => -1e4f"),
        "a write too many": (r"1\.00024414 passes of writing, where 1 is expected",
            "  float sum = 0.0f; =>   if (threadIdx.x == 0) row_y[0] = max;\n  float sum = 0.0f;"),
        "barrier inside the branch": ("barrier",
            "    __syncthreads();\n    if (threadIdx.x < stride) {\n =>     if (threadIdx.x < stride) {\n"
            "      __syncthreads();\n"),
        "only one barrier": ("race: ", "    __syncthreads();\n    if =>     if",
            "  for (int stride =>   __syncthreads();\n  for (int stride"),
        "barriers everywhere": ("barriers per row, where at most 20 are expected",
            "    if (threadIdx.x < stride) =>     __syncthreads();\n    if (threadIdx.x < stride)"),
        "the first element": (None, "max = MaxOp::identity; => max = row_x[0];"),
        "the lowest float": (None, "max = MaxOp::identity; => max = -3.402823466e38f;"),
        "volatile": ("warps and blocks in another order.*a GPU promises none.*`volatile`, fences and atomics do not",
            "  __syncthreads();  // thread 0 wrote values[0] in the last turn\n => ", "__shared__ float values => volatile __shared__ float values"),
        "volatile, the read": ("race: read", "  __syncthreads();  // thread 0 wrote values[0] in the last turn\n => ",
            "return values[0] => return *static_cast<volatile float*>(values)"),
        "__threadfence": ("race: read", "  __syncthreads();  // => __threadfence();  //"),
        "__threadfence_block": ("race: read", "  __syncthreads();  // => __threadfence_block();  //"),
        "an atomic read": ("race: atomic", "  __syncthreads();  // thread 0 wrote values[0] in the last turn\n => ", "return values[0] => return atomicAdd(values, 0.0f)"),
        "atomics everywhere": ("a GPU promises none", """  __shared__ float values[block_size];
  values[threadIdx.x] = value;
  for (int stride = block_size / 2; stride > 0; stride /= 2) {
    __syncthreads();
    if (threadIdx.x < stride) {
      atomicExch(&values[threadIdx.x], ReduceOp{}(atomicAdd(&values[threadIdx.x], 0.0f), atomicAdd(&values[threadIdx.x + stride], 0.0f)));
    }
  }
  return atomicAdd(values, 0.0f);
"""),
        "__syncwarp": ("race: read.*which thread \\(0, 0, 0\\)", "  __syncthreads();  // => __syncwarp();  //"),
        "a barrier for those who work": ("barrier", "    __syncthreads();\n    if => if", "threadIdx.x < stride) { => threadIdx.x < stride) {\n      __syncthreads();"),
        "a barrier at the beginning only": ("race: read", "  __syncthreads();  // thread 0 wrote values[0] in the last turn\n => ", "  values[threadIdx.x] = value; =>   __syncthreads();\n  values[threadIdx.x] = value;"),
        "a barrier after the read": ("race: ", "  __syncthreads();  // thread 0 wrote values[0] in the last turn\n  return values[0]; =>   const float result = values[0];\n  __syncthreads();\n  return result;"),
        "barriers at the ends of the steps": (None, "    __syncthreads();\n    if => if", "threadIdx.x + stride]);\n    } => threadIdx.x + stride]);\n    }\n    __syncthreads();",
            "values[threadIdx.x] = value; => values[threadIdx.x] = value;\n  __syncthreads();", "  __syncthreads();  // thread 0 wrote values[0] in the last turn\n => "),
        "the last step by all": (None, "stride > 0 => stride > 1", "return values[0] => return ReduceOp{}(values[0], values[1])"),
        "cooperative groups": (None, "#include \"common => #include <cooperative_groups.h>\n#include \"common", "__syncthreads() => cooperative_groups::this_thread_block().sync()"),
        "1024 threads": (None, "block_size = 256 => block_size = 1024"),
        "64 threads": (None, "block_size = 256 => block_size = 64"),
        "in halves of no power of two": ("out of bounds|Wrong result|Keep the tree", "block_size = 256 => block_size = 192"),
        "shuffles at the end": ("Keep the tree", """  __shared__ float values[block_size / 32];
  for (int mask = 16; mask > 0; mask /= 2) value = ReduceOp{}(value, __shfl_xor_sync(0xffffffff, value, mask));
  if (threadIdx.x % 32 == 0) values[threadIdx.x / 32] = value;
  __syncthreads();
  value = values[0];
  for (int i = 1; i < block_size / 32; ++i) value = ReduceOp{}(value, values[i]);
  __syncthreads();
  return value;
"""),
        "minus infinity": (None, "max = MaxOp::identity; => max = -INFINITY;"),
        "the least positive float": ("input very_negative", "max = MaxOp::identity; => max = 1.175494351e-38f;"),
        "the absolute maximum": ("Wrong result", "max = fmaxf(max, row_x[col]) => max = fmaxf(max, fabsf(row_x[col]))"),
        "each thread's element": ("which nobody has written yet: element 14", "max = MaxOp::identity; => max = row_x[threadIdx.x];"),
    },
    "two_level_reduction": {
        "starter": ("Wrong result: row 0, column 0 of 3 x 1000.*fill the gap in `block_all_reduce`",),
        "no barrier before the second level": (
            r"at byte 4 \(word 1 of `warp_results`\), which nobody has written yet \(is a barrier missing.*\| value = warp_reduce",
            "warp_results[warp] = value;\n  __syncthreads(); => warp_results[warp] = value;"),
        "all combine the results": (None,
            "  if (warp == 0 && lane < num_warps) {\n"
            "    value = warp_reduce<ReduceOp>(warp_results[lane], lane, num_warps);\n"
            "    if (lane == 0) result = value;\n  }\n  __syncthreads();\n"
            "  return result; =>   value = warp_results[0];\n"
            "  for (int i = 1; i < num_warps; ++i) value = ReduceOp{}(value, warp_results[i]);\n  return value;",
            "  __shared__ float result;\n => "),
        "32 lanes in the second level": ("out of bounds|has not been written|never written|not written",
            "warp == 0 && lane < num_warps => warp == 0",
            "(warp_results[lane], lane, num_warps) => (warp_results[lane], lane, 32)"),
        "one thread adds them up": ("40 shuffles per row, where at least 42 are expected.*one thread adding them up",
            "    value = warp_reduce<ReduceOp>(warp_results[lane], lane, num_warps);\n"
            " =>     for (int i = 1; i < num_warps; ++i) value = ReduceOp{}(value, warp_results[i]);\n",
            "warp == 0 && lane < num_warps => threadIdx.x == 0"),
        "CUB": ("The kernel calls a library:.*/cub/.*Write it yourself",
            "template <class ReduceOp>\n__device__ float block_all_reduce(float value) { => #include "
            "<cub/block/block_reduce.cuh>\ntemplate <class ReduceOp>\n"
            "__device__ float block_all_reduce(float value) {\n"
            "  using Reduce = cub::BlockReduce<float, block_size>;\n"
            "  __shared__ typename Reduce::TempStorage storage;\n  __shared__ float all;\n"
            "  const float reduced = Reduce(storage).Reduce(value, ReduceOp{});\n"
            "  if (threadIdx.x == 0) all = reduced;\n  __syncthreads();\n  return all;\n}\n"
            "template <class ReduceOp>\n__device__ float own_all_reduce(float value) {"),
        "all lanes, with identities": (None, """  value = warp_reduce<ReduceOp>(value, lane, lanes_in_warp);
  if (lane == 0) warp_results[warp] = value;
  __syncthreads();
  if (warp == 0) {
    value = warp_reduce<ReduceOp>(lane < num_warps ? warp_results[lane] : ReduceOp::identity, lane, 32);
    if (lane == 0) result = value;
  }
  __syncthreads();
  return result;
"""),
        "every warp reduces all results": ("Solved.*64 shuffles per row, where 50 do", """  value = warp_reduce<ReduceOp>(value, lane, lanes_in_warp);
  if (lane == 0) warp_results[warp] = value;
  __syncthreads();
  value = lane < num_warps ? warp_results[lane] : ReduceOp::identity;
  const unsigned lanes = lanes_in_warp == 32 ? 0xffffffffu : (1u << lanes_in_warp) - 1;
  for (int mask = num_warps / 2; mask > 0; mask /= 2) value = ReduceOp{}(value, __shfl_xor_sync(lanes, value, mask));
  return __shfl_sync(lanes, value, 0);
"""),
        "every warp reduces all results, as given": ("Solved.*88 shuffles per row, where 50 do.*a fair exchange", """  value = warp_reduce<ReduceOp>(value, lane, lanes_in_warp);
  if (lane == 0) warp_results[warp] = value;
  __syncthreads();
  if (lane < num_warps) value = warp_reduce<ReduceOp>(warp_results[lane], lane, num_warps);
  return __shfl_sync(lanes_in_warp == 32 ? 0xffffffffu : (1u << lanes_in_warp) - 1, value, 0);
"""),
        "and a barrier for the next call": ("Solved.*could be less.*where 50 do.*the second barrier; here it is still there", """  value = warp_reduce<ReduceOp>(value, lane, lanes_in_warp);
  if (lane == 0) warp_results[warp] = value;
  __syncthreads();
  if (lane < num_warps) value = warp_reduce<ReduceOp>(warp_results[lane], lane, num_warps);
  value = __shfl_sync(lanes_in_warp == 32 ? 0xffffffffu : (1u << lanes_in_warp) - 1, value, 0);
  __syncthreads();
  return value;
"""),
        "the last warp's lanes": (None, "warp == 0 && lane < num_warps => warp == 1 && lane < num_warps"),
        "in place of the first result": (None, "if (lane == 0) result = value; => if (lane == 0) warp_results[0] = value;", "return result => return warp_results[0]", "  __shared__ float result;\n => "),
        "cooperative groups": (None, "#include \"common => #include <cooperative_groups.h>\n#include \"common", "  __syncthreads(); =>   cooperative_groups::this_thread_block().sync();"),
        "volatile": ("another order.*which nobody has written yet", "__shared__ float result; => volatile __shared__ float result;", "    if (lane == 0) result = value;\n  }\n  __syncthreads(); =>     if (lane == 0) result = value;\n  }"),
        "__threadfence_block": ("race: read.*return result", "    if (lane == 0) result = value;\n  }\n  __syncthreads(); =>     if (lane == 0) result = value;\n  }\n  __threadfence_block();"),
        "no barrier before the result": ("race: read.*return result", "    if (lane == 0) result = value;\n  }\n  __syncthreads(); =>     if (lane == 0) result = value;\n  }"),
        "a barrier for the first warp": ("barrier", "    if (lane == 0) result = value;\n  }\n  __syncthreads(); =>     if (lane == 0) result = value;\n    __syncthreads();\n  }"),
        "each warp its own result": ("Wrong result: row 0", "  return result => return value"),
        "only the first warp has it": ("Wrong result: row 0", "  return result => return warp == 0 ? result : value"),
        "three warps": ("Wrong result: row 0", "lane < num_warps => lane < block_size / 32", "lane, num_warps); => lane, block_size / 32);"),
        "32 lanes in each warp": ("names lanes 16-31, which the block does not have", "value, lane, lanes_in_warp => value, lane, 32"),
        "all lanes write": ("race: write", "  if (lane == 0) warp_results[warp] =>   warp_results[warp]"),
        "the block's tree": ("16 barriers per row, where at most 6", """  __shared__ float values[128];
  values[threadIdx.x] = value;
  if (threadIdx.x < 16) values[112 + threadIdx.x] = ReduceOp::identity;
  for (int stride = 64; stride > 0; stride /= 2) {
    __syncthreads();
    if (threadIdx.x < stride) values[threadIdx.x] = ReduceOp{}(values[threadIdx.x], values[threadIdx.x + stride]);
  }
  __syncthreads();
  return values[0];
"""),
        "all read all": ("accesses to shared memory per row, where at most 40", """  __shared__ float values[block_size];
  values[threadIdx.x] = value;
  __syncthreads();
  for (int i = 0; i < block_size; ++i) value = i == 0 ? values[0] : ReduceOp{}(value, values[i]);
  return value;
"""),
        "eight warps": (None, "block_size = 112 => block_size = 256", "num_warps = 4 => num_warps = 8"),
    },
    "warp_all_reduce": {
        "starter": ("Wrong result: row 0, column 0 of 5 x 100.*fill the gap in `warp_all_reduce`",),
        "down instead of xor": ("Wrong result: row 0, column 0.*500 of 500 elements wrong",
            "__shfl_xor_sync => __shfl_down_sync"),
        "asks all lanes one by one": (
            r"64 shuffles per row, where at most 12 are expected.*\w+\.cu:\d+  64 shuffles per row\n    \| const "
            "float other = __shfl_sync.*one by one",
            "  for (int mask = 16; mask > 0; mask /= 2) {\n"
            "    value = ReduceOp{}(value, __shfl_xor_sync(0xffffffff, value, mask));\n  }\n"
            " =>   const float own = value;\n  for (int lane = 0; lane < 32; ++lane) {\n"
            "    const float other = __shfl_sync(0xffffffff, own, lane);\n"
            "    value = lane == 0 ? other : ReduceOp{}(value, other);\n  }\n"),
        "only half of the lanes": (
            r"names lanes 16-31.*\n    at [^\n]*\w+\.cu:\d+\n       \| if \(threadIdx.x % 32 < 16\)",
            "    value = ReduceOp{}(value, __shfl =>     if (threadIdx.x % 32 < 16) value = ReduceOp{}(value, "
            "__shfl"),
        "through shared memory": ("accesses to shared memory per row, where 0 are expected",
            "#pragma unroll\n  for (int mask = 16; mask > 0; mask /= 2) { =>   __shared__ float values[4][32];\n"
            "  for (int mask = 16; mask > 0; mask /= 2) {\n    float* mine = values[threadIdx.x / 32];\n"
            "    mine[threadIdx.x % 32] = value;\n    __syncwarp();\n"
            "    const float other = mine[threadIdx.x % 32 ^ mask];\n    __syncwarp();",
            "__shfl_xor_sync(0xffffffff, value, mask) => other"),
        "endless": (r"endless loop: it comes back to the same instruction", "mask /= 2 => mask |= 0"),
        "a launch that CUDA refuses": (r"at [^\n]*\w+.cu:.*A block has 1 to 1024 threads",
            "<<<grid, warps_per_block * 32, => <<<grid, 2048,"),
        "the host writes": (r"The launcher ended the program \(SIGSEGV\)",
            "  const unsigned grid =>   y[0] = x[0];\n  const unsigned grid"),
        "too long": (r"No answer after [^\n]* seconds. Is there a loop that does not end", "mask /= 2 => ++mask"),
        "from 1 to 16": (None, "mask = 16; mask > 0; mask /= 2 => mask = 1; mask < 32; mask *= 2"),
        "by hand": (None, """  value = ReduceOp{}(value, __shfl_xor_sync(0xffffffff, value, 16));
  value = ReduceOp{}(value, __shfl_xor_sync(0xffffffff, value, 8));
  value = ReduceOp{}(value, __shfl_xor_sync(0xffffffff, value, 4));
  value = ReduceOp{}(value, __shfl_xor_sync(0xffffffff, value, 2));
  return ReduceOp{}(value, __shfl_xor_sync(0xffffffff, value, 1));
"""),
        "down, and sent to all": (None, """  for (int distance = 16; distance > 0; distance /= 2) value = ReduceOp{}(value, __shfl_down_sync(~0u, value, distance));
  return __shfl_sync(~0u, value, 0);
"""),
        "around a circle": (None, """  for (int distance = 16; distance > 0; distance /= 2)
    value = ReduceOp{}(value, __shfl_sync(~0u, value, (threadIdx.x + distance) % 32));
  return value;
"""),
        "the lanes that are active": (None, "__shfl_xor_sync(0xffffffff => __shfl_xor_sync(__activemask()"),
        "cooperative groups": (None, "#include \"common => #include <cooperative_groups.h>\n#include \"common", """  const auto warp = cooperative_groups::tiled_partition<32>(cooperative_groups::this_thread_block());
  for (int mask = 16; mask > 0; mask /= 2) value = ReduceOp{}(value, warp.shfl_xor(value, mask));
  return value;
"""),
        "cg::reduce": ("calls a library:.*Write it yourself", "#include \"common => #include <cooperative_groups.h>\n#include <cooperative_groups/reduce.h>\n#include \"common", """  const auto warp = cooperative_groups::tiled_partition<32>(cooperative_groups::this_thread_block());
  return cooperative_groups::reduce(warp, value, ReduceOp{});
"""),
        "cg::reduce of who is there": ("calls a library:.*Write it yourself", "#include \"common => #include <cooperative_groups.h>\n#include <cooperative_groups/reduce.h>\n#include \"common", """  return cooperative_groups::reduce(cooperative_groups::coalesced_threads(), value, ReduceOp{});
"""),
        "begins at 32": ("Wrong result: row 0", "mask = 16 => mask = 32"),
        "ends at 2": ("Wrong result: row 0, column 0", "mask > 0 => mask > 1"),
        "up": ("Wrong result: row 0", "__shfl_xor_sync => __shfl_up_sync"),
        "a mask of half a warp": ("the mask of a shuffle names other lanes, but not the one that calls it", "0xffffffff => 0xffff"),
        "always the sum": ("Wrong result: row 0", "value = ReduceOp{}(value, __shfl_xor_sync(0xffffffff, value, mask)); => value += __shfl_xor_sync(0xffffffff, value, mask);"),
        "halves that do not meet": ("Wrong result: row 0", "value, mask) => value, mask, 16)"),
        "with __syncthreads": ("barrier", "  for (int mask =>   __syncthreads();\n  for (int mask"),
    },
    "packs": {
        "starter": (r"128 bytes per load request of a warp, where 512 are expected.*values\[i\] = source\[i\];",),
        "scalar stores": (r"128 bytes per store request of a warp, where 512.*destination\[i\] = values\[i\]",
            "*reinterpret_cast<float4*>(destination) = make_float4(values[0], values[1], values[2], values[3]); "
            "=> for (int i = 0; i < pack_size; ++i) destination[i] = values[i];"),
        "byte by byte": ("bytes per load request of a warp, where 512.*Here each lane asks for less at a time",
            "  const float4 pack = *reinterpret_cast<const float4*>(source); =>   float4 pack;\n"
            "  memcpy(&pack, source, 16);"),
        "swapped": ("Wrong result: row 0, column", "values[1] = pack.y => values[1] = pack.z"),
        "off by one float": ("misaligned read of 16 bytes of global memory", "(source); => (source + 1);"),
        "a struct of 16 bytes": (None, """struct alignas(16) Pack {
  float values[pack_size];
};
__device__ void load_pack(const float* source, float (&values)[pack_size]) {
  const Pack pack = *reinterpret_cast<const Pack*>(source);
  for (int i = 0; i < pack_size; ++i) values[i] = pack.values[i];
}
__device__ void store_pack(float* destination, const float (&values)[pack_size]) {
  Pack pack;
  for (int i = 0; i < pack_size; ++i) pack.values[i] = values[i];
  *reinterpret_cast<Pack*>(destination) = pack;
}

"""),
        "uint4": (None, """__device__ void load_pack(const float* source, float (&values)[pack_size]) {
  const uint4 pack = *reinterpret_cast<const uint4*>(source);
  values[0] = __uint_as_float(pack.x);
  values[1] = __uint_as_float(pack.y);
  values[2] = __uint_as_float(pack.z);
  values[3] = __uint_as_float(pack.w);
}
__device__ void store_pack(float* destination, const float (&values)[pack_size]) {
  *reinterpret_cast<float4*>(destination) = make_float4(values[0], values[1], values[2], values[3]);
}

"""),
        "streaming": (None, "*reinterpret_cast<const float4*>(source) => __ldcs(reinterpret_cast<const float4*>(source))"),
        "read only": (None, "*reinterpret_cast<const float4*>(source) => __ldg(reinterpret_cast<const float4*>(source))"),
        "backwards, both": (None, "make_float4(values[0], values[1], values[2], values[3]) => make_float4(values[3], values[2], values[1], values[0])",
            "values[0] = pack.x => values[3] = pack.x", "values[1] = pack.y => values[2] = pack.y",
            "values[2] = pack.z => values[1] = pack.z", "values[3] = pack.w => values[0] = pack.w"),
        "backwards, the load": ("Wrong result: row 0, column 0", "values[0] = pack.x => values[3] = pack.x", "values[3] = pack.w => values[0] = pack.w"),
        "two halves": ("256 bytes per load request of a warp, where 512",
            "  const float4 pack = *reinterpret_cast<const float4*>(source); =>   const float2* halves = "
            "reinterpret_cast<const float2*>(source);\n  const float2 low = halves[0], high = halves[1];\n"
            "  const float4 pack = make_float4(low.x, low.y, high.x, high.y);"),
        "the next pack": ("has not been written|nobody has written", "*reinterpret_cast<const float4*>(source) => reinterpret_cast<const float4*>(source)[1]"),
        "the last is forgotten": ("Wrong result: row 0, column", "  values[3] = pack.w;\n => "),
        "one value four times": ("Wrong result: row 0, column 1", "make_float4(values[0], values[1], values[2], values[3]) => make_float4(values[0], values[0], values[0], values[0])"),
    },
    "bank_conflicts": {
        "starter": ("`word_l` has no answer yet",),
        "lanes one by one": ("This is the same word", "word_5 = 1  => word_5 = 32 "),
        "no reason known": ("does any come twice", "word_9l = 1 => word_9l = 7"),
        "word_l = 32": ("The banks work at the same time", "word_l = 1  => word_l = 32 "),
        "word_l = 0": ("takes a turn", "word_l = 1  => word_l = 0 "),
        "word_l = 4": ("Does any bank have two words", "word_l = 1  => word_l = 4 "),
        "word_2l = 1": ("which banks are these", "word_2l = 2  => word_2l = 1 "),
        "word_2l = 16": ("number of banks in use", "word_2l = 2  => word_2l = 16 "),
        "word_2l = 32": ("Write down the banks", "word_2l = 2  => word_2l = 32 "),
        "word_8l = 4": ("number of banks in use", "word_8l = 8  => word_8l = 4 "),
        "word_8l = 1": ("cannot be merged", "word_8l = 8  => word_8l = 1 "),
        "word_9l = 9": ("not the stride", "word_9l = 1  => word_9l = 9 "),
        "word_9l = 8": ("Which bank is that", "word_9l = 1  => word_9l = 8 "),
        "pack_at_4l = 1": ("serve 128 in a turn", "pack_at_4l = 4  => pack_at_4l = 1 "),
        "pack_at_4l = 16": ("number of bytes of a lane", "pack_at_4l = 4  => pack_at_4l = 16 "),
        "pack_at_8l = 4": ("lanes 0 and 4", "pack_at_8l = 8  => pack_at_8l = 4 "),
        "pack_at_8l = 2": ("each quarter", "pack_at_8l = 8  => pack_at_8l = 2 "),
        "pack_at_8l = 32": ("8 lanes at a time", "pack_at_8l = 8  => pack_at_8l = 32 "),
        "without blanks": (None, "word_l = 1 => word_l=1", "word_5 = 1 => word_5=1"),
    },
    "conflicting_layout": {
        "starter": (
            r"896 bank conflicts per row, where 0 are expected.*\| buffer\[slot\(i, pack_size\)\] = value;",),
        "padded without room": (
            r"out of bounds: [^\n]* of shared memory at byte \d+, and the block has \d+ bytes: 32 of its "
            "__shared__ variables, then", "int /*pack_size*/ => int pack_size",
            "return i * block_size + static_cast<int>(threadIdx.x);\n"
            "} => return static_cast<int>(threadIdx.x) * (pack_size | 1) + i;\n}"),
        "two elements share a place": ("race: |Wrong result", "return i * block_size + => return i +"),
        "not in shared memory": ("3 passes of reading, where 1 is expected",
            "__expf(buffer[slot(i, pack_size)] - max);\n"
            "    buffer[slot(i, pack_size)] = value; => __expf(row_x[col(i)] - max);",
            "row_y[col(i)] = buffer[slot(i, pack_size)] * reciprocal => row_y[col(i)] = __expf(row_x[col(i)] - "
            "max) * reciprocal"),
        "pack_size + 1": (r"bank conflicts per row, where 0 are expected \(counted at 4 x 896\).*The pack's size", "int /*pack_size*/ => int pack_size",
            "  return static_cast<int>(threadIdx.x) * (pack_size + 1) + i;\n",
            "round_up(shape.cols, block_size) * std::int64_t{sizeof(float)} => (round_up(shape.cols, block_size) + block_size) * std::int64_t{sizeof(float)}"),
        "an odd pack": (None, "int /*pack_size*/ => int pack_size",
            "  return static_cast<int>(threadIdx.x) * (pack_size | 1) + i;\n",
            "round_up(shape.cols, block_size) * std::int64_t{sizeof(float)} => (round_up(shape.cols, block_size) + block_size) * std::int64_t{sizeof(float)}"),
        "a word more for each turn": (None, "  return i * (block_size + 1) + static_cast<int>(threadIdx.x);\n",
            "round_up(shape.cols, block_size) * std::int64_t{sizeof(float)} => 2 * round_up(shape.cols, block_size) * std::int64_t{sizeof(float)}"),
        "a piece for each warp": (None, "int /*pack_size*/ => int pack_size",
            "  const int tid = static_cast<int>(threadIdx.x);\n  return tid / 32 * 32 * pack_size + i * 32 + tid % 32;\n"),
        "threads from the end": (None, "  return i * block_size + block_size - 1 - static_cast<int>(threadIdx.x);\n"),
        "exchanged by xor": (None, "  return i * block_size + (static_cast<int>(threadIdx.x) ^ (i % 32));\n"),
        "elements from the end": (None, "int /*pack_size*/ => int pack_size", "  return (pack_size - 1 - i) * block_size + static_cast<int>(threadIdx.x);\n"),
        "a word more for each 32": (r"bank conflicts per row, where 0 are expected \(counted at 4 x 896\)", "int /*pack_size*/ => int pack_size",
            "  const int word = static_cast<int>(threadIdx.x) * pack_size + i;\n  return word + word / 32;\n",
            "round_up(shape.cols, block_size) * std::int64_t{sizeof(float)} => 2 * round_up(shape.cols, block_size) * std::int64_t{sizeof(float)}"),
        "turned in its pack": ("bank conflicts per row, where 0 are expected", "int /*pack_size*/ => int pack_size",
            "  const int tid = static_cast<int>(threadIdx.x);\n  return tid * pack_size + (i + tid) % pack_size;\n"),
        "every second word": ("bank conflicts per row, where 0 are expected", "  return 2 * (i * block_size + static_cast<int>(threadIdx.x));\n",
            "round_up(shape.cols, block_size) * std::int64_t{sizeof(float)} => 2 * round_up(shape.cols, block_size) * std::int64_t{sizeof(float)}"),
        "too few words": ("race: write", "  return i * block_size + 2 * static_cast<int>(threadIdx.x);\n"),
        "a warp's width in place of the block's": ("race: write", "  return i * 32 + static_cast<int>(threadIdx.x);\n"),
        "a barrier for each element": ("names lanes 0-7, which wait elsewhere", "    const float value = row_x[col(i)]; =>     __syncthreads();\n    const float value = row_x[col(i)];"),
    },
    "walks": {
        "starter": ("`passes_of_reading` has no answer yet",),
        "only what DRAM sees": ("This kernel asks for more", "passes_of_reading = 3 => passes_of_reading = 2"),
        "unsigned": ("unsigned index would wrap", "first_negative_row = 35792 => first_negative_row = 71583"),
        "passes_of_reading = 1": ("kept nowhere", "passes_of_reading = 3  => passes_of_reading = 1 "),
        "passes_of_reading = 4": ("how many of them are reads", "passes_of_reading = 3  => passes_of_reading = 4 "),
        "passes_of_writing = 2": ("and once", "passes_of_writing = 1\n => passes_of_writing = 2\n"),
        "passes_of_writing = 3": ("How often", "passes_of_writing = 1\n => passes_of_writing = 3\n"),
        "barriers_per_row = 2": ("two block reductions", "barriers_per_row = 4  => barriers_per_row = 2 "),
        "barriers_per_row = 3": ("need no barrier", "barriers_per_row = 4  => barriers_per_row = 3 "),
        "barriers_per_row = 6": ("no barrier behind its last read", "barriers_per_row = 4  => barriers_per_row = 6 "),
        "first_column_backwards_thread_0 = 4095": ("last column", "first_column_backwards_thread_0 = 4092  => first_column_backwards_thread_0 = 4095 "),
        "first_column_backwards_thread_0 = 1023": ("number of the pack", "first_column_backwards_thread_0 = 4092  => first_column_backwards_thread_0 = 1023 "),
        "first_column_backwards_thread_0 = 0": ("forward walk", "first_column_backwards_thread_0 = 4092  => first_column_backwards_thread_0 = 0 "),
        "first_column_backwards_thread_1 = 4091": ("where does it begin", "first_column_backwards_thread_1 = 4088  => first_column_backwards_thread_1 = 4091 "),
        "first_column_backwards_thread_1 = 4092": ("pack", "first_column_backwards_thread_1 = 4088  => first_column_backwards_thread_1 = 4092 "),
        "first_negative_row = 35791": ("largest int", "first_negative_row = 35792  => first_negative_row = 35791 "),
        "in another order": (None, "passes_of_writing = 1\n => ", "passes_of_reading = 3 => passes_of_writing = 1\npasses_of_reading = 3"),
    },
    "who_takes": {
        "starter": ("`four_narrow_rows` has no answer yet",),
        "few rows first": ("Does the first hold these rows", "four_narrow_rows = 3 => four_narrow_rows = 7"),
        "the last that holds it": ("first line that holds 4 rows", "four_narrow_rows = 3 => four_narrow_rows = 6"),
        "clusters for a wide row": ("line for few rows above", "four_wide_rows = 7 => four_wide_rows = 10"),
        "four_wide_rows = 9": ("Which line is for few rows", "four_wide_rows = 7 => four_wide_rows = 9"),
        "the workspace is forgotten": ("needs a workspace", "without_workspace = 10 => without_workspace = 7"),
        "wider than the line": ("ends at 30000", "without_workspace = 10 => without_workspace = 9"),
        "down to the last": ("a line above can", "without_workspace = 10 => without_workspace = 6"),
        "packs are forgotten": ("no whole packs", "not_whole_packs = 6 => not_whole_packs = 10"),
        "not_whole_packs = 9": ("Who needs whole packs", "not_whole_packs = 6 => not_whole_packs = 9"),
        "clusters that are not there": ("has no clusters", "without_clusters = 6 => without_clusters = 10"),
        "without_clusters = 9": ("ends at 30000", "without_clusters = 6 => without_clusters = 9"),
        "without_clusters = 7": ("Which lines hold", "without_clusters = 6 => without_clusters = 7"),
        "rows as they are": ("leave it as idle", "on_a_large_gpu = 7 => on_a_large_gpu = 10"),
        "on_a_large_gpu = 6": ("would see them", "on_a_large_gpu = 7 => on_a_large_gpu = 6"),
        "in another order": (None, "four_wide_rows = 7\n => ", "four_narrow_rows = 3 => four_wide_rows = 7\nfour_narrow_rows = 3"),
    },
    "over_the_link": {
        "starter": ("`columns_of_the_last` has no answer yet",),
        "equal parts": ("whole groups of 16", "columns_of_the_last = 232 => columns_of_the_last = 250"),
        "as many as the others": ("are left", "columns_of_the_last = 232 => columns_of_the_last = 256"),
        "columns_of_the_last = 1": ("do the others have", "columns_of_the_last = 232 => columns_of_the_last = 1"),
        "nobody is without": ("how many groups", "gpus_without_columns = 1 => gpus_without_columns = 0"),
        "gpus_without_columns = 2": ("Give away groups", "gpus_without_columns = 1 => gpus_without_columns = 2"),
        "the number is forgotten": ("travels with the pair", "kib_to_one = 64 => kib_to_one = 32"),
        "no room for it": ("not written in one piece", "kib_to_one = 64 => kib_to_one = 48"),
        "to itself": ("To itself", "kib_to_one = 64 => kib_to_one = 128"),
        "kib_to_one = 1": ("holds two floats and a number", "kib_to_one = 64 => kib_to_one = 1"),
        "to itself, too": ("How many others", "kib_to_seven = 448 => kib_to_seven = 512"),
        "to one alone": ("Each of the others is told", "kib_to_seven = 448 => kib_to_seven = 64"),
        "kib_to_seven = 1": ("it tells each", "kib_to_seven = 448 => kib_to_seven = 1"),
        "a float in a piece of its own": ("leaves 4 of 16 bytes empty", "kib_of_a_loss = 64 => kib_of_a_loss = 96"),
        "two letters": ("hold three floats", "kib_of_a_loss = 64 => kib_of_a_loss = 128"),
        "kib_of_a_loss = 1": ("How many floats", "kib_of_a_loss = 64 => kib_of_a_loss = 1"),
        "the whole row": ("half of the columns", "kib_of_a_row = 148.375 => kib_of_a_row = 296.75"),
        "kib_of_a_row = 1": ("times 2 bytes", "kib_of_a_row = 148.375 => kib_of_a_row = 1"),
    },
    "index_overflow": {
        "starter": (
            r"first row 3000000.*out of bounds: read of 4 bytes[^\n]*which belongs to no array.*x\[row \* cols \+ col\]",),
        "unsigned": ("2 x 4096, input normal, first row 3000000:.*out of bounds: read",
            "const std::int64_t row = first_row + blockIdx.x; => const unsigned row = first_row + blockIdx.x;",
            "x + row * cols => x + row * static_cast<unsigned>(cols)"),
        "32-bit row": (BEYOND_AN_INT,
            "const std::int64_t row = => const int row ="),
        "an int goes in, and is converted": (BEYOND_AN_INT,
            "y, std::int64_t first_row, std::int64_t cols => y, int first_row, std::int64_t cols",
            "row = first_row + blockIdx.x => row = std::int64_t{first_row} + blockIdx.x"),
        "only the reads": ("first row 3000000.*out of bounds: write",
            "y + row * cols => y + static_cast<int>(row * cols)"),
        "size_t": (None, "const std::int64_t row = => const std::size_t row ="),
        "long long": (None, "std::int64_t first_row, std::int64_t cols => long long first_row, long long cols", "const std::int64_t row = => const long long row ="),
        "columns in an int": (None, "std::int64_t first_row, std::int64_t cols => std::int64_t first_row, int cols"),
        "columns that are counted in an int": (None, "for (std::int64_t col = threadIdx.x => for (int col = static_cast<int>(threadIdx.x)"),
        "a product per element": (None, "  const float* row_x = x + row * cols;\n  float* row_y = y + row * cols;\n => ", "row_x[col] => x[row * cols + col]", "row_y[col] => y[row * cols + col]"),
        "1024 threads": (None, "block_size = 256 => block_size = 1024"),
        "added one by one": (None, "x + row * cols => x + first_row * cols + blockIdx.x * cols"),
        "the product is converted": ("first row 3000000.*out of bounds: read", "x + row * cols => x + static_cast<std::int64_t>(static_cast<int>(row) * static_cast<int>(cols))"),
        "the first factor's int": (BEYOND_AN_INT, "x + row * cols => x + static_cast<std::int64_t>(static_cast<int>(row)) * cols"),
        "a float": (r"first row 3000000:.*row_x\[col\]", "x + row * cols => x + static_cast<std::int64_t>(static_cast<float>(row) * 1.0000001f * static_cast<float>(cols))"),
        "uint32_t": ("first row .*out of bounds: read", "const std::int64_t row = first_row => const std::uint32_t row = first_row"),
        "the index wraps": ("out of bounds: read", "row_x[col] => x[static_cast<int>(row * cols + col)]"),
        "not the first row": ("first row 3000000.*out of bounds: read", "first_row + blockIdx.x => blockIdx.x"),
        "the row of the matrix twice": ("out of bounds: read", "first_row + blockIdx.x => 2 * first_row + blockIdx.x"),
    },
    "merge": {
        "starter": ("Wrong result: row 0, column 0 of 3 x 1000, input normal.*fill the gap in `merge`",),
        "no guard": (r"Wrong result: row 0.*got nan.*met no element \(-inf, 0\) or only -inf",
            "fmaxf(max, -FLT_MAX) => max"),
        "skips -inf": (r"input one_nan.*expected nan.* The NaN of this row is in column \d+\.",
            "  const float shift =>   if (max == -INFINITY) return {max, 0};\n  const float shift"),
        "only a is rescaled": ("Wrong result: row 0, column 0", "b.sum * __expf(b.max - shift) => b.sum"),
        "in double": (None, """  const float max = fmaxf(a.max, b.max);
  const double shift = fmaxf(max, -FLT_MAX);
  return {max, static_cast<float>(a.sum * exp(a.max - shift) + b.sum * exp(b.max - shift))};
"""),
        "a sum in double": (None, "  float sum = 0; =>   double sum = 0;", "{row_x[col], 1.0f} => {row_x[col], 1.0}", "__shared__ float sum_of_warp => __shared__ double sum_of_warp",
            "reciprocal = 1.0f / total.sum => reciprocal = static_cast<float>(1.0 / total.sum)"),
        "the sum's part that has the maximum is kept": (None, """  const float max = fmaxf(a.max, b.max);
  const float shift = fmaxf(max, -FLT_MAX);
  const float a_sum = a.max == max ? a.sum : a.sum * __expf(a.max - shift);
  const float b_sum = b.max == max ? b.sum : b.sum * __expf(b.max - shift);
  return {max, a_sum + b_sum};
"""),
        "0 instead of -inf": (None, "fmaxf(max, -FLT_MAX) => max == -INFINITY ? 0.0f : max"),
        "powers of two": (None, "__expf(a.max - shift) => exp2f((a.max - shift) * 1.44269504f)", "__expf(b.max - shift) => exp2f((b.max - shift) * 1.44269504f)"),
        "the exact exponential": (None, "a.sum * __expf => a.sum * expf", "b.sum * __expf => b.sum * expf"),
        "an if": (None, """  if (a.max < b.max) {
    const MaxSum larger = b;
    b = a;
    a = larger;
  }
  const float shift = fmaxf(a.max, -FLT_MAX);
  return {a.max, a.sum * __expf(a.max - shift) + b.sum * __expf(b.max - shift)};
"""),
        "not rescaled": ("Wrong result: row 0, column 0", "  return {fmaxf(a.max, b.max), a.sum + b.sum};\n"),
        "the wrong sign": ("Wrong result: row 0", "__expf(a.max - shift) => __expf(shift - a.max)"),
        "the smaller maximum": ("Wrong result: row 0", "max = fmaxf(a.max, b.max) => max = fminf(a.max, b.max)"),
        "maximum of the sums": ("Wrong result: row 0", "a.sum * __expf(a.max - shift) + b.sum * __expf(b.max - shift) => fmaxf(a.sum, b.sum)"),
        "the least positive float": ("Wrong result: row 0.*add up to 1.0107", "-FLT_MAX => FLT_MIN"),
        "returns the other": ("Wrong result: row 0.*add up to 17.93", "  const float max = =>   if (b.max == -INFINITY) return a;\n  if (!(b.max >= a.max)) return a;\n  const float max ="),
        "max with -inf alone": ("Wrong result: .*got nan", "fmaxf(max, -FLT_MAX) => fmaxf(max, -INFINITY)"),
        "512 threads": (None, "block_size = 128 => block_size = 512"),
    },
    "four_blocks": {
        "starter": ("Wrong result: row 0, column 0 of 2 x 10000, input normal.*fill the gap in `exchange`",),
        "waits before it sends": ("waits for ever.*again and again, which nobody writes any more",
            "  write(Slot(slots[threadIdx.x][blockIdx.x]), pair);\n => ",
            "  const MaxSum other = read(received); =>   write(Slot(slots[threadIdx.x][blockIdx.x]), pair);\n"
            "  const MaxSum other = read(received);"),
        "does not wait": ("Wrong result: row 0", "  while (is_empty(received)) {\n  }\n => "),
        "leaves the slots full": ("Wrong result: row 0, column 0 of 1 x 7", "  make_empty(received);\n => "),
        "sends to itself": ("waits for ever",
            "slots[threadIdx.x][blockIdx.x] => slots[blockIdx.x][blockIdx.x]"),
        "reads x again": ("passes of reading, where at most 2.40 are",
            "  const float reciprocal => "
            "  for (std::int64_t col = first_col + threadIdx.x; col < end_col; col += block_size) {\n"
            "    total.max = fmaxf(total.max, row_x[col]);\n  }\n  const float reciprocal"),
        "spins on what it reads": (None, """  write(Slot(slots[threadIdx.x][blockIdx.x]), pair);
  const Slot received(slots[blockIdx.x][threadIdx.x]);
  unsigned long long bits = 0;
  do bits = received.load(cuda::memory_order_relaxed);
  while (bits == 0);
  make_empty(received);
  return cuda::std::bit_cast<MaxSum>(bits);
"""),
        "takes what it reads": (None, """  write(Slot(slots[threadIdx.x][blockIdx.x]), pair);
  const Slot received(slots[blockIdx.x][threadIdx.x]);
  while (is_empty(received)) {
  }
  return cuda::std::bit_cast<MaxSum>(received.exchange(0, cuda::memory_order_relaxed));
"""),
        "its own pair needs no slot": (None, "  write(Slot =>   if (threadIdx.x == blockIdx.x) return pair;\n  write(Slot"),
        "waits until its slot is empty, too": (None, "  write(Slot(slots[threadIdx.x][blockIdx.x]), pair); =>   const Slot sent(slots[threadIdx.x][blockIdx.x]);\n  while (!is_empty(sent)) {\n  }\n  write(sent, pair);"),
        "its own pair is forgotten": ("Wrong result: row 0", "  write(Slot =>   if (threadIdx.x == blockIdx.x) return {};\n  write(Slot"),
        "its own pair four times": ("Wrong result: row 0", "  return other; =>   return pair;"),
        "empties before it reads": ("Wrong result: row 0", "  const MaxSum other = read(received);\n  make_empty(received); =>   make_empty(received);\n  const MaxSum other = read(received);"),
        "empties what it sent": ("waits for ever", "  make_empty(received); =>   make_empty(Slot(slots[threadIdx.x][blockIdx.x]));"),
        "reads what it sent": ("Wrong result: row 0", "received(slots[blockIdx.x][threadIdx.x]) => received(slots[threadIdx.x][blockIdx.x])"),
        "only one thread sends": ("waits for ever", "  write(Slot =>   if (threadIdx.x == 0) write(Slot"),
        "plain accesses": ("endless loop: it comes back", "is_empty(received) => slots[blockIdx.x][threadIdx.x] == 0"),
    },
    "masked_rows": {
        "starter": ("Wrong result: row 0, column 0 of 3 x 8192, input neg_inf_prefix.*got nan, expected 0",),
        "only the guard": (r"3\.02 exponentials per element, where at most 2\.60.*rescaled for every element",
            ADD_CHUNK + " =>   for (const float value : values) {\n    const float max = fmaxf(total.max, value);\n"
            "    const float shift = fmaxf(max, -FLT_MAX);\n"
            "    total.sum = total.sum * __expf(total.max - shift) + __expf(value - shift);\n"
            "    total.max = max;\n  }\n"),
        "rescaled at each new maximum": (
            r"exponentials per element, where at most 2\.60.*every element is a new maximum",
            ADD_CHUNK + " =>   for (const float value : values) {\n    const float shift = fmaxf(value, -FLT_MAX);\n"
            "    if (value > total.max) {\n      total.sum *= __expf(total.max - shift);\n"
            "      total.max = value;\n    }\n    total.sum += __expf(value - fmaxf(total.max, -FLT_MAX));\n  }\n"),
        "rescaled where the maximum is new": (None,
            "  total.sum *= __expf =>   if (max > total.max) total.sum *= __expf"),
        "one of the five maxima": (None, "  total.sum *= __expf(total.max - shift); =>   total.sum *= total.max == max ? 1.0f : __expf(total.max - shift);"),
        "0 instead of -inf": (None, "fmaxf(max, -FLT_MAX);  // => max == -INFINITY ? 0.0f : max;  //"),
        "a tree of maxima": (None, "  for (const float value : values) max = fmaxf(max, value); =>   max = fmaxf(max, fmaxf(fmaxf(values[0], values[1]), fmaxf(values[2], values[3])));"),
        "a sum of its own": (None, ADD_CHUNK + """ =>   float max = fmaxf(fmaxf(values[0], values[1]), fmaxf(values[2], values[3]));
  max = fmaxf(max, total.max);
  const float shift = fmaxf(max, -FLT_MAX);
  float sum = 0;
  for (const float value : values) sum += __expf(value - shift);
  total = {max, total.sum * __expf(total.max - shift) + sum};
"""),
        "not rescaled": ("input ascending|Wrong result: row 0", "  total.sum *= __expf(total.max - shift);\n => "),
        "the chunk's own maximum": ("Wrong result: .*input large_magnitude", "  float max = total.max; =>   float max = -INFINITY;"),
        "the maximum is not kept": ("Wrong result: row 0", "  total.max = max;\n => "),
        "rescaled after": ("Wrong result: row 0", "  total.sum *= __expf(total.max - shift);\n => ", "  total.max = max; =>   total.sum *= __expf(total.max - shift);\n  total.max = max;"),
        "the guard only where it is added": (r"got nan", "__expf(total.max - shift) => __expf(total.max - max)"),
        "-inf is left out, and NaN": ("one_nan.*expected nan", "total.sum += __expf(value - shift); => total.sum += value > -INFINITY ? __expf(value - shift) : 0.0f;"),
        "-inf is left out": (None, "total.sum += __expf(value - shift); => total.sum += value == -INFINITY ? 0.0f : __expf(value - shift);"),
    },
    "head_and_tail": {
        "starter": (r"114.40 bytes per load request of a warp, where at least 300.*float values\[1\] = {row\[col\]};",),
        "no head": ("misaligned read of 16 bytes", "(pack_size - past) % pack_size => 0"),
        "past, not missing": ("misaligned read of 16 bytes", "(pack_size - past) % pack_size => past"),
        "a whole pack before the first": (None, "(pack_size - past) % pack_size => pack_size - past"),
        "a head wider than the row, and a negative tail": (None,
            "min((pack_size - past) % pack_size, cols) => (pack_size - past) % pack_size"),
        "no tail": ("never written", "(cols - head) % pack_size}; => 0};"),
        "tail of the row, not of what is left": (r"race: write of 16 bytes of global memory", "(cols - head) % pack_size}; => cols % pack_size};"),
        "by bits": (None, "(pack_size - past) % pack_size => -past & (pack_size - 1)"),
        "counted up": (None, """  int head = 0;
  while (head < cols && reinterpret_cast<std::uintptr_t>(row + head) % 16 != 0) ++head;
  return {head, (cols - head) / pack_size, (cols - head) % pack_size};
"""),
        "with branches": (None, """  const int past = static_cast<int>(reinterpret_cast<std::uintptr_t>(row) % 16 / 4);
  int head = past == 0 ? 0 : 4 - past;
  if (head > cols) head = cols;
  const int num_packs = (cols - head) / 4;
  return {head, num_packs, cols - head - 4 * num_packs};
"""),
        "at multiples of 32 bytes": (None, """  const int past = static_cast<int>(reinterpret_cast<std::uintptr_t>(row) / 4 % 8);
  const int head = min((8 - past) % 8, cols);
  return {head, (cols - head) / pack_size, (cols - head) % pack_size};
"""),
        "all are packs": ("misaligned read of 16 bytes", "  return {0, cols / pack_size, cols % pack_size};\n"),
        "only rows that begin well": (r"bytes per load request of a warp, where at least 300", """  if (reinterpret_cast<std::uintptr_t>(row) % 16 != 0) return {cols, 0, 0};
  return {0, cols / pack_size, cols % pack_size};
"""),
        "bytes, not elements": ("misaligned read of 16 bytes", "/ sizeof(float) % pack_size => % 16"),
        "packs rounded up": ("race: write", "(cols - head) / pack_size, => (cols - head + pack_size - 1) / pack_size,"),
        "the tail twice": ("race: write", "(cols - head) % pack_size}; => cols - head};"),
        "a pack of the whole row": ("race: write", "(cols - head) / pack_size, => cols / pack_size,"),
        "the head is lost": ("misaligned read of 16 bytes", "return {head, => return {0,"),
    },
    "two_rows": {
        "starter": (r"shared memory.*is on its way.*\| for .*max = fmaxf\(max, slot\[col\]\)",),
        "only the barrier": (r"is on its way",
            "if (next < shape.rows) request_row(slots[1 - turn], x + next * shape.cols, cols);\n    __pipeline_commit(); => "
            "if (next < shape.rows) request_row(slots[1 - turn], x + next * shape.cols, cols);\n"
            "    if (next < shape.rows) __pipeline_commit();"),
        "only the group": (r"shared memory", "    __pipeline_wait_prior(1);\n    __syncthreads(); =>     __pipeline_wait_prior(1);"),
        "barriers everywhere": (r"7 barriers per row, where at most 6 are expected",
            "    const float* slot = slots[turn]; =>     __syncthreads();\n    const float* slot = slots[turn];"),
        "nothing left under way": (None, "__pipeline_wait_prior(1); => __pipeline_wait_prior(0);"),
        "waits for all in the last turn": (None, "    __pipeline_commit();\n    __pipeline_wait_prior(1); =>     __pipeline_commit();\n    if (next < shape.rows) __pipeline_wait_prior(1);\n    else __pipeline_wait_prior(0);"),
        "in PTX": (None, "__pipeline_memcpy_async(slot + col, row_x + col, 16); => asm volatile(\"cp.async.cg.shared.global [%0], [%1], 16;\" ::\n"
            "\"r\"(static_cast<unsigned>(__cvta_generic_to_shared(slot + col))), \"l\"(row_x + col) : \"memory\");"),
        "4 bytes at a time": (None, "int col = 4 * static_cast<int>(threadIdx.x); col < cols; col += 4 * block_size => int col = static_cast<int>(threadIdx.x); col < cols; col += block_size", "row_x + col, 16 => row_x + col, 4"),
        "through registers": ("0 passes of reading by asynchronous copies, where 1 is.*loaded into a register", "__pipeline_memcpy_async(slot + col, row_x + col, 16); => "
            "for (int i = 0; i < 4; ++i) slot[col + i] = row_x[col + i];"),
        "through a float4": ("0 passes of reading by asynchronous copies, where 1 is.*loaded into a register", "__pipeline_memcpy_async(slot + col, row_x + col, 16); => "
            "*reinterpret_cast<float4*>(slot + col) = *reinterpret_cast<const float4*>(row_x + col);"),
        "the first row through registers": ("0.67 passes of reading by asynchronous copies, where 1 is", "  request_row(slots[0], x + blockIdx.x * shape.cols, cols);\n => "
            "  for (int col = threadIdx.x; col < cols; col += block_size) slots[0][col] = x[blockIdx.x * shape.cols + col];\n"),
        "not by copies at all": ("4 passes of reading, where 1 is", "const float* slot = slots[turn]; => const float* slot = x + row * shape.cols;"),
        "no group": ("is on its way", "    __pipeline_commit();\n    __pipeline_wait_prior(1); =>     __pipeline_wait_prior(1);"),
        "two groups may be under way": ("is on its way", "__pipeline_wait_prior(1); => __pipeline_wait_prior(2);"),
        "no wait": ("is on its way", "    __pipeline_wait_prior(1);\n => "),
        "the barrier before the wait": ("race: read of 4 bytes of shared memory", "    __pipeline_wait_prior(1);\n    __syncthreads(); =>     __syncthreads();\n    __pipeline_wait_prior(1);"),
        "a barrier of the warp": ("shared memory", "    __pipeline_wait_prior(1);\n    __syncthreads(); =>     __pipeline_wait_prior(1);\n    __syncwarp();"),
        "no barrier before the next copy": ("race: write of 16 bytes of shared memory", "    __syncthreads();  // the next row but one is copied over this one\n => "),
        "always the same slot": ("is on its way", "    turn = 1 - turn;\n => "),
        "the same slot for both": ("is on its way", "slots[1 - turn], x + next => slots[turn], x + next"),
        "misaligned slots": ("misaligned", "__shared__ __align__(128) float slots[2][max_cols]; => __shared__ __align__(128) float slots[2][max_cols + 1];"),
    },
    "pairs_in_a_cluster": {
        "starter": ("Wrong result: row 0",),
        "sends to itself alone": ("race: write of 4 bytes of shared memory",
            "cluster.block_rank()], threadIdx.x) => cluster.block_rank()], cluster.block_rank())"),
        "does not wait": ("race|nobody has written", "  cluster.sync();  // all have sent\n => "),
        "sends at once": ("need not have started", "  cluster.sync();  // all have started\n => "),
        "over one another": ("race|nobody has written", 
            "received[cluster.block_rank()], threadIdx.x => received[0], threadIdx.x"),
        "a barrier more": (None,
            "  cluster.sync();  // all have sent =>   cluster.sync();\n  cluster.sync();  // all have sent"),
        "reads, and waits until all have read": (None, """  received[0] = pair;
  cluster.sync();
  const MaxSum other = threadIdx.x < parts ? *cluster.map_shared_rank(&received[0], threadIdx.x) : MaxSum{};
  cluster.sync();
  return other;
""", "  received[0] = pair; =>   if (threadIdx.x == 0) received[0] = pair;"),
        "arrives, and waits": (None, "  cluster.sync();  // all have sent =>   cluster.barrier_arrive();\n  cluster.barrier_wait();"),
        "one thread sends to all": (None, "  if (threadIdx.x < parts) *cluster.map_shared_rank(&received[cluster.block_rank()], threadIdx.x) = pair; => "
            "  for (unsigned to = 0; threadIdx.x == 0 && to < parts; ++to) *cluster.map_shared_rank(&received[cluster.block_rank()], to) = pair;"),
        "its own pair in registers": (None, "  return threadIdx.x < parts ? received[threadIdx.x] : MaxSum{}; =>   if (threadIdx.x == cluster.block_rank()) return pair;\n"
            "  return threadIdx.x < parts ? received[threadIdx.x] : MaxSum{};"),
        "reads, and leaves": ("which has returned .a cluster barrier before its end is missing", """  if (threadIdx.x == 0) received[0] = pair;
  cluster.sync();
  return threadIdx.x < parts ? *cluster.map_shared_rank(&received[0], threadIdx.x) : MaxSum{};
"""),
        "a barrier of the block": ("nobody has written yet .is a barrier missing", "  cluster.sync();  // all have sent =>   __syncthreads();"),
        "a barrier for those who send": ("names lanes 0-3, which wait elsewhere", "  cluster.sync();  // all have sent =>   if (threadIdx.x < parts) cluster.sync();"),
        "its own memory": ("Wrong result: row 0", "*cluster.map_shared_rank(&received[cluster.block_rank()], threadIdx.x) = pair => received[threadIdx.x] = pair"),
        "the pair of one": ("Wrong result: row 0", "received[threadIdx.x] : MaxSum{} => received[0] : MaxSum{}"),
        "all threads have it": ("add up to 0.03125 instead of 1", "threadIdx.x < parts ? received[threadIdx.x] : MaxSum{} => received[threadIdx.x % parts]"),
    },
    "gradient_in_a_warp": {
        "starter": ("Wrong result, 5 x 100, input normal: [0-9]+ of 500 elements wrong",),
        "each lane alone": ("Wrong result, 5 x 100", "sum = warp_sum(sum); => "),
        "dy is forgotten": ("Wrong result", "y[i] * (dy[i] - sum) => y[i] * sum"),
        "reads again": ("4 passes of reading, where 2 are expected",
            "dx[row * shape.cols + col] = row_dy[i]; => "
            "dx[row * shape.cols + col] = row_dy[i] + 0 * *(volatile const float*)&y[row * shape.cols + col]"
            " + 0 * *(volatile const float*)&dy[row * shape.cols + col];"),
        "a sum for each element": ("shuffles per row", "(dy[i] - sum); => (dy[i] - warp_sum(sum) / 32);"),
        "as PyTorch has it": (None, "y[i] * (dy[i] - sum) => y[i] * dy[i] - y[i] * sum"),
    },
    "loss_and_gradient": {
        "starter": ("Wrong result, 5 x 100, input normal: loss: 5 of 5 elements never written",),
        "no label": ("Wrong result, 5 x 100, input normal: dx: 4 of 500 elements wrong", " - (is_label ? 1 : 0); => ;"),
        "x is dx already": ("Wrong result, 5 x 100, input normal: loss: [0-9] of 5 elements wrong",
            "    if (is_label) *loss = logf(sum) + (max - x[i]);\n => ", "(is_label ? 1 : 0);\n => (is_label ? 1 : 0);\n"
            "    if (is_label) *loss = logf(sum) + (max - x[i]);\n"),
        "nobody is ignored": ("loss: 1 of 5 elements never written", "label == ignored_label; => false;"),
        "an ignored NaN": ("input one_nan: dx: ", "is_ignored ? 0 : __expf(x[i] - max) / sum - (is_label ? 1 : 0); => "
            "__expf(x[i] - max) / sum * (is_ignored ? 0.0f : 1.0f) - (is_label ? 1 : 0);"),
        "the logarithm beside the maximum": ("input lowest: loss: 4 of 5 elements wrong", "logf(sum) + (max - x[i]) => (logf(sum) + max) - x[i]"),
        "the label by its index": (None, "if (is_label) *loss = logf(sum) + (max - x[i]);\n => ",
            "#pragma unroll\n  for (int i = 0; i < cols_per_lane; ++i) {\n    const bool => "
            "if (!is_ignored && lane == label % 32) *loss = logf(sum) + (max - x[label / 32]);\n"
            "#pragma unroll\n  for (int i = 0; i < cols_per_lane; ++i) {\n    const bool"),
        "reads again": ("2 passes of reading",
            "dx[row * shape.cols + col] = values[i]; => "
            "dx[row * shape.cols + col] = values[i] + (*(volatile const float*)&x[row * shape.cols + col] == -12345);"),
        "the logarithm of the softmax": ("input large_magnitude: loss: .* got inf, expected", "logf(sum) + (max - x[i]) => -logf(__expf(x[i] - max) / sum)"),
    },
    "mask_and_dropout": {
        "starter": ("Wrong result, 20 x 12, input normal: softmax: ",),
        "everything is read": ("1 pass of reading, where at most 0.53", "if (col <= query) pack = => pack ="),
        "does not see itself": ("Wrong result, 20 x 12, input normal: softmax: ", "col + i <= query ? x[i] => col + i < query ? x[i]"),
        "a pack at the diagonal is masked whole": ("softmax: ", "if (col <= query) pack = => if (col + 3 <= query) pack ="),
        "scaled after the mask": (None, "col + i <= query ? x[i] * scale : -INFINITY; => (col + i <= query ? x[i] : -INFINITY) * scale;"),
        "the mask is added": ("input lowest: softmax: ", "col + i <= query ? x[i] * scale : -INFINITY; => x[i] * scale + (col + i <= query ? 0.0f : -10000.0f);"),
        "the same words for all": ("y: [0-9]+ of ", "is_first_half = index % 8 == 0; => is_first_half = true;"),
        "the upper half first": ("y: [0-9]+ of ", "(i % 2 * 16) => (16 - i % 2 * 16)"),
        "drawn by column": ("y: [0-9]+ of 240 elements wrong; first at row [1-9]", "philox4x32(index / 8, seed) => philox4x32(index % 12 / 8, seed)"),
        "the factor is forgotten": ("y: [0-9]+ of ", " * kept_factor; => ;"),
        "multiplied by 0": (None, "drawn < dropped_of_65536 ? 0 : values[i] * kept_factor; => values[i] * (drawn < dropped_of_65536 ? 0 : kept_factor);"),
    },
    **WARM_UPS,
}
# fmt: on

