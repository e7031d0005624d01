// Exercise 03.1, write it, 10 minutes: lanes exchange registers
//
// After five exchanges every lane has combined the values of all 32.
#include "common/exercise/launchers.cuh"

/// Every lane gets the result of all 32 lanes.
template <class ReduceOp>
__device__ float warp_all_reduce(float value) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    value = ReduceOp{}(value, __shfl_xor_sync(0xffffffff, value, distance));
  }
  return value;
}

// ---- Given: the kernel. Lane l holds the columns l, l + 32, l + 64, ...
constexpr int warps_per_block = 4;
constexpr int cols_per_lane = 32;

__global__ void warp_softmax(const float* x, float* y, Shape shape) {
  const std::int64_t row = blockIdx.x * std::int64_t{warps_per_block} + threadIdx.x / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (row >= shape.rows) return;  // the whole warp: no lane is missing in a shuffle

  float values[cols_per_lane];
  float max = MaxOp::identity;
#pragma unroll
  for (int i = 0; i < cols_per_lane; ++i) {
    const int col = i * 32 + lane;
    values[i] = col < shape.cols ? x[row * shape.cols + col] : MaxOp::identity;
    max = fmaxf(max, values[i]);
  }
  max = warp_all_reduce<MaxOp>(max);

  float sum = 0;
#pragma unroll
  for (float& value : values) {
    value = __expf(value - max);
    sum += value;
  }
  const float reciprocal = 1.0f / warp_all_reduce<SumOp>(sum);

#pragma unroll
  for (int i = 0; i < cols_per_lane; ++i) {
    const int col = i * 32 + lane;
    if (col < shape.cols) y[row * shape.cols + col] = values[i] * reciprocal;
  }
}

void softmax(const float* x, float* y, Shape shape, cudaStream_t stream) {
  const unsigned grid = grid_for(divide_up(shape.rows, warps_per_block));
  warp_softmax<<<grid, warps_per_block * 32, 0, stream>>>(x, y, shape);
  CUDA_CHECK(cudaGetLastError());
}
