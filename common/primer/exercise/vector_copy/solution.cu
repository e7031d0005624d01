// Exercise 00.1, write it, 5 minutes: a vector copy
//
// Neighbouring threads copy neighbouring elements: a warp requests 128 bytes in one piece.
#include "common/exercise/launchers.cuh"

constexpr int block_size = 256;

__global__ void vector_copy(const float* x, float* y, std::int64_t n) {
  const std::int64_t i = blockIdx.x * std::int64_t{block_size} + threadIdx.x;
  if (i < n) y[i] = x[i];
}

void copy_vector(const float* x, float* y, std::int64_t n, cudaStream_t stream) {
  vector_copy<<<grid_for(divide_up(n, block_size)), block_size, 0, stream>>>(x, y, n);
  CUDA_CHECK(cudaGetLastError());
}
