// Exercise 00.1, write it, 5 minutes: a vector copy
//
// One thread for each element: y[i] = x[i]. There are as many blocks as the elements need, and the last block
// may have threads without an element.
#include "common/exercise/launchers.cuh"

constexpr int block_size = 256;

__global__ void vector_copy(const float* x, float* y, std::int64_t n) {
  // TODO: which element belongs to this thread? Copy it, if there is one. You need `blockIdx.x`, the number of
  // this block in the grid, and `threadIdx.x`, the number of this thread in its block.
}

void copy_vector(const float* x, float* y, std::int64_t n, cudaStream_t stream) {
  vector_copy<<<grid_for(divide_up(n, block_size)), block_size, 0, stream>>>(x, y, n);
  CUDA_CHECK(cudaGetLastError());
}
