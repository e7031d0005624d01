"""Answers to the primer's exercises, right and wrong ones, as in exercise_attempts.py."""

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
        "from the end": (None, "  if (i < n) y[i] = x[i]; =>   if (i < n) y[n - 1 - i] = x[n - 1 - i];"),
        "32-bit index": (None, "const std::int64_t i = blockIdx.x * std::int64_t{block_size} + => const unsigned i = blockIdx.x * blockDim.x +"),
        "returns early": (None, "  if (i < n) y[i] = x[i]; =>   if (i >= n) return;\n  y[i] = x[i];"),
        "larger blocks": (None, "block_size = 256 => block_size = 1024"),
        "one past the end": ("1 x 1000.*element 1000 of an array", "i < n => i <= n"),
        "every other element": ("never written", "+ threadIdx.x; => + 2 * threadIdx.x;"),
        "one block too few": ("Wrong result, 1 x 1000.*232 of 1000 elements never written", "divide_up(n, block_size) => n / block_size"),
        "into x": ("changed its input x", "y[i] = x[i] => const_cast<float*>(x)[i] = 0"),
        "twice": ("2 passes of reading, where 1 is expected", "y[i] = x[i]; => y[i] = x[i] / 2 + static_cast<volatile const float*>(x)[i] / 2;"),
        "by the runtime": ("launched no kernel; it should launch `vector_copy`",
            "vector_copy<<<grid_for(divide_up(n, block_size)), block_size, 0, stream>>>(x, y, n) => "
            "cudaMemcpyAsync(y, x, n * sizeof(float), cudaMemcpyDeviceToDevice, stream)"),
        "two launches": ("2 kernels, where 1 is expected",
            "  CUDA_CHECK(cudaGetLastError()); =>   vector_copy<<<grid_for(divide_up(n, block_size)), block_size, 0, stream>>>(x, y, n);"),
        "each thread copies all": ("4 bytes per load request.*or all do the same",
            "  if (i < n) y[i] = x[i]; =>   for (std::int64_t j = 0; j < n; ++j) y[j] = x[j];"),
        "one thread of many copies all": ("4 bytes per load request.*one does the work of all",
            "  if (i < n) y[i] = x[i]; =>   for (std::int64_t j = 0; i == 0 && j < n; ++j) y[j] = x[j];"),
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
        "a fence for a barrier": ("race: |nobody has written", "  __syncthreads(); =>   __threadfence_block();"),
        "the barrier of a warp": ("race: |nobody has written", "  __syncthreads(); =>   __syncwarp();"),
        "volatile for a barrier": ("race: |nobody has written|0 barriers per row, where at least 1|in another order",
            "  __syncthreads();\n => ", "__shared__ float values => __shared__ volatile float values"),
        "the first warp alone": (r"elements wrong; first at row 0", "thread < block_size; => thread < 32;"),
        "all add up, and write the same": (r"Solved.*4 warps each wrote the sum of a row\. One thread is enough", "  if (threadIdx.x == 0) { =>   {"),
        "only the first elements": (r"elements wrong; first at row 0",
            "  for (std::int64_t col = threadIdx.x; col < shape.cols; col += block_size) sum += row_x[col]; => "
            "  if (threadIdx.x < shape.cols) sum = row_x[threadIdx.x];"),
        "past the row": ("out of bounds|elements wrong|which nobody has written", "col < shape.cols => col <= shape.cols"),
        "a piece for each thread": (None,  # of the technique, the barrier alone is asked for
            "  for (std::int64_t col = threadIdx.x; col < shape.cols; col += block_size) sum += row_x[col]; => "
            "  const std::int64_t piece = divide_up(shape.cols, block_size);\n"
            "  for (std::int64_t col = threadIdx.x * piece; col < min((threadIdx.x + 1) * piece, shape.cols); ++col) sum += row_x[col];"),
        "atomics in shared memory": (None,
            "  values[threadIdx.x] = sum; =>   if (threadIdx.x == 0) values[0] = 0;\n  __syncthreads();\n  atomicAdd(&values[0], sum);",
            "thread < block_size => thread < 1"),
        "warps first": (None,
            "  values[threadIdx.x] = sum; =>   for (int mask = 16; mask > 0; mask /= 2) sum += __shfl_xor_sync(0xffffffff, sum, mask);\n"
            "  if (threadIdx.x % 32 == 0) values[threadIdx.x / 32] = sum;",
            "thread < block_size => thread < block_size / 32"),
        "larger blocks": (None, "block_size = 128 => block_size = 1024"),
        "atomics in global memory": ("0 accesses to shared memory per row, where at least 5.*through `values`",
            "  values[threadIdx.x] = sum; =>   if (threadIdx.x == 0) sums[blockIdx.x] = 0;",
            "  if (threadIdx.x == 0) {\n => ", "    float total = 0;\n => ",
            "    for (int thread = 0; thread < block_size; ++thread) total += values[thread];\n => ",
            "    sums[blockIdx.x] = total;\n  }\n =>   atomicAdd(&sums[blockIdx.x], sum);\n"),
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
