// Exercise 06.1, write it, 15 minutes: merging two parts of a row
//
// A sum relative to a smaller maximum is rescaled. The lowest float replaces a maximum of -inf.
#include <cfloat>

#include "common/exercise/launchers.cuh"

/// The maximum of some elements, and their sum of exp(x - max). Without elements: -inf and 0.
struct MaxSum {
  float max = -INFINITY;
  float sum = 0;
};

/// The pair of both parts together.
__device__ MaxSum merge(MaxSum a, MaxSum b) {
  const float max = fmaxf(a.max, b.max);
  const float shift = fmaxf(max, -FLT_MAX);  // exp(-inf - -inf) would be NaN
  return {max, a.sum * __expf(a.max - shift) + b.sum * __expf(b.max - shift)};
}

// ---- Given: the merge over a block, and the kernel.
constexpr int block_size = 128;

__device__ MaxSum merge_lanes(MaxSum pair) {
  for (int mask = 16; mask > 0; mask /= 2) {
    const MaxSum other{__shfl_xor_sync(0xffffffff, pair.max, mask),
                       __shfl_xor_sync(0xffffffff, pair.sum, mask)};
    pair = merge(pair, other);
  }
  return pair;
}

__device__ MaxSum block_merge(MaxSum pair) {
  __shared__ float max_of_warp[block_size / 32];
  __shared__ float sum_of_warp[block_size / 32];
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  pair = merge_lanes(pair);
  if (lane == 0) {
    max_of_warp[warp] = pair.max;
    sum_of_warp[warp] = pair.sum;
  }
  __syncthreads();
  return merge_lanes(lane < block_size / 32 ? MaxSum{max_of_warp[lane], sum_of_warp[lane]} : MaxSum{});
}

__global__ void online_softmax(const float* x, float* y, Shape shape) {
  const float* row_x = x + blockIdx.x * shape.cols;
  float* row_y = y + blockIdx.x * shape.cols;

  MaxSum total;
  for (std::int64_t col = threadIdx.x; col < shape.cols; col += block_size) {
    total = merge(total, {row_x[col], 1.0f});  // the pair of a single element: exp(x - x) = 1
  }
  total = block_merge(total);

  const float reciprocal = 1.0f / total.sum;
  for (std::int64_t col = threadIdx.x; col < shape.cols; col += block_size) {
    row_y[col] = __expf(row_x[col] - total.max) * reciprocal;
  }
}

void softmax(const float* x, float* y, Shape shape, cudaStream_t stream) {
  online_softmax<<<grid_for(shape.rows), block_size, 0, stream>>>(x, y, shape);
  CUDA_CHECK(cudaGetLastError());
}
