// Exercise 01.2, write it, 15 minutes: three steps in one kernel
//
// Between the steps values stay in registers, not in y: x is read once, y is written once.
#include "common/exercise/launchers.cuh"

constexpr int block_size = 128;

__global__ void subtract_exp_divide(const float* x, const float* row_max, const float* row_sum, float* y,
                                    Shape shape) {
  for (std::int64_t row = blockIdx.x; row < shape.rows; row += gridDim.x) {
    const float max = row_max[row];
    const float reciprocal = 1.0f / row_sum[row];
    for (std::int64_t col = threadIdx.x; col < shape.cols; col += block_size) {
      y[row * shape.cols + col] = expf(x[row * shape.cols + col] - max) * reciprocal;
    }
  }
}

void softmax_from_max_and_sum(const float* x, const float* row_max, const float* row_sum, float* y,
                              Shape shape, cudaStream_t stream) {
  const unsigned grid = grid_for(shape.rows);
  subtract_exp_divide<<<grid, block_size, 0, stream>>>(x, row_max, row_sum, y, shape);
  CUDA_CHECK(cudaGetLastError());
}
