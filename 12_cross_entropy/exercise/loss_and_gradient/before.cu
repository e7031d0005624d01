// Three kernels: the log-softmax of each row, by a block of one warp; then the loss; then the gradient.
#include "common/exercise/launchers.cuh"

__global__ void log_softmax(const float* x, float* y, Shape shape) {
  const float* row_x = x + blockIdx.x * shape.cols;
  float max = MaxOp::identity;
  for (std::int64_t col = threadIdx.x; col < shape.cols; col += 32) max = fmaxf(max, row_x[col]);
  for (int mask = 16; mask > 0; mask /= 2) max = fmaxf(max, __shfl_xor_sync(0xffffffff, max, mask));
  float sum = 0;
  for (std::int64_t col = threadIdx.x; col < shape.cols; col += 32) sum += __expf(row_x[col] - max);
  for (int mask = 16; mask > 0; mask /= 2) sum += __shfl_xor_sync(0xffffffff, sum, mask);
  for (std::int64_t col = threadIdx.x; col < shape.cols; col += 32) {
    y[blockIdx.x * shape.cols + col] = row_x[col] - max - logf(sum);
  }
}

__global__ void pick(const float* y, const std::int64_t* labels, float* loss, Shape shape) {
  const std::int64_t row = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x;
  if (row >= shape.rows) return;
  loss[row] = labels[row] < 0 ? 0 : -y[row * shape.cols + labels[row]];
}

/// In place: dx is y so far.
__global__ void gradient(const std::int64_t* labels, float* dx, Shape shape) {
  const std::int64_t label = labels[blockIdx.x];
  float* row_dx = dx + blockIdx.x * shape.cols;
  for (std::int64_t col = threadIdx.x; col < shape.cols; col += 32) {
    row_dx[col] = label < 0 ? 0 : __expf(row_dx[col]) - (col == label ? 1 : 0);
  }
}

void cross_entropy(const float* x, const std::int64_t* labels, float* loss, float* dx, Shape shape,
                   cudaStream_t stream) {
  const auto rows = static_cast<unsigned>(shape.rows);
  log_softmax<<<rows, 32, 0, stream>>>(x, dx, shape);
  pick<<<grid_for(divide_up(shape.rows, 128)), 128, 0, stream>>>(dx, labels, loss, shape);
  gradient<<<rows, 32, 0, stream>>>(labels, dx, shape);
  CUDA_CHECK(cudaGetLastError());
}
