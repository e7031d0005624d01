// Exercise 10.1, write it, 15 minutes: a cluster shares a row
//
// Each block writes its pair into the shared memory of all, between two barriers of the cluster.
#include <cooperative_groups.h>

#include <cfloat>

#include "common/exercise/launchers.cuh"

namespace cg = cooperative_groups;

/// The maximum of some elements, and their sum of exp(x - max). Without elements: -inf and 0.
struct MaxSum {
  float max = -INFINITY;
  float sum = 0;
};

constexpr int parts = 4;  // blocks of a row, a cluster
constexpr int block_size = 128;

/// The pair of block threadIdx.x of this cluster, for threads 0 to parts - 1; of no element for others. received: in the
/// shared memory of each block, a place for the pair of each.
__device__ MaxSum exchange(MaxSum pair, MaxSum (&received)[parts]) {
  const cg::cluster_group cluster = cg::this_cluster();
  cluster.sync();  // all have started
  if (threadIdx.x < parts) *cluster.map_shared_rank(&received[cluster.block_rank()], threadIdx.x) = pair;
  cluster.sync();  // all have sent
  return threadIdx.x < parts ? received[threadIdx.x] : MaxSum{};
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
__global__ void __cluster_dims__(parts, 1, 1) cluster_row_softmax(const float* x, float* y, Shape shape) {
  __shared__ MaxSum received[parts];
  const float* row_x = x + blockIdx.y * shape.cols;
  float* row_y = y + blockIdx.y * shape.cols;
  const std::int64_t part_cols = divide_up(shape.cols, parts);
  const std::int64_t first_col = blockIdx.x * part_cols;
  const std::int64_t end_col = min(first_col + part_cols, shape.cols);

  MaxSum total;
  for (std::int64_t col = first_col + threadIdx.x; col < end_col; col += block_size) {
    total = merge(total, {row_x[col], 1.0f});
  }
  total = block_merge(exchange(block_merge(total), received));

  const float reciprocal = 1.0f / total.sum;
  for (std::int64_t col = first_col + threadIdx.x; col < end_col; col += block_size) {
    row_y[col] = __expf(row_x[col] - total.max) * reciprocal;
  }
}

void softmax(const float* x, float* y, Shape shape, cudaStream_t stream) {
  cluster_row_softmax<<<dim3(parts, static_cast<unsigned>(shape.rows)), block_size, 0, stream>>>(x, y, shape);
  CUDA_CHECK(cudaGetLastError());
}
