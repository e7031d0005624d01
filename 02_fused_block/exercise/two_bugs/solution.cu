// Exercise 02.1, fix it, 15 minutes: two bugs in a block
//
// There is a barrier between any write to the shared values and a read of them by another thread, and the
// maximum starts at the value that changes nothing.
#include "common/exercise/launchers.cuh"

constexpr int block_size = 256;

/// Every thread gets the result of all threads.
template <class ReduceOp>
__device__ float tree_all_reduce(float value) {
  __shared__ float values[block_size];
  values[threadIdx.x] = value;
  for (int stride = block_size / 2; stride > 0; stride /= 2) {
    __syncthreads();
    if (threadIdx.x < stride) {
      values[threadIdx.x] = ReduceOp{}(values[threadIdx.x], values[threadIdx.x + stride]);
    }
  }
  __syncthreads();  // thread 0 wrote values[0] in the last turn
  return values[0];
}

__global__ void tree_softmax(const float* x, float* y, Shape shape) {
  const float* row_x = x + blockIdx.x * shape.cols;
  float* row_y = y + blockIdx.x * shape.cols;

  float max = MaxOp::identity;  // -inf: a row may be all negative
  for (std::int64_t col = threadIdx.x; col < shape.cols; col += block_size) max = fmaxf(max, row_x[col]);
  max = tree_all_reduce<MaxOp>(max);

  float sum = 0.0f;
  for (std::int64_t col = threadIdx.x; col < shape.cols; col += block_size) sum += __expf(row_x[col] - max);
  const float reciprocal = 1.0f / tree_all_reduce<SumOp>(sum);

  for (std::int64_t col = threadIdx.x; col < shape.cols; col += block_size) {
    row_y[col] = __expf(row_x[col] - max) * reciprocal;
  }
}

void softmax(const float* x, float* y, Shape shape, cudaStream_t stream) {
  tree_softmax<<<grid_for(shape.rows), block_size, 0, stream>>>(x, y, shape);
  CUDA_CHECK(cudaGetLastError());
}
