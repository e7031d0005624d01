// Exercise 05.2, fix it, 10 minutes: an index that overflows
//
// A matrix of more than 2^31 elements is spread over several GPUs. This one holds a few of its rows,
// beginning with `first_row`; x and y point to where row 0 would be. For the first rows of the matrix the
// kernel is right.
#include "04_smem_bank_conflict/exercise/block_all_reduce.cuh"
#include "common/exercise/launchers.cuh"

constexpr int block_size = 256;

__global__ void wide_softmax(const float* x, float* y, int first_row, int cols) {
  const int row = first_row + blockIdx.x;

  float max = MaxOp::identity;
  for (int col = threadIdx.x; col < cols; col += block_size) max = fmaxf(max, x[row * cols + col]);
  max = block_all_reduce<MaxOp, block_size / 32>(max);

  float sum = 0.0f;
  for (int col = threadIdx.x; col < cols; col += block_size) sum += __expf(x[row * cols + col] - max);
  const float reciprocal = 1.0f / block_all_reduce<SumOp, block_size / 32>(sum);

  for (int col = threadIdx.x; col < cols; col += block_size) {
    y[row * cols + col] = __expf(x[row * cols + col] - max) * reciprocal;
  }
}

void softmax_of_rows(const float* x, float* y, std::int64_t first_row, Shape shape, cudaStream_t stream) {
  wide_softmax<<<grid_for(shape.rows), block_size, 0, stream>>>(x, y, first_row, shape.cols);
  CUDA_CHECK(cudaGetLastError());
}
