// Exercise 09.1, fix it, 15 minutes: two mistakes with two rows
//
// Each iteration makes one group, even an empty one, so that a wait for all except the latest covers this row. And
// the copies of other threads have arrived only once those threads have waited for them as well: after a barrier.
#include <cuda_pipeline.h>

#include "04_smem_bank_conflict/exercise/block_all_reduce.cuh"
#include "common/exercise/launchers.cuh"

constexpr int block_size = 128;
constexpr int num_warps = block_size / 32;
constexpr int max_cols = 4096;  // and a multiple of 4

/// Sends a row on its way to shared memory, 16 bytes at a time. The group is left to the caller.
__device__ void request_row(float* slot, const float* row_x, int cols) {
  for (int col = 4 * static_cast<int>(threadIdx.x); col < cols; col += 4 * block_size) {
    __pipeline_memcpy_async(slot + col, row_x + col, 16);
  }
}

/// A block has every gridDim.x-th row: one it works on, the next is on its way.
__global__ void two_rows_softmax(const float* x, float* y, Shape shape) {
  __shared__ __align__(128) float slots[2][max_cols];
  const int cols = static_cast<int>(shape.cols);
  request_row(slots[0], x + blockIdx.x * shape.cols, cols);
  __pipeline_commit();

  int turn = 0;
  for (std::int64_t row = blockIdx.x; row < shape.rows; row += gridDim.x) {
    const std::int64_t next = row + gridDim.x;
    if (next < shape.rows) request_row(slots[1 - turn], x + next * shape.cols, cols);
    __pipeline_commit();
    __pipeline_wait_prior(1);
    __syncthreads();

    const float* slot = slots[turn];
    float max = MaxOp::identity;
    for (int col = static_cast<int>(threadIdx.x); col < cols; col += block_size) max = fmaxf(max, slot[col]);
    max = block_all_reduce<MaxOp, num_warps>(max);
    float sum = 0.0f;
    for (int col = static_cast<int>(threadIdx.x); col < cols; col += block_size)
      sum += __expf(slot[col] - max);
    const float reciprocal = 1.0f / block_all_reduce<SumOp, num_warps>(sum);
    for (int col = static_cast<int>(threadIdx.x); col < cols; col += block_size) {
      y[row * shape.cols + col] = __expf(slot[col] - max) * reciprocal;
    }
    __syncthreads();  // the next row but one is copied over this one
    turn = 1 - turn;
  }
}

void softmax(const float* x, float* y, Shape shape, cudaStream_t stream) {
  two_rows_softmax<<<grid_for(divide_up(shape.rows, 3)), block_size, 0, stream>>>(x, y, shape);
  CUDA_CHECK(cudaGetLastError());
}
