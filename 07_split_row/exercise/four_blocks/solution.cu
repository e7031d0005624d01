// Exercise 07.1, write it, 20 minutes: four blocks share a row
//
// Each block sends its pair to the other blocks of its row, waits for theirs, and leaves the slots as it found them.
#include <cfloat>
#include <cuda/atomic>
#include <cuda/std/bit>

#include "common/exercise/launchers.cuh"

/// The maximum of some elements, and their sum of exp(x - max). Without elements: -inf and 0.
struct MaxSum {
  float max = -INFINITY;
  float sum = 0;
};

// ---- Given: a slot of global memory for one pair. 0 says that there is none: no pair has these bits.
using Slot = cuda::atomic_ref<unsigned long long, cuda::thread_scope_device>;

__device__ void write(Slot slot, MaxSum pair) {
  slot.store(cuda::std::bit_cast<unsigned long long>(pair), cuda::memory_order_relaxed);
}
__device__ bool is_empty(Slot slot) {
  return slot.load(cuda::memory_order_relaxed) == 0;
}
__device__ MaxSum read(Slot slot) {
  return cuda::std::bit_cast<MaxSum>(slot.load(cuda::memory_order_relaxed));
}
__device__ void make_empty(Slot slot) {
  slot.store(0, cuda::memory_order_relaxed);
}

constexpr int parts = 4;  // blocks of a row
constexpr int block_size = 128;

/// The pairs sent to each block of a row: slots[to][from]. Empty before and after a launch.
using RowSlots = unsigned long long[parts][parts];
__device__ RowSlots slots_of_row[64];

/// The pair of block threadIdx.x of this row, for threads 0 to parts - 1; of no element for others.
__device__ MaxSum exchange(MaxSum pair, RowSlots& slots) {
  if (threadIdx.x >= parts) return {};
  write(Slot(slots[threadIdx.x][blockIdx.x]), pair);
  const Slot received(slots[blockIdx.x][threadIdx.x]);
  while (is_empty(received)) {
  }
  const MaxSum other = read(received);
  make_empty(received);
  return other;
}

// ---- Given: the merge over a block, and the kernel.
__device__ MaxSum merge(MaxSum a, MaxSum b) {
  const float max = fmaxf(a.max, b.max);
  const float shift = fmaxf(max, -FLT_MAX);
  return {max, a.sum * __expf(a.max - shift) + b.sum * __expf(b.max - shift)};
}

__device__ MaxSum merge_lanes(MaxSum pair) {
  for (int mask = 16; mask > 0; mask /= 2) {
    pair = merge(pair,
                 {__shfl_xor_sync(0xffffffff, pair.max, mask), __shfl_xor_sync(0xffffffff, pair.sum, mask)});
  }
  return pair;
}

__device__ MaxSum block_merge(MaxSum pair) {
  __shared__ MaxSum of_warp[block_size / 32];
  const int lane = static_cast<int>(threadIdx.x) % 32;
  pair = merge_lanes(pair);
  if (lane == 0) of_warp[threadIdx.x / 32] = pair;
  __syncthreads();
  pair = merge_lanes(lane < block_size / 32 ? of_warp[lane] : MaxSum{});
  __syncthreads();
  return pair;
}

/// blockIdx.x: which part of the row, blockIdx.y: which row.
__global__ void shared_row_softmax(const float* x, float* y, Shape shape) {
  const float* row_x = x + blockIdx.y * shape.cols;
  float* row_y = y + blockIdx.y * shape.cols;
  const std::int64_t part_cols = divide_up(shape.cols, parts);
  const std::int64_t first_col = blockIdx.x * part_cols;
  const std::int64_t end_col = min(first_col + part_cols, shape.cols);

  MaxSum total;
  for (std::int64_t col = first_col + threadIdx.x; col < end_col; col += block_size) {
    total = merge(total, {row_x[col], 1.0f});
  }
  total = block_merge(exchange(block_merge(total), slots_of_row[blockIdx.y]));

  const float reciprocal = 1.0f / total.sum;
  for (std::int64_t col = first_col + threadIdx.x; col < end_col; col += block_size) {
    row_y[col] = __expf(row_x[col] - total.max) * reciprocal;
  }
}

/// Cooperative: a block that waits for another needs it on the GPU at the same time.
void softmax(const float* x, float* y, Shape shape, cudaStream_t stream) {
  void* arguments[] = {&x, &y, &shape};
  CUDA_CHECK(cudaLaunchCooperativeKernel(shared_row_softmax, dim3(parts, static_cast<unsigned>(shape.rows)),
                                         dim3(block_size), arguments, 0, stream));
}
