// Exercise 05.2, fix it, 10 minutes: an index that overflows
//
// Rows, columns and their product have 64 bits. One product per row, not one per element: row_x and row_y.
#include "04_smem_bank_conflict/exercise/block_all_reduce.cuh"
#include "common/exercise/launchers.cuh"

constexpr int block_size = 256;

__global__ void wide_softmax(const float* x, float* y, std::int64_t first_row, std::int64_t cols) {
  const std::int64_t row = first_row + blockIdx.x;
  const float* row_x = x + row * cols;
  float* row_y = y + row * cols;

  float max = MaxOp::identity;
  for (std::int64_t col = threadIdx.x; col < cols; col += block_size) max = fmaxf(max, row_x[col]);
  max = block_all_reduce<MaxOp, block_size / 32>(max);

  float sum = 0.0f;
  for (std::int64_t col = threadIdx.x; col < cols; col += block_size) sum += __expf(row_x[col] - max);
  const float reciprocal = 1.0f / block_all_reduce<SumOp, block_size / 32>(sum);

  for (std::int64_t col = threadIdx.x; col < cols; col += block_size) {
    row_y[col] = __expf(row_x[col] - max) * reciprocal;
  }
}

void softmax_of_rows(const float* x, float* y, std::int64_t first_row, Shape shape, cudaStream_t stream) {
  wide_softmax<<<grid_for(shape.rows), block_size, 0, stream>>>(x, y, first_row, shape.cols);
  CUDA_CHECK(cudaGetLastError());
}
