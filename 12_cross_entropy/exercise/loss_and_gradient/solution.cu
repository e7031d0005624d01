// Exercise 12.1, write it, 15 minutes: the loss of a row and its gradient
//
// A warp reads the row once, keeps it in registers, and finds x[label] there.
#include "common/exercise/launchers.cuh"

// Lane l holds the columns l, l + 32, l + 64, ...
constexpr int cols_per_lane = 32;
constexpr std::int64_t ignored_label = -100;

/// loss = log(sum) + (max - x[label]), written once; and in place dx = exp(x - max) / sum, less 1 at the label: x becomes dx.
/// In an ignored row the loss and each dx are 0, whatever x is: a NaN, too.
__device__ void make_loss_and_gradient(float (&x)[cols_per_lane], float max, float sum, std::int64_t label,
                                       float* loss) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const bool is_ignored = label == ignored_label;
#pragma unroll
  for (int i = 0; i < cols_per_lane; ++i) {
    const bool is_label = i * 32 + lane == label;
    if (is_label) *loss = logf(sum) + (max - x[i]);
    x[i] = is_ignored ? 0 : __expf(x[i] - max) / sum - (is_label ? 1 : 0);
  }
  if (is_ignored && lane == 0) *loss = 0;
}

// ---- Given: the kernel.
constexpr int warps_per_block = 4;

/// Over all 32 lanes, in every lane.
template <class Op>
__device__ float warp_reduce(float value) {
  for (int mask = 16; mask > 0; mask /= 2) value = Op{}(value, __shfl_xor_sync(0xffffffff, value, mask));
  return value;
}

__global__ void loss_and_gradient(const float* x, const std::int64_t* labels, float* loss, float* dx,
                                  Shape shape) {
  const std::int64_t row = blockIdx.x * std::int64_t{warps_per_block} + threadIdx.x / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (row >= shape.rows) return;  // the whole warp: no lane is missing in a shuffle

  const std::int64_t label = labels[row];
  float values[cols_per_lane];
  float max = MaxOp::identity;
#pragma unroll
  for (int i = 0; i < cols_per_lane; ++i) {
    const int col = i * 32 + lane;
    values[i] = col < shape.cols ? x[row * shape.cols + col] : MaxOp::identity;
    max = MaxOp{}(max, values[i]);
  }
  max = warp_reduce<MaxOp>(max);
  float sum = 0;
#pragma unroll
  for (const float value : values) sum += __expf(value - max);
  sum = warp_reduce<SumOp>(sum);

  make_loss_and_gradient(values, max, sum, label, &loss[row]);
#pragma unroll
  for (int i = 0; i < cols_per_lane; ++i) {
    const int col = i * 32 + lane;
    if (col < shape.cols) dx[row * shape.cols + col] = values[i];
  }
}

void cross_entropy(const float* x, const std::int64_t* labels, float* loss, float* dx, Shape shape,
                   cudaStream_t stream) {
  const unsigned grid = grid_for(divide_up(shape.rows, warps_per_block));
  loss_and_gradient<<<grid, warps_per_block * 32, 0, stream>>>(x, labels, loss, dx, shape);
  CUDA_CHECK(cudaGetLastError());
}
