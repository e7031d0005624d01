"""Answers to the primer's exercises, right and wrong ones, as in exercise_test.py."""

# fmt: off
WARM_UPS: dict[str, dict[str, tuple[str | None, ...]]] = {
    "vector_copy": {
        "starter": ("Wrong result, 1 x 256, input normal: 256 of 256 elements never written.*To do: in `vector_copy`",),
        "no bound": (r"1 x 1000.*element 1000 of an array[^\n]*is the index too large.*\| y\[i\] = x\[i\]", "if (i < n) => "),
        "all blocks the same": ("744 of 1000 elements never written", "blockIdx.x * std::int64_t{block_size} + => "),
        "a byte offset": ("never written", "y[i] = x[i] => y[4 * i % n] = x[4 * i % n]"),
        "one too few": ("1 of 256 elements never written", "i < n => i < n - 1"),
        "a piece for each thread": ("32 sectors per load request, where at most.*a piece of its own",
            "  if (i < n) y[i] = x[i]; =>   for (std::int64_t j = 8 * i; j < 8 * i + 8 && j < n; ++j) y[j] = x[j];"),
        "a grid that strides": (None, "  if (i < n) y[i] = x[i]; =>   for (std::int64_t j = i; j < n; j += 3 * block_size) y[j] = x[j];",
            "grid_for(divide_up(n, block_size)) => 3"),
        "one block": (None, "  if (i < n) y[i] = x[i]; =>   for (std::int64_t j = i; j < n; j += block_size) y[j] = x[j];",
            "grid_for(divide_up(n, block_size)) => 1"),
        "packs": (None, "  if (i < n) y[i] = x[i]; => "
            "  if (4 * i + 4 <= n) reinterpret_cast<float4*>(y)[i] = reinterpret_cast<const float4*>(x)[i];\n"
            "  else for (std::int64_t j = 4 * i; j < n; ++j) y[j] = x[j];"),
    },
    "block_sum": {
        "starter": ("Wrong result, 3 x 1000, input normal: 3 of 3 elements never written.*To do: after all threads",),
        "no barrier": (
            r"at byte \d+, which nobody has written yet|race: read of 4 bytes of shared memory", "  __syncthreads();\n => "),
        "the barrier in the branch": ("barrier",
            "  __syncthreads();\n => ", "    float total = 0; =>     __syncthreads();\n    float total = 0;"),
        "only what it has": (r"3 of 3 elements wrong; first at row 0, column 0: got",
            "total += values[thread] => total = values[thread]"),
        "every row into the first": ("race: write|never written", "sums[blockIdx.x] => sums[0]"),
        "reads the row twice": ("2 passes of reading, where 1 is expected",
            "  values[threadIdx.x] = sum; =>   for (std::int64_t col = threadIdx.x; col < shape.cols; col += block_size) sum += row_x[col];\n"
            "  values[threadIdx.x] = sum / 2;"),
        "a tree": (None,
            "  __syncthreads();\n =>   for (int stride = block_size / 2; stride > 0; stride /= 2) {\n    __syncthreads();\n"
            "    if (threadIdx.x < stride) values[threadIdx.x] += values[threadIdx.x + stride];\n  }\n",
            "thread < block_size => thread < 1"),
        "the last thread": (None, "threadIdx.x == 0 => threadIdx.x == block_size - 1"),
    },
}
# fmt: on

# All work done by one thread.
ONE_THREAD_OF = {
    "vector_copy": """#include "common/exercise/launchers.cuh"
__global__ void vector_copy(const float* x, float* y, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) y[i] = x[i];
}
void copy_vector(const float* x, float* y, std::int64_t n, cudaStream_t stream) {
  vector_copy<<<1, 1, 0, stream>>>(x, y, n);
}
""",
    "block_sum": """#include "common/exercise/launchers.cuh"
__global__ void block_sum(const float* x, float* sums, Shape shape) {
  float sum = 0;
  for (std::int64_t col = 0; col < shape.cols; ++col) sum += x[blockIdx.x * shape.cols + col];
  sums[blockIdx.x] = sum;
}
void sum_rows(const float* x, float* sums, Shape shape, cudaStream_t stream) {
  block_sum<<<grid_for(shape.rows), 1, 0, stream>>>(x, sums, shape);
}
""",
}
