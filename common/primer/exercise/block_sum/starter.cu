// Exercise 00.2, write it, 5 minutes: the sum of a block
//
// One block adds up one row. Its threads have added up every 128th element each, and put their sums into
// shared memory, which all threads of the block can read.
#include "common/exercise/launchers.cuh"

constexpr int block_size = 128;

__global__ void block_sum(const float* x, float* sums, Shape shape) {
  __shared__ float values[block_size];
  const float* row_x = x + blockIdx.x * shape.cols;

  float sum = 0;
  for (std::int64_t col = threadIdx.x; col < shape.cols; col += block_size) sum += row_x[col];
  values[threadIdx.x] = sum;

  // TODO: one thread adds up `values` and writes `sums[blockIdx.x]`. What has to happen before it reads what the
  // other 127 threads have written?
}

void sum_rows(const float* x, float* sums, Shape shape, cudaStream_t stream) {
  block_sum<<<grid_for(shape.rows), block_size, 0, stream>>>(x, sums, shape);
  CUDA_CHECK(cudaGetLastError());
}
