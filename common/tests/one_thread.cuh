// Every launcher of an exercise, by a kernel that does all the work with one thread. The test of the exercises makes an
// attempt of this file: KERNEL becomes the name of the exercise's kernel.
#include "13_masked_softmax/philox.cuh"
#include "common/exercise/launchers.cuh"

__device__ float2 max_and_sum(const float* x, std::int64_t cols, float factor) {
  float max = -INFINITY;
  for (std::int64_t col = 0; col < cols; ++col) max = fmaxf(max, x[col] * factor);
  float sum = 0;
  for (std::int64_t col = 0; col < cols; ++col) sum += __expf(x[col] * factor - max);
  return {max, sum};
}

__global__ void KERNEL(const float* x, float* y, std::int64_t first_row, Shape shape) {
  const std::int64_t row = (first_row + blockIdx.x) * shape.cols;
  const auto [max, sum] = max_and_sum(x + row, shape.cols, 1);
  for (std::int64_t col = 0; col < shape.cols; ++col) y[row + col] = __expf(x[row + col] - max) / sum;
}
void softmax_of_rows(const float* x, float* y, std::int64_t first_row, Shape shape, cudaStream_t stream) {
  KERNEL<<<grid_for(shape.rows), 1, 0, stream>>>(x, y, first_row, shape);
}
void softmax(const float* x, float* y, Shape shape, cudaStream_t stream) {
  KERNEL<<<grid_for(shape.rows), 1, 0, stream>>>(x, y, 0, shape);
}
void softmax_from_max_and_sum(const float* x, const float*, const float*, float* y, Shape shape,
                              cudaStream_t stream) {
  KERNEL<<<grid_for(shape.rows), 1, 0, stream>>>(x, y, 0, shape);
}

__global__ void KERNEL(const float* y, const float* dy, float* dx, Shape shape) {
  const std::int64_t row = blockIdx.x * shape.cols;
  float sum = 0;
  for (std::int64_t col = 0; col < shape.cols; ++col) sum += y[row + col] * dy[row + col];
  for (std::int64_t col = 0; col < shape.cols; ++col) dx[row + col] = y[row + col] * (dy[row + col] - sum);
}
void softmax_backward(const float* y, const float* dy, float* dx, Shape shape, cudaStream_t stream) {
  KERNEL<<<grid_for(shape.rows), 1, 0, stream>>>(y, dy, dx, shape);
}

__global__ void KERNEL(const float* x, const std::int64_t* labels, float* loss, float* dx, Shape shape) {
  const std::int64_t row = blockIdx.x * shape.cols;
  const std::int64_t label = labels[blockIdx.x];
  const auto [max, sum] = max_and_sum(x + row, shape.cols, 1);
  for (std::int64_t col = 0; col < shape.cols; ++col) {
    dx[row + col] = label < 0 ? 0 : __expf(x[row + col] - max) / sum - (col == label ? 1 : 0);
  }
  loss[blockIdx.x] = label < 0 ? 0 : logf(sum) + (max - x[row + label]);
}
void cross_entropy(const float* x, const std::int64_t* labels, float* loss, float* dx, Shape shape,
                   cudaStream_t stream) {
  KERNEL<<<grid_for(shape.rows), 1, 0, stream>>>(x, labels, loss, dx, shape);
}

__global__ void KERNEL(const float* x, float* softmax, float* y, std::uint64_t seed, Shape shape) {
  const std::int64_t row = blockIdx.x * shape.cols;
  const std::int64_t query = blockIdx.x % shape.cols;
  const auto [max, sum] = max_and_sum(x + row, query + 1, 0.125f);
  for (std::int64_t col = 0; col < shape.cols; ++col) {
    const std::int64_t i = row + col;
    softmax[i] = col <= query ? __expf(x[i] / 8 - max) / sum : 0;
    const uint4 bits = philox4x32(i / 8, seed);
    const unsigned pair = i % 8 < 4 ? (i % 8 < 2 ? bits.x : bits.y) : (i % 8 < 6 ? bits.z : bits.w);
    y[i] = (pair >> (i % 2 * 16) & 0xffff) < 6554 ? 0 : softmax[i] * (65536.0f / (65536 - 6554));
  }
}
void causal_softmax(const float* x, float* softmax, float* y, std::uint64_t seed, Shape shape,
                    cudaStream_t stream) {
  KERNEL<<<grid_for(shape.rows), 1, 0, stream>>>(x, softmax, y, seed, shape);
}
