"""Attempts at the exercises, right and wrong ones: what learners write, and what cheats would.

Of each a regular expression that the message matches (None: the attempt is right), and how it differs from the solution:
"old => new" for what is replaced, and a text without an arrow for all of the part that is the exercise, see GAPS.
"""

import re

# Exercises in which the same things go wrong.
FAMILIES = {
    "which lane touches which address": ["one_kernel", "uncoalesced_walk", "packs", "head_and_tail"],
    "reductions and barriers": ["two_bugs", "two_level_reduction", "warp_all_reduce"],
    "pairs of maximum and sum": ["merge", "masked_rows", "four_blocks", "pairs_in_a_cluster"],
    "places and indices": ["conflicting_layout", "index_overflow", "two_rows"],
    "predictions": ["passes_and_sectors", "bank_conflicts", "walks"],
}

# Where the part begins and ends that is the exercise.
GAPS = {
    "one_kernel": ("Shape shape) {\n", "}\n\nvoid softmax"),
    "uncoalesced_walk": ("    for (std::int64_t col", "  }\n}\n"),
    "packs": ("__device__ void load_pack", "// ---- Given"),
    "head_and_tail": ("std::int64_t{0}", "}"),
    "two_bugs": ("float tree_all_reduce(float value) {\n", "}\n\n__global__"),
    "two_level_reduction": ("  value = warp_reduce", "}\n\n// ---- Given"),
    "warp_all_reduce": ("__device__ float warp_all_reduce(float value) {\n", "}\n\n// ---- Given"),
    "merge": ("__device__ MaxSum merge(MaxSum a, MaxSum b) {\n", "}\n\n// ---- Given"),
    "masked_rows": ("__device__ void add_chunk(MaxSum& total, const float (&values)[chunk_size]) {\n", "}\n\n// ---- Given"),
    "four_blocks": ("  if (threadIdx.x >= parts) return {};\n", "}\n\n// ---- Given"),
    "pairs_in_a_cluster": ("cg::this_cluster();\n", "}\n\n// ---- Given"),
    "conflicting_layout": ("__device__ int slot(int i, int /*pack_size*/) {\n", "}\n\n// ---- Given"),
}


def attempt(solution: str, name: str, changes: tuple[str, ...]) -> str:
    """The text of an attempt."""
    for change in changes:
        old, arrow, new = change.partition(" => ")
        if not arrow:
            begin, end = (re.escape(part) for part in GAPS[name])
            solution, found = re.subn(f"({begin}).*?({end})", lambda gap: gap[1] + change + gap[2], solution, count=1, flags=re.DOTALL)
            assert found, name
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
    },
    "one_kernel": {
        "starter": (
            "launched `subtract, exponentiate, divide`; what is asked for is one kernel, `subtract_exp_divide`",),
        "two kernels": ("2 kernels, where 1 is expected",
            "  subtract_exp_divide<<<grid, block_size, 0, stream>>>(x, row_max, row_sum, y, shape);\n"
            " =>   subtract_exp_divide<<<grid, block_size, 0, stream>>>(x, row_max, row_sum, y, shape);\n"
            "  subtract_exp_divide<<<grid, block_size, 0, stream>>>(x, row_max, row_sum, y, shape);\n"),
        "through y": (r"passes of reading, where at most 1.10 are expected.*\| y\[row",
            "expf(x[row * shape.cols + col] - max) * reciprocal; => x[row * shape.cols + col] - max;\n"
            "      y[row * shape.cols + col] = expf(y[row * shape.cols + col]) * reciprocal;",
            "const float* row_sum, float* y,\n"
            "                                    Shape => const float* row_sum, volatile float* y,\n Shape"),
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
    },
    "uncoalesced_walk": {
        "starter": (
            r"25\.80 sectors per load request, where at most 4\.10 are expected.*starter.cu:\d+  32 sectors.*\| y\[row "
            r"\* shape.cols \+ col\] =",),
        "starts where its piece did": ("Wrong result: .*not written",
            "col = threadIdx.x; => col = threadIdx.x * (shape.cols / block_size);"),
        "too short a step": (r"3\.82 passes of reading, where at most 1\.10", "col += block_size => col += 32"),
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
    },
    "two_level_reduction": {
        "starter": ("Wrong result: row 0, column 0 of 3 x 1000.*fill the gap in `block_all_reduce`",),
        "no barrier before the second level": (
            r"at byte 4, which nobody has written yet \(is a barrier missing.*\| value = warp_reduce",
            "warp_results[warp] = value;\n  __syncthreads(); => warp_results[warp] = value;"),
        "all combine the results": ("2 barriers per row, where at least 4 .*It is right with fewer barriers, too",
            "  if (warp == 0 && lane < num_warps) {\n"
            "    value = warp_reduce<ReduceOp>(warp_results[lane], lane, num_warps);\n"
            "    if (lane == 0) result = value;\n  }\n  __syncthreads();\n"
            "  return result; =>   value = warp_results[0];\n"
            "  for (int i = 1; i < num_warps; ++i) value = ReduceOp{}(value, warp_results[i]);\n  return value;",
            "  __shared__ float result;\n => "),
        "32 lanes in the second level": ("out of bounds|has not been written|never written|not written",
            "warp == 0 && lane < num_warps => warp == 0",
            "(warp_results[lane], lane, num_warps) => (warp_results[lane], lane, 32)"),
        "one thread adds them up": ("40 shuffles per row, where 50 are expected.*one thread adding them up",
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
    },
    "warp_all_reduce": {
        "starter": ("Wrong result: row 0, column 0 of 5 x 100.*fill the gap in `warp_all_reduce`",),
        "down instead of xor": ("Wrong result: row 0, column 0.*500 of 500 elements wrong",
            "__shfl_xor_sync => __shfl_down_sync"),
        "asks all lanes one by one": (
            r"64 shuffles per row, where 10 are expected.*\w+\.cu:\d+  64 shuffles per row\n    \| const "
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
        "off by one float": ("misaligned", "(source); => (source + 1);"),
    },
    "bank_conflicts": {
        "starter": ("`word_l` has no answer yet",),
        "lanes one by one": ("This is the same word", "word_5 = 1  => word_5 = 32 "),
        "no reason known": ("does any come twice", "word_9l = 1 => word_9l = 7"),
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
    },
    "walks": {
        "starter": ("`passes_of_reading` has no answer yet",),
        "only what DRAM sees": ("This kernel asks for more", "passes_of_reading = 3 => passes_of_reading = 2"),
        "unsigned": ("unsigned index would wrap", "first_negative_row = 35792 => first_negative_row = 71583"),
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
    },
    "merge": {
        "starter": ("Wrong result: row 0, column 0 of 3 x 1000, input normal.*fill the gap in `merge`",),
        "no guard": (r"Wrong result: row 0.*got nan.*met no element \(-inf, 0\) or only -inf",
            "fmaxf(max, -FLT_MAX) => max"),
        "skips -inf": (r"input one_nan.*expected nan.* The NaN of this row is in column \d+\.",
            "  const float shift =>   if (max == -INFINITY) return {max, 0};\n  const float shift"),
        "only a is rescaled": ("Wrong result: row 0, column 0", "b.sum * __expf(b.max - shift) => b.sum"),
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
    },
    "two_rows": {
        "starter": (r"shared memory.*is on its way.*\| for .*max = fmaxf\(max, slot\[col\]\)",),
        "only the barrier": (r"is on its way",
            "if (next < shape.rows) request_row(slots[1 - turn], x + next * shape.cols, cols);\n    __pipeline_commit(); => "
            "if (next < shape.rows) request_row(slots[1 - turn], x + next * shape.cols, cols);\n"
            "    if (next < shape.rows) __pipeline_commit();"),
        "only the group": (r"shared memory", "    __pipeline_wait_prior(1);\n    __syncthreads(); =>     __pipeline_wait_prior(1);"),
        "barriers everywhere": (r"7 barriers per row, where 6 are expected",
            "    const float* slot = slots[turn]; =>     __syncthreads();\n    const float* slot = slots[turn];"),
        "nothing left under way": (None, "__pipeline_wait_prior(1); => __pipeline_wait_prior(0);"),
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
    },
}
# fmt: on

