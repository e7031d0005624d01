// Four kernels: scale, mask, softmax, dropout; each reads a matrix and writes one.
#include "13_masked_softmax/philox.cuh"
#include "common/exercise/launchers.cuh"

__global__ void scale(const float* x, float* scores, Shape shape) {
  const std::int64_t row = blockIdx.x * shape.cols;
  for (std::int64_t i = row + threadIdx.x; i < row + shape.cols; i += 32) scores[i] = x[i] * 0.125f;
}

__global__ void mask(float* scores, Shape shape) {
  float* row = scores + blockIdx.x * shape.cols;
  const std::int64_t query = blockIdx.x % shape.cols;
  for (std::int64_t col = threadIdx.x; col < shape.cols; col += 32)
    row[col] = col <= query ? row[col] : -INFINITY;
}

__global__ void softmax_in_place(float* scores, Shape shape) {
  float* row = scores + blockIdx.x * shape.cols;
  float max = MaxOp::identity;
  for (std::int64_t col = threadIdx.x; col < shape.cols; col += 32) max = fmaxf(max, row[col]);
  for (int mask = 16; mask > 0; mask /= 2) max = fmaxf(max, __shfl_xor_sync(0xffffffff, max, mask));
  float sum = 0;
  for (std::int64_t col = threadIdx.x; col < shape.cols; col += 32) sum += __expf(row[col] - max);
  for (int mask = 16; mask > 0; mask /= 2) sum += __shfl_xor_sync(0xffffffff, sum, mask);
  for (std::int64_t col = threadIdx.x; col < shape.cols; col += 32) row[col] = __expf(row[col] - max) / sum;
}

__global__ void dropout(const float* softmax, float* y, std::uint64_t seed, Shape shape) {
  const std::int64_t row = blockIdx.x * shape.cols;
  for (std::int64_t i = row + threadIdx.x; i < row + shape.cols; i += 32) {
    const uint4 bits = philox4x32(i / 8, seed);
    const unsigned words[4] = {bits.x, bits.y, bits.z, bits.w};
    const unsigned drawn = words[i % 8 / 2] >> (i % 2 * 16) & 0xffff;
    y[i] = drawn < 6554 ? 0 : softmax[i] * (65536.0f / (65536 - 6554));
  }
}

void causal_softmax(const float* x, float* softmax, float* y, std::uint64_t seed, Shape shape,
                    cudaStream_t stream) {
  const auto rows = static_cast<unsigned>(shape.rows);
  scale<<<rows, 32, 0, stream>>>(x, softmax, shape);
  mask<<<rows, 32, 0, stream>>>(softmax, shape);
  softmax_in_place<<<rows, 32, 0, stream>>>(softmax, shape);
  dropout<<<rows, 32, 0, stream>>>(softmax, y, seed, shape);
  CUDA_CHECK(cudaGetLastError());
}
