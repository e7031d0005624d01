// Exercise 11.1, write it, 15 minutes: the gradient of a row
//
// A warp has read a row of y and of dy: each lane holds up to 32 elements of both, in registers. Write the
// arithmetic: the sum of y dy over the row, and dx.
#include "common/exercise/launchers.cuh"

// Lane l holds the columns l, l + 32, l + 64, ... of both rows.
constexpr int cols_per_lane = 32;

/// The sum over all 32 lanes, in every lane.
__device__ float warp_sum(float value) {
  for (int mask = 16; mask > 0; mask /= 2) value += __shfl_xor_sync(0xffffffff, value, mask);
  return value;
}

/// dx = y (dy - sum of y dy), in place: dy becomes dx. Elements beyond the end of the row are 0.
__device__ void make_gradient(const float (&y)[cols_per_lane], float (&dy)[cols_per_lane]) {
  // TODO (roughly 4 lines): the sum of y dy over the elements of this lane, then over the warp; then each dx. Both rows are
  // here: nothing has to be read again.
}

// ---- Given: the kernel.
constexpr int warps_per_block = 4;

__global__ void warp_gradient(const float* y, const float* dy, float* dx, Shape shape) {
  const std::int64_t row = blockIdx.x * std::int64_t{warps_per_block} + threadIdx.x / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (row >= shape.rows) return;  // the whole warp: no lane is missing in a shuffle

  float row_y[cols_per_lane];
  float row_dy[cols_per_lane];
#pragma unroll
  for (int i = 0; i < cols_per_lane; ++i) {
    const int col = i * 32 + lane;
    row_y[i] = col < shape.cols ? y[row * shape.cols + col] : 0;
    row_dy[i] = col < shape.cols ? dy[row * shape.cols + col] : 0;
  }
  make_gradient(row_y, row_dy);
#pragma unroll
  for (int i = 0; i < cols_per_lane; ++i) {
    const int col = i * 32 + lane;
    if (col < shape.cols) dx[row * shape.cols + col] = row_dy[i];
  }
}

void softmax_backward(const float* y, const float* dy, float* dx, Shape shape, cudaStream_t stream) {
  const unsigned grid = grid_for(divide_up(shape.rows, warps_per_block));
  warp_gradient<<<grid, warps_per_block * 32, 0, stream>>>(y, dy, dx, shape);
  CUDA_CHECK(cudaGetLastError());
}
