// Exercise 04.2, fix it, 15 minutes: a layout without conflicts
//
// Element i of all threads side by side: neighbouring lanes touch neighbouring words, 32 banks.
#include "04_smem_bank_conflict/exercise/block_all_reduce.cuh"
#include "common/exercise/launchers.cuh"

constexpr int block_size = 128;

/// The place of element i of this thread's pack in the buffer, which holds block_size * pack_size floats.
__device__ int slot(int i, int /*pack_size*/) {
  return i * block_size + static_cast<int>(threadIdx.x);
}

// ---- Given: the kernel. Each thread touches only its own elements of the buffer.
__global__ void kept_row_softmax(const float* x, float* y, Shape shape) {
  extern __shared__ float buffer[];
  const float* row_x = x + blockIdx.x * shape.cols;
  float* row_y = y + blockIdx.x * shape.cols;
  const int cols = static_cast<int>(shape.cols);
  const int pack_size = (cols + block_size - 1) / block_size;
  const auto col = [](int i) { return i * block_size + static_cast<int>(threadIdx.x); };

  float max = MaxOp::identity;
  for (int i = 0; col(i) < cols; ++i) {
    const float value = row_x[col(i)];
    buffer[slot(i, pack_size)] = value;
    max = fmaxf(max, value);
  }
  max = block_all_reduce<MaxOp, block_size / 32>(max);

  float sum = 0;
  for (int i = 0; col(i) < cols; ++i) {
    const float value = __expf(buffer[slot(i, pack_size)] - max);
    buffer[slot(i, pack_size)] = value;
    sum += value;
  }
  const float reciprocal = 1.0f / block_all_reduce<SumOp, block_size / 32>(sum);

  for (int i = 0; col(i) < cols; ++i) row_y[col(i)] = buffer[slot(i, pack_size)] * reciprocal;
}

void softmax(const float* x, float* y, Shape shape, cudaStream_t stream) {
  const std::int64_t buffer_bytes = round_up(shape.cols, block_size) * std::int64_t{sizeof(float)};
  kept_row_softmax<<<grid_for(shape.rows), block_size, buffer_bytes, stream>>>(x, y, shape);
  CUDA_CHECK(cudaGetLastError());
}
