// Exercise 06.2, fix it, 20 minutes: masked rows, and too many exponentials
//
// The sum is rescaled once for four elements, and never against -inf.
#include <cfloat>

#include "04_smem_bank_conflict/exercise/block_all_reduce.cuh"
#include "common/exercise/launchers.cuh"

constexpr int chunk_size = 4;

/// The maximum of some elements, and their sum of exp(x - max).
struct MaxSum {
  float max = -INFINITY;
  float sum = 0;
};

/// Adds four elements to a pair.
__device__ void add_chunk(MaxSum& total, const float (&values)[chunk_size]) {
  float max = total.max;
  for (const float value : values) max = fmaxf(max, value);
  const float shift = fmaxf(max, -FLT_MAX);  // exp(-inf - -inf) would be NaN
  total.sum *= __expf(total.max - shift);
  for (const float value : values) total.sum += __expf(value - shift);
  total.max = max;
}

// ---- Given: the kernel.
constexpr int block_size = 128;

__global__ void chunked_online_softmax(const float* x, float* y, Shape shape) {
  const float* row_x = x + blockIdx.x * shape.cols;
  float* row_y = y + blockIdx.x * shape.cols;

  MaxSum total;
  for (std::int64_t first = threadIdx.x; first < shape.cols; first += chunk_size * block_size) {
    float values[chunk_size];
    for (int i = 0; i < chunk_size; ++i) {
      const std::int64_t col = first + i * block_size;
      values[i] = col < shape.cols ? row_x[col] : -INFINITY;
    }
    add_chunk(total, values);
  }

  // The threads' pairs: the maximum of all, and each sum rescaled to it.
  const float max = block_all_reduce<MaxOp, block_size / 32>(total.max);
  const float factor = __expf(fmaxf(total.max, -FLT_MAX) - fmaxf(max, -FLT_MAX));
  const float reciprocal = 1.0f / block_all_reduce<SumOp, block_size / 32>(total.sum * factor);

  for (std::int64_t col = threadIdx.x; col < shape.cols; col += block_size) {
    row_y[col] = __expf(row_x[col] - max) * reciprocal;
  }
}

void softmax(const float* x, float* y, Shape shape, cudaStream_t stream) {
  chunked_online_softmax<<<grid_for(shape.rows), block_size, 0, stream>>>(x, y, shape);
  CUDA_CHECK(cudaGetLastError());
}
